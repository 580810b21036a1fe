"""``optplan watch``: a fleet of Srift's, followed by heartbeats, and planned anew when VMs are lost."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from optplan.cli.commands import Command
from optplan.cli.console import note
from optplan.cli.options import BUDGET, DIR, FILE, TIME, Kind
from optplan.cli.outputs import Outputs
from optplan.errors import UsageError
from optplan.units import Amount, BudgetUnit, format_duration, parse_duration

if TYPE_CHECKING:
    from optplan.execution.fleets.running import FleetOutcome
    from optplan.execution.fleets.virtual import Course
    from optplan.execution.records import Record

#: Options that say what happens on the virtual clock.
_COURSE = ("lose", "notice", "back", "boots", "iteration_takes")


def _parse_loss(text: str, *, what: str) -> tuple[str, float]:
    """Read a type of VM and when one goes, as in ``p3.8xlarge@222s``."""
    name, at, time = text.rpartition("@")
    if not (name and at):
        raise UsageError(f"{what}: got {text!r}; a type and when it goes are needed, as in p3.8xlarge@222s")
    return name, parse_duration(time, what=what)


@click.command(
    cls=Command,
    short_help="Follow a fleet by heartbeats, and plan anew when VMs are lost.",
    renamed={"lose": "--lose"},
    examples=(
        "optplan watch plan.json --lose p3.8xlarge@222s --boots 138s --boots 150s --detach 4s --launch 150s",
        'optplan watch plan.json --executor local --command "python train.py" --out runs/fleet',
        "optplan watch plan.json --executor command --command ./vms.sh --out /mnt/shared/fleet",
        "optplan watch --resume /mnt/shared/fleet --deadline 10min",
    ),
)
@click.argument("plan", required=False, metavar="PLAN", type=FILE)
@click.option(
    "--executor",
    type=click.Choice(["virtual", "local", "command"]),
    help="Who starts VMs and ranks; the virtual clock by default.",
)
@click.option(
    "--command", metavar="TEXT", help="What is run: for each rank here, or to start and end fleets elsewhere."
)
@click.option("-o", "--out", type=DIR, help="Folder of the run, which all VMs see; ranks report there.")
@click.option("--resume", "resumed", type=DIR, help="Go on with the run in a folder.")
@click.option("--abort", is_flag=True, help="With --resume: give up, and give all VMs back.")
@click.option("--deadline", type=TIME, help="With --resume: from now on, since the beginning.")
@click.option("--budget", type=BUDGET, help="With --resume: from now on, as in 3usd.")
@click.option("--heartbeat", "heartbeat_s", type=TIME, help="How often every rank reports; 5s by default.")
@click.option("--launch", "launch_s", type=TIME, help="Until new VMs can train; the instance's launch_s unless given.")
@click.option("--launch-wait", "launch_wait_s", type=TIME, help="For a VM's first report; 15min by default.")
@click.option("--return-wait", "return_s", type=TIME, help="For a silent VM to come back; 6 heartbeats by default.")
@click.option("--detach", "detach_s", type=TIME, help="Until what a lost VM has stored can be used; 0s by default.")
@click.option("--grace", "grace_s", type=TIME, help="For a checkpoint, and for ranks to end; 60s by default.")
@click.option(
    "--checkpoint-every", "checkpoint_every_s", type=TIME, help="Unasked, by the lowest rank; 10min by default."
)
@click.option("--retries", type=click.IntRange(min=0), help="Failures without a lost VM; 2 by default.")
@click.option("--time-limit", "time_limit_s", type=TIME, help="For the solver, each time; 20s by default.")
@click.option(
    "--lose", multiple=True, type=Kind("TYPE@TIME", _parse_loss), help="Virtual: a VM that goes; may be repeated."
)
@click.option("--notice", type=TIME, help="Virtual: how long ahead losses are announced.")
@click.option("--back", type=TIME, help="Virtual: after how long VMs that go are there again, as they only stalled.")
@click.option(
    "--boots",
    multiple=True,
    type=TIME,
    help="Virtual: until the new VMs of a fleet are there; of the first, the second, and so on.",
)
@click.option(
    "--iteration-takes",
    multiple=True,
    type=TIME,
    help="Virtual: seconds of an iteration of the first fleet, the second, and so on.",
)
def watch(
    plan: Path | None,
    *,
    out: Path | None,
    resumed: Path | None,
    abort: bool,
    deadline: float | None,
    budget: Amount | None,
    as_json: bool,
    **options: Any,  # noqa: ANN401 - fields of WatchOptions, None where they were not given, and the course
) -> int:
    """Follow the fleet of Srift's PLAN until its job has ended; when VMs are lost, plan the rest anew and go on.

    Ranks report in files (see the page on it, and optplan.execution.fleets.hook, which scripts import). A VM that
    misses two heartbeats is lost: the lowest live rank stores the training, the rest is planned again without new VMs
    of that type, and another fleet goes on from there.

    Exits with 0 when the job is done, with 3 when nothing keeps the limits any more (the answer says what they would
    have to be; --resume goes on with others, or gives up), 1 when it was given up or fleets fail though no VM is
    lost, 4 when no fleet was found in time, 130 when it was interrupted, which leaves the fleet alone.
    """
    from optplan.execution.fleets.running import resume_watch
    from optplan.execution.fleets.running import watch as watch_plan
    from optplan.formulations.srift.planning import SriftPlan
    from optplan.instances.files import read_plan

    outputs = Outputs({}, force=False, as_json=as_json)
    limits = _name_limits(deadline, budget)
    given = {name: value for name, value in options.items() if value not in (None, ())}
    if resumed is not None:
        if plan is not None or out is not None or given:
            raise UsageError("--resume: of other options only --deadline, --budget and --abort can be given")
        outcome = resume_watch(resumed, limits=limits, abort=abort, listener=_tell)
    elif plan is None:
        raise UsageError("PLAN is missing; `optplan solve INSTANCE --plan plan.json` writes one")
    elif limits or abort:
        raise UsageError("--deadline, --budget and --abort belong to --resume; the plan has its own limits")
    else:
        course = _read_course({name: given.pop(name) for name in _COURSE if name in given})
        outcome = watch_plan(read_plan(plan, SriftPlan), out=out, course=course, listener=_tell, **given)
    show_watch(outcome, outputs)
    return outputs.exit_code(outcome.code)


def show_watch(outcome: FleetOutcome, outputs: Outputs) -> None:
    """Print what became of a watched run, or how it stands."""
    from optplan.execution.pages.fleets import list_facts
    from optplan.reporting.tables import fact_table

    told = ["virtual fleet: nothing was trained; what happened is what was asked for"] if outcome.virtual else []
    outputs.answer(outcome, lambda: [*told, fact_table(list_facts(outcome))])


def _name_limits(deadline: float | None, budget: Amount | None) -> dict[str, float]:
    if budget is not None and budget.unit is not BudgetUnit.USD:
        raise UsageError(f"--budget: got {budget}; money in all is needed, as in 3usd")
    given = {"deadline": deadline, "budget": None if budget is None else budget.value}
    return {name: amount for name, amount in given.items() if amount is not None}


def _read_course(given: dict[str, Any]) -> Course | None:
    """Return what happens on the virtual clock; None where nothing was said."""
    from optplan.execution.fleets.virtual import Course, Loss

    if not given:
        return None
    how = given.get("notice", 0.0), given.get("back", math.inf)
    losses = [Loss(name, at_s, *how) for name, at_s in given.get("lose", ())]
    return Course(tuple(losses), given.get("boots", ()), given.get("iteration_takes", ()))


def _tell(record: Record) -> None:
    """Say what happens while it is watched."""
    from optplan.execution.pages.fleets import describe_record

    text = describe_record(record)
    if text:
        note(f"[{format_duration(round(record.t, 1))}] {text}")
