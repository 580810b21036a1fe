"""How an answer changes within the errors of speedups, and what to measure next: sentences, and a table.

What wrong estimates do to plans: sentences, a table, and figures.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import numpy as np

from optplan.contracts import Result, Sensitivity, Solution
from optplan.contracts.ranges import AnswerRange, Measurement
from optplan.formulations.boa.data.instance import BUDGET, BoaInstance
from optplan.formulations.boa.study.sensitivity import logged_errors
from optplan.reporting.boa.breakdown import has_types
from optplan.reporting.boa.phrases import BUDGET_WORDS, format_used, name_limit
from optplan.reporting.pages import Block, Card, Charts, Section
from optplan.reporting.phrases import (
    NOTHING,
    ROUNDING,
    count_gpus,
    format_gpus,
    format_share,
    format_small_duration,
    join_words,
)
from optplan.reporting.style import BLUE, GREEN, GREY, Figure, escape_text, finish, new_figure, time_scale
from optplan.reporting.tables import Column, Shown, Table, numbers, plain_text
from optplan.schema import FloatArray
from optplan.units import BudgetUnit, format_duration

#: Classes whose widths a sentence names, and measurements that a table lists.
_NAMED, _LISTED = 4, 12


def say_range(instance: BoaInstance, result: Result[Solution]) -> str:
    """Say between what the best plan lies within the errors of speedups, and which widths change; empty without."""
    if result.range is None:
        return ""
    least, most = result.range.best
    none = "no plan within the limits" if result.range.may_have_no_plan else "no plan found in time"
    last = none if most is None else format_duration(most)
    ends = _join_ends(format_duration(least or 0.0), last)
    widths = _list_widths(instance, result, result.range)
    more = len(widths) - _NAMED
    named = widths[:_NAMED] + ([f"{more} more {'classes' if more > 1 else 'class'}"] if more > 0 else [])
    return f" Within the errors of speedups: {'; '.join([ends, *named])}."


def say_own(instance: BoaInstance, result: Result[Solution]) -> str:
    """Say what the plan in hand comes to within the errors of speedups; empty without a range."""
    if result.range is None:
        return ""
    times = _join_ends(*map(format_duration, result.range.own))
    first, second = (truth.consumption for truth in result.range.truths[:2])
    uses = _join_ends(*(format_used(instance, used[BUDGET]) for used in (first, second)))
    of = format_used(instance, instance.limits[BUDGET])
    said = f" This very plan takes {times} then, and uses {uses} of a budget of {of}"
    over = [name_limit(name) for name, limit in instance.limits.items() if second[name] > limit * (1.0 + ROUNDING)]
    if over:
        said += f": it exceeds the {join_words(over)} where speedups are worse than stated"
    errors = logged_errors(instance).values()
    kinds = [f"{kind}s" for kind in ("size", "arrival") if any(kind in each for each in errors)]
    beside = f" Errors of {join_words(kinds)} come on top (optplan explain --wrong log)." if kinds else ""
    return f"{said}.{beside}"


def make_measurement_card(instance: BoaInstance, result: Result[Solution]) -> list[Card]:
    """Make the card of what to measure next, if anything is worth it."""
    if result.range is None or not result.range.measurements:
        return []
    first = result.range.measurements[0]
    note = f"worth at most {format_small_duration(first.worth)}"
    return [Card("measure next", f"{first.subject} at {_name_width(instance, first)}", note)]


def list_measurements(instance: BoaInstance, measurements: tuple[Measurement, ...]) -> Table | None:
    """List what to measure next, and what that can be worth; None where nothing is."""
    if not measurements:
        return None
    columns = (Column("class"), *numbers("measure at", "worth at most"))
    rows = [(m.subject, _name_width(instance, m), format_small_duration(m.worth)) for m in measurements[:_LISTED]]
    more = len(measurements) - _LISTED
    return Table("What to measure next", columns, rows, 1, f"{more} more are in the result's file." if more > 0 else "")


def show_measurements(instance: BoaInstance, measurements: tuple[Measurement, ...]) -> list[Shown]:
    """Show on a terminal what to measure next, with the command of the first; nothing where nothing is worth it."""
    table = list_measurements(instance, measurements)
    if table is None:
        return []
    return ["", table, "", plain_text(write_command(instance, measurements[0]))]


def write_command(instance: BoaInstance, measurement: Measurement) -> str:
    """Write the command that measures a speedup: at the reference width first, and at those between by doubling."""
    reference = instance.classes[measurement.subject].reference_width
    allowed = set(instance.allowed_widths(measurement.subject, measurement.gpu_type).tolist())
    widths = {width for width in allowed if reference < width < measurement.gpus and _doubles(reference, width)}
    gpus = ",".join(map(str, sorted({reference, measurement.gpus} | widths)))
    into, name, gpu = (shlex.quote(one) for one in (f"{instance.name}.json", measurement.subject, measurement.gpu_type))
    return (
        f'optplan measure jobs --command "python train.py" --gpus {gpus} --into {into} --class {name} --gpu {gpu} '
        "-o measured.json"
    )


def _doubles(reference: int, width: int) -> bool:
    times, rest = divmod(width, reference)
    return not rest and times & (times - 1) == 0


def _name_width(instance: BoaInstance, measurement: Measurement) -> str:
    if has_types(instance):
        return f"{format_gpus(measurement.gpus)} {measurement.gpu_type}"
    return count_gpus(measurement.gpus)


def _join_ends(first: str, second: str) -> str:
    return first if first == second else f"{first} to {second}"


def _list_widths(instance: BoaInstance, result: Result[Solution], found: AnswerRange) -> list[str]:
    """List the widths of classes that change, those with most GPUs first: ``eval 1 to 16 GPUs``."""
    said = []
    for name in sorted(found.widths, key=lambda each: -result.measures[f"classes.{each}.gpus"]):
        named = [
            f"{_join_ends(format_gpus(least), format_gpus(most))} {gpu_type}"
            if has_types(instance)
            else _join_ends(format_gpus(least), count_gpus(most))
            for gpu_type, (least, most) in found.widths[name].items()
        ]
        said.append(f"{name} {join_words(named)}")
    return said


_ERROR_WORDS = {"speedup": "speedups", "noise": "speeds at single widths", "size": "sizes", "arrival": "arrival rates"}
_QUANTILES = (0.05, 0.5, 0.95)
_COLOURS = {"planned": BLUE, "robust": GREEN}
_BARS = 40
#: Room above the highest step for the mark's label, as a factor.
_HEADROOM = 1.15
_SHORT_UNITS = {"gpu": "GPUs", "usd/hour": "$/h", "s": "s"}


_READ_SAMPLES = (
    "The first chart shows how often the mean completion time comes out at a value when the estimates are wrong, the "
    "second one how much of the budget the plan then uses. The dashed lines are what was promised and the budget. A "
    "plan may exceed the budget, because the jobs stay longer than estimated."
)


def say_errors(found: Sensitivity) -> str:
    """Say what was sampled: errors of all classes alike, and those of each by itself."""
    alike = [f"{_ERROR_WORDS[name]} by {format_share(error)}" for name, error in found.errors.items() if error]
    single = []
    for name, words in _ERROR_WORDS.items():
        own = [errors[name] for errors in found.errors_by_class.values() if errors.get(name)]
        if own:
            span = dict.fromkeys(format_share(error) for error in (min(own), max(own)))
            single.append(f"{words} by {' to '.join(span)}")
    said = [join_words(alike)] if alike else []
    said += [f"class by class {join_words(single)}"] if single else []
    return f"{found.samples:,} samples in which the estimates are wrong: {'; '.join(said)} (one standard deviation)."


def list_figures(found: Sensitivity) -> Table:
    """List the figures of each plan, in words: the promise, the mean and spread in the samples, and the regret."""
    unit = found.objective_unit
    quantiles = [np.quantile(plan.objective, _QUANTILES).tolist() for plan in found.plans]
    rows = [
        (f"promised, {unit}", [f"{plan.expected_objective:,.1f}" for plan in found.plans]),
        (f"mean, {unit}", [_write_mean(plan.objective) for plan in found.plans]),
        (f"5 % / 50 % / 95 %, {unit}", [" / ".join(_shorten(each, 4) for each in row) for row in quantiles]),
    ]
    for limit, amount in found.limits.items():
        name = f"{name_limit(limit)}, {_SHORT_UNITS[found.limit_units[limit]]}"
        rows += [
            (f"{name} (of {amount:,.4g}): promised", [f"{p.expected_consumption[limit]:,.4g}" for p in found.plans]),
            (f"{name}: mean", [_write_mean(plan.consumption[limit]) for plan in found.plans]),
            (f"{name}: exceeded in", [_write_excess(plan.consumption[limit], amount) for plan in found.plans]),
        ]
    costs = [plan.cost_usd_per_hour for plan in found.plans]
    if any(usd is not None for usd in costs):
        rows.append(("cost, $/h: mean", [NOTHING if usd is None else _write_mean(usd) for usd in costs]))
    above = [
        NOTHING
        if plan.best_objective is None
        else format_share(float(np.mean(plan.objective / plan.best_objective)) - 1)
        for plan in found.plans
    ]
    if any(text != NOTHING for text in above):
        rows.append(("above the best for who knows the truth", above))
    columns = (Column(""), *(Column(plan.name, is_number=True, style="wraps") for plan in found.plans))
    caption = "What the plan promises, and what becomes of it"
    return Table(caption, columns, [(label, *cells) for label, cells in rows])


def draw_panels(found: Sensitivity) -> tuple[Figure, Figure]:
    """Draw the distributions of completion time and of the use of the budget, plan by plan."""
    scale = time_scale(max(float(plan.objective.max()) for plan in found.plans))
    times = [plan.objective / scale.seconds for plan in found.plans]
    used = [plan.consumption[BUDGET] for plan in found.plans]
    promised = found.plans[0].expected_objective / scale.seconds
    of_budget = f"use of the budget, {BUDGET_WORDS[BudgetUnit(found.limit_units[BUDGET])].name}"
    return (
        _draw_panel(found, times, f"mean completion time, {scale.unit}", promised, "promised"),
        _draw_panel(found, used, of_budget, found.limits[BUDGET], "budget"),
    )


def _draw_panel(found: Sensitivity, samples: Sequence[FloatArray], title: str, mark: float, label: str) -> Figure:
    """Draw as steps which shares of each plan's samples (S,) lie where, and the mark to compare them with."""
    figure, highest = new_figure(height=340, top=56), 0.0
    edges = np.histogram_bin_edges(np.concatenate(samples), bins=_BARS)
    for plan, drawn in zip(found.plans, samples, strict=True):
        shares = 100.0 * np.histogram(drawn, edges)[0] / drawn.size
        highest = max(highest, float(shares.max()))
        figure.add_scatter(
            x=np.repeat(edges, 2),
            y=np.concatenate(([0.0], np.repeat(shares, 2), [0.0])),
            mode="lines",
            fill="tozeroy",
            line={"color": _COLOURS.get(plan.name, GREY), "width": 2},
            opacity=0.8,
            name=escape_text(plan.name),
            hovertemplate="%{x:.4g}: %{y:.1f} %<extra></extra>",
        )
    figure.add_vline(x=mark, line={"color": GREY, "dash": "dash"}, annotation_text=label)
    up = {"title_text": "share of the samples", "ticksuffix": " %", "range": [0.0, _HEADROOM * highest]}
    return finish(figure, title, up, names=len(found.plans) > 1)


