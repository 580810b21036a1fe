"""``optplan solve``: the best plan within a limit, with its proof, beside other solvers' plans if wanted.

``optplan solve --state``: the rest of a run after VMs were lost, within what is left of its limits.
"""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import optplan
from optplan.cli.amending import amend_and_say, amendments_but, problem_option, read_amended, say_check
from optplan.cli.commands import command, refuse_but
from optplan.cli.console import Progress, Shown, note, print_answer, print_json, warn
from optplan.cli.explanation import RESOLVE_LIMIT_S, show_explanation
from optplan.cli.failures import heed_signals
from optplan.cli.options import (
    FILE,
    GAP,
    INSTANCE,
    TIME,
    NumberRange,
    known_name,
    list_known,
    list_solver_choices,
    option,
)
from optplan.cli.outputs import Outputs
from optplan.errors import UnsupportedError, UsageError

if TYPE_CHECKING:
    from optplan.contracts import Explanation, Instance, Result, Solution
    from optplan.formulations.rubberband.study.largest import LargestSearch
    from optplan.formulations.srift.study.replanning import FleetContinuation, Timeline
    from optplan.reporting.pages import Page

#: Exit codes of answers without a plan that keeps the limits.
_INFEASIBLE, _UNKNOWN = 3, 4


def solve_rest(
    whole: optplan.Instance, state_path: Path, outputs: Outputs, settings: dict[str, Any], *, again: str
) -> int:
    """Plan the rest of a run whose VMs were lost (Srift, 4.5); print and write it, and return the exit code."""
    # ``again`` is the command that does so, and writes new-instance.json and result.json.
    from optplan.formulations.srift.study.replanning import build_timeline
    from optplan.reporting.presenters import require_kind
    from optplan.reporting.srift.continuations import present_continuation
    from optplan.reporting.srift.words import require_fleet

    why = "whose plans are not made anew in the middle of a run; that of srift is"
    require_run = require_kind(
        optplan.SriftInstance, f"INSTANCE: {{name!r}} is of formulation {{formulation!r}}, {why}"
    )
    instance, state = require_run(whole), _read_state(state_path)

    def solve_remainder(rest: optplan.SriftInstance) -> optplan.Result[optplan.SriftSolution]:
        with Progress("solve", rest.objective_unit) as progress:
            return optplan.solve(rest, on_event=progress.listen, **settings)

    with heed_signals() as signals:
        continuation = optplan.continue_run(instance, state, solve_remainder)
    solution = continuation.result.solution
    new = None if solution is None else require_fleet(solution)
    timeline = build_timeline(instance, state, continuation.remainder, new=new)
    data = _write_course(continuation, timeline)
    outputs.answer(data, lambda: present_continuation(instance, state, continuation, timeline))
    _write_rest(outputs, continuation, timeline, again)
    if continuation.infeasibility is not None:
        return outputs.exit_code(signals.exit_code or _INFEASIBLE)
    return outputs.exit_code(signals.exit_code or (_UNKNOWN if new is None or continuation.remainder.gone else 0))


def _read_state(path: Path) -> optplan.FleetStanding:
    data = optplan.read_data(path)
    if not isinstance(data, dict):
        raise UsageError(f"--state: {path} is no state; its fields are {', '.join(optplan.FleetStanding.model_fields)}")
    return optplan.FleetStanding.parse(data, path=path.name)


def _write_course(continuation: FleetContinuation, timeline: Timeline) -> dict[str, Any]:
    infeasibility = continuation.infeasibility
    return {
        "instance": continuation.remainder.instance.to_json_data(),
        "used": dict(continuation.remainder.used),
        "gone": list(continuation.remainder.gone),
        "result": continuation.result.to_json_data(),
        **({} if infeasibility is None else {"infeasibility": infeasibility.to_json_data()}),
        "timeline": list(map(dataclasses.asdict, timeline.segments)),
        "end_s": timeline.end_s,
        "spent_usd": timeline.spent_usd,
        "spare": timeline.spare,
    }


def _write_rest(outputs: Outputs, continuation: FleetContinuation, timeline: Timeline, again: str) -> None:
    rest, result = continuation.remainder.instance, continuation.result
    places = [str(path.absolute()) for path in map(outputs.path, ("--new-instance", "--out")) if path is not None]
    both = places if len(places) == 2 else ["new-instance.json", "result.json"]
    check = ("" if both is places else f"{again} && ") + shlex.join(["optplan", "verify", *both])

    def build_page() -> Page:
        from optplan.reporting.presenters import Beside, gather
        from optplan.reporting.srift.presenter import build_continuation_page

        with Progress("report"):
            checked = optplan.verify(rest, result)
            checked.require()
            beside = gather(rest, result, Beside((), None, checked, check))
            return build_continuation_page(continuation, timeline, beside)

    outputs.save_json(result)
    outputs.save_json(rest, "--new-instance")
    outputs.save_page("--report", build_page)


