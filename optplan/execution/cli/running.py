"""``optplan run``: plans followed, whatever their kind: of a search, of a stream of jobs, of a fleet.

``optplan status``, ``logs`` and ``stop``: what is in a folder, looked at and stopped, whatever its kind.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from optplan.cli.commands import Command, refuse_but
from optplan.cli.console import note, print_either, print_json
from optplan.cli.options import DATA, DIR, FILE, TIME, HeadedOption, flag, list_fields, named, parse_share, with_options
from optplan.cli.options import Kind as Value
from optplan.cli.outputs import Outputs
from optplan.errors import UsageError, nearest_name_hint
from optplan.execution.cli.kinds import RunKind, kind_of_folder, kind_of_plan
from optplan.execution.fields import FleetFields, LimitFields, RunFields, SearchFields, StreamFields, TrainingFields
from optplan.execution.online.fields import TermFields
from optplan.execution.trial_files import DRIVER_LOCK, find_holder, is_open
from optplan.units import BudgetUnit, parse_budget, parse_duration

if TYPE_CHECKING:
    from optplan.reporting.pages import Page

#: Says that the rest is not to be planned anew.
_NEVER = "never"


def _parse_part(text: str, *, what: str) -> float:
    """Read a part as ``20%`` or ``0.2``; the word that stands for none is without end."""
    part = math.inf if text == _NEVER else parse_share(text)
    if not 0 <= part < math.inf and text != _NEVER:
        raise UsageError(f"{what}: got {text!r}; a part is needed, as in 20%, or {_NEVER!r}")
    return part


def _parse_money(text: str, *, what: str) -> float:
    budget = parse_budget(text, what=what)
    if budget.unit is not BudgetUnit.USD:
        raise UsageError(f"{what}: got {budget}; a run is limited in money, as in 25usd")
    return budget.value


def _parse_option(text: str, *, what: str) -> tuple[str, str]:
    """Read an option of sbatch and its value, as in ``partition=gpu``."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise UsageError(f"{what}: got {text!r}; an option and its value are needed, as in partition=gpu")
    return name, value


def _parse_loss(text: str, *, what: str) -> tuple[str, float]:
    """Read a type of VM and when one goes, as in ``p3.8xlarge@222s``."""
    name, at, time = text.rpartition("@")
    if not (name and at):
        raise UsageError(f"{what}: got {text!r}; a type and when it goes are needed, as in p3.8xlarge@222s")
    return name, parse_duration(time, what=what)


_SEARCHES, _STREAMS, _FLEETS = "Of searches and single jobs", "Of streams of jobs", "Of fleets"
_of_searches = partial(click.option, cls=HeadedOption, heading=_SEARCHES)
_of_streams = partial(click.option, cls=HeadedOption, heading=_STREAMS)
_of_fleets = partial(click.option, cls=HeadedOption, heading=_FLEETS)
#: What fills fields of the options of each kind.
_FIELDS = [
    *list_fields(RunFields, elsewhere={"of fleets": FleetFields}),
    *list_fields(TrainingFields),
    *list_fields(LimitFields, kinds={"budget_usd": Value("AMOUNT", _parse_money)}),
    *list_fields(SearchFields, _SEARCHES, {"replan_above": Value("PART", _parse_part)}),
    *list_fields(StreamFields, _STREAMS),
    *list_fields(FleetFields, _FLEETS),
]
#: What fills fields of the calculator's terms.
_TERMS = [*list_fields(TermFields, "Of streams of jobs, with --learn")]


