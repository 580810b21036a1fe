"""Small panels of speedups by class, with how well they are known, and what to measure next."""

from __future__ import annotations

import numpy as np

from optplan.contracts import Result, Solution
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.reporting import style
from optplan.reporting.boa.breakdown import ClassBreakdown, break_down, has_types
from optplan.reporting.boa.ranges import list_measurements, write_command
from optplan.reporting.pages import Block, Charts, Command, Reading, Section, Swatch
from optplan.reporting.phrases import count_gpus, format_gpus
from optplan.schema import FloatArray, IntArray
from optplan.speedup import Evidence, Speedup

#: Panels of classes, those with most GPUs.
_MOST_PANELS = 12
#: Widths that a panel draws at most.
_MOST_WIDTHS = 200
#: How opaque a band is.
_OPACITY = 0.18
_READ_WORTH = (
    "Worth at most: if this one speedup were known, whatever it is within its band and all others as stated, the mean "
    "completion time could not be lower by more than that within the same limits; that is proven. The command measures "
    "the first; put in what trains."
)


def tell_speedups(instance: BoaInstance, result: Result[Solution]) -> Section:
    """Tell what the speedups rest on, in pictures, and what to measure next."""
    reading = (
        "How many times faster a job runs on more GPUs; one mark up, or right, means the same factor. Filled points "
        "were measured, open ones were not. The shade is where the true speedup lies in 9 of 10 cases; without one, it "
        "counts as exact."
    )
    drawn = draw_speedups(instance, result)
    if any(curve.num_epochs for each in instance.classes.values() for curve in each.speedup.values()):
        reading += " Where the speedup changes over a job's life, the lines are those of the first and the last epoch."
    if len(drawn) < len(instance.classes):
        reading += f" Shown are the {_MOST_PANELS} classes that use most GPUs."
    types = style.color_types(instance.gpu_types) if has_types(instance) else {"speedup": style.BLUE}
    key = [Swatch(name, color) for name, color in types.items()]
    key.append(Swatch("this plan's widths", style.ORANGE))
    charts = [(f"Line chart: speedup of class {name} by the number of GPUs", figure) for name, figure in drawn.items()]
    blocks: list[Block] = [Charts(charts, reading, layout="multiples", key=key)]
    measurements = result.range.measurements if result.range is not None else ()
    table = list_measurements(instance, measurements)
    if table is not None:
        blocks += [table, Reading(_READ_WORTH), Command(write_command(instance, measurements[0]))]
    heading = "The speedups behind this" + ("" if table is None else ", and what to measure next")
    return Section("speedups", heading, blocks, "Speedups", "folded")


def draw_speedups(instance: BoaInstance, result: Result[Solution]) -> dict[str, style.Figure]:
    """Draw the speedups of the classes with most GPUs, a small chart for each."""
    parts = sorted(break_down(instance, result), key=lambda part: -part.gpus)
    return {part.name: _draw_class(instance, part) for part in parts[:_MOST_PANELS]}


def _draw_class(instance: BoaInstance, part: ClassBreakdown) -> style.Figure:
    figure, job_class, name = style.new_figure(height=230, top=34), instance.classes[part.name], part.name
    colors = style.color_types(instance.gpu_types) if has_types(instance) else {instance.only_gpu_type: style.BLUE}
    shown, ends = list[IntArray](), list[float]()
    for gpu_type in instance.options(name).gpu_types:
        curve, widths = job_class.speedup[gpu_type], _thin(instance.allowed_widths(name, gpu_type))
        low, high = curve.band_at(widths, job_class.reference_width)
        _add_band(figure, widths, low[-1], high[-1], colors[gpu_type])
        if len(low) > 1:
            _add_band(figure, widths, low[0], high[0], colors[gpu_type])
        _add_curve(figure, curve, gpu_type, widths, colors[gpu_type])
        shown.append(widths)
        ends += [float(low.min()), float(high.max())]
    _add_chosen(figure, instance, part)
    every = np.concatenate(shown)
    figure.update_xaxes(title_text="GPUs a job", **style.scale_by_doubling(float(every.min()), float(every.max())))
    figure.update_yaxes(title_text="speedup", **style.scale_by_doubling(min(ends), max(ends)))
    style.name_panel(figure, name)
    return figure


def _thin(widths: IntArray) -> IntArray:
    """Return the widths, or of very many some that are evenly far from one another by factors, both ends among them."""
    if widths.size <= _MOST_WIDTHS:
        return widths
    shown: IntArray = widths[np.unique(np.geomspace(1, widths.size, _MOST_WIDTHS).round().astype(int)) - 1]
    return shown


def _add_band(figure: style.Figure, widths: IntArray, low: FloatArray, high: FloatArray, color: str) -> None:
    """Add the band between two rows of speedups, if there is room between them."""
    if not (high > low).any():
        return
    around = [*widths.tolist(), *widths[::-1].tolist()]
    figure.add_scatter(
        name="9 of 10 cases",
        x=around,
        y=[*high.tolist(), *low[::-1].tolist()],
        mode="lines",
        line={"width": 0, "color": color},
        fill="toself",
        fillcolor=_fade(color),
        hoverinfo="skip",
    )


def _fade(color: str) -> str:
    red, green, blue = (int(color[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgba({red},{green},{blue},{_OPACITY})"


def _add_curve(figure: style.Figure, curve: Speedup, gpu_type: str, widths: IntArray, color: str) -> None:
    """Add the lines of the first and the last epoch; where widths are known one by one, a point for each."""
    speedups, kinds = curve.at(widths), curve.evidence_at(widths)
    is_table = curve.known_widths() is not None
    for number in sorted({0, len(speedups) - 1}):
        epoch = f", epoch {number + 1}" if len(speedups) > 1 else ""
        points = [
            (width, speed, f"<b>{style.escape_text(gpu_type)}</b>{epoch}: {speed:.3g} on {count_gpus(width)}, {kind}")
            for width, speed, kind in zip(widths.tolist(), speedups[number].tolist(), kinds, strict=True)
        ]
        symbols = ["circle" if kind == Evidence.MEASURED else "circle-open" for kind in kinds]
        style.add_points(
            figure,
            style.escape_text(gpu_type),
            points,
            mode="lines+markers" if is_table else "lines",
            line={"color": color, "width": 1.5, "dash": "dot" if number else "solid"},
            marker={"color": color, "size": 6, "symbol": symbols},
        )


def _add_chosen(figure: style.Figure, instance: BoaInstance, part: ClassBreakdown) -> None:
    """Mark the widths that the plan gives, on the curve of the epoch in which it first does."""
    marked: dict[tuple[str, float], tuple[float, float, str]] = {}
    for held in (held for path in part.paths for held in path.ranges):
        gpu_type = held.gpu_type or instance.only_gpu_type
        curve, allowed = instance.classes[part.name].speedup[gpu_type], instance.allowed_widths(part.name, gpu_type)
        speeds = curve.at(allowed)
        speed = float(np.interp(held.gpus, allowed, speeds[min(held.first, len(speeds)) - 1]))
        words = f"<b>this plan</b>: {format_gpus(held.gpus)} {style.escape_text(gpu_type)}, {speed:.3g} times as fast"
        marked.setdefault((gpu_type, held.gpus), (held.gpus, speed, words))
    look = {"color": style.ORANGE, "size": 11, "symbol": "diamond-open", "line": {"width": 2.5}}
    style.add_points(figure, "this plan", marked.values(), mode="markers", marker=look)