#: What ``--problem`` calls the largest search.
LARGEST = "largest"
#: Seconds for each size that is looked at there, unless said.
_SIZE_LIMIT_S = 10.0
#: Exit codes of answers without a plan, by status.
_EXIT_CODES = {"infeasible": 3, "unknown": 4}
#: From which time on it is worth a word that the kernel is not compiled.
_SLOW_S = 1.0
#: Options of the largest search, and of the rest of a run, besides those that change the instance.
_OF_LARGEST = ("problem", "grow", "time_limit", "output", "new_instance")
_OF_REST = ("state", "solver", "gap", "time_limit", "seed", "output", "new_instance", "report")


@command(
    short_help="Find the best plan within a budget or a deadline, with its proof.",
    examples=(
        "optplan solve boa-newtrace --budget 120gpu",
        "optplan solve boa-newtrace --budget 90000usd/month --compare published-algorithm1 --compare fixed-width",
        "optplan solve mine.yaml --policy mixed -o result.json --plan plan.json --report report.html",
        "optplan solve boa-newtrace-types --explain --report report.html",
        "optplan solve rubberband-resnet101-20min --deadline 30min --compare static --report report.html",
        "optplan solve rubberband-resnet101-20min --problem fastest --budget 14usd",
        "optplan solve mine.yaml --solver highs --gap 1e-3 --time-limit 60s --json",
        "optplan solve rubberband-resnet101-20min --problem largest --budget 25usd --new-instance larger.json",
        "optplan solve srift-interruption --state state.yaml --report rest.html",
    ),
    writes={
        "output": "the result as JSON",
        "plan": "Write the plan as JSON.",
        "new_instance": "With --problem largest or --state: write the problem that was solved.",
        "report": "Write an HTML report.",
    },
)
@amendments_but("problem")
def solve(
    instance_name: str = INSTANCE,
    *,
    problem: str | None = problem_option(
        lambda: [*list_known("problems")(), LARGEST],
        f" Also {LARGEST} for rubberband: the largest search within its limits.",
    ),
    grow: str | None = option(
        type=click.Choice(["trials", "iterations"]),
        help=f"With --problem {LARGEST}: what a larger search has more of, trials by default; the stages keep their "
        "proportions.",
    ),
    state: Path | None = option(
        type=FILE, help="Plan the rest of a run of srift that lost VMs: where it stands, as YAML or JSON."
    ),
    solver: str = option(
        default="auto",
        metavar="NAME",
        help="`optplan list solvers` lists them; auto takes the first exact one.",
        **known_name("solver", list_solver_choices),
    ),
    gap: float = option(
        type=GAP, default=1e-6, help="Relative gap at which the solver may stop; optimal is what lies within 1e-6."
    ),
    time_limit: float | None = option(
        type=TIME,
        help=f"For each solver, such as 60s; the best so far counts. With --problem {LARGEST} for each size: 10s.",
    ),
    seed: int = option(type=int, default=0, help="For everything random."),
    compare: tuple[str, ...] = option(
        multiple=True,
        metavar="SOLVER",
        help="Solve with another solver too, and compare. May be repeated.",
        **known_name("solver", list_solver_choices),
    ),
    explains: bool = option(
        "--explain",
        is_flag=True,
        help=f"Say too why each class of boa gets its GPUs, here and in --report; {RESOLVE_LIMIT_S:g} s at most for a "
        "re-solve.",
    ),
    over: tuple[float, ...] = option(
        multiple=True,
        metavar="GPUS",
        type=NumberRange(min=0),
        help="Say too how often a plan of boa has more than so many GPUs in use, such as 200. May be repeated.",
    ),
    no_verify: bool = option(is_flag=True, help="Do not check the result."),
    no_certificate: bool = option(is_flag=True, help="Leave out certificates that take space or time."),
    no_range: bool = option(
        is_flag=True, help="Leave out how the answer changes within the errors of speedups, which takes nine solves."
    ),
    outputs: Outputs,
    **changes: Any,  # noqa: ANN401 - the options that change the instance
) -> int:
    """Find the best plan for an INSTANCE (a file or a name of the library), and prove how good it is.

    With --json, prints the Result; with --compare, a list of Results, ours first. --explain solves again for every
    choice and its neighbours; `optplan explain` does the same for a result that is there, with a limit of your own.

    Exits with 3 when no plan keeps the limit (the answer says why and what would help), with 4 when none was found
    within the time limit.

    With --problem largest, finds the largest search of the shape of INSTANCE within its deadline and its budget. The
    proof is the plan of that size, and that no plan keeps the limits for a search of one more; --json and -o have both,
    as instances and results that `optplan verify` takes. Exits with 4 when the time was too short for the proof.

    With --state, plans the iterations that are left of a run within what is left of its deadline and budget, on the
    live VMs and new ones of other types, and prints the old and the new fleet, what is left, and the course of the run.
    The file says elapsed_s and iterations_done, running and lost (VMs by type), and where they are known spent_usd,
    ready_s, launch_s, detach_s, checkpoint_s, restart_s and iterations_lost.

    A first SIGINT (Ctrl-C) or SIGTERM ends the solve with the best plan found so far, which is
    printed and written as ever, and the exit code is 130 or 143; a second one ends at once.
    """
    from optplan.reporting.presentation import presenter_of
    from optplan.solving import choose_solver

    settings: dict[str, Any] = {"gap": gap, "time_limit_s": time_limit, "seed": seed}
    if problem == LARGEST:
        refuse_but(*_OF_LARGEST, *changes, why=f"has no meaning with --problem {LARGEST}")
        return _solve_largest(read_amended(instance_name, changes), outputs, grow=grow, time_limit_s=time_limit)
    changes["problem"] = problem
    if state is not None:
        refuse_but(*_OF_REST, *changes, why="has no meaning with --state")
        again, _, _ = say_check(instance_name, None, changes, "--new-instance", "new-instance.json").partition(" && ")
        instance = read_amended(instance_name, changes)
        return solve_rest(instance, state, outputs, settings | {"solver": solver}, again=again)
    if grow is not None or "--new-instance" in outputs:
        option, others = ("--grow", "") if grow is not None else ("--new-instance", " or --state")
        raise UsageError(f"{option}: goes with --problem {LARGEST}{others}; leave it out")
    if explains and outputs.as_json and "--report" not in outputs:
        raise UsageError("--explain: --json prints the result only; add --report, or run optplan explain RESULT --json")
    instance, changed = amend_and_say(optplan.read_instance(instance_name), changes)
    for name in (solver, *compare):
        choose_solver(instance, name)  # what is refused is refused before any work
    for option, part, asked in (("--explain", "explain", explains), ("--over", "forecast_demand", over)):
        if asked:
            _require_part(instance, option, part)
    presenter = presenter_of(instance)
    settings |= {"changes": changed, "over": over}
    settings |= {"check": not no_verify, "certify": not no_certificate, "ranges": not no_range}
    with heed_signals() as signals:
        result = _solve(instance, solver, settings)
        if not outputs.as_json:
            print_answer(*presenter.present_result(instance, result))
            _print_widths(instance, result, settings)
        names = (name for name in compare if not signals.exit_code)
        rivals = _solve_rivals(instance, names, settings | {"ranges": False}, outputs)
        if outputs.as_json:
            results = [one.to_json_data() for one in (result, *rivals)]
            print_json(results if compare else results[0])
        elif rivals:
            print_answer("", *presenter.present_comparison(instance, [result, *rivals]))
        explanation = None
        if explains and not signals.exit_code:
            with outputs.forgiving():
                explanation = _explain(instance, result, time_limit, outputs)
        check = say_check(instance_name, outputs.path("--out"), changes)
        _write_files(outputs, instance, (result, *rivals), explanation, verify_command=check, check=not no_verify)
        return outputs.exit_code(signals.exit_code or _EXIT_CODES.get(result.status.value, 0))


