"""GPUs that jobs held and waited for over time, by class, as it happened and under a plan; and how large jobs are."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from optplan.instances.job_traces import Level, Stays
from optplan.reporting import style
from optplan.reporting.pages import Block, Charts, Section
from optplan.reporting.phrases import NOTHING, format_gpus
from optplan.reporting.tables import Column, Table, numbers
from optplan.schema import FloatArray
from optplan.units import SECONDS_PER_HOUR, format_duration

#: Most stretches of time, and how long these may be; above a day they double.
_MOST_STRETCHES = 400
_STRETCHES_S = (1.0, 10.0, 60.0, 600.0, 1800.0, *(hours * SECONDS_PER_HOUR for hours in (1, 2, 3, 6, 12, 24)))
_DAY_S = _STRETCHES_S[-1]
#: A log that starts earlier than a year after 1970 counts from a start of its own.
_DATED_S = 365 * _DAY_S
#: What panels show, and their heights in pixels; those of a title, of a row of names, and of what is around.
_HELD, _QUEUED = "GPUs held", "GPUs waited for"
_HEIGHTS = {_HELD: 200, _QUEUED: 100}
_TITLE, _NAME, _AROUND = 40, 22, 100
#: Most lines besides those of classes, and how many names stand beside one another on a phone.
_MOST_MARKS, _NAMES_A_ROW = 4, 3
_LINES = {
    "P95": {"color": style.INK, "dash": "dot", "width": 1.5},
    "rented": {"color": style.GREY, "width": 1},
    "budget": {"color": style.VERMILLION, "dash": "dash", "width": 1.5},
    "capacity": {"color": style.INK, "dash": "dashdot", "width": 1.5},
}
#: Classes that get panels of their own.
_MOST_PANELS = 8
#: Ends of the bars of waits, in seconds, with their names.
_WAITS = {10.0: "10 s", 60.0: "1 min", 600.0: "10 min", 3600.0: "1 h", 6 * 3600.0: "6 h", _DAY_S: "1 d"}
#: Sizes are parted at powers of the square root of ten, or of ten where there would be more parts than these.
_MOST_PARTS = 12
_SIZE = "size (GPU-hours)"
_READ_USE = (
    "Above, the GPUs that jobs held, below those that they waited for and then got, each the average of its stretch of "
    "time, one class on the other. The budget says what is paid for on average, and may be exceeded for a while; P95 "
    "is enough for 95 % of the time."
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
    marks: Mapping[str, float] = {}  #: GPUs of the ``budget`` and of the cluster (``capacity``), where there are such.
    rented: Level | None = None  #: GPUs of the nodes that were rented.


def tell_use(uses: Sequence[Use], sizes_h: Mapping[str, FloatArray], *, began_s: float = 0.0) -> list[Section]:
    """Tell who held and waited for GPUs over time, and by class how large jobs are and how long they wait."""
    label = "Area chart: GPUs that jobs held and waited for over time, by class; the table below has the main figures"
    blocks: list[Block] = [Charts([(label, draw_use(uses, began_s=began_s))], _READ_USE), list_uses(uses)]
    sections = [Section("over-time", "GPUs held and waited for over time", blocks, "GPUs over time")]
    known, ends = _rank(uses), _part_sizes(sizes_h)
    names = known[:_MOST_PANELS]
    colors = {name: color for group, color in _color_classes(uses).items() for name in group}
    charts = [
        (f"Bar chart: jobs of class {name} by size", _draw_bars(name, [(colors[name], sizes_h[name])], ends, _SIZE))
        for name in names
        if name in sizes_h
    ]
    for name in names:
        waits = [(colors[name] if use is uses[-1] else style.GREY, use.waits_s.get(name, np.zeros(0))) for use in uses]
        if any(waits_s.size for _, waits_s in waits):
            charts.append((f"Bar chart: jobs of class {name} by wait", _draw_bars(name, waits, _WAITS, "wait")))
    reading = _READ_JOBS + (_READ_BOTH if len(uses) > 1 else "")
    reading += "" if len(names) == len(known) else f" Shown are the {len(names)} classes that held most GPU-hours."
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
        means = [format_gpus(float(each.average(np.array(span_s))[0])) for each in (held, queued)]
        figures = [f"{held.enough(0.95, *span_s):,.4g}", f"{held.most:,.4g}", f"{use.stays.gpu_hours().sum():,.1f}"]
        is_known = any(waits_s.size for waits_s in use.waits_s.values())
        waited = (means[1], f"{queued.most:,.4g}") if is_known else (NOTHING, NOTHING)
        rows.append([use.name, means[0], *figures, *waited])
    return Table("GPUs from the first arrival to the last end", columns, rows)


def _find_level(use: Use, what: str, *names: str) -> Level:
    """Return the GPUs of all classes, or of some, that a panel shows of a use."""
    return use.stays.held(*names) if what == _HELD else use.stays.queued(*names)


def draw_use(uses: Sequence[Use], *, began_s: float = 0.0) -> style.Figure:
    """Draw GPUs held and waited for, one use below the other on one axis of time; see :func:`tell_use`."""
    time, colors = _Time.of(uses, began_s), _color_classes(uses)
    shown = [(use, what) for use in uses for what in _HEIGHTS if what == _HELD or use.stays.queued().most]
    panels = [(f"y{number}" if number > 1 else "y", *each) for number, each in enumerate(shown, 1)]
    total = sum(_HEIGHTS[what] + _TITLE for _, what in shown)
    rows = -(-(len(colors) + _MOST_MARKS) // _NAMES_A_ROW)  # on a phone
    figure = style.new_figure(height=total + _AROUND + _NAME * rows, top=8)
    axes, top, most = figure.layout.yaxis.to_plotly_json(), 1.0, dict.fromkeys(_HEIGHTS, 0.0)
    for axis, use, what in panels:
        top -= _TITLE / total
        bottom = max(0.0, top - _HEIGHTS[what] / total)
        figure.layout[axis.replace("y", "yaxis")] = axes | {"domain": [bottom, top]}
        most[what] = max(most[what], _fill_panel(figure, axis, use, what, time, colors))
        words = f"<b>{style.escape_text(use.name)}</b>: {what}"
        place = {"xref": "paper", "x": 0, "xanchor": "left", "yref": "paper", "y": top, "yanchor": "bottom"}
        figure.add_annotation(text=words, showarrow=False, **place)
        top = bottom
    for axis, _, what in panels:  # those of one kind can be compared
        figure.layout[axis.replace("y", "yaxis")].range = [0.0, 1.06 * most[what] or 1.0]
    figure.update_xaxes(anchor=panels[-1][0], **time.describe())
    legend = {"showlegend": True, "legend": style.LEGEND_ABOVE | {"y": 1.0}}
    return figure.update_layout(**legend, hovermode="x unified", margin_l=44, margin_r=28)


class _Time(NamedTuple):
    """Stretches of time, by their ends (B + 1,) and the start in seconds since 1970."""

    edges_s: FloatArray
    began_s: float

    @classmethod
    def of(cls, uses: Sequence[Use], began_s: float) -> _Time:
        """Divide the time of all uses; stretches of dates begin with a whole minute, hour or day."""
        spans = [use.stays.span_s for use in uses]
        from_s, until_s = min(span[0] for span in spans), max(span[1] for span in spans)
        wanted_s = (until_s - from_s) / (_MOST_STRETCHES - 1)
        stretch_s = next((each for each in _STRETCHES_S if each >= wanted_s), _STRETCHES_S[-1])
        while stretch_s < wanted_s:
            stretch_s *= 2.0
        first, last = math.floor((began_s + from_s) / stretch_s), math.ceil((began_s + until_s) / stretch_s)
        edges_s = np.arange(first, max(last, first + 1) + 1, dtype=np.float64) * stretch_s - began_s
        return cls(edges_s.astype(np.float64), began_s)

    @property
    def is_dated(self) -> bool:
        return self.began_s >= _DATED_S

    def describe(self) -> dict[str, Any]:
        unit = "UTC" if self.is_dated else f"time since the start ({style.time_scale(float(self.edges_s[-1])).unit})"
        words = f"{unit}, averages of {format_duration(float(self.edges_s[1] - self.edges_s[0]))}"
        return {"title_text": words} | ({"type": "date"} if self.is_dated else {})

    def place(self, gpus: FloatArray) -> dict[str, Any]:
        """Return the points of a line: of each stretch, or of all time alike; the first's time and the distance."""
        told = [float(f"{each:.4g}") for each in gpus.tolist()]
        first_s, step_s = float(self.edges_s[0]), float(self.edges_s[-1] - self.edges_s[0]) / gpus.size
        if self.is_dated:
            at = datetime.fromtimestamp(self.began_s + first_s, UTC).strftime("%Y-%m-%d %H:%M:%S")
            return {"x0": at, "dx": 1000.0 * step_s, "y": [*told, told[-1]]}
        unit_s = style.time_scale(float(self.edges_s[-1])).seconds
        return {"x0": first_s / unit_s, "dx": step_s / unit_s, "y": [*told, told[-1]]}


