"""Pictures of plans by their segments: what a class's jobs hold as they go on, or when segments go on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from optplan.contracts.plan import Plan, Segment, UnitKind, follow, span
from optplan.reporting.phrases import count_gpus, format_share
from optplan.reporting.style import (
    BLUE,
    FONT_SIZE,
    GREY,
    LEGEND_ABOVE,
    ORANGE,
    Block,
    Figure,
    add_blocks,
    color_types,
    escape_text,
    fade,
    new_figure,
    shorten_name,
    time_scale,
)
from optplan.units import format_duration

#: Height of a row, and of everything else, in pixels.
_ROW_PIXELS, _REST_PIXELS = 46, 120
#: How much of its row each of two bars fills, and a single one.
_FILLED, _ALONE = 0.36, 0.8
#: Most segments, or ways of classes' jobs, that get a row; tables have all of them.
MOST_ROWS = 40
#: Least part of the epochs, in percent, over which a bar has room for its number.
_NAMED = 6.0
#: How much of its colour the fewest GPUs have.
_PALE = 0.3


def draw_segments(plan: Plan) -> Figure:
    """Draw who holds what: the GPUs of a class's jobs as they go on, or when segments are to go on."""
    if any(unit.kind is UnitKind.JOB_CLASS for unit in plan.units):
        return _draw_classes(plan)
    spans = [(each.expected.start_s, each.expected.launch_s, each.expected.seconds) for each in plan.segments]
    return draw_spans([each.label or each.id for each in plan.segments], {"planned": spans})


def draw_spans(names: Sequence[str], spans: Mapping[str, Sequence[tuple[float, float, float]]]) -> Figure:
    """Draw when things went on, as planned and by another name: when each begins, how long it waits, and takes in all.

    Of more than :data:`MOST_ROWS`, the first are shown. Horizontal: time since the beginning. A row for each thing.
    """
    names, spans = names[:MOST_ROWS], {name: rows[:MOST_ROWS] for name, rows in spans.items()}
    drawn = [one for rows in spans.values() for one in rows]
    scale = time_scale(max((start_s + seconds for start_s, _, seconds in drawn), default=0.0))
    figure = new_figure(height=_ROW_PIXELS * len(names) + _REST_PIXELS, top=40)
    for number, (name, rows) in enumerate(spans.items()):
        place = (number - (len(spans) - 1) / 2) * _FILLED
        for words, tint, parts in (
            ("waiting for nodes", ORANGE, [(start_s, pause_s) for start_s, pause_s, _ in rows]),
            (
                name,
                BLUE if number else GREY,
                [(start_s + pause_s, seconds - pause_s) for start_s, pause_s, seconds in rows],
            ),
        ):
            blocks = [
                Block(
                    start_s / scale.seconds,
                    (start_s + seconds) / scale.seconds,
                    row + place,
                    _FILLED,
                    f"{name}, {words}: {format_duration(seconds)}",
                )
                for row, (start_s, seconds) in enumerate(parts)
            ]
            named = words == name or (not number and any(pause_s for _, pause_s, _ in drawn))
            marker = {"color": tint, "line": {"color": "white", "width": 1}}
            add_blocks(figure, words, blocks, marker, legendgroup=words, showlegend=named)
    figure.update_xaxes(title_text=f"time ({scale.unit})", rangemode="tozero")
    return _name_rows(figure, names)


def _draw_classes(plan: Plan) -> Figure:
    """Draw the GPUs of each class's jobs from their first epoch to their last, the darker the more, a row for a way."""
    ways = [
        (unit.id, way)
        for unit in plan.units
        for way in follow([segment for segment in plan.segments if segment.unit == unit.id])
    ][:MOST_ROWS]
    held = [segment.gpus for _, way in ways for segment in way]
    several, least, most = len(plan.resources) > 1, min(held, default=1), max(held, default=1)

    def shade(gpus: int) -> float:  # where colours tell types apart, they stay as they are
        plain = several or least == most
        return 1.0 if plain else _PALE + (1.0 - _PALE) * math.log(gpus / least) / math.log(most / least)

    figure = new_figure(height=_ROW_PIXELS * len(ways) + _REST_PIXELS, top=40)
    for resource, color in (color_types(plan.resources) if several else {"": BLUE}).items():
        shown = [
            (block, segment.gpus)
            for row, (_, way) in enumerate(ways)
            for segment, block in _list_blocks(way, row)
            if resource in ("", segment.resource)
        ]
        add_blocks(
            figure,
            escape_text(resource or "GPUs of a job"),
            [block for block, _ in shown],
            {"color": [fade(color, shade(gpus)) for _, gpus in shown], "line": {"color": "white", "width": 1}},
            text=[str(gpus) if block.end - block.start >= _NAMED else "" for block, gpus in shown],
            textposition="inside",
            insidetextanchor="middle",
            textangle=0,
            constraintext="none",
        )
    figure.update_xaxes(title_text="GPUs of a job by epochs done (%)", range=[0, 100])
    shared = {name for (name, _), (other, _) in pairwise(ways) if name == other}
    return _name_rows(
        figure, [f"{name}, {format_share(way[0].share)}" if name in shared else name for name, way in ways]
    )


def _list_blocks(way: Sequence[Segment], row: int) -> Iterator[tuple[Segment, Block]]:
    epochs = span(way[-1])[1]
    for segment in way:
        first, last = span(segment)
        on = f"{count_gpus(segment.gpus)} of {segment.resource}"
        words = f"epochs {first + 1} to {last}: {escape_text(on)}, {format_duration(segment.expected.seconds)}"
        yield segment, Block(100 * first / epochs, 100 * last / epochs, row, _ALONE, words)


def _name_rows(figure: Figure, names: Sequence[str]) -> Figure:
    figure.update_layout(barmode="overlay", showlegend=True, legend=LEGEND_ABOVE)
    figure.update_yaxes(
        tickmode="array",
        tickvals=list(range(len(names))),
        ticktext=[shorten_name(name) for name in names],
        range=[len(names) - 0.5, -0.5],
        showgrid=False,
        tickfont={"size": FONT_SIZE - 1},
    )
    return figure
