"""From what general engines say to BOA's answers: solutions, bounds and what they rest on, shadow prices."""

from __future__ import annotations

import math
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
from optplan.formulations.boa.exact.costs import bound_at, cost_steps
from optplan.formulations.boa.exact.feasibility import raise_to_least, state_linked, state_runs
from optplan.formulations.boa.models.flows import Choice, add_up, mix_within, write_solution
from optplan.schema import FloatArray
from optplan.solvers.limits import LIMIT_TOLERANCE, is_within
from optplan.solvers.paths.search import Effort
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
        The best plan found, as paths; None without any.
    multipliers
        (L,) Dual values of the limits of a linear program, in seconds per unit; None of others.
    """

    outcome: ProgramOutcome
    choice: Choice | None = None
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
    if found.choice is not None and instance.policy is Policy.MIXED:
        limits = np.array(list(raise_to_least(instance).limits.values()))
        found = replace(found, choice=mix_within(list(cost_steps(instance)), found.choice, limits) or found.choice)
    objective, used = _price(instance, found)
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
        solution=None if found.choice is None else write_solution(instance, found.choice),
        objective=objective,
        bound=bound,
        bound_proof=proof,
        certificates=certificates,
        shadow_prices=_list_prices(instance, found, used),
        counters=outcome.counters,
        engine=outcome.engine,
        engine_version=outcome.engine_version,
    )


def _price(instance: BoaInstance, found: Found) -> tuple[float | None, FloatArray]:
    """Return the objective of the plan, and what it takes of each limit (L,); all of it where there is none.

    Raises
    ------
    EngineError
        When it takes more.
    """
    limits = raise_to_least(instance).limits
    if found.choice is None:
        return None, np.array(list(limits.values()))
    objective, used = add_up(list(cost_steps(instance)), found.choice)
    for limit, amount in zip(instance.limit_names, used.tolist(), strict=True):
        if not is_within(amount, limits[limit]):
            message = f"returned a plan that takes {amount!r} of a limit ({limit}) of {limits[limit]!r}"
            raise EngineError(f"{found.outcome.engine} {message}")
    return objective, used


def _exclude_pure(instance: BoaInstance, request: SolveRequest, engine: str) -> Answer[BoaSolution]:
    """Answer that no pure plan keeps limits which mixed plans keep, as an engine says.

    Raises
    ------
    EngineError
        When there is a plan.
    """
    from optplan.formulations.boa.exact.trees import explain_division
    from optplan.solvers.paths import closing

    found = None
    if len(instance.limit_names) > 1 and instance.policy is Policy.PURE:
        costs, limits = cost_steps(instance), np.array(list(instance.limits.values()))
        found = closing.solve_pure(
            state_linked(instance), effort=Effort(request.stopwatch), runs=lambda: state_runs(instance, costs, limits)
        )
    if not isinstance(found, closing.LinkedSolution) or found.paths is not None:
        raise EngineError(f"{engine} finds no plan within the limits, although there is one")
    answer = explain_division(instance, found if math.isinf(found.bound) else None, request)
    return replace(answer, engine=engine)


def _list_prices(instance: BoaInstance, found: Found, used: FloatArray) -> dict[str, ShadowPrice]:
    """Return the engine's multipliers where they are slopes on both sides.

    Of a limit that is not used up the slope is zero. The others have one slope when the vertex is not degenerate: when
    there is one path more than classes for each of them.
    """
    if found.multipliers is None or found.choice is None:
        return {}
    spent = used >= np.array(list(raise_to_least(instance).limits.values())) * (1.0 - LIMIT_TOLERANCE)
    more_paths = sum(len(mixture) - 1 for mixture in found.choice)
    prices = {}
    named = dict(zip(instance.limit_names, found.multipliers.tolist(), strict=True))
    best = bound_at(instance, found.multipliers)
    for (limit, multiplier), is_spent in zip(named.items(), spent.tolist(), strict=True):
        without = named | {limit: 0.0}
        if not is_spent and multiplier > 0.0 and bound_at(instance, np.array(list(without.values()))) < best * _SAME:
            continue  # where there is hardly anything to spend, an engine may leave it and charge for it nevertheless
        if not is_spent or more_paths == np.count_nonzero(spent):
            price = multiplier if is_spent else 0.0
            prices[limit] = price_at(instance, limit, named | {limit: price})
    return prices
