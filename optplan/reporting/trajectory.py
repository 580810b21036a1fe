"""How a solve went: the best plan and the best bound over its time, until they met or the solver stopped."""

from __future__ import annotations

from optplan.contracts import Result, Solution
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

    def write(amount: float | None) -> str:
        return NOTHING if amount is None else write_amount(amount, result.objective_unit)

    columns = (numeric("after"), Column("while"), *numbers("best plan", "best bound", "gap"))
    rows = []
    for event in result.events:
        gap = relative_gap(event.objective, event.bound, result.sense)
        known = format_seconds(event.elapsed_s), event.stage, write(event.objective), write(event.bound)
        rows.append((*known, NOTHING if gap is None else format_share(gap)))
    left_out = len(rows) - _MOST_ROWS
    if left_out > 0:
        rows[_MOST_ROWS // 2 : -_MOST_ROWS // 2] = [("…", f"{left_out} more", "…", "…", "…")]
    return Table("When plan and bound became better", columns, rows)