def _rank(uses: Sequence[Use]) -> list[str]:
    """Return the classes, those that held most GPU-hours first."""
    held_h: Counter[str] = Counter()
    for use in uses:
        held_h.update(dict(zip(use.stays.classes, use.stays.gpu_hours().tolist(), strict=True)))
    return [name for name, _ in held_h.most_common()]


def _color_classes(uses: Sequence[Use]) -> dict[tuple[str, ...], str]:
    """Return the colour of each class that gets one; all others have one together."""
    names = _rank(uses)
    alone = names if len(names) <= len(style.COLORS) else names[: len(style.COLORS) - 1]
    rest = {tuple(names[len(alone) :]): style.GREY} if len(alone) < len(names) else {}
    return {(name,): color for name, color in zip(alone, style.COLORS, strict=False)} | rest


def _fill_panel(
    figure: style.Figure, axis: str, use: Use, what: str, time: _Time, colors: Mapping[tuple[str, ...], str]
) -> float:
    """Draw the averages of each stretch, one class on the other, and the marks; return the highest."""
    total = np.zeros(time.edges_s.size - 1)
    for names, color in colors.items():
        gpus = _find_level(use, what, *names).average(time.edges_s)
        total += gpus
        if gpus.any():
            name = style.shorten_name(names[0]) if len(names) == 1 else f"{len(names)} other classes"
            line = {"width": 0.5, "color": color}
            _add_line(figure, axis, name, time.place(gpus), line, fillcolor=color, stackgroup=axis)
    marks: dict[str, FloatArray] = {}
    if what == _HELD:
        marks["P95"] = np.array([use.stays.held().enough(0.95, *use.stays.span_s)])
        marks |= {name: np.array([gpus]) for name, gpus in use.marks.items()}
        marks |= {} if use.rented is None else {"rented": use.rented.average(time.edges_s)}
    for name, gpus in marks.items():
        _add_line(figure, axis, name, time.place(gpus), _LINES[name])
    return max([float(total.max()), *(float(gpus.max()) for gpus in marks.values())])