def _solve_largest(instance: Instance, outputs: Outputs, *, grow: str | None, time_limit_s: float | None) -> int:
    from optplan.formulations.rubberband.study.largest import Growing, find_largest
    from optplan.reporting.rubberband.words import require_search

    search = require_search(instance)
    with Progress("sizes"):
        found = find_largest(
            search, Growing(grow or "trials"), optplan.solve, time_limit_s=time_limit_s or _SIZE_LIMIT_S
        )
    outputs.answer(found.to_json_data(), lambda: _show_largest(found))
    outputs.save_json(found.to_json_data())
    if found.instance is None:
        return outputs.exit_code(_EXIT_CODES["infeasible"])
    outputs.save_json(found.instance, "--new-instance")
    return outputs.exit_code(0 if found.is_proven else _EXIT_CODES["unknown"])


def _show_largest(found: LargestSearch) -> list[Shown]:
    """Say how large the search is, why it is not larger, and what its plan is."""
    from optplan.reporting.rubberband.presenter import PRESENTER
    from optplan.reporting.rubberband.words import say_largest
    from optplan.reporting.tables import plain_text

    parts: list[Shown] = [plain_text(say_largest(found), "bold")]
    if found.instance is not None and found.result is not None:
        parts += ["", *PRESENTER.present_result(found.instance, found.result)]
    return parts


