"""What a search of fleets looks for: the best one within the limits, or all that no other beats."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right

import numpy as np
from numpy.typing import NDArray

from optplan.formulations.srift.data.instance import BUDGET, DEADLINE, Objective, SriftInstance, VmGroup
from optplan.formulations.srift.exact.incumbents import TOLERANCE, JudgedFleet
from optplan.schema import FloatArray

#: Times and costs that differ by less than this, relatively, are equal.
SAME = 1e-10


class Goal(ABC):
    """What is looked for: which fleets are worth deciding further, and which of them first."""

    #: Whether there is a fleet yet.
    found = False

    @abstractmethod
    def keeps(self, time_s: FloatArray, cost_usd: FloatArray, vms: FloatArray) -> NDArray[np.bool_]:
        """Say which fleets could still be what is looked for, by lower bounds of time, cost and VMs."""

    @abstractmethod
    def rank(self, time_s: FloatArray, cost_usd: FloatArray) -> FloatArray:
        """Return (N,) the least first, by lower bounds of time and cost."""

    def offer(self, fleet: JudgedFleet) -> None:
        """Take a fleet that reaches the batch for what it is; what proves only takes none."""
        del fleet

    @property
    def objective(self) -> float | None:
        """What the best fleet reaches, to tell about progress; None where there is no one best."""
        return None

    def closes(self, rank: float, gap: float) -> bool:
        """Whether the least rank of all that is left is near enough to what was found."""
        del rank, gap
        return False

    def ends(self, rank: float) -> bool:
        """Whether nothing of such a rank, or a larger one, can be what is looked for."""
        del rank
        return False


class LeastGoal(Goal):
    """The fleet with the least objective within the limits.

    Of fleets with the same objective the one with less of the other of time and cost, then the one with fewer VMs, then
    the one with more VMs, and larger batches, of the types that come first.
    """

    def __init__(self, instance: SriftInstance, best: JudgedFleet | None = None) -> None:
        self._least_cost = instance.objective is Objective.COST
        self._types = list(instance.types)
        limits = instance.limits
        self._most_s = limits.get(DEADLINE, np.inf) * (1.0 + TOLERANCE)
        self._most_usd = limits.get(BUDGET, np.inf) * (1.0 + TOLERANCE)
        self.best, self.found = best, best is not None

    @property
    def objective(self) -> float | None:
        """The best fleet's."""
        return None if self.best is None else self.best.objective

    def keeps(self, time_s: FloatArray, cost_usd: FloatArray, vms: FloatArray) -> NDArray[np.bool_]:
        """Say which fleets could be within the limits and better than the best one."""
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
        """Return the objective."""
        return cost_usd if self._least_cost else time_s

    def offer(self, fleet: JudgedFleet) -> None:
        """Keep the fleet if it ends within the limits and is better than the best one."""
        ends = fleet.keeps_limits and math.isfinite(fleet.cost_usd)
        if ends and (self.best is None or self._precedes(fleet, self.best)):
            self.best, self.found = fleet, True

    def closes(self, rank: float, gap: float) -> bool:
        """Whether the best fleet is within the gap of the rank."""
        return self.best is not None and rank >= self.best.objective * (1.0 - gap)

    def ends(self, rank: float) -> bool:
        """Whether the rank is above the best objective."""
        return self.best is not None and rank > self.best.objective * (1.0 + SAME)

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


class FrontierGoal(Goal):
    """All fleets that no other beats in time and cost, whatever the limits."""

    def __init__(self) -> None:
        #: By increasing time with decreasing cost.
        self.fleets: list[JudgedFleet] = []
        self._times: list[float] = []

    def keeps(self, time_s: FloatArray, cost_usd: FloatArray, vms: FloatArray) -> NDArray[np.bool_]:
        """Say which fleets no fleet found so far beats."""
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
        self._times, self.found = [each.time_s for each in self.fleets], True


def _count(groups: tuple[VmGroup, ...]) -> int:
    return sum(group.count for group in groups)
