"""Fleets of Srift's followed by heartbeats, and planned anew when VMs are lost: followed, gone on with, looked at."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optplan.cli.console import Shown
from optplan.errors import DataError, UsageError
from optplan.execution.cli.kinds import Told
from optplan.execution.cli.run_view import tell_records
from optplan.execution.cli.searches import ask_to_pause, split_option
from optplan.units import BudgetUnit

if TYPE_CHECKING:
    from optplan.contracts.plan import Plan
    from optplan.execution.fleets.running import FleetOutcome
    from optplan.execution.fleets.virtual import Course
    from optplan.reporting.pages import Page

NAME = "a fleet"
#: What happens on the virtual clock.
_COURSE = ("lose", "notice", "back", "boots", "iteration_takes")
OPTIONS = (
    *("executor", "command", "out", "heartbeat_s", "launch_s", "launch_wait_s", "return_s", "detach_s", "grace_s"),
    *("address", "sbatch", "gres", "checkpoint_every_s", "retries", "time_limit_s", *_COURSE, "events", "report"),
)
RESUMED = ("deadline", "budget", "abort", "events", "report")


def follow(plan: Plan, options: dict[str, Any], events: Path | None) -> Told:
    """Follow the fleet of a plan, and write what happens into a file."""
    from optplan.execution.fleets.running import watch
    from optplan.execution.pages.fleets import describe_record
    from optplan.formulations.srift.planning import SriftPlan

    assert isinstance(plan, SriftPlan)  # as the kind of the plan says
    if not plan.segments:
        raise DataError("plan.segments", "has none, so that nothing would run", "make the plan anew")
    if "sbatch" in options:
        options["sbatch"] = dict(split_option(text) for text in options["sbatch"])
    course = _read_course({name: options.pop(name) for name in _COURSE if name in options})
    with tell_records(events, describe_record) as listener:
        return Told(watch(plan, out=options.pop("out", None), course=course, listener=listener, **options))


def resume(folder: Path, options: dict[str, Any], events: Path | None) -> Told:
    """Go on with the fleet in a folder, as :func:`follow` does."""
    from optplan.execution.fleets.running import resume_watch
    from optplan.execution.pages.fleets import describe_record

    limits = _name_limits(options)
    with tell_records(events, describe_record) as listener:
        return Told(resume_watch(folder, limits=limits, abort=options.get("abort", False), listener=listener))


def read(folder: Path) -> Told:
    """Read how the fleet in a folder stands."""
    from optplan.execution.fleets.running import read_watch

    return Told(read_watch(folder))


def present(outcome: FleetOutcome) -> list[Shown]:
    """Show what became of a fleet."""
    from optplan.execution.pages.fleets import list_facts
    from optplan.reporting.tables import fact_table

    told = ["virtual fleet: nothing was trained; what happened is what was asked for"] if outcome.virtual else []
    return [*told, fact_table(list_facts(outcome))]


def build_page(told: Told) -> Page:
    """Build the page of a fleet."""
    from optplan.execution.pages.fleets import build_fleet_page

    return build_fleet_page(told.outcome)


def list_logs(folder: Path) -> dict[str, Path]:
    """Return what the ranks of each fleet wrote, and what the user's command said."""
    written = {path.parent.name: path for path in sorted(folder.glob("fleets/*/output.log"))}
    commands = folder / "commands.log"
    return written | ({"commands": commands} if commands.is_file() else {})


def stop(folder: Path, process: int | None) -> tuple[str, bool]:
    """Ask the process that follows a fleet to pause: its VMs go on."""
    status = read(folder).outcome.status
    said, is_stopped = ask_to_pause(folder, process, status)
    if status == "ended":
        return said, is_stopped
    going_on = f"its VMs go on, and `optplan run --resume {folder} --abort` gives them back"
    return (f"{said}; {going_on}", True) if process is not None else (f"{folder}: nobody follows it; {going_on}", False)


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
