"""Which beginnings of walks are worth going on with: cuts by what can follow, and frontiers of what was seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from optplan.formulations.rubberband.judge.walks import Walks
from optplan.schema import FloatArray, IntArray


class Grid(Protocol):
    """What a cut looks at of all walks of a bracket: nodes by stage, and what growing between them takes."""

    held: IntArray

    @property
    def options(self) -> Sequence[object]:
        """What each stage can get."""

    @property
    def growth_parts(self) -> tuple[tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]] | None:
        """Seconds and US dollars of growing, as a part of each node left and one of each entered, where there are."""

    @property
    def next_growth(self) -> tuple[FloatArray, FloatArray]:
        """Seconds and US dollars (K - 1,) of growing from each node to the next."""

    def run_least(self, stage: int, usd_weight: float, s_weight: float) -> FloatArray:
        """Return by node (K,) the least weighted sum of an option of a stage."""

    def grow_from(self, node: int) -> tuple[FloatArray, FloatArray]:
        """Return seconds and US dollars of growing from a node to each later one."""


class UndominatedPairs:
    """Undominated pairs of seconds and US dollars among all walks seen."""

    def __init__(self) -> None:
        self.seconds = np.empty(0)
        self.usd = np.empty(0)

    def pass_through(self, walks: Walks) -> IntArray:
        """Return the walks that no pair seen before beats, and remember theirs."""
        least = np.append(math.inf, self.usd)
        rows = np.flatnonzero(walks.usd < least[np.searchsorted(self.seconds, walks.seconds, side="right")])
        seconds, usd = np.append(self.seconds, walks.seconds[rows]), np.append(self.usd, walks.usd[rows])
        order = np.lexsort((usd, seconds))
        order = order[usd[order] < np.minimum.accumulate(np.append(math.inf, usd[order]))[:-1]]
        self.seconds, self.usd = seconds[order], usd[order]
        return rows


class Cut:
    """Walks wanted: those whose weighted sum, with the least that can follow, is within a limit."""

    def __init__(self, walks: Grid, usd_weight: float, s_weight: float, limit: float) -> None:
        self.usd_weight = usd_weight
        self.s_weight = s_weight
        self.limit = limit
        stages = len(walks.options)
        #: By stage, (K,): the least that follows a node, and the same with the stage itself.
        self.rest: list[FloatArray] = [np.zeros(walks.held.size)] * stages
        self.ahead: list[FloatArray] = [np.zeros(walks.held.size)] * stages
        for stage in range(stages - 1, -1, -1):
            if stage + 1 < stages:
                self.rest[stage] = self._look_ahead(walks, self.ahead[stage + 1])
            self.ahead[stage] = walks.run_least(stage, usd_weight, s_weight) + self.rest[stage]

    def weigh(self, seconds: FloatArray, usd: FloatArray) -> FloatArray:
        """Return weighted sums."""
        return self.usd_weight * usd + self.s_weight * seconds

    def _look_ahead(self, walks: Grid, ahead: FloatArray) -> FloatArray:
        """Return the least that follows a node: at an earlier node or itself for nothing, or after growing."""
        rest = np.minimum.accumulate(ahead)
        if walks.growth_parts is not None:
            (left_s, left_usd), (entered_s, entered_usd) = walks.growth_parts
            entering = np.minimum.accumulate((self.weigh(entered_s, entered_usd) + ahead[1:])[::-1])[::-1]
            rest[:-1] = np.minimum(rest[:-1], self.weigh(left_s, left_usd) + entering)
            return rest
        grown_s, grown_usd = walks.next_growth
        later = np.append(np.minimum.accumulate(ahead[::-1])[::-1][1:], math.inf)
        least = later[:-1] + self.weigh(grown_s, grown_usd)
        for node in np.flatnonzero(least < rest[:-1]).tolist():
            grow_s, grow_usd = walks.grow_from(node)
            rest[node] = min(rest[node], float((self.weigh(grow_s, grow_usd) + ahead[node + 1 :]).min()))
        return rest
