"""How a solve went: the best plan and the best bound over its time, until they met or the solver stopped."""

from __future__ import annotations

from optplan.contracts import Result, Solution, SolveEvent
from optplan.contracts.result import relative_gap, write_amount
from optplan.reporting.pages import Section
from optplan.reporting.phrases import NOTHING, format_seconds, format_share
from optplan.reporting.tables import Column, Table, numbers, numeric

#: Steps that the table lists at most.
_MOST_ROWS = 8


def tell_trajectory(result: Result[Solution]) -> list[Section]:
    """Tell how the objective and the bound came about; nothing where they were known at once."""
    if len(result.events) < 2:
        return []
    said = "Times are those of the machine that solved it. No plan can pass the bound; where both meet, it is proven."
    return [Section("trajectory", "How the answer was found", [said, list_steps(result)], "The search", "folded")]


def list_steps(result: Result[Solution]) -> Table:
    """List when objective and bound became better, the first and the last ones where there are many."""
    columns = (numeric("after"), Column("while"), *numbers("best plan", "best bound", "gap"))
    events, left_out = result.events, len(result.events) - _MOST_ROWS
    shown = [*events[: _MOST_ROWS // 2], *events[-_MOST_ROWS // 2 :]] if left_out > 0 else events
    rows = [_list_step(event, result) for event in shown]
    if left_out > 0:
        rows.insert(_MOST_ROWS // 2, ("…", f"{left_out} more", "…", "…", "…"))
    return Table("When plan and bound became better", columns, rows)


def _list_step(event: SolveEvent, result: Result[Solution]) -> tuple[str, ...]:
    gap = relative_gap(event.objective, event.bound, result.sense)
    values = [
        NOTHING if value is None else write_amount(value, result.objective_unit)
        for value in (event.objective, event.bound)
    ]
    return (format_seconds(event.elapsed_s), event.stage, *values, NOTHING if gap is None else format_share(gap))
