"""Streams of jobs served by a BOA plan's widths: followed, gone on with, and looked at."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from optplan.cli.console import Shown
from optplan.errors import UsageError
from optplan.execution.cli.kinds import Told
from optplan.execution.cli.run_view import tell_records
from optplan.execution.cli.searches import ask_to_pause, list_logs, split_option

if TYPE_CHECKING:
    from optplan.contracts.plan import Plan
    from optplan.execution.records import Record
    from optplan.execution.streams.outcomes import StreamOutcome
    from optplan.reporting.pages import Page

__all__ = ["NAME", "OPTIONS", "RESUMED", "build_page", "follow", "list_logs", "present", "read", "resume", "stop"]

NAME = "a stream of jobs"
OPTIONS = (
    *("learn", "table", "inbox", "truth", "train", "command", "executor", "out", "node_gpus", "most_gpus", "order"),
    *(
        "slots",
        "node_start_s",
        "scale_command",
        "address",
        "storage",
        "sbatch",
        "gres",
        "launcher",
        "metric",
        "retries",
        "grace_s",
    ),
    *("step_timeout_s", "orphan_after_s", "every_s", "window_s", "events", "report"),
)
RESUMED = ("events", "report")


def follow(plan: Plan, options: dict[str, Any], events: Path | None) -> Told:
    """Serve the jobs of a stream by a plan, and write what happens into a file."""
    from optplan.execution.streams.arrivals import read_jobs
    from optplan.execution.streams.running import run_stream
    from optplan.formulations.boa.data.instance import BoaInstance
    from optplan.formulations.boa.planning import BoaPlan
    from optplan.instances.files import read_instance

    jobs = options.pop("jobs", None)
    if jobs is None:
        raise UsageError("JOBS is missing; a plan of a stream is followed for a list of jobs, as in run PLAN jobs.yaml")
    assert isinstance(plan, BoaPlan)  # no other has classes of jobs
    known = {name: read_instance(options.pop(name), BoaInstance) for name in ("learn", "truth") if name in options}
    with tell_records(events, _describe) as listener:
        outcome = run_stream(
            plan,
            read_jobs(jobs),
            instance=known.get("learn"),
            truth=known.get("truth"),
            out=options.pop("out", None),
            listener=listener,
            **_name_fields(options, plan.resources),
        )
    return Told(outcome)


def resume(folder: Path, options: dict[str, Any], events: Path | None) -> Told:  # noqa: ARG001 - there are none
    """Go on with the stream in a folder, as :func:`follow` does."""
    from optplan.execution.streams.running import resume_stream

    with tell_records(events, _describe) as listener:
        return Told(resume_stream(folder, listener=listener))


def read(folder: Path) -> Told:
    """Read how the stream in a folder stands."""
    from optplan.execution.streams.running import read_stream

    return Told(read_stream(folder))


def present(outcome: StreamOutcome) -> list[Shown]:
    """Show what became of a stream."""
    from optplan.execution.pages.streams import class_table, list_facts
    from optplan.reporting.tables import fact_table

    told = ["virtual stream: nothing was trained; times are those of the instance"] if outcome.virtual else []
    return [*told, class_table(outcome), "", fact_table(list_facts(outcome))]


def build_page(told: Told) -> Page:
    """Build the page of a stream."""
    from optplan.execution.pages.streams import build_stream_page

    return build_stream_page(told.outcome)


def stop(folder: Path, process: int | None) -> tuple[str, bool]:
    """Ask the process that serves a stream to pause, as that of a search."""
    return ask_to_pause(folder, process, read(folder).outcome.status)


def _name_fields(options: dict[str, Any], types: Any) -> dict[str, Any]:  # noqa: ANN401 - names of resources
    """Return the fields of StreamOptions that were given."""
    given = {name: value for name, value in options.items() if value not in (None, ())}
    if "sbatch" in given:
        given["sbatch"] = dict(split_option(text) for text in given["sbatch"])
    terms: dict[str, float] = {}
    if "node_gpus" in given:
        given["gpus_per_node"] = dict.fromkeys(types, given.pop("node_gpus"))
    if "every_s" in given:
        terms["every_s"] = given.pop("every_s")
        terms["settle_s"] = min(5.0, terms["every_s"] / 4.0)
    if "window_s" in given:
        terms["window_h"] = given.pop("window_s") / 3600.0
    return given | ({"terms": terms} if terms else {})


def _describe(record: Record) -> str:
    """Say what a reader should know while a stream is served; empty for the rest."""
    from optplan.execution.records import Noted, OperationFailed, TablePublished, TrialDropped

    match record:
        case TablePublished():
            return f"new widths: {record.why}"
        case OperationFailed():
            return f"{record.operation} {record.why}"
        case Noted():
            return record.text
        case TrialDropped():
            return f"{record.trial} is given up: {record.why}"
        case _:
            return ""
