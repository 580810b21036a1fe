"""What wrong estimates do to plans: sentences, a table, and figures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optplan.contracts import SampledPlan, Sensitivity
from optplan.formulations.boa.data.instance import BUDGET
from optplan.reporting.boa.phrases import BUDGET_WORDS, name_limit
from optplan.reporting.pages import Block, Charts, Section
from optplan.reporting.phrases import NOTHING, ROUNDING, format_share, join_words
from optplan.reporting.style import BLUE, GREEN, GREY, Figure, escape_text, finish, new_figure, time_scale
from optplan.reporting.tables import Column, Table
from optplan.schema import FloatArray
from optplan.units import BudgetUnit

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
    rows = [
        (f"promised, {unit}", [f"{plan.expected_objective:,.1f}" for plan in found.plans]),
        (f"mean, {unit}", [_write_mean(plan.objective) for plan in found.plans]),
        (f"5 % / 50 % / 95 %, {unit}", [_write_quantiles(plan.objective) for plan in found.plans]),
    ]
    for limit, amount in found.limits.items():
        name = f"{name_limit(limit)}, {_SHORT_UNITS[found.limit_units[limit]]}"
        rows += [
            (f"{name} (of {amount:,.4g}): promised", [f"{p.expected_consumption[limit]:,.4g}" for p in found.plans]),
            (f"{name}: mean", [_write_mean(plan.consumption[limit]) for plan in found.plans]),
            (f"{name}: exceeded in", [_write_excess(plan.consumption[limit], amount) for plan in found.plans]),
        ]
    if found.plans[0].cost_usd_per_hour is not None:
        rows.append(("cost, $/h: mean", [_write_cost(plan) for plan in found.plans]))
    if found.plans[0].best_objective is not None:
        rows.append(("above the best for who knows the truth", [_write_regret(plan) for plan in found.plans]))
    columns = (Column(""), *(Column(plan.name, is_number=True, style="wraps") for plan in found.plans))
    caption = "What the plan promises, and what becomes of it"
    return Table(caption, columns, [(label, *cells) for label, cells in rows])


def draw_panels(found: Sensitivity) -> tuple[Figure, Figure]:
    """Draw the distributions of completion time and of the use of the budget, plan by plan."""
    times, uses = (new_figure(height=340, top=56) for _ in range(2))
    for figure, panel in zip((times, uses), _list_panels(found), strict=True):
        _fill_panel(figure, found, panel)
    return times, uses


@dataclass(frozen=True)
class _Panel:
    """Distributions of one figure: (S,) of each plan, and the mark to compare them with."""

    samples: list[FloatArray]
    mark: float
    label: str
    title: str


def _list_panels(found: Sensitivity) -> tuple[_Panel, _Panel]:
    scale = time_scale(max(float(plan.objective.max()) for plan in found.plans))
    times = [plan.objective / scale.seconds for plan in found.plans]
    used = [plan.consumption[BUDGET] for plan in found.plans]
    unit = found.limit_units[BUDGET]
    promised = found.plans[0].expected_objective / scale.seconds
    return (
        _Panel(times, promised, "promised", f"mean completion time, {scale.unit}"),
        _Panel(used, found.limits[BUDGET], "budget", f"use of the budget, {BUDGET_WORDS[BudgetUnit(unit)].name}"),
    )


def _fill_panel(figure: Figure, found: Sensitivity, panel: _Panel) -> None:
    """Draw the distributions of all plans, and the mark."""
    edges = np.histogram_bin_edges(np.concatenate(panel.samples), bins=_BARS)
    highest = max(float(np.histogram(numbers, edges)[0].max()) / numbers.size for numbers in panel.samples)
    for plan, numbers in zip(found.plans, panel.samples, strict=True):
        _draw_shares(figure, plan, numbers, edges)
    figure.add_vline(x=panel.mark, line={"color": GREY, "dash": "dash"}, annotation_text=panel.label)
    up = {"title_text": "share of the samples", "ticksuffix": " %", "range": [0.0, 100.0 * _HEADROOM * highest]}
    finish(figure, panel.title, up, names=len(found.plans) > 1)


def _draw_shares(figure: Figure, plan: SampledPlan, numbers: FloatArray, edges: FloatArray) -> None:
    """Draw the shares of the samples that fall between the edges as steps."""
    counts = np.histogram(numbers, edges)[0]
    shares = 100.0 * counts / numbers.size
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


def _write_mean(numbers: FloatArray) -> str:
    if np.ptp(numbers) <= ROUNDING * float(np.abs(numbers).max()):
        return _shorten(float(numbers.mean()), 4)
    return f"{_shorten(float(numbers.mean()), 4)} ± {_shorten(float(numbers.std()), 2)}"


def _write_quantiles(numbers: FloatArray) -> str:
    return " / ".join(_shorten(value, 4) for value in np.quantile(numbers, _QUANTILES).tolist())


def _shorten(number: float, digits: int) -> str:
    """Write a number to so many digits, and whole where it has more of them before the point."""
    return f"{number:,.0f}" if abs(number) >= 10.0 ** (digits - 1) else f"{number:,.{digits}g}"


def _write_excess(numbers: FloatArray, amount: float) -> str:
    excess = numbers > amount * (1.0 + ROUNDING)
    if not excess.any():
        return "none"
    share, above = float(excess.mean()), float((numbers[excess] / amount - 1.0).mean())
    return f"{format_share(share)}, by {format_share(above)} on average"


def _write_cost(plan: SampledPlan) -> str:
    return NOTHING if plan.cost_usd_per_hour is None else _write_mean(plan.cost_usd_per_hour)


def _write_regret(plan: SampledPlan) -> str:
    if plan.best_objective is None:
        return NOTHING
    return format_share(float(np.mean(plan.objective / plan.best_objective)) - 1.0)


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
