"""The sections of a run's page: its pictures, everyone in a table, what was planned anew and what else happened.

The pictures are curves, who was where, GPUs over time, and cost over time.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise, starmap
from typing import Any

import numpy as np

from optplan.execution.history import (
    DONE,
    FAILED,
    GIVEN_UP,
    OUT,
    RUNNING,
    WAITING,
    WINNER,
    History,
    Moment,
    Seen,
    Span,
    held,
)
from optplan.execution.state import NodeState, Phase
from optplan.instances.job_traces import Level
from optplan.reporting import style
from optplan.reporting.pages import Charts, Items, Section
from optplan.reporting.phrases import NOTHING, count_gpus
from optplan.reporting.tables import Column, Table, numbers
from optplan.units import SECONDS_PER_HOUR, format_duration

#: Points of all curves, bars, and steps or marks that are drawn at most: a page stays small and quick.
_MOST_POINTS, _MOST_BARS, _MOST_STEPS = 6000, 2500, 1000
#: By how a trial or a job stands, the best last: its colour, and how thick its line is.
LOOKS: dict[str, tuple[str, float]] = {
    GIVEN_UP: (style.fade(style.VERMILLION, 0.5), 1.0),
    OUT: (style.fade(style.GREY, 0.45), 1.0),
    WAITING: (style.fade(style.SKY, 0.6), 1.5),
    DONE: (style.SKY, 1.5),
    RUNNING: (style.BLUE, 1.5),
    WINNER: (style.GREEN, 3.5),
}
#: Pixels of a picture of rows: in all at most, of a row at least and at most, of everything else; and names with room.
_ROWS_PIXELS, _LEAST_PIXELS, _ROW_PIXELS, _REST_PIXELS, _MOST_PIXELS, _NAMED = 900, 2, 34, 120, 1200, 30
#: How much of its row a node fills.
_FILLED = 0.86
#: From so many times the least iterations on, these are on a scale that doubles.
_DOUBLING = 24.0
#: Part of the values at either end that may lie outside, where the picture would be so many times as high with them.
_OUTSIDE, _FLAT = 0.03, 4.0


def draw_curves(history: History) -> style.Figure:
    """Draw what trials have shown over their iterations, a trace for each way in which they stand.

    Lines of a trace are told apart by a gap. Where all lines have too many points, each has fewer.
    """
    shown = [each for each in history.members if each.curve]
    most, figure = max(2, _MOST_POINTS // len(shown)), style.new_figure(height=380, top=36)
    for state, (color, width) in LOOKS.items():
        own = [
            (each, each.curve if state == WINNER else _thin(each.curve, most)) for each in shown if each.state == state
        ]
        points = [(each.name, point) for each, curve in own for point in (*curve, None)]
        if points:
            figure.add_scatter(
                name=state,
                x=[point and point.t for _, point in points],
                y=[point and float(f"{point.height:.6g}") for _, point in points],
                text=[style.escape_text(name) for name, _ in points],
                mode="lines+markers",
                line={"color": color, "width": width},
                marker={"color": color, "size": width + 2.5},
                hovertemplate=f"%{{text}}, {state}<br>%{{y:.6g}} after %{{x}}<extra></extra>",
            )
    done = [point.t for each in shown for point in each.curve]
    across: dict[str, Any] = {"title_text": "epochs" if history.kind == "stream" else "iterations"}
    if min(done) > 0 and max(done) >= _DOUBLING * min(done):
        across |= style.scale_by_doubling(min(done), max(done))
    up = {"title_text": style.title_axis(history.metric or "metric", ""), **_see_most(shown)}
    return style.finish(figure, across, up)


def _see_most(shown: Sequence[Seen]) -> dict[str, list[float]]:
    """Return the range of an axis that a few values outside would make flat; nothing where all are seen well."""
    values = sorted(point.height for each in shown for point in each.curve)
    best = [each.curve[-1].height for each in shown if each.state in (WINNER, RUNNING)]
    cut = int(_OUTSIDE * len(values))
    low, high = min([values[cut], *best]), max([values[-1 - cut], *best])
    if values[-1] - values[0] <= _FLAT * (high - low) or high <= low:
        return {}
    return {"range": [low - 0.05 * (high - low), high + 0.05 * (high - low)]}


def _thin(points: Sequence[Moment], most: int) -> Sequence[Moment]:
    """Return so many of the points at most, evenly, the last one among them."""
    if len(points) <= most:
        return points
    return [points[round(place * (len(points) - 1) / (most - 1))] for place in range(most)]


def draw_places(history: History) -> style.Figure:
    """Draw who was on which nodes from when to when; of very many bars the longest ones."""
    scale, rows = style.time_scale(history.t), _pack(history)
    row_of = {node.name: number for number, row in enumerate(rows) for node in row}
    pixels = min(_ROW_PIXELS, max(_LEAST_PIXELS, _ROWS_PIXELS // max(1, len(rows))))
    figure = style.new_figure(height=min(_MOST_PIXELS, pixels * len(rows)) + _REST_PIXELS, top=64)
    bars: dict[tuple[str, str], list[style.Block]] = {}
    for name, color, begin_s, end_s, middle, height, words in _list_bars(history, row_of):
        said = style.escape_text(f"{words}: {format_duration(end_s - begin_s)}")
        bars.setdefault((name, color), []).append(style.Block(begin_s, end_s, middle, height, said))
    every = [bar for found in bars.values() for bar in found if bar.end > bar.start]
    longest = set(map(id, heapq.nlargest(_MOST_BARS, every, key=lambda bar: bar.end - bar.start)))
    edge = {"color": "white", "width": 1 if pixels > 8 else 0}
    for (name, color), found in bars.items():
        drawn = [bar for bar in found if id(bar) in longest]
        style.add_blocks(figure, name, drawn, {"color": color, "line": edge}, scale.seconds)
    borders = [
        (t / scale.seconds, height, f"{style.escape_text(name)} begins after {format_duration(t)}")
        for t, name in history.borders[:_MOST_STEPS]
        for height in (-0.5, len(rows) - 0.5, None)
    ]
    if borders:
        line = {"color": style.INK, "width": 1, "dash": "dot"}
        style.add_points(figure, "a stage begins", borders, line=line)
    for (name, symbol, color), marks in groupby(sorted(_list_marks(history)), key=lambda mark: mark[:3]):
        points = [(t / scale.seconds, row_of[node], style.escape_text(said)) for *_, t, node, said in marks]
        marker = {"symbol": symbol, "color": color, "size": 9}
        style.add_points(figure, name, points[-_MOST_STEPS:], mode="markers", marker=marker)
    across = {"title_text": f"time ({scale.unit})", "range": [0, max(history.t, 1e-9) / scale.seconds]}
    named = [style.shorten_name(row[0].name if len(row) == 1 else row[0].resource) for row in rows]
    names: dict[float, str] = dict([*enumerate(named)][:: -(-len(rows) // _NAMED)])
    return style.finish(figure, across, style.place_names(names, len(rows) - 0.5, -0.5), barmode="overlay")


def _pack(history: History) -> list[list[NodeState]]:
    """Give nodes rows: one that is there only once another of its kind has gone takes that one's row."""
    rows: list[list[NodeState]] = []
    free: dict[str, list[tuple[float, int]]] = {}
    spans = zip(history.nodes, held(history.nodes, history.t, history.gpus), strict=True)
    for node, span in sorted(spans, key=lambda pair: (pair[0].resource, pair[1].begin_s, pair[0].number)):
        there = free.setdefault(node.resource, [])
        if there and there[0][0] <= span.begin_s:
            row = heapq.heappop(there)[1]
        else:
            row = len(rows)
            rows.append([])
        rows[row].append(node)
        heapq.heappush(there, (span.end_s, row))
    return rows


