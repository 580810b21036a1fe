"""How a solve went: the best plan and the best bound over its time, until they met or the solver stopped."""

from __future__ import annotations

from optplan.contracts import Result, Solution, SolveEvent
from optplan.contracts.result import relative_gap
from optplan.reporting import style
from optplan.reporting.pages import Block, Charts, Section
from optplan.reporting.phrases import NOTHING, format_seconds, format_share
from optplan.reporting.tables import Column, Table

_MILLISECONDS = style.TimeScale("milliseconds", 1e-3)
#: Steps that the table lists at most; the chart has all.
_MOST_ROWS = 8


def tell_trajectory(result: Result[Solution], objective: str = "objective") -> list[Section]:
    """Tell how the objective, by its name, and the bound came about; nothing where they were known at once."""
    if len(result.events) < 2:
        return []
    reading = (
        "One line is the best plan known at each moment, the other what was proven by then: no plan can pass it. Where "
        "they meet, the proof is complete. A line begins when there is something to show. Times are those of the "
        "machine that solved it."
    )
    chart = ("Step chart: best plan and best bound over the time of the solve", draw_trajectory(result, objective))
    blocks: list[Block] = [Charts([chart], reading), list_steps(result)]
    return [Section("trajectory", "How the answer was found", blocks, "The search", "folded")]


def draw_trajectory(result: Result[Solution], objective: str = "objective") -> style.Figure:
    """Draw the best objective, in its unit or one of time that suits, and the bound over the seconds of a solve."""
    events = result.events
    longest_s = max(event.elapsed_s for event in events)
    across = style.time_scale(longest_s) if longest_s >= 1 else _MILLISECONDS
    known = [abs(value) for event in events for value in (event.objective, event.bound) if value is not None]
    unit = result.objective_unit
    up = style.choose_scale(unit, known)
    figure = style.new_figure(height=320, top=36)
    for name, color, values in (
        ("best plan", style.BLUE, [event.objective for event in events]),
        ("best bound", style.VERMILLION, [event.bound for event in events]),
    ):
        drawn = [
            (
                event.elapsed_s / across.seconds,
                value / up.seconds,
                f"{name}: {style.escape_text(_write(value, unit))}<br>after {format_seconds(event.elapsed_s)}, "
                f"{style.escape_text(event.stage)}",
            )
            for event, value in zip(events, values, strict=True)
            if value is not None
        ]
        look = {"line": {"shape": "hv", "color": color, "width": 2}, "marker": {"size": 5, "color": color}}
        if drawn:
            style.add_points(figure, name, drawn, mode="lines+markers", **look)
    began = {"title_text": f"time since the solve began ({across.unit})", "rangemode": "tozero"}
    return style.finish(figure, began, style.title_axis(objective, up.unit))


def list_steps(result: Result[Solution]) -> Table:
    """List when objective and bound became better, the first and the last ones where there are many."""
    columns = [Column("after", is_number=True), Column("while")]
    columns += [Column(name, is_number=True) for name in ("best plan", "best bound", "gap")]
    events, left_out = result.events, len(result.events) - _MOST_ROWS
    shown = [*events[: _MOST_ROWS // 2], *events[-_MOST_ROWS // 2 :]] if left_out > 0 else events
    rows = [_list_step(event, result) for event in shown]
    if left_out > 0:
        rows.insert(_MOST_ROWS // 2, ("…", f"{left_out} more", "…", "…", "…"))
    return Table("When plan and bound became better", columns, rows)


def _list_step(event: SolveEvent, result: Result[Solution]) -> tuple[str, ...]:
    gap = relative_gap(event.objective, event.bound, result.sense)
    values = (
        NOTHING if value is None else _write(value, result.objective_unit) for value in (event.objective, event.bound)
    )
    return (format_seconds(event.elapsed_s), event.stage, *values, NOTHING if gap is None else format_share(gap))


def _write(value: float, unit: str) -> str:
    return f"{value:,.7g} {unit}"
