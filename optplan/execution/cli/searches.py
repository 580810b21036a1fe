"""Runs of searches and single jobs: followed, gone on with, and looked at."""

from __future__ import annotations

import math
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optplan.cli.console import Shown
from optplan.errors import UsageError
from optplan.execution.cli.kinds import Told
from optplan.units import BudgetUnit

if TYPE_CHECKING:
    from optplan.contracts.plan import Plan
    from optplan.execution.outcomes import RunOutcome
    from optplan.reporting.pages import Page

NAME = "a search or of one job"
RESUMED = (
    *("budget", "deadline", "retries", "grace_s", "step_timeout_s", "orphan_after_s", "node_wait_s", "slots"),
    *(
        "checkpoint_bytes",
        "launcher",
        "replan_above",
        "slower",
        "dearer",
        "setup",
        "address",
        "storage",
        "sbatch",
        "gres",
        "lucky",
        "metric",
        "mode",
    ),
    *("executor", "train", "command", "seed", "events", "report"),
)
OPTIONS = (*RESUMED, "space", "out")


def follow(plan: Plan, options: dict[str, Any], events: Path | None) -> Told:
    """Follow a plan to its end, and write what happens into a file."""
    from optplan.execution.cli.run_view import RunView
    from optplan.execution.options import RunOptions, make_rules
    from optplan.execution.running import run
    from optplan.execution.state import State
    from optplan.instances.plain_data import read_data

    space, out = options.pop("space", None), options.pop("out", None)
    given = _name_fields(options)
    drawn_from = None if space is None else read_data(space)
    with RunView(State(plan), make_rules(plan, RunOptions(**given)), events=events) as view:
        outcome = run(plan, given.pop("train", None), space=drawn_from, out=out, listener=view.listen, **given)
    return Told(outcome, plan.instance_name)


def resume(folder: Path, options: dict[str, Any], events: Path | None) -> Told:
    """Go on with the run in a folder, as :func:`follow` does."""
    from optplan.execution.cli.run_view import RunView
    from optplan.execution.running import read_run
    from optplan.execution.running import resume as resume_run

    given = _name_fields(options)
    state, rules, _ = read_run(folder)
    with RunView(state, rules, events=events) as view:
        return Told(resume_run(folder, listener=view.listen, **given), state.plan.instance_name)


def read(folder: Path) -> Told:
    """Read how the run in a folder stands."""
    from optplan.execution.outcomes import describe
    from optplan.execution.running import read_run

    state, rules, _ = read_run(folder)
    return Told(describe(state, rules), state.plan.instance_name)


def present(outcome: RunOutcome) -> list[Shown]:
    """Show what a run came to."""
    from optplan.execution.pages.runs import describe_clock, outcome_table, segment_table

    clock = describe_clock(outcome)
    return [*([clock] if clock else []), segment_table(outcome), "", outcome_table(outcome)]


def build_page(told: Told) -> Page:
    """Build the page of a run."""
    from optplan.execution.pages.runs import build_run_page

    return build_run_page(told.outcome, name=told.name)


def list_logs(folder: Path) -> dict[str, Path]:
    """Return what trials wrote, by their names."""
    return {path.parent.name: path for path in sorted(folder.glob("trials/*/output.log"))}


def stop(folder: Path, process: int | None) -> tuple[str, bool]:
    """Ask the process that follows a run to pause; say so, and whether nothing runs on unasked."""
    return ask_to_pause(folder, process, read(folder).outcome.status)


def ask_to_pause(folder: Path, process: int | None, status: str) -> tuple[str, bool]:
    """Ask the process that follows a run to pause, and say what becomes of a run that stands so."""
    if process is not None:
        os.kill(process, signal.SIGINT)
        return f"asked process {process} to pause", True
    if status == "running":
        gone = f"{folder}: whoever followed it is gone; what it has started stores its state and ends by itself"
        return f"{gone} (--orphan-after), and `optplan run --resume {folder}` goes on", False
    return f"{folder}: nobody follows it; it {'has ended' if status == 'ended' else 'is paused'}", True


def split_option(text: str) -> tuple[str, str]:
    """Read an option of sbatch, as in ``partition=gpu``."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise UsageError(f"--sbatch: got {text!r}; an option and its value are needed, as in partition=gpu")
    return name, value


def _name_fields(options: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of RunOptions that were given."""
    from optplan.instances.plain_data import read_data

    fields = dict(options)
    if "sbatch" in fields:
        fields["sbatch"] = dict(split_option(text) for text in fields["sbatch"])
    budget = fields.pop("budget", None)
    if budget is not None:
        if budget.unit is not BudgetUnit.USD:
            raise UsageError(f"--budget: got {budget}; a run is limited in money, as in 25usd")
        fields["budget_usd"] = budget.value
    if "deadline" in fields:
        fields["deadline_s"] = fields.pop("deadline")
    if fields.get("replan_above") == math.inf:
        fields["replan_above"] = None
    if "setup" in fields:
        fields["setup"] = read_data(fields["setup"])
    return fields
