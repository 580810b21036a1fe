"""The least price, ranks and VMs that the rest of a fleet needs to reach the global batch.

A bounded knapsack by dynamic programming (Bellman, "Dynamic Programming", 1957; counts by binary splitting) over
samples, in units of their greatest common divisor: table j holds, for every number of samples, the least that the types
from level j on can give them for. With one batch per type the price that it finds is that of a fleet; the three
quantities are made least one by one, so that together they are bounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optplan.schema import FloatArray, IntArray

#: Rows of a table: price, ranks, VMs.
QUANTITIES = 3
#: Up to so many units of samples there is a table; beyond, a linear relaxation stands in.
MOST_UNITS = 65_536


@dataclass(frozen=True)
class Level:
    """What is decided at once: how many VMs of a type, and their batch where there is a choice."""

    number: int
    batches: tuple[int, ...]  # to choose from, ascending
    #: VMs, over all batches of the level; a least count of zero allows none.
    least: int
    most: int
    each: FloatArray  # (3,) price, ranks and VMs of one VM


class Remainders:
    """Bounds what the levels from each on need to give so many samples to VMs.

    The larger of two bounds where there are both:

    * The table. Levels choose independently of each other, so the least of a sum is the sum of the leasts over all
      splits of the samples; with several levels of one type, what they share of its availability is relaxed.
    * The line. A VM of a type takes its largest batch at most, and a type has no more VMs than are available; so even
      if VMs could be divided, the samples would need as much as when they are given to the types in the order of what
      one sample needs there, each up to its availability.
    """

    def __init__(self, levels: Sequence[Level], samples: int) -> None:
        self._unit = math.gcd(samples, *(batch for level in levels for batch in level.batches))
        units = samples // self._unit
        self._lines = [LinearRelaxation(levels[start:]) for start in range(len(levels) + 1)]
        self._tables: list[FloatArray] | None = None
        if units <= MOST_UNITS:
            table = np.full((QUANTITIES, units + 1), np.inf)
            table[:, 0] = 0.0
            tables = [table]
            for level in reversed(levels):
                tables.append(_extend(tables[-1], level, self._unit))
            self._tables = tables[::-1]
        types = [level.number for level in levels]
        #: By level, whether the line says more than the table: where levels share the availability of a type.
        self._shared = [len(set(types[start:])) < len(types[start:]) for start in range(len(levels) + 1)]

    def least(self, level: int, samples: IntArray) -> FloatArray:
        """Return (3, N) the least price, ranks and VMs of the levels from one on for (N,) samples, or infinity."""
        if self._tables is None:
            return self._lines[level].least(samples)
        found = self._tables[level][:, np.where(samples % self._unit == 0, samples // self._unit, 0)]
        found[:, samples % self._unit != 0] = np.inf
        return np.maximum(found, self._lines[level].least(samples)) if self._shared[level] else found


class LinearRelaxation:
    """The least of each quantity if the VMs of some levels could be divided: Dantzig's bound of a knapsack (1957)."""

    def __init__(self, levels: Sequence[Level]) -> None:
        types: dict[int, Level] = {}
        for level in levels:
            known = types.get(level.number)
            if level.batches and (known is None or level.batches[-1] > known.batches[-1]):
                types[level.number] = level
        self._corners = [_lay_out(list(types.values()), quantity) for quantity in range(QUANTITIES)]

    def least(self, samples: IntArray) -> FloatArray:
        """Return (3, N) the least of each quantity."""
        return np.array([np.interp(samples, *corners, right=np.inf) for corners in self._corners])


def _lay_out(levels: list[Level], quantity: int) -> tuple[FloatArray, FloatArray]:
    """Return the corners (samples, amount) of the least amount over divisible VMs."""
    ordered = sorted(levels, key=lambda level: level.each[quantity] / level.batches[-1])
    reach = np.cumsum([0.0, *(level.most * level.batches[-1] for level in ordered)])
    amount = np.cumsum([0.0, *(level.most * float(level.each[quantity]) for level in ordered)])
    return reach, amount * (1.0 - 1e-12)


def _extend(after: FloatArray, level: Level, unit: int) -> FloatArray:
    """Return the table (3, U) of a level and all after it.

    The least over the first 2^j counts follows from that over 2^(j-1), so that a batch takes as many steps as the count
    has digits.
    """
    best = after.copy() if level.least == 0 else np.full_like(after, np.inf)
    units = after.shape[1] - 1
    for batch in level.batches:
        step, first = batch // unit, max(1, level.least)
        counts = min(level.most, units // step) - first + 1
        if counts <= 0:
            continue
        # Column u stands for u samples more than the first count has.
        window = after[:, : units + 1 - step * first] + first * level.each[:, None]
        span = 1
        while span < counts:
            further = min(span, counts - span)
            offset = step * further
            np.minimum(window[:, offset:], window[:, :-offset] + further * level.each[:, None], out=window[:, offset:])
            span += further
        np.minimum(best[:, step * first :], window, out=best[:, step * first :])
    return best