def _require_part(instance: Instance, option: str, part: str) -> None:
    from optplan.formulations import formulation_of

    try:
        getattr(formulation_of(instance), part)
    except UnsupportedError as error:
        raise UnsupportedError(f"{option}: {error}; leave it out") from None


def _solve(instance: Instance, solver: str, settings: dict[str, Any]) -> Result[Solution]:
    """Solve with settings of ``optplan.solving.solve``, and with the changes that led to the instance."""
    with Progress(f"solver {solver}", instance.objective_unit) as progress:
        options = {name: value for name, value in settings.items() if name not in {"changes", "over"}}
        result = optplan.solve(instance, solver=solver, on_event=progress.listen, **options)
    _mention_kernel(result.solve_seconds)
    more: dict[str, Any] = {"changes": settings["changes"]}
    if settings["over"] and result.solution is not None:
        from optplan.formulations import formulation_of

        more["demand"] = formulation_of(instance).forecast_demand(instance, result.solution, settings["over"])
    return result.model_copy(update=more)


def _mention_kernel(seconds: float) -> None:
    """Say in one line why a solve took long, where that is because the kernel runs as Python."""
    kernel = sys.modules.get("optplan.solvers.paths.kernel")
    if seconds > _SLOW_S and kernel is not None and str(kernel.__file__).endswith(".py"):
        note("optplan was installed without a C compiler, and takes 20 times as long: install one, then optplan again")


def _solve_rivals(
    instance: Instance, names: Iterable[str], settings: dict[str, Any], outputs: Outputs
) -> list[Result[Solution]]:
    """Solve with the other solvers; the failure of one costs neither the answer nor the others."""
    results = []
    for name in names:
        with outputs.forgiving():
            results.append(_solve(instance, name, settings))
    return results


def _explain(
    instance: Instance, result: Result[Solution], time_limit_s: float | None, outputs: Outputs
) -> Explanation | None:
    """Explain the result if it has a plan."""
    if result.solution is None:
        warn("--explain: there is no plan to explain")
        return None
    with Progress("explain") as progress:
        limit_s = min(time_limit_s or RESOLVE_LIMIT_S, RESOLVE_LIMIT_S)
        explanation = optplan.explain(instance, result, time_limit_s=limit_s, on_event=progress.listen)
    if not outputs.as_json:
        print_answer("", *show_explanation(instance, explanation))
    return explanation


def _print_widths(instance: Instance, result: Result[Solution], settings: dict[str, Any]) -> None:
    """Say what widths that a plan of BOA may not have would be worth: it is solved with them for that."""
    from optplan.formulations.boa.study.node_rounding import allow_all, list_wider
    from optplan.reporting.boa.phrases import has_slack, say_steps, say_wider
    from optplan.solving.asking import AUTO

    if not isinstance(instance, optplan.BoaInstance) or result.objective is None:
        return
    quick = settings | {"check": False, "certify": False, "ranges": False, "over": ()}
    free = allow_all(instance)
    if free is not None:
        print_answer("", say_steps(result, _solve(free, AUTO, quick)))
    if has_slack(instance, result):
        wider = {(name, width): _solve(other, AUTO, quick) for name, width, other in list_wider(instance)}
        print_answer("", say_wider(result, wider))


def _write_files(
    outputs: Outputs,
    instance: Instance,
    results: tuple[Result[Solution], ...],
    explanation: Explanation | None,
    *,
    verify_command: str,
    check: bool,
) -> None:
    """Write what the user asked for; the first of the results is the answer, the others are rivals."""
    result, *rivals = results

    def write_page(_: Path) -> str:
        from optplan.reporting.presenters import Beside, gather
        from optplan.reporting.reports import build_report

        with Progress("report"):
            verification = optplan.verify(instance, result) if check else None
            beside = Beside(rivals, None, verification, verify_command, explanation)
            return build_report(instance, result, gather(instance, result, beside))

    outputs.save_json(result)
    if result.solution is not None and "--plan" in outputs:
        outputs.save_json(optplan.build_plan(instance, result, explanation=explanation), "--plan")
    elif "--plan" in outputs:
        warn("--plan: no plan was written, because there is none")
    outputs.save_text("--report", write_page)
