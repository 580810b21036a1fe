"""Pictures of plans by their segments: what a class's jobs hold as they go on, or when segments go on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from optplan.contracts.plan import Plan, Segment, UnitKind, follow, span
from optplan.reporting import style
from optplan.reporting.phrases import count_gpus, format_share
from optplan.units import format_duration

#: Height of a row, and of everything else, in pixels.
_ROW_PIXELS, _REST_PIXELS = 46, 120
#: How much of its row each of two bars fills, and a single one.
_FILLED, _ALONE = 0.36, 0.86
#: Most segments, and ways of classes' jobs, that get a row; tables have all of them.
MOST_ROWS, MOST_WAYS = 40, 150
#: Height of the row of a way in pixels, and where there are more of these than segments get rows.
_WAY_PIXELS, _DENSE_PIXELS = 34, 12
#: Least part of the epochs, in percent, over which a bar has room for its number.
_NAMED = 6.0
#: How much of its colour one GPU has, and from how many GPUs on it has all of it.
_PALE, _DARKEST = 0.2, 64
#: From how many GPUs on numbers are white, so that they can be read.
_WHITE = 24


class Held(NamedTuple):
    """What a plan holds from some time on, and what hovering says there."""

    since_s: float
    amount: float
    words: str


def draw_segments(plan: Plan) -> style.Figure:
    """Draw who holds what: the GPUs of a class's jobs as they go on, or when segments are to go on."""
    if any(unit.kind is UnitKind.JOB_CLASS for unit in plan.units):
        return _draw_classes(plan)
    spans = [(each.expected.start_s, each.expected.launch_s, each.expected.seconds) for each in plan.segments]
    return draw_spans([each.label or each.id for each in plan.segments], {"planned": spans})


def draw_spans(names: Sequence[str], spans: Mapping[str, Sequence[tuple[float, float, float]]]) -> style.Figure:
    """Draw when each thing began, as planned and otherwise, waited and ended; the first :data:`MOST_ROWS` of them."""
    names, spans = names[:MOST_ROWS], {name: rows[:MOST_ROWS] for name, rows in spans.items()}
    drawn = [one for rows in spans.values() for one in rows]
    scale = style.time_scale(max((start_s + seconds for start_s, _, seconds in drawn), default=0.0))
    figure = style.new_figure(height=_ROW_PIXELS * len(names) + _REST_PIXELS, top=40)
    for number, (name, rows) in enumerate(spans.items()):
        place = (number - (len(spans) - 1) / 2) * _FILLED
        for words, tint, parts in (
            ("waiting for nodes", style.ORANGE, [(start_s, pause_s) for start_s, pause_s, _ in rows]),
            (
                name,
                style.BLUE if number else style.GREY,
                [(start_s + pause_s, seconds - pause_s) for start_s, pause_s, seconds in rows],
            ),
        ):
            blocks = [
                style.Block(
                    start_s, start_s + seconds, row + place, _FILLED, f"{name}, {words}: {format_duration(seconds)}"
                )
                for row, (start_s, seconds) in enumerate(parts)
            ]
            named = words == name or (not number and any(pause_s for _, pause_s, _ in drawn))
            marker = {"color": tint, "line": {"color": "white", "width": 1}}
            style.add_blocks(figure, words, blocks, marker, scale.seconds, legendgroup=words, showlegend=named)
    figure.update_xaxes(title_text=f"time ({scale.unit})", rangemode="tozero")
    return _name_rows(figure, names)


def draw_held(plans: Sequence[tuple[str, Sequence[Held]]], what: str) -> style.Figure:
    """Draw ``what`` each plan holds over time, by its name: of each, from when on it holds how much."""
    scale = style.time_scale(max(held.since_s for _, moments in plans for held in moments))
    figure = style.new_figure(height=340, top=36)
    for number, (name, moments) in enumerate(plans):
        safe = style.escape_text(name)
        points = [(held.since_s / scale.seconds, held.amount, f"{safe}, {held.words}") for held in moments]
        look = {"width": 2, "dash": "dot"} if number else {"width": 3, "dash": "solid"}
        line = {"shape": "hv", "color": style.COLORS[number % len(style.COLORS)], **look}
        style.add_points(figure, safe, points, line=line)
    across = {"title_text": f"expected time since the start ({scale.unit})", "rangemode": "tozero"}
    return style.finish(figure, across, {"title_text": what, "rangemode": "tozero"})


