"""The page: ``page.md`` with figures and tables, from what was gathered."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from optplan.instances.files import write_text
from optplan.units import SECONDS_PER_HOUR
from paper.experiments import (
    AGENTS,
    EXACT,
    ONE_WIDTH,
    POLLUX,
    POLLUX_THERE,
    PUBLISHED,
    SEARCHED,
    SINGLE,
    with_pollux_there,
)
from paper.figures import draw_figures
from paper.gathering import FIGURE5_GPUS, FIGURE7_GPUS, FIGURE9_GPUS, Gathered
from paper.measures import average_efficiency, own_curve
from paper.running import Curves

#: Policies are compared on other traces at the GPU-hours of exact widths at these budgets.
_COMPARED = ("110", "130", "160", "200")
#: What they are compared with, and what the table calls it.
_RIVALS = {PUBLISHED: "Algorithm 1", SINGLE: "best single widths", ONE_WIDTH: "one width"}
_MEASURES = {"mean_s": "mean", "p95_s": "P95"}
#: What Pollux is set beside itself by.
_FIGURES = ("node GPU-hours", "mean (s)", "P95 (s)")
#: What a column of numbers consists of: numbers, shares, and what stands where there is none.
_NUMBER = re.compile(r"[-+]?[\d.,]+(\s%)?|no such|")


def list_tables(told: Gathered) -> dict[str, str]:
    """Return what stands for each name in braces of ``page.md``."""
    newtrace = told.newtrace if told.quick else with_pollux_there(told.newtrace)
    return {
        "predictions": _tell_predictions(told),
        **_compare_elsewhere(told),
        "sia": _tell_sia(told),
        "few": _list_points(told.few, told.spans_h["few"]),
        "filtered": _list_points(told.filtered, told.spans_h["filtered"]),
        "newtrace": _list_points(newtrace, told.spans_h["newtrace"]),
        "pollux": _tell_pollux(told),
        "search": _tell_search(told),
        "efficiency": _tell_efficiency(told),
        "information": _list_points(told.information, told.spans_h["newtrace"]),
        "knowledge": _tell_knowledge(told),
        "bursts": _tell_bursts(told),
        "taken": _tell_taken(told),
        "traces": _tell_traces(told),
    }


def _tell_predictions(told: Gathered) -> str:
    head = ["budget (GPUs)", "replayed", "mean predicted (s)", "simulated (s)", "off"]
    head += ["GPUs predicted", "simulated", "off"]
    rows = []
    for row in told.predictions:
        planned = row["planned"]
        for name, one in row["told"].items():
            if one is not None:
                mean_s, gpus = one["mean_jct_s"], one["gpu_hours"] / row["spans_h"][name]
                means = [f"{planned.mean_jct_s:,.0f}", f"{mean_s:,.0f}", say_change(mean_s / planned.mean_jct_s)]
                uses = [f"{planned.gpus:.1f}", f"{gpus:.1f}", say_change(gpus / planned.gpus)]
                rows.append([f"{planned.budget_gpus:g}", f"`{name}`", *means, *uses])
    return write_table(head, rows)


def _compare_elsewhere(told: Gathered) -> dict[str, str]:
    """Compare with the trivial rivals point by point, and say between which factors all points lie."""
    rows = []
    factors: dict[tuple[str, str], list[float]] = {pair: [] for pair in itertools.product(_RIVALS, _MEASURES)}
    for trace, curves in told.elsewhere.items():
        exact = curves.get(EXACT)
        for point in exact.points if exact is not None else ():
            if point.label not in _COMPARED and not told.quick:
                continue
            cells = [f"`{trace}`", point.label, f"{point.node_gpu_hours:,.0f}", f"{point.mean_s:,.0f}"]
            for (name, what), found in factors.items():
                other = curves[name].at(point.node_gpu_hours, what) if name in curves else None
                if other is not None:
                    found.append(other / getattr(point, what))
                cells.append("no such" if other is None else say_change(found[-1]))
            rows.append(cells)
    head = ["trace", "budget", "node GPU-hours", "mean, exact (s)"]
    head += [f"{_RIVALS[name]}: {_MEASURES[what]}" for name, what in factors]
    ranges = []
    for name in _RIVALS:
        said = [f"{word} {_say_range(factors[name, what])}" for what, word in _MEASURES.items() if factors[name, what]]
        ranges += [f"- {name}: {'; '.join(said)}."] * bool(said)
    return {"elsewhere": write_table(head, rows), "ranges": "\n".join(ranges)}


def _say_range(factors: list[float]) -> str:
    least, middle, most = (100 * (f - 1) for f in (min(factors), float(np.median(factors)), max(factors)))
    above = sum(factor > 1.0 for factor in factors)
    return f"{least:+.1f} to {most:+.1f} %, median {middle:+.1f} %, above at {above} of {len(factors)}"


def _tell_sia(told: Gathered) -> str:
    head = ["plan", "batches", "mean", "farthest class", "P5 of the jobs", "P50", "P95", "farthest job", "within 5 %"]
    rows = []
    for row in told.sia:
        classes = row["classes"]
        far = max(classes, key=lambda name: abs(classes[name]))
        batches, within = "measured" if row["timing"] == "tables" else "model's", f"{100 * row['within_5']:.0f}"
        jobs = [percent(row[what]) for what in ("p5", "p50", "p95", "most")]
        whole = [percent(row["mean"]), f"{percent(classes[far])} ({far})"]
        rows.append([f"`{row['plan']}`", batches, *whole, *jobs, f"{within}\N{NO-BREAK SPACE}%"])
    return write_table(head, rows)


def _list_points(curves: Curves, span_h: float) -> str:
    own = own_curve(curves)
    head = ["policy", "set", "GPUs held", "GPUs rented", "node GPU-hours", "mean (s)", "times exact", "P95 (s)"]
    rows = []
    for curve in curves.values():
        for point in curve.points:
            best = own.at(point.node_gpu_hours) if own is not None else None
            held = [f"{hours / span_h:.1f}" for hours in (point.gpu_hours, point.node_gpu_hours)]
            ratio = "" if best is None else f"{point.mean_s / best:.2f}"
            times = [f"{point.node_gpu_hours:,.0f}", f"{point.mean_s:,.0f}", ratio, f"{point.p95_s:,.0f}"]
            rows.append([curve.name, point.label, *held, *times, f"{point.most_gpus:,}"])
    return write_table([*head, "peak GPUs"], rows)


def _tell_knowledge(told: Gathered) -> str:
    """Set Pollux that learns beside Pollux that knows, point by point."""
    rows = []
    for name, curve in told.learning.items():
        known = {point.label: point for point in told.newtrace[name].points} if name in told.newtrace else {}
        for point in curve.points:
            if point.label in known:
                own = known[point.label]
                pairs = [(getattr(own, what), getattr(point, what)) for what in ("node_gpu_hours", "mean_s", "p95_s")]
                cells = [text for a, b in pairs for text in (f"{a:,.0f}", f"{b:,.0f}", say_change(b / a))]
                rows.append([name, point.label, *cells])
    words = [f"{what}{word}" for what in _FIGURES for word in (", known", ", learned", ", off")]
    return write_table(["policy", "set", *words], rows)


def _tell_pollux(told: Gathered) -> str:
    """Set Pollux here beside Pollux in the Sia artifact's simulator."""
    here = {
        (name, point.label): point
        for name, curve in (told.newtrace | told.agents).items()
        if name in {AGENTS, POLLUX}
        for point in curve.points
    }
    rows = []
    for name, (gpus, hours, mean_s, p95_s) in itertools.product((AGENTS, POLLUX), POLLUX_THERE):
        point = here.get((name, str(gpus)))
        if point is not None:
            pairs = ((point.node_gpu_hours, hours), (point.mean_s, mean_s), (point.p95_s, p95_s))
            cells = [text for own, there in pairs for text in (f"{own:,.0f}", f"{there:,}", say_change(own / there))]
            rows.append([name, str(gpus), *cells])
    words = [f"{what}{word}" for what in _FIGURES for word in (" here", " there", ", off")]
    return write_table(["policy", "GPUs", *words], rows)


