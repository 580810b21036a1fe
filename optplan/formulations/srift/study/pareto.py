"""The trade-off between time and money of a fleet, and what one more VM of each type is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optplan.contracts.frontier import ParetoFrontier, ParetoPoint
from optplan.contracts.result import Result, SolveRequest, Termination
from optplan.contracts.time_and_money import BUDGET, DEADLINE, Objective
from optplan.formulations.srift.data.instance import SriftInstance, SriftSolution, VmGroup
from optplan.formulations.srift.exact.goals import FleetJudge, FrontierGoal, JudgedFleet, LeastGoal
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
    points = []
    for fleet in goal.fleets:
        used = {DEADLINE: fleet.time_s, BUDGET: fleet.cost_usd}
        objective = used[BUDGET if limit[0] == DEADLINE else DEADLINE]
        points.append(
            ParetoPoint(
                limit=used[limit[0]],
                objective=objective,
                bound=objective if exact else None,
                measures={"time_s": fleet.time_s, "cost_usd": fleet.cost_usd},
                solution=SriftSolution(groups=fleet.groups),
            )
        )
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


@dataclass(frozen=True)
class OneMoreVm:
    """What the problem's optimum would be with one more VM of a type to be had."""

    type: str
    available: int  # that can be had
    used: int  # that the result has
    objective: float | None  # The best one with one VM more; None where there still is no fleet.
    #: By how much that is less than the result's, its gap included; None where either has no fleet.
    saving: float | None
    proven: bool  # whether nothing better is possible; else time ran out
    groups: tuple[VmGroup, ...]  # the fleet of ``objective``


def value_of_one_more(
    instance: SriftInstance,
    result: Result[SriftSolution],
    *,
    only: Sequence[str] = (),
    time_limit_s: float | None = None,
) -> tuple[OneMoreVm, ...]:
    """Find what one more VM of each type, or of ``only`` some, would be worth; it may make the first fleet possible."""
    names = [name for name, vm in instance.types.items() if vm.available is not None and (not only or name in only)]
    groups = () if result.solution is None else result.solution.groups
    return tuple(_look_at(instance, groups, name, Stopwatch(time_limit_s)) for name in names)


def _look_at(instance: SriftInstance, groups: tuple[VmGroup, ...], name: str, stopwatch: Stopwatch) -> OneMoreVm:
    vm = instance.types[name]
    available = vm.available or 0
    more = instance.replace(types={**instance.types, name: vm.replace(available=available + 1)})
    known = FleetJudge(instance).judge(groups) if groups else None
    # What is known is still possible, so that only better fleets are looked for.
    goal = LeastGoal(more, best=known)
    end = FleetSpace(more).search(goal, stopwatch)
    best = goal.best
    return OneMoreVm(
        type=name,
        available=available,
        used=sum(group.count for group in groups if group.type == name),
        objective=None if best is None else best.objective,
        saving=None if best is None or known is None else max(0.0, known.objective - best.objective),
        proven=end.termination is Termination.COMPLETED,
        groups=() if best is None else best.groups,
    )
