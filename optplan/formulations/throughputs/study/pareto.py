"""The trade-off between time and money: every choice that no other beats in both."""

from __future__ import annotations

import time

from optplan.contracts.answer import SolveRequest
from optplan.contracts.pareto import ParetoFrontier, ParetoPoint
from optplan.contracts.time_and_money import BUDGET, DEADLINE
from optplan.errors import UnsupportedError
from optplan.formulations.throughputs.data.instance import ThroughputsInstance
from optplan.formulations.throughputs.exact.choosing import SAME, goal_of, list_choices


def build_pareto(instance: ThroughputsInstance, request: SolveRequest) -> ParetoFrontier:
    """Find the trade-off between time and cost; the instance's limits are ignored, its objective says which is which.

    Raises
    ------
    UnsupportedError
        When the limit that is asked for is one on the objective.
    """
    start = time.perf_counter()
    goal = goal_of(instance)
    limit = DEADLINE if goal == BUDGET else BUDGET
    if request.limit not in ("", limit):
        message = f"the frontier of the objective {instance.objective.value} is by {limit}, not by {request.limit}"
        raise UnsupportedError(message)
    choices, points = list_choices(instance), []
    used, reached = choices.used[limit], choices.used[goal]
    left = choices.keep({})
    while (best := choices.find_least(limit, left)) is not None:
        points.append(
            ParetoPoint(
                limit=float(used[best]),
                objective=float(reached[best]),
                bound=float(reached[best]),
                measures={"time_s": float(choices.used[DEADLINE][best]), "cost_usd": float(choices.used[BUDGET][best])},
                solution=choices.solution(best),
            )
        )
        left &= reached < reached[best] * (1.0 - SAME)
    return ParetoFrontier(
        formulation=instance.formulation,
        instance_name=instance.name,
        instance_hash=instance.content_hash(),
        limit_name=limit,
        limit_unit="s" if limit == DEADLINE else "usd",
        objective_unit=instance.objective_unit,
        points=tuple(points),
        exact=True,
        solve_seconds=time.perf_counter() - start,
    )
