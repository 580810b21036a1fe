"""Runs of plans: what was planned beside what happened, and how a run stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optplan.reporting.phrases import NOTHING, format_seconds
from optplan.reporting.tables import add_row, fact_table, new_table
from optplan.runtime.outcomes import RunOutcome, SegmentOutcome, Winner
from optplan.units import format_duration

if TYPE_CHECKING:
    from rich.table import Table

#: Columns of planned against actual: a heading, and whether it holds numbers.
COLUMNS = (
    ("segment", False),
    ("trials", True),
    ("time planned", True),
    ("actual", True),
    ("pause planned", True),
    ("actual", True),
    ("iteration planned", True),
    ("actual", True),
    ("cost planned", True),
    ("actual", True),
)


def segment_table(outcome: RunOutcome) -> Table:
    """Make the table of planned against actual, the whole run in its last row."""
    table = new_table(*COLUMNS)
    for segment in outcome.segments:
        add_row(table, *list_cells(segment))
    add_row(
        table,
        "in all",
        f"{outcome.trials:,}",
        _seconds(outcome.planned_s),
        _seconds(outcome.time_s),
        "",
        "",
        "",
        "",
        _usd(outcome.planned_usd),
        _usd(outcome.cost_usd),
    )
    return table


def list_cells(segment: SegmentOutcome) -> tuple[str, ...]:
    """Write a segment as a row of :data:`COLUMNS`."""
    return (
        segment.label or segment.id,
        f"{segment.trials:,}",
        _seconds(segment.planned_s),
        _seconds(segment.actual_s),
        _seconds(segment.planned_pause_s),
        _seconds(segment.actual_pause_s),
        _seconds(segment.planned_iteration_s),
        _seconds(segment.iteration_s),
        _usd(segment.planned_usd),
        _usd(segment.actual_usd),
    )


def outcome_table(outcome: RunOutcome) -> Table:
    """Make the table of what a run came to."""
    facts = [("status", outcome.status + (f": {outcome.why}" if outcome.why else ""))]
    if outcome.winner is not None:
        facts += _list_winner("winner", outcome.winner)
    elif outcome.best is not None:
        facts += _list_winner("best so far", outcome.best)
    facts.append(("time", _compare(_seconds(outcome.time_s), _seconds(outcome.planned_s))))
    facts.append(("cost", _compare(_usd(outcome.cost_usd), _usd(outcome.planned_usd))))
    facts += [("gave up", f"{trial}: {why}") for trial, why in outcome.failed.items()]
    facts += [("note", note) for note in outcome.notes]
    return fact_table(facts)


def _list_winner(what: str, winner: Winner) -> list[tuple[str, str]]:
    shown = NOTHING if winner.metric is None else f"{winner.metric:.6g}"
    facts = [(what, f"{winner.trial}, {shown} after {winner.iterations:,} iterations")]
    if winner.configuration:
        facts.append(("configuration", ", ".join(f"{name}={value}" for name, value in winner.configuration.items())))
    if winner.checkpoint is not None:
        facts.append(("checkpoint", winner.checkpoint))
    return facts


def _compare(actual: str, planned: str) -> str:
    return actual if planned == NOTHING else f"{actual} (planned {planned})"


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return NOTHING
    return format_duration(seconds) if seconds >= 60 else format_seconds(seconds) if seconds else "0 s"


def _usd(usd: float | None) -> str:
    return NOTHING if usd is None else f"${usd:,.4f}" if usd < 1 else f"${usd:,.2f}"
