"""What users call: choose the solver, time it, have the judge look at what it says; plan, explain, sample."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, overload

from optplan.contracts import Answer, Instance, Result, Solution, SolveRequest, Termination
from optplan.contracts.faces import remember
from optplan.contracts.parts import Solve
from optplan.contracts.registry import Formulation, SolverEntry
from optplan.contracts.result import BoundProof, remember_result, require_result, require_solution
from optplan.errors import UnsupportedError, UsageError, show_value
from optplan.formulations import formulation_of
from optplan.progress import Listener, Stopwatch, interruptible
from optplan.solving.asking import (
    AUTO,
    blaming_nobody,
    require_listener,
    require_settings,
    require_sound,
    require_time_limit,
    require_whole,
)
from optplan.solving.frontiers import frontier, pareto
from optplan.solving.modelling import Model, graph, model, result_of
from optplan.solving.results import Trajectory, assemble_result, rest_on_search
from optplan.verification import verify

if TYPE_CHECKING:
    from optplan.contracts import Explanation, Plan, Sensitivity
    from optplan.contracts.instance import DecisionsT_co
    from optplan.formulations.boa.data.instance import BoaInstance
    from optplan.formulations.boa.planning import BoaPlan
    from optplan.formulations.rubberband.data.instance import RubberBandInstance
    from optplan.formulations.rubberband.planning import RubberBandPlan
    from optplan.formulations.seer.data.instance import SeerInstance
    from optplan.formulations.seer.planning import SeerPlan
    from optplan.formulations.srift.data.instance import SriftInstance
    from optplan.formulations.srift.planning import SriftPlan

__all__ = [
    "Model",
    "analyse_sensitivity",
    "build_plan",
    "choose_solver",
    "explain",
    "frontier",
    "graph",
    "model",
    "pareto",
    "result_of",
    "solve",
]


def solve(  # noqa: PLR0913 - what is asked, within which limits, and what is wanted besides
    instance: Instance[DecisionsT_co],
    *,
    solver: str | Solve = AUTO,
    gap: float = 1e-6,
    time_limit_s: float | None = None,
    seed: int = 0,
    on_event: Listener | None = None,
    check: bool = True,
    certify: bool = True,
    ranges: bool = True,
    near: Result[Any] | None = None,
) -> Result[DecisionsT_co]:
    """Solve an instance and have the result verified.

    Parameters
    ----------
    instance
        The problem; its limits (budget, deadline) are part of it.
    solver
        Name of a registered solver, or ``auto``; or a function that takes an instance and a
        :class:`~optplan.contracts.SolveRequest` and returns an :class:`~optplan.contracts.Answer`, as entry points do.
    gap
        Relative gap at which the solver may stop. What it leaves is called optimal up to 1e-6, whatever was asked.
    time_limit_s
        Seconds after which the solver returns the best it has.
    seed
        For everything random; the same seed gives the same result.
    on_event
        Called with progress events.
    check
        Whether to verify the result; its time is reported apart.
    certify
        Whether to write certificates that take space or time; without them such a bound rests on the search.
    ranges
        Whether to find how the answer changes within the stated errors of speedups, where there are any: it takes up to
        nine more solves, all of them together no longer than ``time_limit_s``.
    near
        The result of an instance that differs little, from which a solver may begin (``layered-paths`` does): it saves
        time, and changes the objective by no more than the gap.

    Returns
    -------
    Result
        Infeasible is an answer: look at ``status``. Without an incumbent ``solution`` and ``objective`` are None.

    Raises
    ------
    UsageError
        When the solver is unknown, an argument is out of its range, or a limit is missing.
    UnsupportedError
        When the solver does not take this instance; the message says why and which one does.
    VerificationError
        When the result does not hold what it says: a bug of optplan or of an engine.
    InternalError
        When the solver makes a record that is not valid: a bug of the solver.
    """
    require_settings(solver, gap, time_limit_s, seed, on_event)
    formulation = formulation_of(instance)
    name, run = _find_solver(instance, solver)  # before the clock starts: it imports its solver
    trajectory = Trajectory(on_event)
    stopwatch = Stopwatch(time_limit_s, trajectory.listen)
    request = SolveRequest(gap=gap, seed=seed, stopwatch=stopwatch, certify=certify, near=near)
    start = time.perf_counter()
    # What leaves the judge too much to list is on trust.
    attempts = [request, replace(request, certify=False)]
    for attempt in attempts if certify else attempts[-1:]:
        with blaming_nobody(f"solver {name!r} of {formulation.name}"):
            answer = run(instance, attempt)
            if not isinstance(answer, Answer):
                raise UsageError(
                    f"solver {name!r} returned {show_value(answer)}; an optplan.contracts.Answer is needed"
                )
            seconds = time.perf_counter() - start
            result = assemble_result(formulation, instance, name, attempt, answer, seconds, trajectory)
        if not check:
            return _finish(formulation, instance, result, time_limit_s, ranges=ranges)
        with interruptible():  # whoever interrupts the solve wants its result, which is checked as ever
            verification = verify(instance, result)
            if verification.unlisted and attempt is attempts[-1] and result.bound_proof is BoundProof.ENUMERATED:
                result = rest_on_search(result)
                verification = verify(instance, result)
        if not verification.unlisted:
            break
    verification.require()
    result = result.model_copy(update={"verify_seconds": verification.seconds, "on_trust": verification.on_trust})
    return _finish(formulation, instance, result, time_limit_s, ranges=ranges)


def _finish(
    formulation: Formulation, instance: Instance, result: Result[Any], time_limit_s: float | None, *, ranges: bool
) -> Result[Any]:
    """Return the result with its range, if wanted, or why there is none; it and its decisions know the instance."""
    if ranges and formulation.declares("find_range") and result.termination is not Termination.INTERRUPTED:
        try:
            found = formulation.find_range(instance, result, time_limit_s)
            result = result if found is None else result.replace(range=found)
        except UnsupportedError as error:
            result = result.replace(warnings=(*result.warnings, str(error)))
    return remember_result(result, instance)


@overload
def build_plan(
    instance: BoaInstance, result: Result[Solution], *, explanation: Explanation | None = None
) -> BoaPlan: ...


@overload
def build_plan(
    instance: RubberBandInstance, result: Result[Solution], *, explanation: Explanation | None = None
) -> RubberBandPlan: ...


@overload
def build_plan(
    instance: SeerInstance, result: Result[Solution], *, explanation: Explanation | None = None
) -> SeerPlan: ...


@overload
def build_plan(
    instance: SriftInstance, result: Result[Solution], *, explanation: Explanation | None = None
) -> SriftPlan: ...


@overload
def build_plan(instance: Instance, result: Result[Solution], *, explanation: Explanation | None = None) -> Plan: ...


def build_plan(instance: Instance, result: Result[Solution], *, explanation: Explanation | None = None) -> Plan:
    """Turn a result into a plan that an executor can run.

    Parameters
    ----------
    instance, result
        The problem and its result.
    explanation
        Of the result, from :func:`explain`; the plan then says why, too.

    Raises
    ------
    UsageError
        When the result has no solution, the explanation is of another result, or the two are no instance and result.
    """
    require_result(result)
    require_solution(result)
    if explanation is not None and (explanation.instance_hash, explanation.objective) != (
        result.instance_hash,
        result.objective,
    ):
        raise UsageError("the explanation is not of this result; make it with explain(instance, result)")
    formulation = formulation_of(instance)
    if explanation is not None:
        _ = formulation.explain  # refused where the formulation has none
    plan: Plan = formulation.build_plan(instance, result)
    more: dict[str, Any] = {} if explanation is None else {"reasons": explanation.choices}
    if formulation.declares("continue_plan") or formulation.keeps_instance:
        more["instance"] = instance.to_json_data()
    return remember(plan.replace(plan_id="", **more) if more else plan, instance, result)


def explain(
    instance: Instance,
    result: Result[Solution],
    *,
    only: tuple[str, ...] = (),
    time_limit_s: float | None = None,
    on_event: Listener | None = None,
) -> Explanation:
    """Explain every choice of a result: what its neighbours would do, alone and with everything else re-solved.

    Parameters
    ----------
    instance
        The problem.
    result
        Its result, with a solution; where it is not optimal, the problem is solved anew, as forcing is compared with
        the best.
    only
        Subjects (for BOA: classes) to explain; all when empty.
    time_limit_s
        Seconds for each re-solve; no limit when None.
    on_event
        Called with progress events.

    Raises
    ------
    UsageError
        When the result has no solution, one that breaks rules or limits, or belongs to another instance; when a subject
        is unknown, or an argument out of its range.
    UnsupportedError
        When there is nothing to explain in this kind of problem.
    """
    require_sound(instance, result)
    require_time_limit(time_limit_s)
    require_listener(on_event)
    return formulation_of(instance).explain(instance, result, only, time_limit_s, on_event)


def analyse_sensitivity(  # noqa: PLR0913 - what is asked, how many samples, and how to run them
    instance: Instance,
    result: Result[Solution],
    errors: Mapping[str, Any],
    *,
    samples: int = 1000,
    robust_samples: int = 0,
    compare: bool = True,
    seed: int = 0,
    processes: int = 1,
    on_event: Listener | None = None,
) -> Sensitivity:
    """Run a result's plan under sampled errors of the estimates behind it.

    Parameters
    ----------
    instance
        The problem: the estimates.
    result
        Its result, with a solution.
    errors
        Relative standard deviations by name; for BOA ``speedup``, ``noise``, ``size``, ``arrival``, and ``by_class``
        for those of single classes (:class:`optplan.formulations.boa.study.sensitivity.EstimateErrors`).
    samples
        How many truths to draw.
    robust_samples
        From how many others to make a plan that is best on average; 0 for none.
    compare
        Whether to find what a planner who knew each truth could do.
    seed
        The same seed gives the same samples, for any number of processes.
    processes
        How many processes share the samples. They are started anew and import the main script again: with more than
        one, a script calls this below ``if __name__ == "__main__":``.
    on_event
        Called with progress events.

    Raises
    ------
    UsageError
        When the result has no solution, one that breaks rules or limits, or belongs to another instance; when a number
        is out of its range, or other processes cannot be started.
    DataError
        When the errors are not of a known kind and size.
    InfeasibleError
        When no robust plan keeps the limits on average.
    """
    solution = require_sound(instance, result)
    asked = {
        "samples": (samples, 1),
        "robust_samples": (robust_samples, 0),
        "seed": (seed, 0),
        "processes": (processes, 1),
    }
    for name, (number, least) in asked.items():
        require_whole(name, number, least)
    require_listener(on_event)
    formulation = formulation_of(instance)
    from optplan.contracts import SensitivityRequest

    analyse = formulation.analyse_sensitivity
    request = SensitivityRequest(samples, robust_samples, compare, seed, result.gap_target, processes, on_event)
    return analyse(instance, solution, formulation.estimate_errors(**errors), request)


def _find_solver(instance: Instance, solver: str | Solve) -> tuple[str, Solve]:
    if isinstance(solver, str):
        entry = choose_solver(instance, solver)
        return entry.name, entry.load()
    return f"function:{getattr(solver, '__name__', type(solver).__name__)}", solver


def choose_solver(instance: Instance, name: str = AUTO) -> SolverEntry:
    """Return the solver of that name, or for ``auto`` the first that takes the instance, an exact one if there is."""
    formulation = formulation_of(instance)
    asked = formulation.describe(instance)
    if name != AUTO:
        entry = formulation.solver(name)
        reason = entry.refusal(instance, asked)
        if reason is None:
            return entry
        takers = [s.name for s in formulation.solvers if s.refusal(instance, asked) is None]
        raise UnsupportedError(f"{reason}; solvers that take this instance: {', '.join(takers) or 'none'}")
    # One after another: what a solver supports may be known to its module alone, and the first exact one will do.
    able = (entry for entry in formulation.solvers if entry.refusal(instance, asked) is None)
    first = next(able, None)
    if first is None:
        would = (entry for entry in formulation.solvers if replace(entry, needs="").refusal(instance, asked) is None)
        lacking = next((f": {entry.refusal(instance, asked)}" for entry in would), "")
        raise UnsupportedError(f"no solver of {formulation.name} takes this instance{lacking}")
    return first if first.exact else next((entry for entry in able if entry.exact), first)
