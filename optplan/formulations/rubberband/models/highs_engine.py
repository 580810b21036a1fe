"""RubberBand's declarative model handed to HiGHS.

The model leaves out minimum charges, so that its bound holds with them all the same. Plans are priced with them, and
those that break a limit are cut off, one by one, until one keeps it; the bound stays that of the first solve.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from optplan.contracts.result import Answer, BoundProof, SolveRequest, Status, Termination, status_of
from optplan.errors import EngineError
from optplan.formulations.rubberband.data.instance import Objective, RubberBandInstance, RubberBandSolution
from optplan.formulations.rubberband.exact.both_limits import keep_both
from optplan.formulations.rubberband.exact.bracket_choice import (
    PricedChain,
    find_least_plans,
    isolate_brackets,
    price_chain,
    price_plan,
    write_solution,
)
from optplan.formulations.rubberband.models.statement import state_model
from optplan.progress import Stopwatch
from optplan.solvers.limits import LIMIT_TOLERANCE
from optplan.solvers.paths.effort import OutOfEffortError
from optplan.solvers.programs.highs import ENGINE, ProgramOutcome, solve_program
from optplan.solvers.programs.program import read_program
from optplan.solvers.programs.statement import Statement

#: Plans that are cut off because minimum charges, or the engine's tolerance, break a limit.
_MOST_CUTS = 200


@keep_both
def solve_highs(instance: RubberBandInstance, request: SolveRequest) -> Answer[RubberBandSolution]:
    """Solve the declarative model, without constraints of anybody's own, with HiGHS.

    The bound is HiGHS's word, for the cost without minimum charges.

    Raises
    ------
    EngineError
        When HiGHS fails.
    """
    least = find_least_plans(instance, request)
    if isinstance(least, Answer):
        return least
    if not least or request.stopwatch.expired:
        return Answer(Status.UNKNOWN, Termination.TIME_LIMIT)
    try:
        statement = _state(instance, request.stopwatch)
    except OutOfEffortError:
        return Answer(Status.UNKNOWN, Termination.TIME_LIMIT)
    first, chosen, cuts = _search(instance, request, statement)
    if first.status is Status.INFEASIBLE:
        raise EngineError(f"{ENGINE} finds no plan within the {instance.limit_name}, although there is one")
    if chosen is None and cuts:
        chosen = list(least)  # what needs least of the limit keeps it
    return _answer(instance, request, first, chosen, cuts)


def _state(instance: RubberBandInstance, stopwatch: Stopwatch) -> Statement:
    return state_model(instance, every=False, stopwatch=stopwatch)


def _search(
    instance: RubberBandInstance, request: SolveRequest, statement: Statement
) -> tuple[ProgramOutcome, list[PricedChain] | None, int]:
    """Return what HiGHS says first, the first plan that keeps the limit, and how many were cut off before."""
    first: ProgramOutcome | None = None
    alone, cuts = isolate_brackets(instance), 0
    # What is beyond the limit by its whole tolerance is to be seen, too; what is further beyond is cut off.
    scaling = replace(statement.scaling, slack=LIMIT_TOLERANCE)
    while True:
        read = read_program(statement.native, scaling, names=False)
        outcome = solve_program(read.program, request)
        first = _close(outcome, read.program) if first is None else first
        if outcome.values is None:
            return first, None, cuts
        read.load(outcome.values)
        solution: Any = statement.read()
        chosen = [price_chain(one, chain) for one, chain in zip(alone, solution.brackets, strict=True)]
        if _keeps_limit(instance, chosen):
            return first, chosen, cuts
        statement.cut_off()
        cuts += 1
        if cuts > _MOST_CUTS or request.stopwatch.expired:
            return first, None, cuts


def _close(outcome: ProgramOutcome, program: Any) -> ProgramOutcome:  # noqa: ANN401 - a program's matrices
    """Take what is left of a gap that the engine has closed for rounding on its own scale."""
    if outcome.status is not Status.OPTIMAL or outcome.values is None or outcome.bound is None:
        return outcome
    value = float(program.cost @ outcome.values + program.offset)
    return replace(outcome, bound=value) if abs(outcome.bound - value) <= LIMIT_TOLERANCE * abs(value) else outcome


def _keeps_limit(instance: RubberBandInstance, chosen: list[PricedChain]) -> bool:
    most = instance.limits[instance.limit_name] * (1.0 + LIMIT_TOLERANCE)
    if instance.objective is Objective.COST:
        return max(one.seconds for one in chosen) <= most
    return math.fsum(one.usd for one in chosen) <= most


def _answer(
    instance: RubberBandInstance,
    request: SolveRequest,
    first: ProgramOutcome,
    chosen: list[PricedChain] | None,
    cuts: int,
) -> Answer[RubberBandSolution]:
    objective = None if chosen is None else price_plan(instance, chosen)
    bound = max(0.0, first.bound or 0.0)
    bound = bound if objective is None else min(bound, objective)
    status = status_of(objective, bound, request.gap)
    warnings: tuple[str, ...] = ()
    if status is not Status.OPTIMAL and instance.has_minimum_charges and first.termination is Termination.COMPLETED:
        warnings = (f"{ENGINE} does not see minimum charges, so its bound is without them",)
    return Answer(
        status,
        first.termination,
        solution=None if chosen is None else write_solution(chosen),
        objective=objective,
        bound=bound,
        bound_proof=BoundProof.ENGINE,
        counters=dict(first.counters) | {"cut_off": float(cuts)},
        engine=first.engine,
        engine_version=first.engine_version,
        warnings=warnings,
    )
