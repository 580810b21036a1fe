"""The trade-off between time and money: every choice that no other beats in both."""

from __future__ import annotations

from optplan.contracts.frontier import ParetoFrontier, ParetoPoint
from optplan.contracts.result import SolveRequest
from optplan.contracts.time_and_money import BUDGET, DEADLINE
from optplan.formulations.throughputs.data import ThroughputsInstance
from optplan.formulations.throughputs.exact import SAME, find_least, goal_of, list_choices


def build_pareto(instance: ThroughputsInstance, request: SolveRequest) -> ParetoFrontier:
    """Find the trade-off between time and cost; limits are ignored, the objective says which is which."""
    goal, (limit, unit) = goal_of(instance), instance.traded_limit(request.limit)
    left, points = list_choices(instance), []
    while (best := find_least(left, limit)) is not None:
        points.append(
            ParetoPoint(
                limit=best.used[limit],
                objective=best.used[goal],
                bound=best.used[goal],
                measures={"time_s": best.used[DEADLINE], "cost_usd": best.used[BUDGET]},
                solution=best.solution,
            )
        )
        left = [each for each in left if each.used[goal] < best.used[goal] * (1.0 - SAME)]
    return ParetoFrontier.of(instance, (limit, unit), points, exact=True, seconds=request.stopwatch.elapsed_s)
