"""``solve`` and ``frontier``: choose the solver, time it, have the judge look at what it says."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import optplan
from optplan.contracts import (
    Answer,
    Frontier,
    Instance,
    Plan,
    Result,
    Solution,
    SolveRequest,
    Status,
    Verification,
)
from optplan.contracts.registry import Formulation, SolverEntry, load
from optplan.contracts.result import relative_gap
from optplan.errors import UnsupportedError, UsageError
from optplan.formulations import formulation_of
from optplan.progress import Event, Stopwatch
from optplan.verification import verify

#: Lets the first solver that takes the instance solve it.
AUTO = "auto"


def solve(
    instance: Instance,
    *,
    solver: str = AUTO,
    gap: float = 1e-6,
    time_limit_s: float | None = None,
    seed: int = 0,
    on_event: Callable[[Event], None] | None = None,
    check: bool = True,
) -> Result[Solution]:
    """Solve an instance and have the result verified.

    Parameters
    ----------
    instance
        The problem; its limits (budget, deadline) are part of it.
    solver
        Name of a registered solver, or ``auto``.
    gap
        Relative gap at which a solution counts as optimal.
    time_limit_s
        Seconds after which the solver returns the best it has.
    seed
        For everything random; the same seed gives the same result.
    on_event
        Called with progress events.
    check
        Whether to verify the result; its time is reported apart.

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
    """
    if not 0 <= gap < 1:
        message = f"gap: got {gap!r}; a relative gap from 0 to below 1 is needed, such as 1e-6"
        raise UsageError(message)
    if time_limit_s is not None and not time_limit_s > 0:
        message = f"time_limit_s: got {time_limit_s!r}; seconds above zero are needed"
        raise UsageError(message)
    if seed < 0:
        message = f"seed: got {seed!r}; a whole number of at least 0 is needed"
        raise UsageError(message)
    formulation = formulation_of(instance)
    entry = choose_solver(instance, solver)
    request = SolveRequest(gap=gap, seed=seed, stopwatch=Stopwatch(time_limit_s, on_event))
    start = time.perf_counter()
    answer: Answer[Solution] = load(entry.target)(instance, request)
    seconds = time.perf_counter() - start
    result = _assemble(formulation, instance, entry, request, answer, seconds)
    if not check:
        return result
    verification = verify(instance, result)
    verification.require()
    return result.replace(verify_seconds=verification.seconds)


def frontier(instance: Instance) -> Frontier:
    """Compute the whole trade-off between the limit and the objective; later queries are look-ups.

    Parameters
    ----------
    instance
        The problem; its own limit is ignored.

    Returns
    -------
    Frontier
        Of the convexified problem (mixed plans); every breakpoint is a pure plan.
    """
    built: Frontier = formulation_of(instance).loaded("build_frontier")(instance)
    return built


def build_plan(instance: Instance, result: Result[Solution]) -> Plan:
    """Turn a result into a plan that an executor can run.

    Raises
    ------
    UsageError
        When the result has no solution.
    """
    if result.solution is None:
        message = f"the result has no solution to plan (status {result.status})"
        raise UsageError(message)
    plan: Plan = formulation_of(instance).loaded("build_plan")(instance, result)
    return plan


def choose_solver(instance: Instance, name: str = AUTO) -> SolverEntry:
    """Return the solver of that name, or for ``auto`` the first exact one that takes the instance.

    Raises
    ------
    UsageError
        When there is no such solver.
    UnsupportedError
        When it does not take the instance.
    """
    formulation = formulation_of(instance)
    asked = formulation.loaded("describe")(instance)
    if name != AUTO:
        entry = formulation.solver(name)
        reason = entry.refusal(**asked)
        if reason is None:
            return entry
        takers = [s.name for s in formulation.solvers if s.refusal(**asked) is None]
        raise UnsupportedError(f"{reason}; solvers that take this instance: {', '.join(takers) or 'none'}")
    for entry in formulation.solvers:
        if entry.exact and entry.refusal(**asked) is None:
            return entry
    raise UnsupportedError(f"no solver of {formulation.name} takes this instance")


def _assemble(
    formulation: Formulation,
    instance: Instance,
    entry: SolverEntry,
    request: SolveRequest,
    answer: Answer[Solution],
    seconds: float,
) -> Result[Solution]:
    """Make the result; objective and measures come from the evaluator, the status from the gap that they leave."""
    objective, measures, status = None, {}, answer.status
    if answer.solution is not None:
        evaluation = formulation.loaded("evaluate")(instance, answer.solution)
        if not math.isfinite(evaluation.objective):  # decisions too broken to evaluate; the checks say how
            Verification(checks=evaluation.checks).require()
        objective, measures = evaluation.objective, evaluation.measures
        gap = relative_gap(objective, answer.bound)
        status = Status.OPTIMAL if gap is not None and gap <= request.gap else Status.FEASIBLE
    result: Result[Solution] = formulation.result_type()(
        formulation=formulation.name,
        instance_name=instance.name,
        instance_hash=instance.content_hash(),
        solver=entry.name,
        engine=answer.engine,
        engine_version=answer.engine_version or optplan.__version__,
        optplan_version=optplan.__version__,
        status=status,
        termination=answer.termination,
        objective=objective,
        objective_unit=formulation.objective_unit,
        bound=answer.bound,
        gap_target=request.gap,
        bound_proof=answer.bound_proof,
        certificates=answer.certificates,
        solution=answer.solution,
        infeasibility=answer.infeasibility,
        shadow_prices=answer.shadow_prices,
        measures=measures,
        seed=request.seed,
        solve_seconds=seconds,
        counters=answer.counters,
        warnings=answer.warnings,
    )
    return result