def _tell_search(told: Gathered) -> str:
    """Set the search as it was published beside the one that stands for it."""
    published = {name: curve for name, curve in told.few.items() if name.startswith(SEARCHED)}
    sizes = {point.label for curve in published.values() for point in curve.points}
    rows = [
        [name, point.label, *(f"{figure:,.0f}" for figure in (point.node_gpu_hours, point.mean_s, point.p95_s))]
        for name, curve in told.few.items()
        if name in {POLLUX, *published}
        for point in curve.points
        if point.label in sizes
    ]
    return write_table(["policy", "GPUs", *_FIGURES], rows)


def _tell_efficiency(told: Gathered) -> str:
    rows = []
    for name, one in told.watched.items():
        averages = [f"{average:.3f}" for average in average_efficiency(one["cell"])]
        rows.append([name, *averages, f"{one['cell']['node_gpu_hours']:,.0f}", f"{one['cell']['mean_jct_s']:,.0f}"])
    return write_table(["policy", "over time", "over GPU-hours", "node GPU-hours", "mean (s)"], rows)


def _tell_bursts(told: Gathered) -> str:
    rows = []
    for row in told.arrivals:
        for name, one in row["policies"].items():
            if one is not None:
                drawn = [f"{row['variation']:g}", f"{row['measured']:.2f}", str(row["seed"])]
                times = [f"{one[what]:,.0f}" for what in ("mean_jct_s", "p95_jct_s", "node_gpu_hours")]
                done = [f"{one['most_gpus']:,}", f"{one['completed']} of {one['num_jobs']}"]
                rows.append([*drawn, name, *times, *done])
    head = ["C² asked", "drawn", "seed", "policy", "mean (s)", "P95 (s)", "node GPU-hours", "peak GPUs", "completed"]
    return write_table(head, rows)


