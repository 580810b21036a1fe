"""The page's figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from optplan.lab.benchmarks.paper.charts import Axis, Line, draw
from optplan.lab.benchmarks.paper.claims import average_arrivals, list_efficiency
from optplan.lab.benchmarks.paper.experiments import AUTOSCALED, POLLUX, with_pollux_there
from optplan.lab.benchmarks.paper.gathering import Gathered
from optplan.lab.benchmarks.paper.running import Curves
from optplan.units import SECONDS_PER_HOUR


def draw_figures(told: Gathered) -> dict[str, str]:
    """Draw every figure for which something was gathered, by its name."""
    figures = {}
    newtrace = told.newtrace if told.quick else with_pollux_there(told.newtrace)
    for name, curves, span_h in (
        ("figure4", told.few, told.spans_h["few"]),
        ("figure6-filtertrace", told.filtered, told.spans_h["filtered"]),
        ("figure6-newtrace", newtrace, told.spans_h["newtrace"]),
    ):
        for what, word in (("mean_s", "mean"), ("p95_s", "P95")) if curves else ():
            figures[f"{name}-{word.lower()}"] = _draw_curves(curves, what, word, span_h)
    for name, watched in (("figure5", told.watched_few), ("figure7", told.watched)):
        if watched:
            figures[name] = _draw_time(watched, efficiency=name == "figure7")
    if told.information:
        figures["figure8"] = _draw_curves(told.information, "mean_s", "mean", told.spans_h["newtrace"])
    if told.learning:
        curves = with_knowledge(told)
        figures["figure8-pollux"] = _draw_curves(curves, "mean_s", "mean", told.spans_h["newtrace"])
    means = average_arrivals(told)
    names = dict.fromkeys(name for _, by_name in means for name in by_name)
    if names:
        lines = [
            Line(name, [v for v, by in means if name in by], [by[name] for _, by in means if name in by])
            for name in names
        ]
        axes = Axis("C² of the interarrival times"), Axis("mean completion time (s)", logarithmic=True)
        figures["figure9"] = draw("Mean completion time in bursts", lines, *axes)
    return figures


def with_knowledge(told: Gathered) -> Curves:
    """Return Pollux' curves on newTrace by what it knows, under names that say it."""
    return {
        f"{name}, {word}": replace(curves[name], name=f"{name}, {word}")
        for name in (AUTOSCALED, POLLUX)
        for word, curves in (("perfect", told.newtrace), ("imperfect", told.learning))
        if name in curves
    }


def _draw_curves(curves: Curves, what: str, word: str, span_h: float) -> str:
    lines = []
    for curve in curves.values():
        points = sorted((point.node_gpu_hours / span_h, getattr(point, what)) for point in curve.points)
        lines.append(Line(curve.name, [x for x, _ in points], [y for _, y in points], falling=True))
    return draw(
        f"{word} of the completion times over GPUs rented on average",
        lines,
        Axis(f"GPUs of rented nodes, averaged over {span_h:g} h", logarithmic=True),
        Axis(f"{word} completion time (s)", logarithmic=True),
    )


def _draw_time(watched: Mapping[str, Mapping[str, Any]], *, efficiency: bool) -> str:
    lines = []
    for name, one in watched.items():
        told = one["cell"]["over_time"]
        values = list_efficiency(one["cell"]) if efficiency else told["gpus_used"]
        hours = [number * told["stretch_s"] / SECONDS_PER_HOUR for number in range(len(values))]
        lines.append(Line(name, hours, values, marks=False, steps=True))
    title = "efficiency" if efficiency else "GPUs in use"
    return draw(f"{title} over time", lines, Axis("hours"), Axis(title, low=0.0))
