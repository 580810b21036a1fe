"""``optplan run``, ``status``, ``logs`` and ``stop``: plans followed, looked at and stopped."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from optplan.cli.commands import Command
from optplan.cli.console import note, print_answer, print_either, print_json
from optplan.cli.options import BUDGET, DIR, FILE, TIME, Kind, parse_share
from optplan.cli.outputs import Outputs
from optplan.errors import UsageError, nearest_name_hint
from optplan.execution.cli.streaming import show_stream
from optplan.execution.cli.watching import show_watch
from optplan.units import Amount, BudgetUnit, parse_bytes

if TYPE_CHECKING:
    from optplan.execution.outcomes import RunOutcome

_FACTOR = click.FloatRange(min=0, min_open=True)
_EXECUTORS = ("virtual", "local", "ray")
#: Lines of a log that are shown.
_LINES = 40
#: Says that the rest is not to be planned anew.
_NEVER = "never"


def _parse_part(text: str, *, what: str) -> float | str:
    """Read a part as ``20%`` or ``0.2``, or the word that stands for none."""
    part = parse_share(text)
    if text != _NEVER and not 0 <= part < math.inf:
        raise UsageError(f"{what}: got {text!r}; a part is needed, as in 20%, or {_NEVER!r}")
    return text if text == _NEVER else part


@click.command(
    cls=Command,
    short_help="Follow a plan: on a virtual clock, with processes here, or on Ray.",
    examples=(
        "optplan run plan.json",
        "optplan run plan.json --sample --seed 3 --json",
        "optplan run plan.json --train train.py:Trainable --space space.yaml --executor local --out runs/first",
        "optplan run --resume runs/first",
    ),
    renamed={
        "grace_s": "--grace",
        "orphan_after_s": "--orphan-after",
        "step_timeout_s": "--step-timeout",
        "checkpoint_bytes": "--checkpoint-space",
        "lucky": "--sample",
    },
    writes={
        "events": "Write every event as a line of JSON.",
        "report": "Write planned against actual as an HTML page.",
    },
)
@click.argument("plan", required=False, metavar="PLAN", type=DIR)
@click.option("--train", metavar="TARGET", help="What to train: module:Trainable, or file.py:Trainable.")
@click.option("--command", metavar="TEXT", help="A command line to train with, instead of --train.")
@click.option("--space", type=FILE, help="What configurations are drawn from (YAML or JSON).")
@click.option("--executor", type=click.Choice(_EXECUTORS), help="Where it runs; the virtual clock by default.")
@click.option("--out", type=DIR, help="Folder of the run; with it the run can be resumed.")
@click.option("--resume", "resumed", type=DIR, help="Go on with the run in a folder.")
@click.option("--metric", metavar="NAME", help="By what trials are ranked; the plan's by default.")
@click.option("--mode", type=click.Choice(["min", "max"]), help="Which values of it are better.")
@click.option("--seed", type=click.IntRange(min=0), help="Draws configurations, and luck on the virtual clock.")
@click.option(
    "--sample", "lucky", is_flag=True, default=None, help="Let times vary on the virtual clock.", show_default=False
)
@click.option("--budget", type=BUDGET, help="Hard limit on the cost: 25usd.")
@click.option("--deadline", type=TIME, help="Hard limit on the time: 20min.")
@click.option("--retries", type=click.IntRange(min=0), help="Failures of a trial that are forgiven; 2 by default.")
@click.option("--grace", type=TIME, help="Time to store a checkpoint when stopped: 30s.")
@click.option(
    "--step-timeout",
    type=TIME,
    help="An iteration that takes longer is a failure; 20 times what is planned, at least 5min, by default.",
)
@click.option("--orphan-after", type=TIME, help="Trials store their state and end so long after their driver: 10min.")
@click.option("--node-wait", type=TIME, help="How long to wait for nodes: 10min.")
@click.option("--slots", type=click.IntRange(min=1), help="GPUs or CPU slots of this machine that may be used.")
@click.option("--checkpoint-space", metavar="SIZE", help="What checkpoints may take, as in 20GB; 10GB by default.")
@click.option("--launcher", type=click.Choice(["single", "torchrun"]), help="One process for a trial, or one a worker.")
@click.option(
    "--replan-above",
    type=Kind("PART", _parse_part),
    help="Plan the rest anew when time or cost is off by more than this: 20% by default, or never.",
)
@click.option(
    "--slower", metavar="FACTOR", type=_FACTOR, help="On the virtual clock trials take so many times as long."
)
@click.option("--dearer", metavar="FACTOR", type=_FACTOR, help="On the virtual clock nodes cost so many times as much.")
@click.option("--setup", type=FILE, help="What machines need before they train (YAML or JSON).")
@click.option("--address", metavar="ADDR", help="Of a Ray cluster, HOST:PORT or auto; without it one is made here.")
def run(
    plan: Path | None,
    *,
    space: Path | None,
    setup: Path | None,
    out: Path | None,
    resumed: Path | None,
    budget: Amount | None,
    outputs: Outputs,
    **options: Any,  # noqa: ANN401 - the fields of RunOptions, None where they were not given
) -> int:
    """Follow the PLAN of a search or of one job, and show what was planned beside what happened.

    On the virtual clock nothing is trained, so that there is no winner: times and costs are those that the plan
    expects, or with --sample drawn around them. With --train trials are trained here and at once. A run with --out can
    be interrupted at any moment, also by kill -9, and goes on with --resume.

    Exits with 0 when it is done, 1 when every trial failed or none has reported a number, 3 when the rest cannot keep
    its limits any more, 4 when it stopped at a limit, 130 when it was interrupted (143 by SIGTERM, 129 when its
    terminal was closed).
    """
    from optplan.execution.cli.run_view import RunView
    from optplan.execution.options import RunOptions, make_rules
    from optplan.execution.running import read_run
    from optplan.execution.running import resume as resume_run
    from optplan.execution.running import run as run_plan
    from optplan.execution.state import State
    from optplan.instances.files import read_plan
    from optplan.instances.plain_data import read_data

    given = _name_options(options, budget)
    if setup is not None:
        given["setup"] = read_data(setup)
    events = outputs.path("--events")
    if resumed is not None:
        refused = sorted({"--space": space, "--out": out, "PLAN": plan}.items(), key=str)
        _refuse([name for name, value in refused if value is not None])
        state, rules, _ = read_run(resumed)
        with RunView(state, rules, events=events) as view:
            outcome = resume_run(resumed, listener=view.listen, **given)
        return _show(outcome, outputs, name=state.plan.instance_name)
    if plan is None:
        raise UsageError("PLAN is missing; `optplan solve NAME --plan plan.json` writes one, and --resume needs none")
    followed = read_plan(plan)
    drawn_from = None if space is None else read_data(space)
    with RunView(State(followed), make_rules(followed, RunOptions(**given)), events=events) as view:
        outcome = run_plan(followed, given.pop("train", None), space=drawn_from, out=out, listener=view.listen, **given)
    return _show(outcome, outputs, name=followed.instance_name)


@click.command(
    cls=Command,
    short_help="Show how a run stands, or several beside one another.",
    examples=("optplan status runs/first --report run.html", "optplan status runs/elastic runs/static"),
    writes={"report": "Write planned against actual as an HTML page."},
)
@click.argument("folders", metavar="DIR...", type=DIR, nargs=-1, required=True)
def status(folders: tuple[Path, ...], *, outputs: Outputs) -> int:
    """Show how the run in a folder stands, whether or not it is being followed; or several, planned and actual."""
    from optplan.execution.fleets.running import read_watch
    from optplan.execution.journal import read_kind
    from optplan.execution.outcomes import describe
    from optplan.execution.running import read_run
    from optplan.execution.streams.running import read_stream

    if len(folders) > 1:
        return _compare(folders, outputs)
    folder = folders[0]
    kind = read_kind(folder)
    if kind == "fleet":
        show_watch(read_watch(folder), outputs)
        return outputs.exit_code(0)
    if kind == "stream":
        show_stream(read_stream(folder), outputs)
        return outputs.exit_code(0)
    state, rules, _ = read_run(folder)
    outcome = describe(state, rules)
    if not outputs.as_json:
        driver = find_driver(folder)
        what = f"{folder}: {'virtual run, ' if outcome.virtual else ''}"
        print_answer(what + ("nobody follows it" if driver is None else f"followed by process {driver}"))
    _show(outcome, outputs, name=state.plan.instance_name)
    return outputs.exit_code(0)


@click.command(cls=Command, short_help="Show what trials wrote.", examples=("optplan logs runs/first trials-0001",))
@click.argument("folder", metavar="DIR", type=DIR)
@click.argument("trial", required=False, metavar="[TRIAL]")
@click.option("--lines", type=click.IntRange(min=1), default=_LINES, help="How many, at most.")
def logs(folder: Path, trial: str | None, *, lines: int, as_json: bool) -> int:
    """Show the last lines that a trial wrote; without TRIAL, list the trials that wrote any."""
    written = {path.parent.name: path for path in sorted(folder.glob("trials/*/output.log"))}
    if trial is None:
        print_either({"trials": list(written)}, "".join(f"{name}\n" for name in written), as_json=as_json)
        return 0
    if trial not in written:
        raise UsageError(f"{folder}: trial {trial!r} has written nothing; {nearest_name_hint(trial, written)}")
    text = written[trial].read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]
    print_either({"trial": trial, "lines": text}, "".join(f"{line}\n" for line in text), as_json=as_json)
    return 0


@click.command(cls=Command, short_help="Stop a run; it can be resumed.", examples=("optplan stop runs/first",))
@click.argument("folder", metavar="DIR", type=DIR)
def stop(folder: Path, *, as_json: bool) -> int:
    """Ask whoever follows the run in a folder to store everything and to pause, as Ctrl-C there would."""
    driver = find_driver(folder)
    if driver is not None:
        os.kill(driver, signal.SIGINT)
    if as_json:
        print_json({"driver": driver, "asked": driver is not None})
    else:
        note("nobody follows it" if driver is None else f"asked process {driver} to pause")
    return 0


def find_driver(folder: Path) -> int | None:
    """Return the process that follows the run in a folder; None where nobody does.

    Raises
    ------
    UsageError
        When no run is there.
    """
    from optplan.execution.locks import find_holder

    if not folder.is_dir():
        raise UsageError(f"{folder}: no run is there; give the folder that --out named")
    return find_holder(folder)


def _compare(folders: Sequence[Path], outputs: Outputs) -> int:
    """Show runs beside one another."""
    from optplan.execution.outcomes import describe
    from optplan.execution.pages.runs import build_comparison_page, comparison_table
    from optplan.execution.running import read_run

    runs = {}
    for folder in folders:
        state, rules, _ = read_run(folder)
        runs[str(folder)] = describe(state, rules)
    data = {"runs": {name: outcome.to_json_data() for name, outcome in runs.items()}}
    outputs.answer(data, lambda: [comparison_table(runs)])
    outputs.save_page("--report", lambda: build_comparison_page(runs))
    return outputs.exit_code(0)


def _name_options(options: dict[str, Any], budget: Amount | None) -> dict[str, Any]:
    """Return the fields of RunOptions that were given."""
    if budget is not None and budget.unit is not BudgetUnit.USD:
        raise UsageError(f"--budget: got {budget}; a run is limited in money, as in 25usd")
    names = {name: f"{name}_s" for name in ("deadline", "grace", "node_wait", "step_timeout", "orphan_after")}
    fields = {names.get(name, name): value for name, value in options.items() if value is not None}
    if "checkpoint_space" in fields:
        fields["checkpoint_bytes"] = parse_bytes(fields.pop("checkpoint_space"), what="--checkpoint-space")
    if fields.get("replan_above") == _NEVER:
        fields["replan_above"] = None
    return fields if budget is None else fields | {"budget_usd": budget.value}


def _refuse(names: list[str]) -> None:
    if names:
        raise UsageError(f"--resume: {', '.join(names)} cannot be given as well; the run has its own")


def _show(outcome: RunOutcome, outputs: Outputs, *, name: str) -> int:
    """Print what a run came to, write its page, and return the exit code."""
    from optplan.execution.pages.runs import build_run_page, describe_clock, outcome_table, segment_table

    tables = (segment_table(outcome), "", outcome_table(outcome))
    outputs.answer(outcome, lambda: [*filter(None, [describe_clock(outcome)]), *tables])
    outputs.save_page("--report", lambda: build_run_page(outcome, name=name))
    return outputs.exit_code(outcome.code)