def _list_bars(
    history: History, row_of: Mapping[str, int]
) -> Iterator[tuple[str, str, float, float, float, float, str]]:
    """Yield bars, each by name, colour, begin, end, middle and height: nodes, and who has which of their GPUs."""
    for node, span in zip(history.nodes, held(history.nodes, history.t, history.gpus), strict=True):
        ready_s = span.end_s if node.ready_s is None else min(node.ready_s, span.end_s)
        row, name = row_of[node.name], node.name
        yield "node is launched", style.ORANGE, span.begin_s, ready_s, row, _FILLED, f"{name} is launched"
        yield "node is idle", style.fade(style.GREY, 0.25), ready_s, span.end_s, row, _FILLED, f"{name} is there"
    states = {each.name: each.state for each in history.members}
    free = {node.name: [-math.inf] * history.gpus[node.resource] for node in history.nodes}
    for stay in sorted(history.stays, key=lambda stay: stay.begin_s):
        state, end_s = states.get(stay.member, RUNNING), history.t if stay.end_s is None else stay.end_s
        how = state if stay.how in (RUNNING, DONE) else stay.how[:80]
        for name, gpus in stay.place.items():
            lanes, high = free[name], _FILLED / len(free[name])
            chosen = sorted(range(len(lanes)), key=lambda lane: (lanes[lane] > stay.begin_s + 1e-9, lane))[:gpus]
            words = f"{stay.member}{stay.label and f', {stay.label}'}: {count_gpus(gpus)} of {name}, {how}"
            for _, pairs in groupby(enumerate(sorted(chosen)), key=lambda pair: pair[1] - pair[0]):
                run = [lane for _, lane in pairs]
                middle = row_of[name] - _FILLED / 2 + high * (run[0] + len(run) / 2)
                named = "trains" if history.kind == "fleet" else state
                yield named, LOOKS[state][0], stay.begin_s, end_s, middle, high * len(run), words
            for lane in chosen:
                lanes[lane] = end_s