@click.command(
    cls=Command,
    short_help="Follow a plan of a search, a stream of jobs or a fleet.",
    examples=(
        "optplan run plan.json",
        "optplan run plan.json --train train.py:Trainable --space space.yaml --executor local --out runs/first",
        "optplan run plan.json jobs.yaml --learn instance.json --train train.py:train --executor slurm --out runs/jobs",
        'optplan run plan.json --executor local --command "python train.py" --out runs/fleet',
        "optplan run plan.json --lose p3.8xlarge@222s --boots 138s --detach 4s",
        "optplan run --resume runs/first",
    ),
    renamed={str(each.name): flag(each) for each in _FIELDS}
    | named("gpus_per_node", "lose", "heartbeat")
    | {f"terms.{each.name}": flag(each) for each in _TERMS},
    writes={
        "events": "Write every event as a line of JSON.",
        "report": "Write planned against actual as an HTML page.",
    },
)
@click.argument("plan", required=False, metavar="[PLAN]", type=FILE)
@click.argument("jobs", required=False, metavar="[JOBS]", type=FILE)
@with_options([*_FIELDS, *_TERMS])
@click.option("-o", "--out", type=DIR, help="Folder of the run; with it the run can be resumed.")
@click.option("--resume", "resumed", type=DIR, help="Go on with the run in a folder.")
@click.option("--abort", is_flag=True, default=None, show_default=False, help="With --resume: give up and end it.")
@click.option("--setup", type=DATA, help="What machines need before they train (YAML or JSON).")
@click.option(
    "--sbatch",
    multiple=True,
    type=Value("NAME=VALUE", _parse_option),
    help="On Slurm, an option of sbatch: partition=gpu.",
)
@_of_searches("--space", type=DATA, help="What configurations are drawn from (YAML or JSON).")
@_of_streams("--learn", metavar="INSTANCE", help="Calculate widths again from what jobs show, starting from this.")
@_of_streams("--truth", metavar="INSTANCE", help="How long epochs take on the virtual clock; by default as --learn.")
@_of_streams("--gpus-per-node", type=click.IntRange(min=1), metavar="N", help="1 by default.")
@_of_fleets(
    "--lose", multiple=True, type=Value("TYPE@TIME", _parse_loss), help="Virtual: a VM that goes; may be repeated."
)
@_of_fleets("--notice", type=TIME, help="Virtual: how long ahead losses are announced.")
@_of_fleets("--back", type=TIME, help="Virtual: after how long VMs that go are there again, as they only stalled.")
@_of_fleets(
    "--boots",
    multiple=True,
    type=TIME,
    help="Virtual: until the new VMs of a fleet are there; of the first, the second, and so on.",
)
@_of_fleets(
    "--iteration-takes",
    multiple=True,
    type=TIME,
    help="Virtual: seconds of an iteration of the first fleet, the second, and so on.",
)
def run(
    plan: Path | None,
    jobs: Path | None,
    *,
    resumed: Path | None,
    outputs: Outputs,
    **options: Any,  # noqa: ANN401 - the fields of the options of each kind, None where they were not given
) -> int:
    """Follow the PLAN of a search (rubberband, seer) or of one job, of a stream of jobs (boa), or of a fleet (srift).

    On the virtual clock nothing is trained: times and costs are those that the plan expects, or that the options say.
    With --train the trials of a search are trained here and at once. A run with --out can be interrupted at any moment,
    also by kill -9, and goes on with --resume. Options that a kind of plan does not take are refused by name.

    A stream needs JOBS, a list of YAML or JSON: name, job_class, at_s (seconds since the beginning), and where they are
    needed epochs and configuration. An epoch is one iteration of what is trained. With --learn, speeds of epochs,
    arrivals and completions go to BOA's width calculator, and jobs take new widths as soon as it has better ones.

    Ranks of a fleet report in files (see optplan.execution.fleets.hook, which scripts import). A VM that misses two
    heartbeats is lost: the lowest live rank stores the training, the rest is planned again without new VMs of that
    type, and another fleet goes on from there. With --train, a plan of srift is followed as one job, without a fleet.

    Exits with 0 when it is done, 1 when every trial failed or a job was given up, 3 when the rest cannot keep its
    limits any more (--resume goes on with others), 4 when it stopped at a limit or no plan was found in time, 130 when
    it was interrupted (143 by SIGTERM, 129 when its terminal was closed).
    """
    from optplan.instances.files import read_plan

    given = {name: value for name, value in options.items() if value not in (None, ())}
    if resumed is not None:
        if plan is not None:
            raise UsageError("--resume: PLAN cannot be given as well; the run has its own")
        found = kind_of_folder(resumed)
        refuse_but("resumed", *found.RESUMED, why=f"cannot be given with --resume; {resumed} is of {found.NAME}")
        return _finish(found, found.resume(resumed, given, outputs.path("--events")), resumed, outputs)
    if plan is None:
        raise UsageError("PLAN is missing; `optplan solve NAME --plan plan.json` writes one, and --resume needs none")
    if "abort" in given:
        raise UsageError(f"--abort: ends a run that has begun; give its folder, --resume DIR, in place of {plan}")
    followed = read_plan(plan)
    kind = kind_of_plan(followed, given)
    refuse_but(*kind.OPTIONS, why=f"has no meaning here; {plan} is a plan of {kind.NAME}")
    if jobs is not None:
        if "jobs" not in kind.OPTIONS:
            raise UsageError(
                f"JOBS: {jobs} is given, and {plan} is a plan of {kind.NAME}, which has its own; leave it out"
            )
        given["jobs"] = jobs
    with TemporaryDirectory() as scratch:
        if "--report" in outputs and given.get("executor", "virtual") == "virtual":
            given.setdefault("out", Path(scratch))  # pages are made from journals
        out = given.get("out", Path(scratch))
        return _finish(kind, kind.follow(followed, given, outputs.path("--events")), out, outputs)


def _finish(kind: RunKind, outcome: Any, folder: Path, outputs: Outputs) -> int:  # noqa: ANN401 - of its kind
    outputs.answer(outcome, lambda: kind.present(outcome))
    outputs.save_page("--report", lambda: kind.build_page(kind.look(folder)))
    return outputs.exit_code(outcome.code)


