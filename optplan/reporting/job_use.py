"""GPUs that jobs held and waited for over time, by class, as it happened and under a plan; and how large jobs are."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from optplan.instances.job_stays import Level, Stays
from optplan.reporting.pages import Block, Charts, Section
from optplan.reporting.phrases import NOTHING, format_gpus
from optplan.reporting.style import (
    COLORS,
    FONT_SIZE,
    GREY,
    INK,
    LEGEND_ABOVE,
    VERMILLION,
    Figure,
    TimeScale,
    escape_text,
    name_panel,
    new_figure,
    shorten_name,
    time_scale,
)
from optplan.reporting.tables import Column, Table, numbers
from optplan.schema import FloatArray
from optplan.units import SECONDS_PER_HOUR

#: Most stretches of time, and how long these may be; above a day they double.
_MOST_STRETCHES = 400
_DAY_S = 24 * SECONDS_PER_HOUR
_STRETCHES_S = (1, 10, 60, 600, 1800, *(hours * SECONDS_PER_HOUR for hours in (1, 2, 3, 6, 12, 24)))
#: A log that starts earlier than a year after 1970 counts from a start of its own.
_DATED_S = 365 * _DAY_S
#: Heights in pixels: of GPUs held, of GPUs waited for, of a title, and of what is around them.
_HELD, _QUEUED, _TITLE, _AROUND = 200, 100, 40, 110
#: Classes that get panels of their own.
_MOST_PANELS = 8
#: Ends of the bars of waits, in seconds, with their names.
_WAITS = {10.0: "10 s", 60.0: "1 min", 600.0: "10 min", 3600.0: "1 h", 6 * 3600.0: "6 h", _DAY_S: "1 d"}
#: Sizes are parted at powers of the square root of ten, or of ten where there would be more parts than these.
_MOST_PARTS = 12
_READ_USE = (
    "Above, the GPUs that jobs held, below those that jobs waited for, each the average of its stretch of time and one "
    "class on the other. The budget says what is paid for on average, and may be exceeded for a while; P95 is enough "
    "for 95 % of the time."
)
_READ_JOBS = (
    "How many jobs have which size (GPU-hours on the fewest GPUs, or the reference width) and which wait before their "
    "first start; each mark is the end of a bar."
)

_READ_BOTH = " Of waits, grey bars are what happened, and those in the class's colour what was replayed."


class Use(NamedTuple):
    """What was held and waited for: by what happened or was replayed, and what it is to be compared with."""

    name: str  #: Such as ``As it happened``.
    stays: Stays
    waits_s: Mapping[str, FloatArray]  #: By class, seconds before the first start; nothing where nobody knows.
    marks: Mapping[str, float] = {}  #: GPUs of the budget, or of the cluster, by what they are.
    rented: Level | None = None  #: GPUs of the nodes that were rented.


def tell_use(uses: Sequence[Use], sizes_h: Mapping[str, FloatArray], *, began_s: float = 0.0) -> list[Section]:
    """Tell who held and waited for GPUs over time, and how large jobs are and how long they wait, by class.

    ``sizes_h`` are GPU-hours of the jobs of each class whose size is known; ``began_s`` is the start of the time in
    seconds since 1970, 0 where nobody knows it.
    """
    label = "Area chart: GPUs that jobs held and waited for over time, by class; the table below has the main figures"
    blocks: list[Block] = [Charts([(label, draw_use(uses, began_s=began_s))], _READ_USE), list_uses(uses)]
    sections = [Section("over-time", "GPUs held and waited for over time", blocks, "GPUs over time")]
    names = [name for name in _rank(uses) if sizes_h.get(name, np.zeros(0)).size][:_MOST_PANELS]
    colors = {name: next(color for group, color in _color_classes(uses).items() if name in group) for name in names}
    charts = [
        (
            f"Bar chart: jobs of class {name} by size",
            _draw_sizes(name, colors[name], sizes_h[name], _part_sizes(sizes_h)),
        )
        for name in names
    ]
    charts += [
        (f"Bar chart: jobs of class {name} by wait", _draw_waits(name, colors[name], uses))
        for name in names
        if any(use.waits_s.get(name, np.zeros(0)).size for use in uses)
    ]
    reading = _READ_JOBS + (_READ_BOTH if len(uses) > 1 else "")
    reading += "" if len(names) == len(sizes_h) else f" Shown are the {len(names)} classes that held most GPU-hours."
    if charts:
        jobs = Charts(charts, reading, layout="multiples")
        sections.append(Section("jobs", "How large jobs are, and how long they wait", [jobs], "Sizes and waits"))
    return sections


def list_uses(uses: Sequence[Use]) -> Table:
    """List GPUs held on average, enough for 95 % of the time and at most, and what jobs waited for."""
    columns = (Column(""), *numbers("GPUs held", "P95", "most", "GPU-hours", "waited for, mean", "most waited for"))
    rows = []
    for use in uses:
        held, queued, span_s = use.stays.held(), use.stays.queued(), use.stays.span_s
        ends_s = np.array(span_s)
        known = any(waits_s.size for waits_s in use.waits_s.values())
        rows.append(
            [
                use.name,
                format_gpus(float(held.average(ends_s)[0]) if span_s[1] > span_s[0] else held.most),
                f"{held.enough(0.95, *span_s):,.4g}",
                f"{held.most:,.4g}",
                f"{sum(use.stays.gpu_hours().values()):,.1f}",
                format_gpus(float(queued.average(ends_s)[0])) if known and span_s[1] > span_s[0] else NOTHING,
                f"{queued.most:,.4g}" if known else NOTHING,
            ]
        )
    return Table("GPUs from the first arrival to the last end", columns, rows)


def draw_use(uses: Sequence[Use], *, began_s: float = 0.0) -> Figure:
    """Draw GPUs held and waited for, one use below the other on one axis of time; see :func:`tell_use`."""
    edges_s = _divide_time(uses, began_s)
    colors = _color_classes(uses)
    panels = [(use, use.stays.held, "GPUs held") for use in uses]
    panels = [each for panel in panels for each in (panel, (panel[0], panel[0].stays.queued, "GPUs waited for"))]
    panels = [(use, level, what) for use, level, what in panels if what == "GPUs held" or level().most]
    heights = [_HELD if what == "GPUs held" else _QUEUED for _, _, what in panels]
    total = sum(heights) + _TITLE * len(panels)
    figure = new_figure(height=total + _AROUND + 22 * -(-(len(colors) + 4) // 4), top=8)
    most = dict.fromkeys(("GPUs held", "GPUs waited for"), 0.0)
    top = 1.0 - _TITLE / total
    for number, ((use, level, what), height) in enumerate(zip(panels, heights, strict=True), 1):
        axis = f"y{number if number > 1 else ''}"
        stack = _add_classes(figure, level, colors, edges_s, began_s, axis)
        marks = _add_marks(figure, use, edges_s, began_s, axis) if what == "GPUs held" else 0.0
        most[what] = max(most[what], stack, marks)
        name = f"yaxis{number if number > 1 else ''}"
        domain = [max(0.0, top - height / total), top]
        figure.layout[name] = figure.layout.yaxis.to_plotly_json() | {"domain": domain, "title": {"text": ""}}
        words = f"<b>{escape_text(use.name)}</b>: {what}"
        figure.add_annotation(
            text=words, x=0, xref="paper", xanchor="left", y=top, yref="paper", yanchor="bottom", showarrow=False
        )
        top -= (height + _TITLE) / total
    for number, (_, _, what) in enumerate(panels, 1):
        figure.layout[f"yaxis{number if number > 1 else ''}"].range = [0.0, 1.06 * most[what] or 1.0]
    _show_once(figure)
    anchor = f"y{len(panels) if len(panels) > 1 else ''}"
    time = {"type": "date"} if began_s >= _DATED_S else {}
    unit = "UTC" if began_s >= _DATED_S else f"time since the start ({_find_scale(edges_s).unit})"
    figure.update_xaxes(anchor=anchor, title_text=unit, **time)
    figure.update_layout(showlegend=True, legend=LEGEND_ABOVE | {"y": 1.0}, hovermode="x unified", margin_r=28)
    return figure


def _divide_time(uses: Sequence[Use], began_s: float) -> FloatArray:
    """Return the ends (B + 1,) of stretches of time; those of dates begin with a whole hour or day."""
    spans = [use.stays.span_s for use in uses]
    from_s, until_s = min(span[0] for span in spans), max(span[1] for span in spans)
    wanted_s = (until_s - from_s) / (_MOST_STRETCHES - 1)
    stretch_s = next((float(each) for each in _STRETCHES_S if each >= wanted_s), _DAY_S)
    while stretch_s < wanted_s:
        stretch_s *= 2.0
    first = math.floor((began_s + from_s) / stretch_s)
    count = max(1, math.ceil((began_s + until_s) / stretch_s) - first)
    return (first + np.arange(count + 1)) * stretch_s - began_s


def _rank(uses: Sequence[Use]) -> list[str]:
    """Return the classes, those that held most GPU-hours first."""
    held_h: dict[str, float] = {}
    for use in uses:
        for name, hours in use.stays.gpu_hours().items():
            held_h[name] = held_h.get(name, 0.0) + hours
    return sorted(held_h, key=lambda name: -held_h[name])


def _color_classes(uses: Sequence[Use]) -> dict[tuple[str, ...], str]:
    """Return the colour of each class that gets one; all others have one together."""
    names = _rank(uses)
    if len(names) <= len(COLORS):
        return {(name,): color for name, color in zip(names, COLORS, strict=False)}
    alone = names[: len(COLORS) - 1]
    return {(name,): color for name, color in zip(alone, COLORS, strict=False)} | {tuple(names[len(alone) :]): GREY}


def _add_classes(
    figure: Figure,
    level: Callable[..., Level],
    colors: Mapping[tuple[str, ...], str],
    edges_s: FloatArray,
    began_s: float,
    axis: str,
) -> float:
    """Add the averages of each stretch, one class on the other; return the most that they come to."""
    total = np.zeros(edges_s.size - 1)
    for names, color in colors.items():
        gpus = level(*names).average(edges_s)
        total += gpus
        if not gpus.any():
            continue
        name = shorten_name(names[0]) if len(names) == 1 else f"{len(names)} other classes"
        figure.add_scatter(
            **_write_line(gpus, edges_s, began_s),
            xaxis="x",
            yaxis=axis,
            name=name,
            legendgroup=name,
            mode="lines",
            line={"width": 0.5, "color": color, "shape": "hv"},
            fillcolor=color,
            stackgroup=axis,
            hovertemplate="%{y:,.4~g} %{fullData.name}<extra></extra>",
        )
    return float(total.max(initial=0.0))


def _add_marks(figure: Figure, use: Use, edges_s: FloatArray, began_s: float, axis: str) -> float:
    """Add lines of what is held for 95 % of the time, and of what that is compared with; return the highest."""
    ends_s = edges_s[[0, -1]]
    lines = {name: (np.full(1, gpus), ends_s) for name, gpus in use.marks.items()}
    lines["P95"] = np.full(1, use.stays.held().enough(0.95, *use.stays.span_s)), ends_s
    if use.rented is not None:
        lines["rented"] = use.rented.average(edges_s), edges_s
    looks = {"P95": (INK, "dot"), "rented": (GREY, "solid"), "budget": (VERMILLION, "dash")}
    for name, (gpus, at_s) in lines.items():
        color, dash = looks.get(name, (INK, "dashdot"))
        figure.add_scatter(
            **_write_line(gpus, at_s, began_s),
            xaxis="x",
            yaxis=axis,
            name=name,
            legendgroup=name,
            mode="lines",
            line={"width": 1.0 if dash == "solid" else 1.5, "color": color, "dash": dash, "shape": "hv"},
            hovertemplate=f"%{{y:,.4~g}} {name}<extra></extra>",
        )
    return float(max(gpus.max() for gpus, _ in lines.values()))


def _write_line(gpus: FloatArray, edges_s: FloatArray, began_s: float) -> dict[str, Any]:
    """Return a trace's places: its first one and their distance, which take less room than all of them."""
    told = [float(f"{each:.4g}") for each in gpus.tolist()]
    step_s = float(edges_s[1] - edges_s[0])
    if began_s >= _DATED_S:
        at = datetime.fromtimestamp(began_s + float(edges_s[0]), UTC).strftime("%Y-%m-%d %H:%M:%S")
        return {"x0": at, "dx": 1000.0 * step_s, "y": [*told, told[-1]]}
    scale = _find_scale(edges_s)
    return {"x0": float(edges_s[0]) / scale.seconds, "dx": step_s / scale.seconds, "y": [*told, told[-1]]}