def _tell_taken(told: Gathered) -> str:
    taken = sorted(told.taken.items(), key=lambda one: -one[1][1])
    rows = [[policy, f"{count:,}", f"{seconds / 60:.1f}"] for policy, (count, seconds) in taken]
    return write_table(["policy", "cells", "minutes of processor time"], rows)


def _tell_traces(told: Gathered) -> str:
    rows = []
    for name, one in told.traces.items():
        applications = ", ".join(f"{application} {count}" for application, count in one["applications"].items())
        figures = [f"{one['jobs']:,}", f"{one['span_h']:g}", f"{one['variation']:.2f}"]
        rows.append([f"`{name}`", *figures, applications])
    return write_table(["trace", "jobs", "hours", "C²", "applications"], rows)


def write_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write a Markdown table, columns of numbers to the right; without rows, that nothing was run."""
    if not rows:
        return "Not run."
    right = [all(_NUMBER.fullmatch(row[place]) for row in rows) for place in range(len(head))]
    rule = "|" + "".join(" --: |" if each else " --- |" for each in right)
    first, *others = (f"| {' | '.join(row)} |" for row in (head, *rows))
    return "\n".join([first, rule, *others])


def percent(share: float) -> str:
    """Say a share in percent, with its sign."""
    return f"{100 * share:+.1f}\N{NO-BREAK SPACE}%"


def say_change(ratio: float) -> str:
    """Say a ratio as the change in percent."""
    return percent(ratio - 1.0)


_PAGE = Path(__file__).with_name("page.md")
_INCLUDED = '<div class="figure">\n--8<-- "docs/assets/paper-{}.svg"\n</div>'


def write_page(told: Gathered, docs: Path, *, command: str) -> list[Path]:
    """Write ``paper.md`` and its figures into the folder of the documentation; returns what was written."""
    figures = draw_figures(told)
    paths = []
    for name, svg in figures.items():
        paths.append(docs / "assets" / f"paper-{name}.svg")
        write_text(svg + "\n", paths[-1], overwrite=True)
    left = f"**{told.left} cells are not run yet**: points and rows that need them are absent, or say *not run*."
    text = _PAGE.read_text(encoding="utf-8").format(
        told=told,
        command=command,
        left=left if told.left else "",
        size=", of sub-traces (`--quick`)" if told.quick else "",
        cpu_h=sum(seconds for _, seconds in told.taken.values()) / SECONDS_PER_HOUR,
        minutes=told.seconds / 60,
        figure5_gpus=FIGURE5_GPUS,
        figure7_gpus=FIGURE7_GPUS,
        figure9_gpus=FIGURE9_GPUS,
        figures=defaultdict(str, {name: _INCLUDED.format(name) for name in figures}),
        **list_tables(told),
    )
    paths.append(docs / "paper.md")
    # Where something is absent, one empty line is enough.
    write_text(re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n", paths[-1], overwrite=True)
    return paths