def _list_marks(history: History) -> Iterator[tuple[str, str, str, float, str, str]]:
    """Yield marks, each by name, symbol, colour, time, node and words: changes of width, failures and losses."""
    for stay in history.stays:
        node, gpus = next(iter(stay.place), ""), count_gpus(sum(stay.place.values()))
        if stay.is_resized:
            yield "resized", "triangle-up", style.PURPLE, stay.begin_s, node, f"{stay.member} goes on with {gpus}"
        if stay.how.startswith(FAILED) and stay.end_s is not None:
            yield "failed", "x", style.VERMILLION, stay.end_s, node, f"{stay.member} {stay.how[:80]}"
    for lost in history.nodes:
        if lost.phase is Phase.LOST and lost.end_s is not None:
            yield "node lost", "x-open", style.INK, lost.end_s, lost.name, f"{lost.name} was lost"


def draw_gpus(history: History) -> style.Figure:
    """Draw how many GPUs were held, and how many of them at work, over time, beside what was planned."""
    now_s = history.t
    busy = (Span(s.begin_s, now_s if s.end_s is None else s.end_s, sum(s.place.values())) for s in history.stays)
    lines = [("held", _add_up(held(history.nodes, now_s, history.gpus)), style.BLUE, "solid")]
    lines.append(("at work", _add_up(busy), style.GREEN, "solid"))
    lines += [(name, _add_up(spans), color, dash) for name, (_, spans), color, dash in _list_forecasts(history)]
    return _draw_lines("GPUs", lines, "hv")


def draw_spent(history: History) -> style.Figure:
    """Draw what was spent over time, in dollars or GPU-hours, beside what was planned."""
    lines = [("spent", history.spent, style.BLUE, "solid")]
    lines += [(name, pay(*forecast), color, dash) for name, forecast, color, dash in _list_forecasts(history)]
    return _draw_lines(style.title_axis("cost", "usd") if history.is_priced else "GPU-hours", lines, "linear")


def pay(since: Moment, spans: Sequence[Span]) -> list[Moment]:
    """Return what was spent by then, and will be when each span begins or ends; each is paid evenly."""
    times = sorted({t for span in spans for t in span[:2]})
    paid = [
        sum(one.amount * min(1.0, max(0.0, t - one.begin_s) / max(1e-9, one.end_s - one.begin_s)) for one in spans)
        for t in times
    ]
    return [since, *(Moment(t, since.height + amount) for t, amount in zip(times, paid, strict=True))]


def _list_forecasts(history: History) -> Iterator[tuple[str, tuple[Moment, list[Span]], str, str]]:
    """Yield what was planned at first, and last, each with its name, colour and dashes."""
    yield "planned", history.forecasts[0], style.GREY, "dot"
    if len(history.forecasts) > 1:
        yield "planned anew", history.forecasts[-1], style.ORANGE, "dash"


