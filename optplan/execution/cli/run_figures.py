"""The pictures of a run's page: curves, who was where, GPUs and cost over time."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from itertools import accumulate, groupby, starmap

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
    Stay,
    held_s,
)
from optplan.execution.state import NodeState, Phase
from optplan.reporting import style
from optplan.reporting.phrases import count_gpus
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
_ROWS_PIXELS, _LEAST_PIXELS, _ROW_PIXELS, _REST_PIXELS, _NAMED = 900, 2, 34, 120, 30
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
        points = [
            (each.name, point)
            for each in shown
            if each.state == state
            for point in (*_thin(each.curve, math.inf if state == WINNER else most), None)
        ]
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
    if min(done) > 0 and max(done) >= _DOUBLING * min(done):
        figure.update_xaxes(**style.scale_by_doubling(min(done), max(done)))
    figure.update_xaxes(title_text="epochs" if history.kind == "stream" else "iterations")
    figure.update_yaxes(title_text=style.title_axis(history.metric or "metric", ""), **_see_most(shown))
    return figure.update_layout(showlegend=True, legend=style.LEGEND_ABOVE)


def _see_most(shown: Sequence[Seen]) -> dict[str, list[float]]:
    """Return the range of an axis that a few values outside would make flat; nothing where all are seen well."""
    values = sorted(point.height for each in shown for point in each.curve)
    cut, best = (
        int(_OUTSIDE * len(values)),
        [each.curve[-1].height for each in shown if each.state in (WINNER, RUNNING)],
    )
    low, high = min([values[cut], *best]), max([values[-1 - cut], *best])
    if values[-1] - values[0] <= _FLAT * (high - low) or high <= low:
        return {}
    return {"range": [low - 0.05 * (high - low), high + 0.05 * (high - low)]}


def _thin(points: Sequence[Moment], most: float) -> Sequence[Moment]:
    """Return so many of the points at most, evenly, the last one among them."""
    if len(points) <= most:
        return points
    return [points[round(place * (len(points) - 1) / (most - 1))] for place in range(int(most))]


def draw_places(history: History) -> style.Figure:
    """Draw who was on which nodes from when to when; of very many bars the longest ones."""
    scale, rows = style.time_scale(history.t), _pack(history)
    row_of = {node.name: number for number, row in enumerate(rows) for node in row}
    pixels = min(_ROW_PIXELS, max(_LEAST_PIXELS, _ROWS_PIXELS // max(1, len(rows))))
    figure = style.new_figure(height=pixels * len(rows) + _REST_PIXELS, top=64)
    bars: dict[tuple[str, str], list[style.Block]] = {}
    for node in history.nodes:
        begin_s, end_s = held_s(node, history.t)
        ready_s = end_s if node.ready_s is None else min(node.ready_s, end_s)
        for what, color, span in (
            ("is launched", style.ORANGE, (begin_s, ready_s)),
            ("is idle", style.SHADE, (ready_s, end_s)),
        ):
            words = f"{style.escape_text(node.name)} {what}"
            bars.setdefault((f"node {what}", color), []).append(_bar(scale, span, row_of[node.name], _FILLED, words))
    for state, bar in _place_stays(history, row_of, scale):
        name = "trains" if history.kind == "fleet" else state
        bars.setdefault((name, LOOKS[state][0]), []).append(bar)
    longest = sorted((bar.end - bar.start for found in bars.values() for bar in found), reverse=True)[:_MOST_BARS]
    edge = {"color": "white", "width": 1 if pixels > 8 else 0}
    for (name, color), found in bars.items():
        drawn = [bar for bar in found if bar.end - bar.start >= max(longest[-1], 1e-12)]
        style.add_blocks(figure, name, drawn, {"color": color, "line": edge})
    _add_marks(figure, history, row_of, scale, len(rows))
    figure.update_layout(barmode="overlay", showlegend=True, legend=style.LEGEND_ABOVE)
    figure.update_xaxes(title_text=f"time ({scale.unit})", range=[0, max(history.t, 1e-9) / scale.seconds])
    named = [(n, row[0].name if len(row) == 1 else row[0].resource) for n, row in enumerate(rows)]
    named = named[:: -(-len(rows) // _NAMED)]
    names = {"tickvals": [n for n, _ in named], "ticktext": [style.shorten_name(name) for _, name in named]}
    return figure.update_yaxes(tickmode="array", range=[len(rows) - 0.5, -0.5], showgrid=False, **names)


def _pack(history: History) -> list[list[NodeState]]:
    """Give nodes rows: one that is there only once another of its kind has gone takes that one's row."""
    rows: list[list[NodeState]] = []
    free: dict[str, list[tuple[float, int]]] = {}
    for node in sorted(history.nodes, key=lambda node: (node.resource, held_s(node, history.t)[0], node.number)):
        begin_s, end_s = held_s(node, history.t)
        there = free.setdefault(node.resource, [])
        if there and there[0][0] <= begin_s:
            row = heapq.heappop(there)[1]
            rows[row].append(node)
        else:
            row = len(rows)
            rows.append([node])
        heapq.heappush(there, (end_s, row))
    return rows


