"""The trade-off between time and money: every choice that no other beats in both."""

from __future__ import annotations

from optplan.contracts.frontier import ParetoFrontier, ParetoPoint
from optplan.contracts.result import SolveRequest
from optplan.contracts.time_and_money import BUDGET, DEADLINE
from optplan.formulations.throughputs.data import ThroughputsInstance
from optplan.formulations.throughputs.exact import SAME, goal_of, list_choices


def build_pareto(instance: ThroughputsInstance, request: SolveRequest) -> ParetoFrontier:
    """Find the trade-off between time and cost; limits are ignored, the objective says which is which."""
    goal, (limit, unit) = goal_of(instance), instance.traded_limit(request.limit)
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
    return ParetoFrontier.of(instance, (limit, unit), points, exact=True, seconds=request.stopwatch.elapsed_s)
