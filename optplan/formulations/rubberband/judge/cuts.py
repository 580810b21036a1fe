"""Which beginnings of paths are worth going on with: cuts by what can follow, and frontiers of what was seen."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from optplan.formulations.rubberband.judge.paths import Paths
from optplan.schema import FloatArray, IntArray


class UndominatedPairs:
    """Undominated pairs of seconds and US dollars among all paths seen."""

    def __init__(self) -> None:
        self.seconds = np.empty(0)
        self.usd = np.empty(0)

    def pass_through(self, paths: Paths) -> IntArray:
        """Return the paths that no pair seen before beats, and remember theirs."""
        least = np.append(math.inf, self.usd)
        rows = np.flatnonzero(paths.usd < least[np.searchsorted(self.seconds, paths.seconds, side="right")])
        seconds, usd = np.append(self.seconds, paths.seconds[rows]), np.append(self.usd, paths.usd[rows])
        order = np.lexsort((usd, seconds))
        order = order[usd[order] < np.minimum.accumulate(np.append(math.inf, usd[order]))[:-1]]
        self.seconds, self.usd = seconds[order], usd[order]
        return rows


@dataclass(frozen=True, eq=False)
class Cut:
    """Paths wanted: those whose weighted sum, with the least that can follow, is within a limit.

    By stage and node (K,), ``rest`` is the least that follows, and ``ahead`` the same with the stage itself.
    """

    usd_weight: float
    s_weight: float
    limit: float
    rest: list[FloatArray]
    ahead: list[FloatArray]

    def weigh(self, seconds: FloatArray, usd: FloatArray) -> FloatArray:
        """Return weighted sums."""
        return self.usd_weight * usd + self.s_weight * seconds
