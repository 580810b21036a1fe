"""Streams of jobs served by a BOA plan's widths: followed, gone on with, and looked at."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optplan.cli.console import note
from optplan.cli.outputs import Outputs
from optplan.errors import UsageError
from optplan.execution.cli.searches import find_process, list_logs, say_follower, tell_stop

if TYPE_CHECKING:
    from optplan.contracts.plan import Plan
    from optplan.execution.protocol import Progressed
    from optplan.execution.records import Record
    from optplan.execution.streams.outcomes import StreamOutcome
    from optplan.reporting.pages import Page

__all__ = [
    "NAME",
    "OPTIONS",
    "RESUMED",
    "SIGNAL",
    "build_page",
    "find_process",
    "follow",
    "list_logs",
    "resume",
    "show",
]

NAME, SIGNAL = "a stream of jobs", signal.SIGINT
OPTIONS = (
    *("learn", "table", "inbox", "truth", "train", "command", "executor", "out", "node_gpus", "most_gpus", "order"),
    *(
        "slots",
        "node_start_s",
        "scale_command",
        "address",
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


def follow(plan: Plan, options: dict[str, Any], outputs: Outputs) -> int:
    """Serve the jobs by a plan; print and write what came of it, and return the exit code."""
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
    heard: list[Record] = []
    outcome = run_stream(
        plan,
        read_jobs(jobs),
        instance=known.get("learn"),
        truth=known.get("truth"),
        out=options.pop("out", None),
        listener=make_listener(heard, _describe),
        **_name_fields(options, plan.resources),
    )
    return finish(outcome, outputs, heard)


def resume(folder: Path, options: dict[str, Any], outputs: Outputs) -> int:  # noqa: ARG001 - there are none
    """Go on with the stream in a folder, as :func:`follow` does."""
    from optplan.execution.streams.running import resume_stream

    heard: list[Record] = []
    return finish(resume_stream(folder, listener=make_listener(heard, _describe)), outputs, heard)


def finish(outcome: StreamOutcome, outputs: Outputs, heard: list[Record]) -> int:
    """Print and write what came of a stream, and return the exit code."""
    from optplan.execution.pages.streams import build_stream_page

    _show(outcome, outputs)
    outputs.save_text("--events", lambda _: write_events(heard))
    outputs.save_page("--report", lambda: build_stream_page(outcome))
    return outputs.exit_code(outcome.code)


def show(folder: Path, outputs: Outputs) -> int:
    """Show how the stream in a folder stands."""
    from optplan.execution.streams.running import read_stream

    say_follower(folder, outputs)
    _show(read_stream(folder), outputs)
    return outputs.exit_code(0)


def build_page(folder: Path) -> Page:
    """Build the page of the stream in a folder."""
    from optplan.execution.pages.streams import build_stream_page
    from optplan.execution.streams.running import read_stream

    return build_stream_page(read_stream(folder))


def say_stopped(folder: Path, process: int | None) -> tuple[str, bool]:
    """Say what has become of the wish to stop it."""
    from optplan.execution.streams.running import read_stream

    return tell_stop(folder, process, read_stream(folder).status)


def _show(outcome: StreamOutcome, outputs: Outputs) -> None:
    """Print what became of a stream, or how it stands."""
    from optplan.execution.pages.streams import class_table, list_facts
    from optplan.reporting.tables import fact_table

    told = ["virtual stream: nothing was trained; times are those of the instance"] if outcome.virtual else []
    outputs.answer(outcome, lambda: [*told, class_table(outcome), "", fact_table(list_facts(outcome))])


def _name_fields(options: dict[str, Any], types: Any) -> dict[str, Any]:  # noqa: ANN401 - names of resources
    """Return the fields of StreamOptions that were given."""
    given = {name: value for name, value in options.items() if value not in (None, ())}
    if "sbatch" in given:
        given["sbatch"] = dict(_split(text) for text in given["sbatch"])
    terms: dict[str, float] = {}
    if "node_gpus" in given:
        given["gpus_per_node"] = dict.fromkeys(types, given.pop("node_gpus"))
    if "every_s" in given:
        terms["every_s"] = given.pop("every_s")
        terms["settle_s"] = min(5.0, terms["every_s"] / 4.0)
    if "window_s" in given:
        terms["window_h"] = given.pop("window_s") / 3600.0
    return given | ({"terms": terms} if terms else {})


def _split(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise UsageError(f"--sbatch: got {text!r}; an option and its value are needed, as in partition=gpu")
    return name, value


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


def make_listener(heard: list[Record], describe: Callable[[Record], str]) -> Callable[[Record | Progressed], None]:
    """Make what keeps each record, and tells what is described of it."""
    from optplan.execution.protocol import Progressed
    from optplan.units import format_duration

    def listen(record: Record | Progressed) -> None:
        if isinstance(record, Progressed):
            return
        heard.append(record)
        text = describe(record)
        if text:
            note(f"[{format_duration(round(record.t, 1)) if record.t else '0 s'}] {text}")

    return listen


def write_events(heard: list[Record]) -> str:
    """Write records as lines of JSON."""
    from optplan.execution.records import encode

    return "".join(f"{encode(record)}\n" for record in heard)