def _draw_lines(what: str, lines: Sequence[tuple[str, Sequence[Moment], str, str]], shape: str) -> style.Figure:
    scale = style.time_scale(max((point.t for _, points, _, _ in lines for point in points), default=0.0))
    figure = style.new_figure(height=300, top=56)
    for name, points, color, dash in lines:
        words = f"{name}: %{{y:,.4g}}<br>after %{{x:.4g}} {scale.unit}<extra></extra>"
        x, y = [point.t / scale.seconds for point in points], [point.height for point in points]
        line = {"color": color, "width": 2, "dash": dash, "shape": shape}
        figure.add_scatter(name=name, x=x, y=y, mode="lines", line=line, hovertemplate=words)
    across = {"title_text": f"time ({scale.unit})", "rangemode": "tozero"}
    return style.finish(figure, across, {"title_text": what, "rangemode": "tozero"})


def _add_up(spans: Iterable[Span]) -> list[Moment]:
    """Add up GPUs that are held from when to when; of many steps the most in each small part of the time is kept."""
    rows = np.array([span[:3] for span in spans], dtype=np.float64).reshape(-1, 3).round(6)  # no gaps by rounding
    level = Level.of(*rows.T)
    points = list(starmap(Moment, zip(level.times_s.tolist(), level.gpus.tolist(), strict=True)))
    if len(points) <= _MOST_STEPS:
        return points
    parts = groupby(points, key=lambda point: int(point.t / points[-1].t * _MOST_STEPS))
    return [*(max(part, key=lambda point: point.height) for _, part in parts), points[-1]]


#: Rows of tables, and events, at most.
_MOST_ROWS, _MOST_EVENTS = 1000, 60
#: Names of what was tried that get a column each; of more, one column has all of them.
_MOST_NAMES = 5


def tell_history(history: History | None, own: Iterable[Section] = ()) -> list[Section]:
    """Tell how a run went: its curves, who was where, GPUs and cost, everyone in a table, and what was planned anew.

    Sections of its ``own`` stand before all that happened; where nobody knows that, they are all.
    """
    if history is None:
        return [*own]
    who, sections = {"stream": "jobs", "fleet": "ranks"}.get(history.kind, "trials"), []
    if any(each.curve for each in history.members):
        counts = [(sum(each.state == state for each in history.members), state) for state in reversed(LOOKS)]
        reading = (
            f"A line for each of the {who}; {'higher' if history.is_most else 'lower'} is better. "
            f"{', '.join(f'{count:,} {state}' for count, state in counts if count)}. A few values far from all others "
            "may lie outside, and of many lines not every point is drawn."
        )
        label = f"Line chart: {history.metric or 'metric'} after each iteration"
        if history.kind == "fleet":
            reading = "The first number of what the job's ranks have shown. What was done again is drawn once."
        else:
            label += f", a line for each of the {who}"
        chart = label, draw_curves(history)
        sections.append(Section("curves", "Learning curves", [Charts([chart], reading)]))
    if history.nodes:
        reading = (
            f"A row for each node, or for several of a kind one after the other; bars are {who} on its GPUs. Grey: the "
            "node is there, and nobody has it; orange: it is launched. Of very many bars the longest are drawn."
        )
        if not history.spent:  # of an export, whose nodes nobody tells
            reading = f"A row for each of the {who}: bars are when it ran, grey is the time between two steps."
        chart = f"For each row bars over time: when {who} ran", draw_places(history)
        sections.append(Section("places", f"{who.capitalize()} over time", [Charts([chart], reading)]))
    if history.forecasts:
        what = "cost" if history.is_priced else "GPU-hours"
        reading = f"Dotted: as planned; dashed: as planned anew. The {what} counts nodes that are held, at work or not."
        drawn = [("Step chart: GPUs over time, and as planned", draw_gpus(history))]
        drawn += [(f"Line chart: {what} over time, and as planned", draw_spent(history))] if history.spent else []
        heading = f"GPUs and {what} over time"
        sections.append(Section("use", heading, [Charts(drawn, reading, "pair")], f"GPUs and {what}"))
    table = _list_vms(history) if history.kind == "fleet" else _list_members(history)
    if table.rows:
        heading = "VMs" if history.kind == "fleet" else who.capitalize()
        sections.append(Section("members", heading, [table]))
    if history.replans:
        sections.append(Section("replans", "What was planned anew, and why", [_list_plans(history)], "Planned anew"))
    sections += own
    if history.events:
        said = history.events[-_MOST_EVENTS:]
        heading = "What happened" if len(said) == len(history.events) else f"The last {len(said)} things that happened"
        sections.append(Section("events", heading, [Items(said)], place="folded"))
    return sections