def _place_stays(history: History, row_of: dict[str, int], scale: style.TimeScale) -> Iterable[tuple[str, style.Block]]:
    """Yield a bar for each node of a stay, on GPUs that nobody has, with how who stays there stands."""
    sizes = {node.name: history.gpus[node.resource] for node in history.nodes}
    free = {name: [-math.inf] * size for name, size in sizes.items()}
    states = {each.name: each.state for each in history.members}
    for stay in sorted(history.stays, key=lambda stay: stay.begin_s):
        state, end_s = states.get(stay.member, RUNNING), _end_s(stay, history)
        for name, gpus in stay.place.items():
            lanes, high = free[name], _FILLED / sizes[name]
            chosen = sorted(range(len(lanes)), key=lambda lane: (lanes[lane] > stay.begin_s + 1e-9, lane))[:gpus]
            how = state if stay.how in (RUNNING, DONE) else stay.how[:80]
            words = f"{stay.member}{stay.label and f', {stay.label}'}: {count_gpus(gpus)} of {name}, {how}"
            for _, pairs in groupby(enumerate(sorted(chosen)), key=lambda pair: pair[1] - pair[0]):
                run = [lane for _, lane in pairs]
                middle = row_of[name] - _FILLED / 2 + high * (run[0] + len(run) / 2)
                span, said = (stay.begin_s, end_s), style.escape_text(words)
                yield state, _bar(scale, span, middle, high * len(run), said)
            for lane in chosen:
                lanes[lane] = end_s


def _bar(scale: style.TimeScale, span: tuple[float, float], middle: float, height: float, words: str) -> style.Block:
    begin_s, end_s = span
    said = f"{words}: {format_duration(end_s - begin_s)}"
    return style.Block(begin_s / scale.seconds, end_s / scale.seconds, middle, height, said)


def _add_marks(
    figure: style.Figure, history: History, row_of: dict[str, int], scale: style.TimeScale, rows: int
) -> None:
    """Mark stages that begin, changes of width, failures and losses."""
    borders = [
        (t / scale.seconds, height, f"{style.escape_text(name)} begins after {format_duration(t)}")
        for t, name in history.borders[:_MOST_STEPS]
        for height in (-0.5, rows - 0.5, None)
    ]
    if borders:
        line = {"color": style.INK, "width": 1, "dash": "dot"}
        style.add_points(figure, "a stage begins", borders, line=line)
    first = [(stay, next(iter(stay.place))) for stay in history.stays if stay.place]
    for name, symbol, color, marks in (
        ("resized", "triangle-up", style.PURPLE, [
            (stay.begin_s, node, f"{stay.member} goes on with {count_gpus(sum(stay.place.values()))}")
            for stay, node in first if stay.is_resized
        ]),
        ("failed", "x", style.VERMILLION, [
            (_end_s(stay, history), node, f"{stay.member} {stay.how[:80]}")
            for stay, node in first if stay.how.startswith(FAILED)
        ]),
        ("node lost", "x-open", style.INK, [
            (held_s(node, history.t)[1], node.name, f"{node.name} was lost")
            for node in history.nodes if node.phase is Phase.LOST
        ]),
    ):  # fmt: skip
        points = [(t / scale.seconds, row_of[node], style.escape_text(said)) for t, node, said in marks[-_MOST_STEPS:]]
        if points:
            marker = {"symbol": symbol, "color": color, "size": 9}
            style.add_points(figure, name, points, mode="markers", marker=marker)


