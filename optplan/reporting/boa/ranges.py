"""How an answer changes within the errors of speedups, and what to measure next: sentences, and a table."""

from __future__ import annotations

import shlex

from optplan.contracts import Result, Solution
from optplan.contracts.ranges import AnswerRange, Measurement
from optplan.formulations.boa.data.instance import BUDGET, BoaInstance
from optplan.formulations.boa.study.sampling import logged_errors
from optplan.reporting.boa.breakdown import has_types
from optplan.reporting.boa.phrases import format_used, name_limit
from optplan.reporting.pages import Card
from optplan.reporting.phrases import ROUNDING, count_gpus, format_gpus, format_small_duration, join_words
from optplan.reporting.tables import Column, Shown, Table, numbers, plain_text
from optplan.units import format_duration

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