def _add_line(
    figure: style.Figure, axis: str, name: str, places: Mapping[str, Any], line: Mapping[str, Any], **how: object
) -> None:
    """Add a line of steps, named once, however many panels have it."""
    is_new = all(trace.name != name for trace in figure.data)
    said = f"%{{y:,.4~g}} {name}<extra></extra>"
    how |= {"name": name, "legendgroup": name, "showlegend": is_new, "hovertemplate": said}
    figure.add_scatter(**places, xaxis="x", yaxis=axis, mode="lines", line={"shape": "hv", **line}, **how)


def _part_sizes(sizes_h: Mapping[str, FloatArray]) -> dict[float, str]:
    """Return the ends of bars between the smallest and the largest size, with the names of whole powers of ten."""
    sizes = np.concatenate([*sizes_h.values(), np.zeros(1)])
    low, high = np.log10([sizes[sizes > 0.0].min(), sizes.max()]) * 2.0 if sizes.any() else (0.0, 0.0)
    step = 1 if high - low <= _MOST_PARTS else 2 * math.ceil((high - low) / (2 * _MOST_PARTS))
    powers = range(step * math.ceil(low / step), step * math.ceil(high / step) + 1, step)
    return {10 ** (power / 2): "" if power % 2 else f"{10 ** (power / 2):,.4g}" for power in powers}


def _draw_bars(
    name: str, series: Sequence[tuple[str, FloatArray]], ends: Mapping[float, str], title: str
) -> style.Figure:
    """Draw how many values are up to each end and above the one before, the largest ones above the last."""
    figure, edges = style.new_figure(height=190, top=34), np.array(list(ends))
    for color, values in series:
        counts = np.bincount(np.searchsorted(edges, values), minlength=edges.size + 1).tolist()
        places = (np.arange(edges.size + 1) - 0.5).tolist()  # the ends stand at whole numbers
        figure.add_bar(x=places, y=counts, marker={"color": color}, hovertemplate="%{y:,} jobs<extra></extra>")
    figure.update_layout(bargap=0.08, barmode="group")
    ticks = {"tickvals": list(range(edges.size)), "ticktext": list(ends.values()), "tickangle": 0}
    figure.update_xaxes(title_text=title, tickfont={"size": style.FONT_SIZE - 2}, **ticks)
    figure.update_yaxes(title_text="jobs", rangemode="tozero", nticks=4)
    style.name_panel(figure, name)
    return figure
