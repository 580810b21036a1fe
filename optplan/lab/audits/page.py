"""Audits for readers: what was had beside what no policy can beat, and where the gap is."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from optplan.formulations.boa.data.instance import BoaInstance
from optplan.lab.audits.least import Sizes, build_least_frontier
from optplan.lab.audits.records import Audit, AuditBound, CapacityBound, Measured
from optplan.reporting.pages import Block, Card, Charts, Items, Page, Section
from optplan.reporting.phrases import NOTHING, capitalise, count_gpus, format_gpus, join_words
from optplan.reporting.style import BLUE, INK, ORANGE, Figure, finish, new_figure, time_scale
from optplan.reporting.tables import Column, Row, Table, numbers
from optplan.units import SECONDS_PER_HOUR, format_duration

#: Points of a curve.
_MOST_POINTS = 2000
#: By what share a bound and what was had may differ by rounding.
_SAME = 1e-9
_READ_GAPS = (
    "In seconds of the mean completion time of all jobs: waiting and widths add up to the gap to the bound. A class is "
    "charged for the GPU-hours that it held, too, at the price at which the bound is the largest."
)
_READ_CURVE = "No policy has a point below a line, which is drawn through its corners."


def say_audit(audit: Audit) -> str:
    """Say in a sentence or two what was had, and what no policy can beat."""
    had = f"{audit.num_jobs:,} jobs"
    if audit.mean_jct_s is not None:
        had += f" took {format_duration(audit.mean_jct_s)} on average"
    if audit.gpu_hours is not None:
        had += f" {'with' if audit.mean_jct_s is not None else 'held'} {audit.gpu_hours:,.1f} GPU-hours"
    names = join_words(list(audit.favoured))
    favoured = f"However good the speedups of {names} are within their bands: " if names else ""
    said = f"{favoured}{had}; {join_words(list(_say_bounds(audit)))}."
    if any(each.bound > (1.0 + _SAME) * (_had(audit, each) or math.inf) for each in audit.bounds):
        said += " What was had is less than there is, by the instance: look at its sizes and speedups."
    return said


def _had(audit: Audit, bound: AuditBound) -> float | None:
    """Return what was had of what a bound is of, None where nobody says it."""
    return audit.mean_jct_s if bound.of == "mean_jct_s" else audit.gpu_hours


def _say_bounds(audit: Audit) -> Iterator[str]:
    order: tuple[Measured, Measured] = ("mean_jct_s", "gpu_hours")
    if audit.gpu_hours is None:
        order = order[::-1]
    own, most_s = audit.capacity, max((each.bound for each in audit.bounds if each.of == "mean_jct_s"), default=0.0)
    said = hours = ""
    if own is not None and own.mean_jct_s >= most_s:  # the larger is said first
        yield _say_capacity(audit, own)
        hours = " GPU-hours"
    for pauses in dict.fromkeys(each.pauses for each in audit.bounds):
        bound = next(each for of in order for each in audit.bounds if (each.of, each.pauses) == (of, pauses))
        who = "no policy that pauses as the instance says" if bound.pauses else "no policy at all"
        had = _had(audit, bound)
        if bound.price == 0.0 and had is not None and bound.bound > had:
            yield f"{who} has so little: they need at least {_write(bound)}"
        else:
            times = "" if had is None else f" ({had / bound.bound:.3g} times as much)"
            limit = f"with as many{hours}" if bound.of == "mean_jct_s" else "for that"
            begun = f"{who} less than" if said == limit else f"{limit} {who} takes less than"
            said = limit
            yield f"{begun} {_write(bound)}{times}"
    if own is not None and own.mean_jct_s < most_s:
        yield _say_capacity(audit, own)


def _say_capacity(audit: Audit, bound: CapacityBound) -> str:
    times = f" ({audit.mean_jct_s / bound.mean_jct_s:.3g} times as much)" if audit.mean_jct_s is not None else ""
    who = "no policy that pauses as the instance says" if bound.pauses else "no policy at all"
    return f"on {count_gpus(bound.gpus)} {who} takes less than {format_duration(bound.mean_jct_s)}{times}"


def _write(bound: AuditBound | None) -> str:
    if bound is None:
        return NOTHING
    return format_duration(bound.bound) if bound.of == "mean_jct_s" else f"{bound.bound:,.1f} GPU-hours"


def bound_table(audit: Audit) -> Table:
    """List the bounds beside what was had."""
    rows: list[Row] = []
    for pauses in sorted({each.pauses for each in audit.bounds}, reverse=True):
        mean, hours = (audit.bound(of, pauses=pauses) for of in ("mean_jct_s", "gpu_hours"))
        who = "pausing as the instance says" if pauses else "all policies"
        times = _compare(audit.mean_jct_s, mean), _compare(audit.gpu_hours, hours)
        rows.append(Row((who, _write(mean), times[0], _write(hours), times[1])))
    if audit.capacity is not None:
        least = audit.capacity.mean_jct_s
        took = NOTHING if audit.mean_jct_s is None else f"x {audit.mean_jct_s / least:.4g}"
        rows.append(Row((f"on {count_gpus(audit.capacity.gpus)}", format_duration(least), took, NOTHING, NOTHING)))
    columns = numbers("least mean with as many GPU-hours", "took", "fewest GPU-hours for the mean", "held")
    return Table("What no policy can beat", [Column("policies"), *columns], rows)


def _compare(had: float | None, bound: AuditBound | None) -> str:
    return NOTHING if had is None or bound is None else f"x {had / bound.bound:.4g}"


def _round(seconds: float) -> str:
    return f"{round(seconds, 1) + 0.0:,.1f}"  # what is nothing has no sign


def gap_table(audit: Audit) -> Table | None:
    """List by class where the gap is; None where that is not known."""
    gaps = audit.gaps()
    if not gaps:
        return None
    rows: list[Row] = []
    for name, gap in gaps.items():
        own = audit.classes[name]
        run_h = own.jobs * ((own.mean_jct_s or 0.0) - (own.wait_s or 0.0)) / SECONDS_PER_HOUR
        gpus = format_gpus((own.gpu_hours or 0.0) / run_h) if run_h else NOTHING
        best = NOTHING if own.best_gpus is None else format_gpus(own.best_gpus)
        took = format_duration(own.mean_jct_s or 0.0)
        rows.append(Row((name, f"{own.jobs:,}", took, gpus, best, *map(_round, gap))))
    total = [sum(each) for each in zip(*gaps.values(), strict=True)]
    took = format_duration(audit.mean_jct_s or 0.0)
    cells = ("all jobs", f"{audit.num_jobs:,}", took, "", "", *map(_round, total))
    names = ("jobs", "took", "GPUs", "GPUs at best", "waiting, s", "widths, s")
    return Table("Where the gap is", [Column("class"), *numbers(*names)], [*rows, Row(cells, "own")])


def say_remedies(audit: Audit) -> list[str]:
    """Say what would close the gap, in seconds of the mean."""
    gaps, bound = audit.gaps(), audit.nearest
    if not gaps or bound is None:
        return []
    waiting, widths = (format_duration(sum(parts)) for parts in zip(*gaps.values(), strict=True))
    said = [
        f"waiting: {waiting} of the mean, by GPUs that are there when they are needed, or another order of the queue",
        f"widths: {widths}, by those of a plan within as many GPUs on average, and where these change",
    ]
    paused, free = (audit.bound("mean_jct_s", pauses=pauses) for pauses in (True, False))
    if paused is not None and free is not None:
        more = "more, by starts and changes that take no time" if bound.pauses else "of that cannot be had with pauses"
        said.append(f"pauses: {format_duration(paused.bound - free.bound)} {more}")
    if audit.lost_gpu_hours:
        worth = format_duration(bound.price * audit.lost_gpu_hours)
        held = f"they held {audit.lost_gpu_hours:,.1f} GPU-hours, worth at most {worth}"
        said.append(f"runs that failed or were broken off: {held}")
    return said


def build_audit_page(instance: BoaInstance, audit: Audit) -> Page:
    """Gather the report of an audit."""
    sections = [Section("bounds", "What no policy can beat", [bound_table(audit)])]
    if audit.gpu_hours is not None:
        chart = Charts([("Mean completion time by GPU-hours: had, and the least", _draw(instance, audit))], _READ_CURVE)
        sections.insert(0, Section("curve", "Had, and the least there is", [chart]))
    table = gap_table(audit)
    if table is not None:
        gaps: list[Block] = [table, Items([_READ_GAPS, *map(capitalise, say_remedies(audit))])]
        sections.append(Section("gaps", "Where the gap is", gaps))
    assumed = Items(list(map(capitalise, audit.assumptions)))
    sections.append(Section("assumptions", "For what the bounds hold", [assumed]))
    figures = [("took on average", audit.mean_jct_s, "")]
    figures += [
        ("the least", b.bound, "with pauses" if b.pauses else "without") for b in audit.bounds if b.of == "mean_jct_s"
    ]
    cards = [Card(name, format_duration(each), note) for name, each, note in figures if each is not None]
    return Page(audit.trace, f"Audit of {audit.trace}", lead=say_audit(audit), cards=cards, sections=sections)


def _draw(instance: BoaInstance, audit: Audit) -> Figure:
    figure = new_figure(height=360, top=36)
    sizes = {name: Sizes(own.sizes, own.weights) for name, own in audit.classes.items()}
    kinds = sorted({each.pauses for each in audit.bounds}, reverse=True)
    lines = [build_least_frontier(instance, sizes, pauses=pauses).line for pauses in kinds]
    scale = time_scale(max(audit.mean_jct_s or 0.0, *(float(line.value[0]) for line in lines)))
    for pauses, line in zip(kinds, lines, strict=True):
        which = np.unique(np.linspace(0, line.value.size - 1, _MOST_POINTS).astype(int))
        name, color = ("the least with pauses", BLUE) if pauses else ("the least without any", ORANGE)
        place, up = line.consumption[which], line.value[which] / scale.seconds
        figure.add_scatter(x=place, y=up, name=name, mode="lines", line={"color": color, "width": 2})
    if audit.mean_jct_s is not None:
        marker = {"size": 11, "symbol": "diamond", "color": INK}
        had = [audit.mean_jct_s / scale.seconds]
        figure.add_scatter(x=[audit.gpu_hours], y=had, name="had", mode="markers", marker=marker)
    across = {"title_text": "GPU-hours", "type": "log", "nticks": 4, "tickangle": 0}
    return finish(figure, across, {"title_text": f"mean completion time ({scale.unit})", "rangemode": "tozero"})
