"""The trade-off between time and money: every fleet that no other beats in both."""

from __future__ import annotations

from optplan.contracts.frontier import ParetoFrontier, ParetoPoint
from optplan.contracts.result import SolveRequest, Termination
from optplan.formulations.srift.data.instance import Objective, SriftInstance, SriftSolution
from optplan.formulations.srift.exact.goals import FrontierGoal, JudgedFleet, LeastGoal
from optplan.formulations.srift.exact.search import FleetSpace
from optplan.progress import Stopwatch

#: Deadlines between the fastest and the cheapest fleet at which a fleet is sought before all others, as a first sketch.
_SKETCHED = 6
#: Of the time limit, what each fleet of the sketch may take.
_SHARE = 0.05


def build_pareto(instance: SriftInstance, request: SolveRequest) -> ParetoFrontier:
    """Find the trade-off of time and cost, whichever is the limit; within a time limit it may be proof of nothing."""
    limit = instance.traded_limit(request.limit)
    free = instance.replace(deadline_s=None, budget=None)
    goal = FrontierGoal()
    if request.stopwatch.limit_s is not None:
        _sketch(free, goal, request.stopwatch)
    end = FleetSpace(free).search(goal, request.stopwatch)
    exact = end.termination is Termination.COMPLETED
    in_time = instance.objective is Objective.COST
    points = [_point(fleet, in_time=in_time, exact=exact) for fleet in goal.fleets]
    return ParetoFrontier.of(instance, limit, points, exact=exact, seconds=request.stopwatch.elapsed_s)


def _sketch(instance: SriftInstance, goal: FrontierGoal, stopwatch: Stopwatch) -> None:
    """Offer the fastest, the cheapest, and the cheapest fleets at some deadlines between."""
    fastest = _find_best(instance.replace(objective=Objective.TIME), goal, stopwatch)
    cheapest = _find_best(instance.replace(objective=Objective.COST), goal, stopwatch)
    if fastest is None or cheapest is None or not fastest.time_s < cheapest.time_s:
        return
    for step in range(1, _SKETCHED + 1):
        deadline_s = fastest.time_s * (cheapest.time_s / fastest.time_s) ** (step / (_SKETCHED + 1))
        _find_best(instance.replace(objective=Objective.COST, deadline_s=deadline_s), goal, stopwatch)


def _find_best(instance: SriftInstance, goal: FrontierGoal, stopwatch: Stopwatch) -> JudgedFleet | None:
    least = LeastGoal(instance)
    remaining_s = stopwatch.remaining_s or 0.0
    FleetSpace(instance).search(least, Stopwatch(remaining_s * _SHARE))
    if least.best is not None:
        goal.offer(least.best)
    return least.best


def _point(fleet: JudgedFleet, *, in_time: bool, exact: bool) -> ParetoPoint:
    limit, objective = (fleet.time_s, fleet.cost_usd) if in_time else (fleet.cost_usd, fleet.time_s)
    return ParetoPoint(
        limit=limit,
        objective=objective,
        bound=objective if exact else None,
        measures={"time_s": fleet.time_s, "cost_usd": fleet.cost_usd},
        solution=SriftSolution(groups=fleet.groups),
    )