@click.command(
    cls=Command,
    short_help="Show how a run, an export or a service stands, or several runs beside one another.",
    examples=(
        "optplan status runs/first",
        "optplan status runs/elastic runs/static",
        "optplan status runs/first --serve",
    ),
)
@click.argument("folders", metavar="DIR...", type=DIR, nargs=-1, required=True)
@click.option(
    "--serve", is_flag=True, help="Serve its page on this machine; it follows what it shows.", show_default=False
)
def status(folders: tuple[Path, ...], *, serve: bool, as_json: bool) -> int:
    """Show how what is in a folder stands, whether or not it is being followed.

    That is a run of a search, a stream or a fleet, an export, or the state of `optplan serve`; or several runs of
    searches, each as planned and as it went. `optplan report DIR` makes a page of it; with --serve it is one that
    follows the run, until Ctrl-C, at an address that only this machine reaches.
    """
    outputs = Outputs({}, force=False, as_json=as_json)
    if serve and len(folders) > 1:
        raise UsageError("--serve: serves the page of one folder; give one, or write `optplan report DIR DIR`")
    if len(folders) > 1:
        from optplan.execution.cli.searches import comparison_table
        from optplan.execution.runs import read_run

        runs = {str(folder): read_run(folder, "search").describe() for folder in folders}
        data = {"runs": {name: outcome.to_json_data() for name, outcome in runs.items()}}
        outputs.answer(data, lambda: [comparison_table(runs)])
        return 0
    kind, process = kind_of_folder(folders[0]), find_holder(folders[0])
    if serve:
        from optplan.execution.cli.live import serve_page

        def tell(address: str) -> None:
            if as_json:
                print_json({"address": address})
            note(f"serving the page of {folders[0]} at {address} until Ctrl-C")

        serve_page(folders[0], tell)
        return 0
    told = kind.read(folders[0])
    said, data = list[str](), told.outcome
    if kind.RESUMED:  # a service or an export says itself whether it runs
        said = [f"{folders[0]}: {kind.say_follower(told, folders[0], process)}"]
        data = data.to_json_data() | {"process": process}
    outputs.answer(data, lambda: [*said, *kind.present(told.outcome)])
    return 0


def build_pages(folders: Sequence[Path]) -> Page:
    """Build the page of a folder, or of several runs of searches beside one another."""
    if len(folders) > 1:
        from optplan.execution.cli.searches import build_comparison_page

        return build_comparison_page({str(folder): folder for folder in folders})
    kind = kind_of_folder(folders[0])
    page: Page = kind.build_page(kind.look(folders[0]))
    return page


@click.command(
    cls=Command,
    short_help="Show what trials, jobs and ranks wrote.",
    examples=("optplan logs runs/first trials-0001", "optplan logs runs/fleet job"),
)
@click.argument("folder", metavar="DIR", type=DIR)
@click.argument("trial", required=False, metavar="[NAME]")
@click.option("--lines", type=click.IntRange(min=1), default=40, help="How many, at most.")
def logs(folder: Path, trial: str | None, *, lines: int, as_json: bool) -> int:
    """Show the last lines that a trial, a job or a fleet's ranks wrote; without NAME, list who wrote any."""
    written = kind_of_folder(folder).list_logs(folder)
    if trial is None:
        print_either({"trials": list(written)}, "".join(f"{name}\n" for name in written), as_json=as_json)
        return 0
    if trial not in written:
        raise UsageError(f"{folder}: {trial!r} has written nothing; {nearest_name_hint(trial, written)}")
    text = written[trial].read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]
    print_either({"trial": trial, "lines": text}, "".join(f"{line}\n" for line in text), as_json=as_json)
    return 0


@click.command(
    cls=Command,
    short_help="Stop a run, which can be resumed, or a service.",
    examples=("optplan stop runs/first", "optplan stop state"),
)
@click.argument("folder", metavar="DIR", type=DIR)
def stop(folder: Path, *, as_json: bool) -> int:
    """Ask whoever follows the run in a folder to store everything and to pause, as Ctrl-C there would.

    A service of `optplan serve` is asked to end. A fleet's VMs go on.

    Exits with 1 where nobody follows a run that has neither ended nor paused: what it has started goes on for a while.
    """
    kind, process = kind_of_folder(folder), find_holder(folder)
    is_here = process is None or is_open(folder / DRIVER_LOCK, process)
    if not is_here and find_holder(folder) == process:  # else it has ended just now
        raise UsageError(f"{folder}: process {process}, which holds it, is not of this machine; stop it on its own")
    try:
        said, is_stopped = kind.stop(folder, process)
    except ProcessLookupError:  # it has ended just now
        process = None
        said, is_stopped = kind.stop(folder, process)
    if as_json:
        print_json({"driver": process, "asked": process is not None, "said": said})
    else:
        note(said)
    return 0 if is_stopped else 1  # it goes on by itself