def _find_scale(edges_s: FloatArray) -> TimeScale:
    return time_scale(float(edges_s[-1]))


def _show_once(figure: Figure) -> None:
    """Name a class or a line once, however many panels have it."""
    seen: set[str] = set()
    for trace in figure.data:
        trace.showlegend = trace.name not in seen
        seen.add(trace.name)


def _part_sizes(sizes_h: Mapping[str, FloatArray]) -> dict[float, str]:
    """Return the ends of bars between the smallest and the largest size, with the names of whole powers of ten."""
    every = np.concatenate([sizes[sizes > 0.0] for sizes in sizes_h.values()])
    if not every.size:
        return {1.0: "1"}
    low, high = math.floor(2 * math.log10(every.min())), math.ceil(2 * math.log10(every.max()))
    step = 1 if high - low <= _MOST_PARTS else 2 * -(-(high - low) // (2 * _MOST_PARTS))
    powers = range(low - low % step + (step if low % step else 0), high + 1, step)
    return {10 ** (power / 2): "" if power % 2 else f"{10 ** (power / 2):,.4g}" for power in powers}


def _draw_sizes(name: str, color: str, sizes_h: FloatArray, ends: Mapping[float, str]) -> Figure:
    figure = _draw_bars({"jobs": (color, sizes_h)}, ends)
    figure.update_xaxes(title_text="size (GPU-hours)")
    name_panel(figure, f"{name}: size")
    return figure


def _draw_waits(name: str, color: str, uses: Sequence[Use]) -> Figure:
    known = {use.name: use.waits_s.get(name, np.zeros(0)) for use in uses}
    last = uses[-1].name
    figure = _draw_bars({use: (color if use == last else GREY, waits_s) for use, waits_s in known.items()}, _WAITS)
    figure.update_xaxes(title_text="wait")
    name_panel(figure, f"{name}: wait")
    return figure


def _draw_bars(series: Mapping[str, tuple[str, FloatArray]], ends: Mapping[float, str]) -> Figure:
    """Draw how many values are up to each end, above the one before; those above the last are there, too."""
    figure, edges = new_figure(height=190, top=34), np.array(list(ends))
    for name, (color, values) in series.items():
        if values.size:
            counts = np.bincount(np.searchsorted(edges, values), minlength=edges.size + 1)
            figure.add_bar(
                x=(np.arange(counts.size) - 0.5).tolist(),
                y=counts.tolist(),
                name=escape_text(name),
                marker={"color": color},
                hovertemplate="%{y:,} jobs, %{fullData.name}<extra></extra>",
            )
    figure.update_layout(bargap=0.08, barmode="group")
    ticks, words = list(range(edges.size)), list(ends.values())
    figure.update_xaxes(tickvals=ticks, ticktext=words, tickangle=0, tickfont={"size": FONT_SIZE - 2})
    figure.update_yaxes(title_text="jobs", rangemode="tozero", nticks=4)
    return figure
