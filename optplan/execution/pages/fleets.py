"""Watched fleets for readers: what became of a run, and what has happened to its VMs."""

from __future__ import annotations

from optplan.contracts import Relaxation
from optplan.execution.fleets.running import FleetOutcome
from optplan.execution.records import (
    CheckpointStored,
    CheckpointWanted,
    NodeChanged,
    NodeNoticed,
    OperationFailed,
    OperationStarted,
    OperationWanted,
    Record,
    Replanned,
    Resumed,
)
from optplan.formulations.srift.study.replanning import name_vms
from optplan.reporting.pages import Definitions, Page, Section
from optplan.reporting.phrases import NOTHING, format_seconds, format_usd

#: By how a fleet stands, how good that is.
_BADGES = {"ended": "good", "paused": "fair", "running": "fair"}


def build_fleet_page(outcome: FleetOutcome) -> Page:
    """Build the page of a fleet: what has become of its job, and on which VMs."""
    fleet = outcome.fleets[-1] if outcome.fleets else "no fleet"
    title = f"{outcome.iterations:,} of {outcome.target:,} iterations on {fleet}"
    lead = "virtual fleet: nothing was trained; what happened is what was asked for" if outcome.virtual else outcome.why
    kind = "bad" if outcome.code else _BADGES[outcome.status]
    facts = [Section("facts", "The run", [Definitions(list_facts(outcome))])]
    return Page("", title, lead, outcome.status, kind, sections=facts, window_title="fleet")


def list_facts(outcome: FleetOutcome) -> list[tuple[str, str]]:
    """List the main figures, each with its name."""
    facts = [
        ("status", outcome.status + (f": {outcome.why}" if outcome.why else "")),
        ("fleets", ", then ".join(outcome.fleets) or NOTHING),
        ("lost", name_vms(outcome.lost) or NOTHING),
        ("iterations", f"{outcome.iterations:,} of {outcome.target:,}"),
        ("checkpoint", outcome.checkpoint or NOTHING),
        ("time", format_seconds(outcome.time_s)),
        ("cost", format_usd(outcome.cost_usd)),
    ]
    if outcome.infeasibility is not None:
        would = " or ".join(_write_relaxation(one) for one in outcome.infeasibility.relaxations)
        facts.append(("to go on", f"--resume DIR with {would}" if would else "no limit alone would do"))
        facts.append(("to give up", "--resume DIR --abort"))
    return facts


def describe_record(record: Record) -> str:
    """Say in a line what has happened; empty for what readers need not know."""
    match record:
        case OperationWanted():
            return f"{record.operation} is started on {len(record.place)} VMs"
        case OperationStarted():
            return f"{record.operation} is there and trains"
        case NodeChanged(phase="lost"):
            return f"{record.node} is lost: {record.why}"
        case NodeChanged(phase="ready") if record.why:
            return f"{record.node} {record.why}: it is taken back"
        case NodeNoticed():
            return f"{record.node} will be taken back at {format_seconds(record.at_s)}"
        case CheckpointWanted():
            return f"rank {record.rank} is asked for a checkpoint: {record.why}"
        case CheckpointStored():
            return f"rank {record.rank} has stored {record.iterations:,} iterations"
        case OperationFailed(blameless=False):
            return f"{record.operation} has failed: {record.why}"
        case Replanned():
            return record.why
        case Resumed():
            given = ((name.partition("_")[0], record.options.get(name)) for name in ("deadline_s", "budget_usd"))
            told = ", ".join(f"{name} {_write_amount(name, amount)}" for name, amount in given if amount is not None)
            return f"limits from now on: {told}" if told else ""
        case _:
            return ""


def _write_relaxation(one: Relaxation) -> str:
    least, given = (_write_amount(one.limit, amount) for amount in (one.least_feasible, one.given))
    return f"a {one.limit} of {least} or more (it is {given})"


def _write_amount(limit: str, amount: float) -> str:
    return format_usd(amount) if limit == "budget" else format_seconds(amount)