def _write_mean(numbers: FloatArray) -> str:
    if np.ptp(numbers) <= ROUNDING * float(np.abs(numbers).max()):
        return _shorten(float(numbers.mean()), 4)
    return f"{_shorten(float(numbers.mean()), 4)} ± {_shorten(float(numbers.std()), 2)}"


def _shorten(number: float, digits: int) -> str:
    """Write a number to so many digits, and whole where it has more of them before the point."""
    return f"{number:,.0f}" if abs(number) >= 10.0 ** (digits - 1) else f"{number:,.{digits}g}"


def _write_excess(numbers: FloatArray, amount: float) -> str:
    excess = numbers > amount * (1.0 + ROUNDING)
    if not excess.any():
        return "none"
    share, above = float(excess.mean()), float((numbers[excess] / amount - 1.0).mean())
    return f"{format_share(share)}, by {format_share(above)} on average"


def tell_sensitivity(found: Sensitivity) -> Section:
    """Tell what wrong estimates do to plans."""
    times, uses = draw_panels(found)
    charts = [
        ("Step chart: mean completion time in the samples; the table below has means and quantiles", times),
        ("Step chart: use of the budget in the samples; the table below has means", uses),
    ]
    said = f"{say_errors(found)} The widths stay as planned; the jobs run at their true speeds."
    blocks: list[Block] = [said, Charts(charts, _READ_SAMPLES, layout="pair"), list_figures(found)]
    return Section("estimates", "What wrong estimates do to the plan", blocks, link="Wrong estimates")