def _list_members(history: History) -> Table:
    """List all trials or jobs, those of a search by merit, the best first; readers may sort them."""
    members, is_search = history.members, history.kind != "stream"
    if is_search:
        places, sign = {state: -number for number, state in enumerate(LOOKS)}, -1.0 if history.is_most else 1.0
        value = {each.name: sign * each.curve[-1].height if each.curve else math.inf for each in members}
        members = sorted(members, key=lambda each: (places[each.state], value[each.name]))
    names = [*dict.fromkeys(name for each in members for name in each.configuration)]
    own = [*dict.fromkeys(name for each in members for name in each.own)]
    is_wide, shown = len(names) <= _MOST_NAMES, any(each.curve for each in members)
    columns = [Column("trial" if is_search else "job", style="name"), Column("state")]
    columns += numbers(*[history.metric or "metric"][:shown], "iterations" if is_search else "epochs")
    columns += [Column(name, True, "name") for name in names] if is_wide else [Column("configuration", style="wraps")]
    columns += [Column(name, name != "class") for name in own]
    columns += numbers("restarts", "GPU-hours", *["cost ($)"][: history.is_priced])
    columns.append(Column("node"))

    def write(each: Seen) -> tuple[str, ...]:
        tried = [_write(each.configuration.get(name)) for name in names]
        where = [*[*each.place][:1], *[f"{len(each.place) - 1} more"][: len(each.place) > 1]]
        return (
            *(each.name, each.state),
            *[_write(each.curve[-1].height if each.curve else None)][:shown],
            f"{each.iterations:,}",
            *(tried if is_wide else [", ".join(f"{n}={v}" for n, v in zip(names, tried, strict=True))]),
            *(_write(each.own.get(name), digits=3) for name in own),
            *(f"{each.restarts:,}", _write(each.gpu_s / SECONDS_PER_HOUR, digits=3)),
            *[_write(each.usd, digits=3)][: history.is_priced],
            " and ".join(where) or NOTHING,
        )

    caption = f"All {len(members):,} of them" if len(members) > 1 else "The only one"
    return _cut(caption, columns, [write(each) for each in members[:_MOST_ROWS]], len(members))


def _list_vms(history: History) -> Table:
    columns = [Column("VM", style="name"), Column("type"), Column("state")]
    columns += numbers("ranks", "asked for (h)", "ready (h)", "gone (h)", "held (h)")
    rows = []
    for vm, span in zip(history.nodes, held(history.nodes, history.t, history.gpus), strict=True):
        times = (span.begin_s, vm.ready_s, vm.end_s, span.end_s - span.begin_s)
        hours = [_write(None if t is None else t / SECONDS_PER_HOUR, digits=3) for t in times]
        rows.append((vm.name, vm.resource, vm.phase.value, str(history.gpus[vm.resource]), *hours))
    return _cut("From when they were asked for until they were gone", columns, rows[:_MOST_ROWS], len(rows))


def _cut(caption: str, columns: Sequence[Column], rows: Sequence[tuple[str, ...]], count: int) -> Table:
    rest = f"The first {len(rows):,} of {count:,} are shown." if len(rows) < count else ""
    return Table(caption, columns, rows, rest=rest, is_sortable=True)


def _list_plans(history: History) -> Table:
    columns = [Column("after"), Column("why", style="wraps")]
    rows: list[tuple[str, ...]] = [(format_duration(t), why) for t, why in history.replans[-_MOST_ROWS:]]
    if len(history.forecasts) > 1:
        what = "cost ($)" if history.is_priced else "GPU-hours"
        columns += numbers("end, as planned", "planned anew", f"{what}, as planned", "planned anew")
        lasts = [pay(*forecast)[-1] for forecast in history.forecasts]
        ends = [(format_duration(last.t), _write(last.height)) for last in lasts]
        changes = [(a, b, c, d) for (a, c), (b, d) in pairwise(ends)]
        rows = [(*row, *change) for row, change in zip(rows, changes, strict=False)]
    return Table("When, and why", columns, rows, is_sortable=True)


def _write(value: object, digits: int = 6) -> str:
    if isinstance(value, float):
        return f"{value:,.{digits}f}" if digits < 6 and abs(value) >= 0.1 else f"{value:,.{digits}g}"
    return NOTHING if value is None else str(value)
