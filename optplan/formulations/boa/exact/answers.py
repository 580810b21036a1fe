"""From what general engines say to BOA's answers: solutions, bounds and what they rest on, shadow prices."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from optplan.contracts.result import (
    Answer,
    BoundProof,
    LagrangianCertificate,
    ShadowPrice,
    SolveRequest,
    Status,
    status_of,
)
from optplan.errors import EngineError
from optplan.formulations.boa.data.instance import BUDGET, BoaInstance, BoaSolution, Policy
from optplan.formulations.boa.exact.costs import bound_at, cost_steps
from optplan.formulations.boa.exact.feasibility import raise_to_least, state_linked, state_runs
from optplan.formulations.boa.exact.paths import write_branch
from optplan.schema import FloatArray
from optplan.solvers.budgeted_paths import TOLERANCE, BudgetedPaths, Choice, PathsOutcome
from optplan.solvers.limits import is_lost
from optplan.solvers.paths.effort import Effort

#: Bounds that differ by less, relatively, are the same.
_SAME = 1.0 - 1e-9


def state_paths(instance: BoaInstance) -> BudgetedPaths:
    """State a problem with whole widths as budgeted paths, with the limits of the instance."""
    limits = raise_to_least(instance).limits
    return BudgetedPaths(tuple(cost_steps(instance)), np.array([limits[limit] for limit in instance.limit_names]))


def certificate_at(instance: BoaInstance, *multipliers: float) -> LagrangianCertificate:
    """Return what multipliers of the limits prove, whoever found them.

    Parameters
    ----------
    instance
        The problem, with its budget.
    multipliers
        In the order of ``instance.limit_names``: seconds of mean completion time per unit of the limit, at least zero.
        Where rounding leaves nothing of what they prove, zeros take their place.
    """
    return certify_bound(instance, bound_at(instance, np.array(multipliers)), *multipliers)


def certify_bound(instance: BoaInstance, bound: float, *multipliers: float) -> LagrangianCertificate:
    """Return the certificate of a bound, or of what zeros prove where rounding leaves nothing of it.

    Parameters
    ----------
    instance
        The problem, with its budget.
    bound
        What the multipliers prove.
    multipliers
        As for :func:`certificate_at`.
    """
    weights = np.array(multipliers)
    if is_lost(bound, float(weights @ np.array(list(instance.limits.values())))):
        weights = np.zeros(weights.size)
        bound = bound_at(instance, weights)
    return LagrangianCertificate(
        multipliers=dict(zip(instance.limit_names, weights.tolist(), strict=True)), bound=bound
    )


def solution_of(instance: BoaInstance, choice: Choice) -> BoaSolution:
    """Write a choice of paths as widths by class, with GPU types where there are several."""
    return BoaSolution(
        branches={
            name: tuple(write_branch(instance, name, path.columns, path.fraction) for path in mixture)
            for name, mixture in zip(instance.classes, choice, strict=True)
        }
    )


def answer_from_paths(
    instance: BoaInstance, request: SolveRequest, problem: BudgetedPaths, outcome: PathsOutcome, proof: BoundProof
) -> Answer[BoaSolution]:
    """Turn an engine's outcome into an answer.

    Parameters
    ----------
    instance
        The problem; a plan that keeps its limits exists, mixed ones included.
    problem, outcome
        What the engine was given and what it said.
    proof
        What the engine's own bound rests on.

    Returns
    -------
    Answer
        For mixtures the bound is re-derived from the engine's multipliers and carries a certificate. Where the engine
        has neither bound nor multipliers, the bound is that of limits which are no object (multipliers zero). With
        several limits it may be that mixed plans keep them and pure ones do not: then the status is INFEASIBLE, with
        the proof that our own search finds in the time that is left; without one the engine's word is taken.

    Raises
    ------
    EngineError
        When the engine calls a problem infeasible that is not.
    """
    if outcome.status is Status.INFEASIBLE:
        return _exclude_pure(instance, request, outcome.engine)
    objective, used = problem.totals(outcome.choice) if outcome.choice is not None else (None, problem.budgets)
    bound = outcome.bound
    certificates: tuple[LagrangianCertificate, ...] = ()
    if outcome.multipliers is not None or bound is None:
        multipliers = np.zeros(problem.budgets.size) if outcome.multipliers is None else outcome.multipliers
        certificate = certificate_at(instance, *multipliers.tolist())
        bound, proof, certificates = certificate.bound, BoundProof.LAGRANGIAN, (certificate,)
        # Within the tolerance of a limit a plan may lie below the bound; then the two agree.
        bound = bound if objective is None else min(bound, objective)
    elif objective is not None and outcome.status is Status.OPTIMAL and abs(bound - objective) <= TOLERANCE * objective:
        bound = objective  # the engine closed the gap; what is left is rounding on its own scale
    return Answer(
        status=status_of(objective, bound, request.gap),
        termination=outcome.termination,
        solution=solution_of(instance, outcome.choice) if outcome.choice is not None else None,
        objective=objective,
        bound=bound,
        bound_proof=proof,
        certificates=certificates,
        shadow_prices=_shadow_prices(instance, problem, outcome, used),
        counters=outcome.counters,
        engine=outcome.engine,
        engine_version=outcome.engine_version,
    )


def _exclude_pure(instance: BoaInstance, request: SolveRequest, engine: str) -> Answer[BoaSolution]:
    """Answer that no pure plan keeps limits which mixed plans keep, as an engine says.

    Raises
    ------
    EngineError
        When there is a plan.
    """
    from optplan.formulations.boa.exact.trees import explain_division
    from optplan.solvers.paths import closing, solutions

    found = None
    if len(instance.limit_names) > 1 and instance.policy is Policy.PURE:
        costs, limits = cost_steps(instance), np.array(list(instance.limits.values()))
        found = closing.solve_pure(
            state_linked(instance), effort=Effort(request.stopwatch), runs=lambda: state_runs(instance, costs, limits)
        )
    if not isinstance(found, solutions.LinkedSolution) or found.paths is not None:
        raise EngineError(f"{engine} finds no plan within the limits, although there is one")
    answer = explain_division(instance, found if math.isinf(found.bound) else None, request)
    return replace(answer, engine=engine)


def price_of(instance: BoaInstance, less: float, more: float, limit: str = BUDGET) -> ShadowPrice:
    """Return the shadow price of a limit; infinite on the side on which nothing is feasible becomes None."""
    # Where the two are the same, rounding may turn their order.
    ends = (max(less, more), more)
    return ShadowPrice(less=ends[0] if math.isfinite(less) else None, more=ends[1], unit=instance.price_unit(limit))


def price_at(instance: BoaInstance, limit: str, multipliers: dict[str, float]) -> ShadowPrice:
    """Return the shadow price of a limit that has the same slope on both sides, at multipliers of all limits."""
    ends = multipliers if len(multipliers) > 1 else {}
    price = multipliers[limit]
    unit = instance.price_unit(limit)
    return ShadowPrice(less=price, more=price, unit=unit, less_multipliers=ends, more_multipliers=ends)


def _shadow_prices(
    instance: BoaInstance, problem: BudgetedPaths, outcome: PathsOutcome, used: FloatArray
) -> dict[str, ShadowPrice]:
    """Return the engine's multipliers where they are slopes on both sides.

    Of a limit that is not used up the slope is zero. The others have one slope when the vertex is not degenerate: when
    there is one path more than classes for each of them.
    """
    if outcome.multipliers is None or outcome.choice is None:
        return {}
    spent = used >= problem.budgets * (1.0 - TOLERANCE)
    more_paths = sum(len(mixture) - 1 for mixture in outcome.choice)
    prices = {}
    named = dict(zip(problem.limits, outcome.multipliers.tolist(), strict=True))
    best = bound_at(instance, outcome.multipliers)
    for limit, multiplier, is_spent in zip(problem.limits, outcome.multipliers.tolist(), spent.tolist(), strict=True):
        without = named | {limit: 0.0}
        if not is_spent and multiplier > 0.0 and bound_at(instance, np.array(list(without.values()))) < best * _SAME:
            continue  # where there is hardly anything to spend, an engine may leave it and charge for it nevertheless
        if not is_spent or more_paths == np.count_nonzero(spent):
            price = multiplier if is_spent else 0.0
            prices[limit] = price_at(instance, limit, named | {limit: price})
    return prices
