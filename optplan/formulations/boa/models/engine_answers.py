"""From what general engines say to BOA's answers: solutions, bounds and what they rest on, shadow prices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

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
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Policy
from optplan.formulations.boa.exact.answers import certificate_at, price_at
from optplan.formulations.boa.exact.costs import bound_at, cost_steps, list_amounts
from optplan.formulations.boa.exact.feasibility import raise_to_least, state_linked, state_runs
from optplan.formulations.boa.exact.paths import write_mixture
from optplan.formulations.boa.models.flows import Strand, mix_strands, mix_within
from optplan.schema import FloatArray
from optplan.solvers.limits import LIMIT_TOLERANCE, is_within
from optplan.solvers.paths import mixtures
from optplan.solvers.paths.effort import Effort
from optplan.solvers.programs.program import ProgramOutcome

#: Bounds that differ by less, relatively, are the same.
_SAME = 1.0 - 1e-9


@dataclass(frozen=True, eq=False)
class Found:
    """What an engine found.

    Parameters
    ----------
    outcome
        What it says; the bound is in seconds.
    choice
        The best plan found, as paths of each class; None without any.
    multipliers
        (L,) Dual values of the limits of a linear program, in seconds per unit; None of others.
    """

    outcome: ProgramOutcome
    choice: Sequence[Sequence[Strand]] | None = None
    multipliers: FloatArray | None = None


def answer_from(instance: BoaInstance, request: SolveRequest, found: Found, proof: BoundProof) -> Answer[BoaSolution]:
    """Turn what an engine found into an answer.

    Parameters
    ----------
    instance
        The problem; a plan that keeps its limits exists, mixed ones included.
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
        When the engine calls a problem infeasible that is not, or returns a plan beyond a limit.
    """
    outcome, multipliers = found.outcome, found.multipliers
    if outcome.status is Status.INFEASIBLE:
        return _exclude_pure(instance, request, outcome.engine)
    plan = _read_plan(raise_to_least(instance), found)
    objective, used = None if plan is None else plan.value, np.array(list(instance.limits.values()))
    used = used if plan is None else plan.consumption
    bound = outcome.bound
    certificates: tuple[LagrangianCertificate, ...] = ()
    if multipliers is not None or bound is None:
        certificate = certificate_at(instance, *(np.zeros(used.size) if multipliers is None else multipliers).tolist())
        bound, proof, certificates = certificate.bound, BoundProof.LAGRANGIAN, (certificate,)
        # Within the tolerance of a limit a plan may lie below the bound; then the two agree.
        bound = bound if objective is None else min(bound, objective)
    elif objective is not None and outcome.status is Status.OPTIMAL:
        # Where the engine has closed the gap, what is left is rounding on its own scale.
        bound = objective if abs(bound - objective) <= LIMIT_TOLERANCE * objective else bound
    return Answer(
        status=status_of(objective, bound, request.gap),
        termination=outcome.termination,
        solution=None if plan is None else write_mixture(instance, plan),
        objective=objective,
        bound=bound,
        bound_proof=proof,
        certificates=certificates,
        shadow_prices={} if plan is None else _list_prices(instance, found.multipliers, plan),
        counters=outcome.counters,
        engine=outcome.engine,
        engine_version=outcome.engine_version,
    )


def _read_plan(instance: BoaInstance, found: Found) -> mixtures.Mixture | None:
    """Return the plan that was found, if any; of mixed ones the best that its paths make.

    Raises
    ------
    EngineError
        When it takes more of a limit than there is.
    """
    if found.choice is None:
        return None
    costs = cost_steps(instance)
    plan = mix_within(instance, costs, found.choice) if instance.policy is Policy.MIXED else None
    plan = plan or mix_strands(costs, found.choice)
    for (limit, most), amount in zip(instance.limits.items(), plan.consumption.tolist(), strict=True):
        if not is_within(amount, most):
            message = f"returned a plan that takes {amount!r} of a limit ({limit}) of {most!r}"
            raise EngineError(f"{found.outcome.engine} {message}")
    return plan


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
        costs, limits = cost_steps(instance), list_amounts(instance)
        found = closing.solve_pure(
            state_linked(instance), effort=Effort(request.stopwatch), runs=lambda: state_runs(instance, costs, limits)
        )
    if not isinstance(found, solutions.LinkedSolution) or found.paths is not None:
        raise EngineError(f"{engine} finds no plan within the limits, although there is one")
    answer = explain_division(instance, found if math.isinf(found.bound) else None, request)
    return replace(answer, engine=engine)


def _list_prices(
    instance: BoaInstance, multipliers: FloatArray | None, plan: mixtures.Mixture
) -> dict[str, ShadowPrice]:
    """Return the engine's multipliers where they are slopes on both sides.

    Of a limit that is not used up the slope is zero. The others have one slope when the vertex is not degenerate: when
    there is one path more than classes for each of them. A limit of nothing has but one side.
    """
    if multipliers is None:
        return {}
    amounts = np.array(list(raise_to_least(instance).limits.values()))
    spent = plan.consumption >= amounts * (1.0 - LIMIT_TOLERANCE)
    more_paths = plan.graph.size - len(instance.classes)
    prices = {}
    named = dict(zip(instance.limit_names, multipliers.tolist(), strict=True))
    best = bound_at(instance, multipliers)
    for (limit, multiplier), is_spent in zip(named.items(), spent.tolist(), strict=True):
        without = named | {limit: 0.0}
        if not is_spent and multiplier > 0.0 and bound_at(instance, np.array(list(without.values()))) < best * _SAME:
            continue  # where there is hardly anything to spend, an engine may leave it and charge for it nevertheless
        if instance.limits[limit] and (not is_spent or more_paths == np.count_nonzero(spent & (amounts > 0.0))):
            price = multiplier if is_spent else 0.0
            prices[limit] = price_at(instance, limit, named | {limit: price})
    return prices
