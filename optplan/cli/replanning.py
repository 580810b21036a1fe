"""``optplan replan``: the rest of a run after VMs were lost, within what is left of its limits."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from optplan.cli.amending import amendments, read_amended
from optplan.cli.commands import Command, repeat_command
from optplan.cli.console import Progress, print_answer, print_json
from optplan.cli.interruptions import heed_signals
from optplan.cli.options import FILE, TIME, Kind, flag, instance_argument, known_name, list_solver_choices
from optplan.cli.outputs import Outputs
from optplan.errors import UsageError
from optplan.units import BudgetUnit, parse_budget

if TYPE_CHECKING:
    from optplan.contracts import Instance, Result
    from optplan.formulations.srift.data.instance import SriftInstance, SriftSolution
    from optplan.formulations.srift.study.replanning import FleetContinuation, State
    from optplan.formulations.srift.study.timelines import Timeline
    from optplan.reporting.pages import Page

#: Exit codes of answers without a plan that keeps the limits.
_INFEASIBLE, _UNKNOWN = 3, 4


def read_counts(_: click.Context, option: click.Parameter, texts: Iterable[str]) -> dict[str, int] | None:
    """Read numbers of VMs by type, as in ``p3.8xlarge=2``, or a type alone for one; click calls this."""
    counts: dict[str, int] = {}
    for text in texts:
        name, equals, number = text.partition("=")
        if not name or (equals and not (number.isascii() and number.isdigit() and int(number) > 0)):
            message = f"{flag(option)}: got {text!r}; a type and how many VMs of it are needed, as in p3.8xlarge=2"
            raise UsageError(message)
        if name in counts:
            raise UsageError(f"{flag(option)}: {name!r} is given twice; give it once")
        counts[name] = int(number) if equals else 1
    return counts or None


def _parse_spent(text: str, *, what: str) -> float:
    """Read an amount of money."""
    amount = parse_budget(text, what=what)
    if amount.unit is not BudgetUnit.USD:
        raise UsageError(f"{what}: got {text!r}; money in all is needed, as in 0.45usd")
    return amount.value


@click.command(
    cls=Command,
    short_help="Plan the rest of a run after VMs were lost.",
    examples=(
        "optplan replan srift-interruption --elapsed 222s --iterations-done 200 --running p3.8xlarge --lost p3.8xlarge "
        "--ready 138s --launch 150s --detach 4s",
        "optplan replan mine.yaml --state state.yaml --report replan.html",
        "optplan replan mine.yaml --result result.json --lost spot=2 --elapsed 3h --iterations-done 12000 --json",
    ),
    writes={
        "output": "the new result as JSON",
        "new_instance": "Write the new problem as JSON, for verify.",
        "report": "Write an HTML report.",
    },
)
@instance_argument
@amendments
@click.option(
    "--state", "state_path", type=FILE, help="Where the run stands, as YAML or JSON; the options below go before it."
)
@click.option("--elapsed", "elapsed_s", type=TIME, help="Since the first VMs were asked for.")
@click.option("--iterations-done", type=int, metavar="N", help="So far.")
@click.option("--iterations-lost", type=int, metavar="N", help="Of these, since the last checkpoint.")
@click.option(
    "--running",
    multiple=True,
    metavar="TYPE=N",
    callback=read_counts,
    help="VMs that are alive; may be repeated. By default those of --result that are not lost.",
)
@click.option(
    "--lost",
    multiple=True,
    metavar="TYPE=N",
    callback=read_counts,
    help="VMs that were lost; no new ones of these types are asked for. May be repeated.",
)
@click.option(
    "--spent",
    "spent_usd",
    type=Kind("AMOUNT", _parse_spent),
    help="So far, such as 0.45usd; derived from the VMs unless given.",
)
@click.option(
    "--ready",
    "ready_s",
    type=TIME,
    help="When the first fleet could train; after the instance's launch_s unless given.",
)
@click.option("--launch", "launch_s", type=TIME, help="Until new VMs can train; the instance's launch_s unless given.")
@click.option("--detach", "detach_s", type=TIME, help="Until what a lost VM has stored can be used.")
@click.option("--checkpoint", "checkpoint_s", type=TIME, help="To save the training on a live VM.")
@click.option("--restart", "restart_s", type=TIME, help="To load it and go on.")
@click.option("--result", "result_path", type=FILE, help="The result of `optplan solve` whose fleet the run has.")
@click.option("--solver", default="auto", metavar="NAME", **known_name("solver", list_solver_choices))
@click.option("--time-limit", type=TIME, help="For the solver, such as 1s.")
@click.option("--seed", type=int, default=0, help="For everything random.")
def replan(
    instance_name: str,
    *,
    state_path: Path | None,
    result_path: Path | None,
    solver: str,
    time_limit: float | None,
    seed: int,
    outputs: Outputs,
    **options: Any,  # noqa: ANN401 - where the run stands, and what changes the instance
) -> int:
    """Plan the rest of a run of an INSTANCE (a file or a name of the library) whose VMs were lost (Srift, 4.5).

    The iterations that are left, within what is left of deadline and budget, on the live VMs and new ones of other
    types. Prints the old and the new fleet, what is left, and the course of the run.

    Exits with 3 when the limits cannot be kept any more (the answer says what they would have to be), with 4 when no
    fleet was found within the time limit.
    """
    from optplan.formulations.srift.study.replanning import State, continue_run
    from optplan.formulations.srift.study.timelines import build_timeline
    from optplan.reporting.srift.words import require_fleet

    changes = {name: value for name, value in options.items() if name not in State.model_fields}
    instance = _require_run(read_amended(instance_name, changes))
    old = None if result_path is None else _read_fleet(instance, result_path)
    state = _read_state(state_path, options, old)

    def solve_rest(rest: SriftInstance) -> Result[SriftSolution]:
        from optplan.solving import solve

        with Progress("replan", rest.objective_unit) as progress:
            return solve(rest, solver=solver, time_limit_s=time_limit, seed=seed, on_event=progress.listen)

    with heed_signals() as signals:
        continuation = continue_run(instance, state, solve_rest)
    solution = continuation.result.solution
    new = None if solution is None else require_fleet(solution)
    timeline = build_timeline(instance, state, continuation.remainder, new=new, old=old)
    if outputs.as_json:
        print_json(_to_json_data(continuation, timeline))
    else:
        from optplan.reporting.srift.continuations import present_continuation

        print_answer(*present_continuation(instance, state, continuation, timeline))
    _write_files(outputs, continuation, timeline)
    if continuation.infeasibility is not None:
        return outputs.exit_code(signals.exit_code or _INFEASIBLE)
    return outputs.exit_code(signals.exit_code or (_UNKNOWN if new is None or continuation.remainder.gone else 0))


def _require_run(instance: Instance) -> SriftInstance:
    from optplan.formulations.srift.data.instance import SriftInstance

    if not isinstance(instance, SriftInstance):
        formulation = getattr(instance, "formulation", "")
        message = f"INSTANCE: {instance.name!r} is of formulation {formulation!r}, whose plans are not made anew"
        raise UsageError(f"{message} in the middle of a run; that of srift is")
    return instance


def _read_fleet(instance: SriftInstance, path: Path) -> SriftSolution:
    """Read the fleet of a result, which belongs to the instance."""
    from optplan.instances.files import read_result
    from optplan.reporting.srift.words import require_fleet
    from optplan.verification import require_own

    result = read_result(path)
    require_own(instance, result)
    if result.solution is None:
        raise UsageError(f"--result: {path} has no fleet (status {result.status})")
    return require_fleet(result.solution)


def _read_state(path: Path | None, options: dict[str, Any], old: SriftSolution | None) -> State:
    """Put the state together: options go before the file, and the old fleet says what else is alive."""
    from optplan.formulations.srift.study.replanning import State
    from optplan.instances.plain_data import read_data

    given = {name: options[name] for name in State.model_fields if options.get(name) is not None}
    fields: dict[str, Any] = {}
    if path is not None:
        data = read_data(path)
        if not isinstance(data, dict):
            raise UsageError(f"--state: {path} is no state; its fields are {', '.join(State.model_fields)}")
        fields = data
    fields = {**fields, **given}
    if path is None:
        for option, field in (("--elapsed", "elapsed_s"), ("--iterations-done", "iterations_done")):
            if field not in fields:
                raise UsageError(f"{option}: say where the run stands, or give --state FILE")
    state = State.parse(fields, path="" if path is None else path.name)
    if old is None or "running" in fields:
        return state
    return state.replace(running=_subtract(old, state.lost))


def _subtract(old: SriftSolution, lost: Mapping[str, int]) -> dict[str, int]:
    """Return the VMs of a fleet that are not lost."""
    counts: dict[str, int] = {}
    for group in old.groups:
        counts[group.type] = counts.get(group.type, 0) + group.count
    for name, count in lost.items():
        if count > counts.get(name, 0):
            raise UsageError(f"--lost: {count} {name} are more than the {counts.get(name, 0)} that the fleet had")
    left = {name: count - lost.get(name, 0) for name, count in counts.items()}
    return {name: count for name, count in left.items() if count}


def _to_json_data(continuation: FleetContinuation, timeline: Timeline) -> dict[str, Any]:
    infeasibility = continuation.infeasibility
    return {
        "instance": continuation.remainder.instance.to_json_data(),
        "used": dict(continuation.remainder.used),
        "gone": list(continuation.remainder.gone),
        "result": continuation.result.to_json_data(),
        **({} if infeasibility is None else {"infeasibility": infeasibility.to_json_data()}),
        "timeline": [{**dataclasses.asdict(segment), "fleet": segment.fleet} for segment in timeline.segments],
        "end_s": timeline.end_s,
        "spent_usd": timeline.spent_usd,
        "spare": timeline.spare,
    }


def _write_files(outputs: Outputs, continuation: FleetContinuation, timeline: Timeline) -> None:
    rest, result = continuation.remainder.instance, continuation.result
    new_instance, output = outputs.path("--new-instance"), outputs.path("--out")

    def build_page() -> Page:
        from optplan.reporting.gathering import gather_background
        from optplan.reporting.presenters import Beside
        from optplan.reporting.srift.continuations import build_continuation_page
        from optplan.verification import verify

        rest_file, result_file = str(new_instance or "new-instance.json"), str(output or "result.json")
        check = shlex.join(["optplan", "verify", str(Path(rest_file).absolute()), str(Path(result_file).absolute())])
        if new_instance is None or output is None:
            again = [*repeat_command(result=result_file), "--new-instance", rest_file]
            check = f"{shlex.join(again)} && {check}"
        with Progress("report"):
            checked = verify(rest, result)
            checked.require()
            beside = Beside((), gather_background(rest, result), checked, check)
            return build_continuation_page(continuation, timeline, beside)

    outputs.save_json(result)
    outputs.save_json(rest, "--new-instance")
    outputs.save_page("--report", build_page)
