"""Every plan of a tiny search with a confidence, from the best objective on, until one keeps the limits often enough.

The sheet: a run of a plan takes T = sum of X_j and costs C = data + E[minimum charges] + price * sum of w_j X_j; the
X_j are the independent durations of its requests, last initialisations and stages, w_j the instances paid meanwhile.
With deadline D, budget B and confidence p a plan counts when P(T <= D and C <= B) >= p, not P(T <= D) >= p and
P(C <= B) >= p: the family ``confidence``. Without a deadline D is infinite; what is least is the expected T or C.

Nothing is bounded or left out: the check of the solvers that do.
"""

from __future__ import annotations

import itertools
import math

from optplan.contracts.result import Answer, BoundProof, SolveRequest, Status, Termination
from optplan.errors import EngineError, UnsupportedError
from optplan.formulations.rubberband.data.instance import (
    BUDGET,
    DEADLINE,
    Objective,
    RubberBandInstance,
    RubberBandSolution,
    StageAllocation,
)
from optplan.formulations.rubberband.exact.both_limits import solve_held_distributions
from optplan.formulations.rubberband.exact.bracket_choice import price_chain
from optplan.formulations.rubberband.exact.stage_options import stage_options
from optplan.formulations.rubberband.laws.both import both_chance
from optplan.formulations.rubberband.models.general_engines import solve_enumeration
from optplan.solvers.limits import LIMIT_TOLERANCE

#: Most plans that are looked at, and by how much a probability may fall short.
_MOST_PLANS = 100_000
_SHORT_OF = 1e-6


def solve_every_chance(instance: RubberBandInstance, request: SolveRequest) -> Answer[RubberBandSolution]:
    """Solve by looking at every plan and how likely it keeps the limits.

    The bound is this engine's word. Where nothing varies, it is the answer of the enumeration for means.

    Raises
    ------
    EngineError
        When no plan is found, and the exact solver finds one.
    UnsupportedError
        When there are too many plans.
    """
    if not instance.is_random:
        return solve_enumeration(instance.replace(confidence=None), request)
    limits = {limit: amount * (1.0 + LIMIT_TOLERANCE) for limit, amount in instance.limits.items()}
    both, wanted = (limits.get(DEADLINE, math.inf), limits.get(BUDGET, math.inf)), instance.confidence or 0.0
    looked, by_cost = 0, instance.objective is Objective.COST
    listed = [price_chain(instance, chain) for chain in _list_plans(instance)]
    for plan in sorted(listed, key=lambda one: one.usd if by_cost else one.seconds):
        if request.stopwatch.expired:
            return Answer(Status.UNKNOWN, Termination.TIME_LIMIT)
        looked += 1
        held, gpus = zip(*((one.instances, one.gpus) for one in plan.allocations), strict=True)
        if both_chance(instance, held, gpus, *both) < wanted - _SHORT_OF:
            continue
        objective = plan.usd if by_cost else plan.seconds
        return Answer(
            Status.OPTIMAL,
            Termination.COMPLETED,
            solution=RubberBandSolution(brackets=(plan.allocations,)),
            objective=objective,
            bound=objective,
            bound_proof=BoundProof.ENGINE,
            counters={"plans": float(looked)},
        )
    # What would help is not in the table: that, and its proof, comes from the exact solver.
    refused = solve_held_distributions(instance, request)
    if refused.status is not Status.OPTIMAL:
        return refused
    message = f"the exact solver finds a plan at {refused.objective:.9g} {instance.objective_unit}, the table none"
    raise EngineError(message)


def _list_plans(instance: RubberBandInstance) -> list[tuple[StageAllocation, ...]]:
    offered = [stage_options(instance, 0, stage) for stage in range(len(instance.brackets[0]))]
    most = max(int(options.instances.max()) for options in offered)
    choices = [
        [
            StageAllocation(instances=held, gpus=gpus)
            for gpus, needed in zip(options.gpus.tolist(), options.instances.tolist(), strict=True)
            for held in range(needed, most + 1)
        ]
        for options in offered
    ]
    count = math.prod(len(some) for some in choices)
    if count > _MOST_PLANS:
        message = f"every plan is looked at up to {_MOST_PLANS:,}, and this search has {count:,}; choose another solver"
        raise UnsupportedError(message)
    return list(itertools.product(*choices))
