"""Runs of searches and single jobs: followed, gone on with, and looked at."""

from __future__ import annotations

import math
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optplan.cli.console import print_answer
from optplan.cli.outputs import Outputs
from optplan.errors import UsageError
from optplan.units import BudgetUnit

if TYPE_CHECKING:
    from optplan.contracts.plan import Plan
    from optplan.execution.outcomes import RunOutcome
    from optplan.reporting.pages import Page

NAME, SIGNAL = "a search or of one job", signal.SIGINT
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
        "lucky",
        "metric",
        "mode",
    ),
    *("executor", "train", "command", "seed", "events", "report"),
)
OPTIONS = (*RESUMED, "space", "out")


def follow(plan: Plan, options: dict[str, Any], outputs: Outputs) -> int:
    """Follow a plan; print and write what came of it, and return the exit code."""
    from optplan.execution.cli.run_view import RunView
    from optplan.execution.options import RunOptions, make_rules
    from optplan.execution.running import run
    from optplan.execution.state import State
    from optplan.instances.plain_data import read_data

    space, out = options.pop("space", None), options.pop("out", None)
    given = _name_fields(options)
    drawn_from = None if space is None else read_data(space)
    events = outputs.path("--events")
    with RunView(State(plan), make_rules(plan, RunOptions(**given)), events=events) as view:
        outcome = run(plan, given.pop("train", None), space=drawn_from, out=out, listener=view.listen, **given)
    return _show(outcome, outputs, name=plan.instance_name)


def resume(folder: Path, options: dict[str, Any], outputs: Outputs) -> int:
    """Go on with the run in a folder, as :func:`follow` does."""
    from optplan.execution.cli.run_view import RunView
    from optplan.execution.running import read_run
    from optplan.execution.running import resume as resume_run

    given = _name_fields(options)
    state, rules, _ = read_run(folder)
    with RunView(state, rules, events=outputs.path("--events")) as view:
        outcome = resume_run(folder, listener=view.listen, **given)
    return _show(outcome, outputs, name=state.plan.instance_name)


def show(folder: Path, outputs: Outputs) -> int:
    """Show how the run in a folder stands."""
    outcome, name = _read(folder)
    say_follower(folder, outputs, "virtual run, " if outcome.virtual else "")
    _show(outcome, outputs, name=name)
    return outputs.exit_code(0)


def compare(folders: Sequence[Path], outputs: Outputs) -> int:
    """Show runs beside one another."""
    from optplan.execution.pages.runs import comparison_table

    runs = {str(folder): _read(folder)[0] for folder in folders}
    data = {"runs": {name: outcome.to_json_data() for name, outcome in runs.items()}}
    outputs.answer(data, lambda: [comparison_table(runs)])
    return outputs.exit_code(0)


def compare_pages(folders: Sequence[Path]) -> Page:
    """Build the page of runs beside one another."""
    from optplan.execution.pages.runs import build_comparison_page

    return build_comparison_page({str(folder): _read(folder)[0] for folder in folders})


def build_page(folder: Path) -> Page:
    """Build the page of the run in a folder."""
    from optplan.execution.pages.runs import build_run_page

    outcome, name = _read(folder)
    return build_run_page(outcome, name=name)


def list_logs(folder: Path) -> dict[str, Path]:
    """Return what trials wrote, by their names."""
    return {path.parent.name: path for path in sorted(folder.glob("trials/*/output.log"))}


def find_process(folder: Path) -> int | None:
    """Return the process that follows the run; None where nobody does."""
    from optplan.execution.locks import find_holder

    return find_holder(folder)


def say_follower(folder: Path, outputs: Outputs, what: str = "") -> None:
    """Say to readers which process follows the run in a folder."""
    if not outputs.as_json:
        process = find_process(folder)
        said = "nobody follows it" if process is None else f"followed by process {process}"
        print_answer(f"{folder}: {what}{said}")


def say_stopped(folder: Path, process: int | None) -> tuple[str, bool]:
    """Say what has become of the wish to stop, and whether nothing runs on unasked."""
    return tell_stop(folder, process, _read(folder)[0].status)


def tell_stop(folder: Path, process: int | None, status: str) -> tuple[str, bool]:
    """Say what has become of the wish to stop a run that stands so."""
    if process is not None:
        return f"asked process {process} to pause", True
    if status == "running":
        gone = f"{folder}: whoever followed it is gone; what it has started stores its state and ends by itself"
        return f"{gone} (--orphan-after), and `optplan run --resume {folder}` goes on", False
    return f"{folder}: nobody follows it; it {'has ended' if status == 'ended' else 'is paused'}", True


def _read(folder: Path) -> tuple[RunOutcome, str]:
    from optplan.execution.outcomes import describe
    from optplan.execution.running import read_run

    state, rules, _ = read_run(folder)
    return describe(state, rules), state.plan.instance_name


def _name_fields(options: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of RunOptions that were given."""
    from optplan.instances.plain_data import read_data

    fields = dict(options)
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


def _show(outcome: RunOutcome, outputs: Outputs, *, name: str) -> int:
    """Print what a run came to, write its page, and return the exit code."""
    from optplan.execution.pages.runs import build_run_page, describe_clock, outcome_table, segment_table

    tables = (segment_table(outcome), "", outcome_table(outcome))
    outputs.answer(outcome, lambda: [*filter(None, [describe_clock(outcome)]), *tables])
    outputs.save_page("--report", lambda: build_run_page(outcome, name=name))
    return outputs.exit_code(outcome.code)
