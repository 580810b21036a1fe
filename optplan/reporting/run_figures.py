"""The picture of a run: when each segment was to go on, and when it did."""

from __future__ import annotations

from collections.abc import Sequence

from optplan.reporting.style import BLUE, FONT_SIZE, GREY, ORANGE, Figure, new_figure, shorten_name, time_scale
from optplan.runtime.outcomes import SegmentOutcome
from optplan.units import format_duration

#: Height of a segment's row, and of everything else, in pixels.
_ROW_PIXELS, _REST_PIXELS = 46, 120
#: How much of its row each of the two bars fills.
_FILLED = 0.36
#: Most segments that get a row; the table has all of them.
MOST_ROWS = 40


def draw_run(segments: Sequence[SegmentOutcome], *, end_s: float) -> Figure:
    """Draw when segments were to go on, and below that when they did.

    Of more than :data:`MOST_ROWS`, the first are shown; one that has not ended yet ends at ``end_s``. Horizontal: time
    since the run began. A row for each segment.
    """
    shown = segments[:MOST_ROWS]
    planned = [(each.planned_start_s, each.planned_pause_s, each.planned_s) for each in shown]
    actual = [_when(each, end_s) for each in shown]
    longest_s = max((start_s + seconds for start_s, _, seconds in [*planned, *actual]), default=0.0)
    scale = time_scale(longest_s)
    figure = new_figure(height=_ROW_PIXELS * len(shown) + _REST_PIXELS, top=40)
    rows = [("planned", GREY, planned, -1), ("actual", BLUE, actual, 1)]
    for name, color, spans, side in rows:
        for words, tint, parts in (
            ("waiting for nodes", ORANGE, [(start_s, pause_s) for start_s, pause_s, _ in spans]),
            (name, color, [(start_s + pause_s, seconds - pause_s) for start_s, pause_s, seconds in spans]),
        ):
            figure.add_bar(
                orientation="h",
                y=[place + side * _FILLED / 2 for place in range(len(shown))],
                width=_FILLED,
                base=[start_s / scale.seconds for start_s, _ in parts],
                x=[seconds / scale.seconds for _, seconds in parts],
                name=words,
                legendgroup=words,
                showlegend=words == name or (side < 0 and any(pause_s for _, pause_s, _ in [*planned, *actual])),
                marker={"color": tint, "line": {"color": "white", "width": 1}},
                hovertext=[f"{name}, {words}: {format_duration(seconds)}" for _, seconds in parts],
                hoverinfo="text",
            )
    figure.update_layout(barmode="overlay", showlegend=True)
    figure.update_layout(legend={"orientation": "h", "x": 0.0, "y": 1.0, "yanchor": "bottom"})
    figure.update_xaxes(title_text=f"time ({scale.unit})", rangemode="tozero")
    figure.update_yaxes(
        tickmode="array",
        tickvals=list(range(len(shown))),
        ticktext=[shorten_name(each.id) for each in shown],
        range=[len(shown) - 0.5, -0.5],
        showgrid=False,
        tickfont={"size": FONT_SIZE - 1},
    )
    return figure


def _when(segment: SegmentOutcome, end_s: float) -> tuple[float, float, float]:
    """Return when a segment opened, how long it waited, and how long it has taken until now."""
    if segment.actual_start_s is None:
        return 0.0, 0.0, 0.0
    taken_s = end_s - segment.actual_start_s if segment.actual_s is None else segment.actual_s
    pause_s = taken_s if segment.actual_pause_s is None else segment.actual_pause_s
    return segment.actual_start_s, pause_s, taken_s
