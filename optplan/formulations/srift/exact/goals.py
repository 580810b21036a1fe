"""What a search of fleets looks for: the best one within the limits, or all that no other beats."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optplan.contracts.time_and_money import BUDGET, DEADLINE, Objective
from optplan.formulations.srift.data.instance import SriftInstance, VmGroup, count_vms
from optplan.formulations.srift.laws.iteration import IterationModel, expect_training, interruption_rate_per_s
from optplan.schema import FloatArray
from optplan.solvers.limits import LIMIT_TOLERANCE


@dataclass(frozen=True, slots=True)
class JudgedFleet:
    """A fleet with its time and cost; whether it reaches the batch is not looked at."""

    groups: tuple[VmGroup, ...]
    #: As the evaluator defines them; infinite where a run with interruptions never ends.
    time_s: float
    cost_usd: float
    objective: float  # the one of the two that is made least
    #: By how much each of the instance's limits is exceeded, relative to it; zero where it is kept.
    excess: tuple[float, ...]

    @property
    def keeps_limits(self) -> bool:
        """Whether no limit is exceeded."""
        return not any(self.excess)


class FleetJudge:
    """Predicts time and cost of an instance's fleets, by a model that may have looked at some already."""

    def __init__(self, instance: SriftInstance, model: IterationModel | None = None) -> None:
        self.instance = instance
        self._model = IterationModel(instance) if model is None else model
        self._price_usd_per_s = {name: vm.price_usd_per_s for name, vm in instance.types.items()}

    def judge(self, groups: tuple[VmGroup, ...]) -> JudgedFleet:
        """Return what a fleet takes and costs."""
        instance = self.instance
        training_s = billed_s = instance.iterations * self._model.predict(groups).total_s
        if instance.interruptions is not None:
            rate_per_s = interruption_rate_per_s(instance, groups)
            training_s, billed_s = map(float, expect_training(training_s, rate_per_s, instance.interruptions))
        launches = any(count > instance.types[name].running for name, count in count_vms(groups).items())
        launch_s = instance.launch_s if launches else 0.0
        time_s = launch_s + training_s
        billed_s += launch_s if instance.launch_billed else 0.0
        cost_usd = billed_s * sum(group.count * self._price_usd_per_s[group.type] for group in groups)
        used = {DEADLINE: time_s, BUDGET: cost_usd}
        excess = tuple(
            used[limit] / most - 1.0 if used[limit] > most * (1.0 + LIMIT_TOLERANCE) else 0.0
            for limit, most in instance.limits.items()
        )
        objective = cost_usd if instance.objective is Objective.COST else time_s
        return JudgedFleet(groups, time_s, cost_usd, objective, excess)


#: Times and costs that differ by less than this, relatively, are equal.
SAME = 1e-10


class LeastGoal:
    """The fleet with the least objective, then the less of time or cost, fewer VMs, and more of the first types."""

    def __init__(self, instance: SriftInstance, best: JudgedFleet | None = None) -> None:
        self._least_cost = instance.objective is Objective.COST
        self._types = list(instance.types)
        limits = instance.limits
        self._most_s = limits.get(DEADLINE, np.inf) * (1.0 + LIMIT_TOLERANCE)
        self._most_usd = limits.get(BUDGET, np.inf) * (1.0 + LIMIT_TOLERANCE)
        self.best = best

    @property
    def found(self) -> bool:
        """Whether there is a fleet yet."""
        return self.best is not None

    @property
    def objective(self) -> float | None:
        """The best fleet's, above which nothing is looked for."""
        return None if self.best is None else self.best.objective

    def keeps(self, time_s: FloatArray, cost_usd: FloatArray, vms: FloatArray) -> NDArray[np.bool_]:
        """Say which fleets could be within the limits and better, by lower bounds of time, cost and VMs."""
        kept = np.isfinite(cost_usd) & (time_s <= self._most_s) & (cost_usd <= self._most_usd)
        if self.best is None:
            return kept
        first, second = (cost_usd, time_s) if self._least_cost else (time_s, cost_usd)
        least, other = self._sides(self.best)
        better = first < least * (1.0 - SAME)
        equal = first <= least * (1.0 + SAME)
        fewer = (second <= other * (1.0 + SAME)) & (vms <= _count(self.best.groups))
        return kept & (better | (equal & ((second < other * (1.0 - SAME)) | fewer)))

    def rank(self, time_s: FloatArray, cost_usd: FloatArray) -> FloatArray:
        """Return (N,) which are looked at first, the least: the objective."""
        return cost_usd if self._least_cost else time_s

    def offer(self, fleet: JudgedFleet) -> None:
        """Keep a fleet that reaches the batch if it ends within the limits and is better than the best one."""
        ends = fleet.keeps_limits and math.isfinite(fleet.cost_usd)
        if ends and (self.best is None or self._precedes(fleet, self.best)):
            self.best = fleet

    def _sides(self, fleet: JudgedFleet) -> tuple[float, float]:
        pair = fleet.cost_usd, fleet.time_s
        return pair if self._least_cost else pair[::-1]

    def _precedes(self, one: JudgedFleet, other: JudgedFleet) -> bool:
        for left, right in zip(self._sides(one), self._sides(other), strict=True):
            if abs(left - right) > SAME * max(left, right):
                return left < right
        return self._order(one.groups) < self._order(other.groups)

    def _order(self, groups: tuple[VmGroup, ...]) -> tuple[int, list[tuple[int, int]]]:
        by_type = [
            (
                -sum(group.count for group in groups if group.type == name),
                -max((group.batch for group in groups if group.type == name), default=0),
            )
            for name in self._types
        ]
        return _count(groups), by_type


class FrontierGoal:
    """All fleets that no other beats in time and cost, whatever the limits."""

    objective: float | None = None  # there is no one best

    def __init__(self) -> None:
        #: By increasing time with decreasing cost.
        self.fleets: list[JudgedFleet] = []
        self._times: list[float] = []

    @property
    def found(self) -> bool:
        """Whether there is a fleet yet."""
        return bool(self.fleets)

    def keeps(self, time_s: FloatArray, cost_usd: FloatArray, vms: FloatArray) -> NDArray[np.bool_]:
        """Say which fleets no fleet found so far beats, by lower bounds."""
        del vms
        costs = np.array([np.inf, *(fleet.cost_usd for fleet in self.fleets)])
        place = np.searchsorted(np.array(self._times), time_s * (1.0 + SAME), side="right")
        return np.isfinite(time_s) & (cost_usd < costs[place] * (1.0 - SAME))

    def rank(self, time_s: FloatArray, cost_usd: FloatArray) -> FloatArray:
        """Return the product: what is good at both comes first."""
        return time_s * cost_usd

    def offer(self, fleet: JudgedFleet) -> None:
        """Add the fleet if none beats it, and drop those that it beats."""
        place = bisect_right(self._times, fleet.time_s * (1.0 + SAME))
        if place and self.fleets[place - 1].cost_usd <= fleet.cost_usd * (1.0 + SAME):
            return
        kept = [
            other
            for other in self.fleets
            if other.time_s < fleet.time_s * (1.0 - SAME) or other.cost_usd < fleet.cost_usd * (1.0 - SAME)
        ]
        self.fleets = sorted([*kept, fleet], key=lambda each: each.time_s)
        self._times = [each.time_s for each in self.fleets]


#: What a search looks for: which fleets are worth deciding further, and which of them first.
Goal = LeastGoal | FrontierGoal


def _count(groups: tuple[VmGroup, ...]) -> int:
    return sum(group.count for group in groups)