def _end_s(stay: Stay, history: History) -> float:
    return history.t if stay.end_s is None else stay.end_s


def draw_gpus(history: History) -> style.Figure:
    """Draw how many GPUs were held, and how many of them at work, over time, beside what was planned."""
    held = [(*held_s(node, history.t), history.gpus[node.resource]) for node in history.nodes]
    busy = [(stay.begin_s, _end_s(stay, history), sum(stay.place.values())) for stay in history.stays]
    lines = [("held", _add_up(held), style.BLUE, "solid"), ("at work", _add_up(busy), style.GREEN, "solid")]
    return _draw_lines(history, "GPUs", lines, [each.gpus for each in history.forecasts], shape="hv")


def draw_spent(history: History) -> style.Figure:
    """Draw what was spent over time, in dollars or GPU-hours, beside what was planned."""
    planned = [each.spent for each in history.forecasts]
    if planned and not planned[0]:  # so many GPUs on average
        planned[0] = [Moment(t, history.forecasts[0].gpus[0].height * t / SECONDS_PER_HOUR) for t in (0.0, history.t)]
    what = style.title_axis("cost", "usd") if history.is_priced else "GPU-hours"
    return _draw_lines(history, what, [("spent", history.spent, style.BLUE, "solid")], planned)


def _draw_lines(
    history: History,
    what: str,
    lines: list[tuple[str, list[Moment], str, str]],
    planned: Sequence[list[Moment]],
    shape: str = "linear",
) -> style.Figure:
    """Draw lines over time, and of what was planned at first and last."""
    ends = [*history.forecasts[:1], *history.forecasts[1:][-1:]]
    looks = [(style.GREY, "dot"), (style.ORANGE, "dash")]
    last = [*planned[:1], *planned[1:][-1:]]
    lines += [(each.name, points, *look) for each, points, look in zip(ends, last, looks, strict=False)]
    scale, figure = (
        style.time_scale(max(p.t for _, points, _, _ in lines for p in points)),
        style.new_figure(height=300, top=56),
    )
    for name, points, color, dash in lines:
        drawn = [*points, Moment(history.t, points[-1].height)] if len(points) == 1 else points
        words = f"{name}: %{{y:,.4g}}<br>after %{{x:.4g}} {scale.unit}<extra></extra>"
        x, y = [point.t / scale.seconds for point in drawn], [point.height for point in drawn]
        line = {"color": color, "width": 2, "dash": dash, "shape": shape}
        figure.add_scatter(name=name, x=x, y=y, mode="lines", line=line, hovertemplate=words)
    figure.update_xaxes(title_text=f"time ({scale.unit})", rangemode="tozero")
    figure.update_yaxes(title_text=what, rangemode="tozero")
    return figure.update_layout(showlegend=True, legend=style.LEGEND_ABOVE)


def _add_up(spans: Iterable[tuple[float, float, int]]) -> list[Moment]:
    """Add up GPUs that are held from when to when; of many steps the most in each small part of the time is kept."""
    steps: dict[float, int] = {0.0: 0}
    for begin_s, end_s, gpus in spans:
        steps[begin_s] = steps.get(begin_s, 0) + gpus
        steps[end_s] = steps.get(end_s, 0) - gpus
    times = sorted(steps)
    points = list(starmap(Moment, zip(times, accumulate(steps[t] for t in times), strict=True)))
    if len(points) <= _MOST_STEPS:
        return points
    parts = groupby(points, key=lambda point: int(point.t / points[-1].t * _MOST_STEPS))
    return [*(max(part, key=lambda point: point.height) for _, part in parts), points[-1]]
