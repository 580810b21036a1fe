"""Fleets of Srift's followed by heartbeats, and planned anew when VMs are lost: followed, gone on with, looked at."""

from __future__ import annotations

import math
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optplan.cli.outputs import Outputs
from optplan.errors import DataError, UsageError
from optplan.execution.cli.searches import find_process, say_follower, tell_stop
from optplan.execution.cli.streams import make_listener, write_events
from optplan.units import BudgetUnit

if TYPE_CHECKING:
    from optplan.contracts.plan import Plan
    from optplan.execution.fleets.running import FleetOutcome
    from optplan.execution.fleets.virtual import Course
    from optplan.execution.records import Record
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

NAME, SIGNAL = "a fleet", signal.SIGINT
#: What happens on the virtual clock.
_COURSE = ("lose", "notice", "back", "boots", "iteration_takes")
OPTIONS = (
    *("executor", "command", "out", "heartbeat_s", "launch_s", "launch_wait_s", "return_s", "detach_s", "grace_s"),
    *("checkpoint_every_s", "retries", "time_limit_s", *_COURSE, "events", "report"),
)
RESUMED = ("deadline", "budget", "abort", "events", "report")


def follow(plan: Plan, options: dict[str, Any], outputs: Outputs) -> int:
    """Follow the fleet of a plan; print and write what came of it, and return the exit code."""
    from optplan.execution.fleets.running import watch
    from optplan.execution.pages.fleets import describe_record
    from optplan.formulations.srift.planning import SriftPlan

    assert isinstance(plan, SriftPlan)  # as the kind of the plan says
    if not plan.segments:
        raise DataError("plan.segments", "has none, so that nothing would run", "make the plan anew")
    course = _read_course({name: options.pop(name) for name in _COURSE if name in options})
    heard: list[Record] = []
    listener = make_listener(heard, describe_record)
    outcome = watch(plan, out=options.pop("out", None), course=course, listener=listener, **options)
    return _finish(outcome, outputs, heard)


def resume(folder: Path, options: dict[str, Any], outputs: Outputs) -> int:
    """Go on with the fleet in a folder, as :func:`follow` does."""
    from optplan.execution.fleets.running import resume_watch
    from optplan.execution.pages.fleets import describe_record

    limits = _name_limits(options)
    heard: list[Record] = []
    listener = make_listener(heard, describe_record)
    outcome = resume_watch(folder, limits=limits, abort=options.get("abort", False), listener=listener)
    return _finish(outcome, outputs, heard)


def show(folder: Path, outputs: Outputs) -> int:
    """Show how the fleet in a folder stands."""
    from optplan.execution.fleets.running import read_watch

    say_follower(folder, outputs)
    _show(read_watch(folder), outputs)
    return outputs.exit_code(0)


def build_page(folder: Path) -> Page:
    """Build the page of the fleet in a folder."""
    from optplan.execution.fleets.running import read_watch
    from optplan.execution.pages.fleets import build_fleet_page

    return build_fleet_page(read_watch(folder))


def list_logs(folder: Path) -> dict[str, Path]:
    """Return what the ranks of each fleet wrote, and what the user's command said."""
    written = {path.parent.name: path for path in sorted(folder.glob("fleets/*/output.log"))}
    commands = folder / "commands.log"
    return written | ({"commands": commands} if commands.is_file() else {})


def say_stopped(folder: Path, process: int | None) -> tuple[str, bool]:
    """Say what has become of the wish to stop it: VMs go on."""
    from optplan.execution.fleets.running import read_watch

    status = read_watch(folder).status
    going_on = f"its VMs go on, and `optplan run --resume {folder} --abort` gives them back"
    if process is not None:
        return f"asked process {process} to pause; {going_on}", True
    return (f"{folder}: nobody follows it; {going_on}", False) if status != "ended" else tell_stop(folder, None, status)


def _finish(outcome: FleetOutcome, outputs: Outputs, heard: list[Record]) -> int:
    from optplan.execution.pages.fleets import build_fleet_page

    _show(outcome, outputs)
    outputs.save_text("--events", lambda _: write_events(heard))
    outputs.save_page("--report", lambda: build_fleet_page(outcome))
    return outputs.exit_code(outcome.code)


def _show(outcome: FleetOutcome, outputs: Outputs) -> None:
    """Print what became of a watched run, or how it stands."""
    from optplan.execution.pages.fleets import list_facts
    from optplan.reporting.tables import fact_table

    told = ["virtual fleet: nothing was trained; what happened is what was asked for"] if outcome.virtual else []
    outputs.answer(outcome, lambda: [*told, fact_table(list_facts(outcome))])


def _name_limits(options: dict[str, Any]) -> dict[str, float]:
    """Return the limits that hold from now on."""
    limits = {"deadline": options["deadline"]} if "deadline" in options else {}
    budget = options.get("budget")
    if budget is not None:
        if budget.unit is not BudgetUnit.USD:
            raise UsageError(f"--budget: got {budget}; money in all is needed, as in 3usd")
        limits["budget"] = budget.value
    return limits


def _read_course(given: dict[str, Any]) -> Course | None:
    """Return what happens on the virtual clock; None where nothing was said."""
    from optplan.execution.fleets.virtual import Course, Loss

    if not given:
        return None
    how = given.get("notice", 0.0), given.get("back", math.inf)
    losses = [Loss(name, at_s, *how) for name, at_s in given.get("lose", ())]
    return Course(tuple(losses), given.get("boots", ()), given.get("iteration_takes", ()))