def _draw_classes(plan: Plan) -> style.Figure:
    """Draw a map, all in one trace: a row for each class, or way, and over its epochs (%) the GPUs of a job."""
    ways = [
        (unit.id, way)
        for unit in plan.units
        for way in follow([segment for segment in plan.segments if segment.unit == unit.id])
    ][:MOST_WAYS]
    cells = [(row, segment) for row, (_, way) in enumerate(ways) for segment in way]
    spans = [(*span(segment), span(ways[row][1][-1])[1]) for row, segment in cells]
    parts = [100.0 * (last - first) / epochs for first, last, epochs in spans]
    is_dense, types = len(ways) > MOST_ROWS, style.color_types(plan.resources) if len(plan.resources) > 1 else {}
    figure = style.new_figure(height=(_DENSE_PIXELS if is_dense else _WAY_PIXELS) * len(ways) + _REST_PIXELS, top=40)
    figure.add_bar(
        orientation="h",
        name="GPUs of a job",
        base=[100.0 * first / epochs for first, _, epochs in spans],
        x=parts,
        y=[row for row, _ in cells],
        width=_ALONE,
        marker={"color": [paint(segment.gpus, types.get(segment.resource))[0] for _, segment in cells]},
        text=[str(segment.gpus) if part >= _NAMED else "" for part, (_, segment) in zip(parts, cells, strict=True)],
        textfont={
            "size": style.FONT_SIZE - 3 if is_dense else style.FONT_SIZE - 1,
            "color": [paint(segment.gpus, types.get(segment.resource))[1] for _, segment in cells],
        },
        textposition="inside",
        insidetextanchor="middle",
        textangle=0,
        constraintext="none",
        hoverinfo="text",
        hovertext=[_describe_cell(*span(segment), segment) for _, segment in cells],
        showlegend=False,
    )
    for name, color in key_of_map(plan.resources).items():
        marker = {"color": color, "symbol": "square", "size": 10}
        figure.add_scatter(x=[None], y=[None], mode="markers", marker=marker, name=style.escape_text(name))
    figure.update_xaxes(title_text="GPUs of a job by epochs done (%)", range=[0, 100])
    shared = {name for (name, _), (other, _) in pairwise(ways) if name == other}
    _name_rows(figure, [f"{name}, {format_share(way[0].share)}" if name in shared else name for name, way in ways])
    return figure.update_yaxes(tickfont={"size": style.FONT_SIZE - 3 if is_dense else style.FONT_SIZE - 1})


def paint(gpus: float, of_type: str | None = None) -> tuple[str, str]:
    """Return the colours of a cell of a map, that of its type where there are several, and of the number in it."""
    return of_type or _shade(gpus), "white" if of_type or gpus >= _WHITE else style.INK


def _shade(gpus: float) -> str:
    """Return the colour of so many GPUs, the same in every map, so that plans can be compared."""
    return style.fade(style.BLUE, _PALE + (1.0 - _PALE) * min(math.log2(gpus) / math.log2(_DARKEST), 1.0))


def key_of_map(resources: Iterable[str]) -> dict[str, str]:
    """Return what the colours of a map stand for: GPU types where there are several, else numbers of GPUs."""
    if len(types := style.color_types(resources)) > 1:
        return types
    return {count_gpus(gpus): _shade(gpus) for gpus in (1, 4, 16)} | {f"{_DARKEST} GPUs or more": _shade(_DARKEST)}


def _describe_cell(first: int, last: int, segment: Segment) -> str:
    on = f"{count_gpus(segment.gpus)} of {segment.resource}"
    return f"epochs {first + 1} to {last}: {style.escape_text(on)}, {format_duration(segment.expected.seconds)}"


def _name_rows(figure: style.Figure, names: Sequence[str]) -> style.Figure:
    rows = style.place_names(dict(enumerate(map(style.shorten_name, names))), len(names) - 0.5, -0.5)
    return style.finish(figure, {}, rows | {"tickfont": {"size": style.FONT_SIZE - 1}}, barmode="overlay")
