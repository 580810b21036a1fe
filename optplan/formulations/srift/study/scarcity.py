"""What one more VM of each type would be worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optplan.contracts.result import Result, Termination
from optplan.formulations.srift.data.instance import SriftInstance, SriftSolution, VmGroup
from optplan.formulations.srift.exact.goals import FleetJudge, LeastGoal
from optplan.formulations.srift.exact.search import FleetSpace
from optplan.progress import Stopwatch


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
