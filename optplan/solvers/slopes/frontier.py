"""The whole trade-off between budget and value: one sort of all hull segments by slope.

Consumption is summed from the least consumption upwards and value from the least value upwards, so
both are sums of numbers of one sign and keep their relative accuracy along the whole frontier.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from optplan.errors import UsageError
from optplan.solvers.slopes.budget import (
    FEASIBILITY_TOLERANCE,
    OutOfReach,
    SlopesSolution,
    require_number,
    solve_budget,
)
from optplan.solvers.slopes.ordering import SlopeSorter
from optplan.solvers.slopes.segments import Block, Bracket, Parts, find_vertices
from optplan.solvers.slopes.smooth import SNAP_TOLERANCE, FloatArray

#: Entries summed together; sums of such sums lose less than one long sum.
_SUM_LENGTH = 4096

#: By how much the multipliers of a frontier point are widened into a bracket for its choices.
_BRACKET_MARGIN = 1e-9

#: Fewest points of a drawn curve.
_LEAST_POINTS = 8

IntArray = NDArray[np.int64]


class SlopesPoint(NamedTuple):
    """One point of the frontier.

    ``multiplier_left`` is the value lost per unit of budget taken away (``inf`` at the least
    consumption), ``multiplier_right`` the value saved per unit added.
    """

    consumption: float
    value: float
    multiplier_left: float
    multiplier_right: float


class SlopesCurve(NamedTuple):
    """Points of the frontier in order of consumption, (points,) each."""

    consumption: FloatArray
    value: FloatArray


@dataclass(frozen=True, eq=False)
class SlopesFrontier:
    """Least value as a function of the budget.

    Parameters
    ----------
    parts
        The instance.
    slope
        (segments,) Slopes of the table rows' hull segments, falling.
    consumption, value
        (segments + 1,) Totals of the table rows when that many segments are taken.
    """

    parts: Parts
    slope: FloatArray
    consumption: FloatArray
    value: FloatArray

    @property
    def least_consumption(self) -> float:
        """The least budget that is feasible."""
        return float(self.consumption[0]) + self.parts.smooth.consumption(math.inf)

    @property
    def most_consumption(self) -> float:
        """The least budget that reaches the least value."""
        return float(self.consumption[-1]) + self.parts.smooth.consumption(0.0)

    @property
    def least_value(self) -> float:
        """The value when the budget does not bind."""
        return float(self.value[-1]) + self.parts.smooth.value(0.0)

    @property
    def most_value(self) -> float:
        """The value at the least budget."""
        return float(self.value[0]) + self.parts.smooth.value(math.inf)

    def at(self, budget: float) -> SlopesPoint | OutOfReach:
        """Return the optimum for a budget: a look-up, or with smooth choices an exact search.

        Parameters
        ----------
        budget
            Finite, at least 0; more than ``most_consumption`` changes nothing.

        Returns
        -------
        SlopesPoint or OutOfReach
            The latter, carrying the least consumption, when that exceeds the budget.

        Raises
        ------
        UsageError
            When the budget is not a finite number of at least 0.
        """
        require_number("budget", budget)
        least, most = self.least_consumption, self.most_consumption
        if budget < least * (1.0 - FEASIBILITY_TOLERANCE):
            return OutOfReach(budget, least)
        if budget > most * (1.0 + SNAP_TOLERANCE):
            return SlopesPoint(most, self.least_value, 0.0, 0.0)
        if budget <= least * (1.0 + SNAP_TOLERANCE):
            return self._vertex(0, math.inf)
        if budget >= most * (1.0 - SNAP_TOLERANCE):
            return self._vertex(self.slope.size, 0.0)
        return self._walk(self.consumption, self.parts.smooth.consumption, budget, rising=True)

    def for_value(self, value: float) -> SlopesPoint | OutOfReach:
        """Return the point of least budget whose value is at most the one wanted.

        Parameters
        ----------
        value
            Finite, at least 0; more than ``most_value`` needs the least budget.

        Returns
        -------
        SlopesPoint or OutOfReach
            The latter, carrying the least value, when that exceeds the wanted one.

        Raises
        ------
        UsageError
            When the value is not a finite number of at least 0.
        """
        require_number("value", value)
        least, most = self.least_value, self.most_value
        if value < least * (1.0 - FEASIBILITY_TOLERANCE):
            return OutOfReach(value, least)
        if value <= least:
            return self._vertex(self.slope.size, 0.0)
        if value >= most:
            return self._vertex(0, math.inf)
        return self._walk(self.value, self.parts.smooth.value, value, rising=False)

    def select(self, budget: float) -> SlopesSolution | OutOfReach:
        """Return every row's choice for a budget; the multiplier being known, that is quick.

        Parameters
        ----------
        budget
            As :meth:`at`.

        Raises
        ------
        UsageError
            As :meth:`at`.
        """
        point = self.at(budget)
        if isinstance(point, OutOfReach):
            return point
        bracket = Bracket(
            point.multiplier_right * (1.0 - _BRACKET_MARGIN),
            point.multiplier_left * (1.0 + _BRACKET_MARGIN) or math.inf,
        )
        return solve_budget(self.parts.blocks, budget, bracket=bracket)

    def curve(self, limit: int = 1000) -> SlopesCurve:
        """Return points for drawing, each of them exact.

        Without smooth choices the breakpoints, thinned evenly to the limit; the frontier is
        straight between breakpoints. With them, half the points are breakpoints of the tables, both
        ends of each, and the others lie at a geometric grid of multipliers over the range in which
        a width moves.

        Parameters
        ----------
        limit
            The most points wanted, at least 8.

        Raises
        ------
        UsageError
            When the limit is below 8.
        """
        if limit < _LEAST_POINTS:
            raise UsageError(f"limit: got {limit}; at least {_LEAST_POINTS} points are needed")
        moving = self.parts.smooth.moving_range()
        if moving is None:
            taken = _thin(self.slope.size + 1, limit)
            still = self.parts.smooth
            return SlopesCurve(
                self.consumption[taken] + still.consumption(0.0),
                self.value[taken] + still.value(0.0),
            )
        segment = _thin(self.slope.size, limit // 4)
        grid = np.geomspace(moving[1], moving[0], limit - 2 * segment.size)
        at_grid = self.slope.size - np.searchsorted(self.slope[::-1], grid, side="right")
        multiplier = np.concatenate([self.slope[segment], self.slope[segment], grid])
        taken = np.concatenate([segment, segment + 1, at_grid])
        smooth = [(self.parts.smooth.consumption(mu), self.parts.smooth.value(mu)) for mu in multiplier.tolist()]
        consumption, value = np.array(smooth).T
        consumption += self.consumption[taken]
        value += self.value[taken]
        order = np.lexsort((-value, consumption))
        consumption, value = consumption[order], value[order]
        # Where no width moves between two multipliers, their points are the same one.
        moved = np.diff(consumption, prepend=-math.inf) > SNAP_TOLERANCE * consumption
        return SlopesCurve(consumption[moved], value[moved])

    def _walk(self, table: FloatArray, smooth: Callable[[float], float], target: float, *, rising: bool) -> SlopesPoint:
        """Find where the sum of a table total and a smooth total meets a target.

        Both are monotone in the multiplier. The target must lie between both ends; ``rising`` says
        whether the sum rises as segments are taken.
        """
        sign = 1.0 if rising else -1.0
        slope, count = self.slope, self.slope.size

        def after(segment: int) -> float:
            return sign * (float(table[segment + 1]) + smooth(float(slope[segment])))

        first = bisect_left(range(count), sign * target, key=after)
        if first < count:
            multiplier = float(slope[first])
            before = float(table[first]) + smooth(multiplier)
            if sign * before <= sign * target:
                share = (target - before) / float(table[first + 1] - table[first])
                slack = SNAP_TOLERANCE * target
                if abs(target - before) <= slack:
                    return self._vertex(first, multiplier)
                if abs(sign * after(first) - target) <= slack:
                    return self._vertex(first + 1, multiplier)
                return self._between(first, multiplier, share)
        low = float(slope[first]) if first < count else 0.0
        high = float(slope[first - 1]) if first else math.inf
        fixed = float(table[first])

        def falling(multiplier: float) -> float:
            total = fixed + smooth(multiplier)
            return total if rising else 1.0 / total

        root = self.parts.smooth.solve_between(falling, target if rising else 1.0 / target, low, high)
        return self._vertex(first, root)

    def _vertex(self, taken: int, multiplier: float) -> SlopesPoint:
        """Return the point at which that many segments are taken whole."""
        smooth = self.parts.smooth
        still = smooth.still_range(multiplier)
        flattest = float(self.slope[taken - 1]) if taken else math.inf
        steepest = float(self.slope[taken]) if taken < self.slope.size else 0.0
        return SlopesPoint(
            float(self.consumption[taken]) + smooth.consumption(multiplier),
            float(self.value[taken]) + smooth.value(multiplier),
            min(flattest, still[1]),
            max(steepest, still[0]),
        )

    def _between(self, segment: int, multiplier: float, share: float) -> SlopesPoint:
        """Return the point at which a share of one segment is taken."""
        smooth = self.parts.smooth
        start, end = self.consumption[segment : segment + 2].tolist()
        most, least = self.value[segment : segment + 2].tolist()
        return SlopesPoint(
            start + share * (end - start) + smooth.consumption(multiplier),
            least + (1.0 - share) * (most - least) + smooth.value(multiplier),
            multiplier,
            multiplier,
        )


def trace_frontier(blocks: Sequence[Block]) -> SlopesFrontier:
    """Compute the whole frontier: the hulls of all table rows and one sort of their segments.

    Memory: about 50 bytes per segment at the peak, 24 bytes afterwards.

    Raises
    ------
    UsageError
        When there is no row.
    DataError
        When an entry is negative or NaN, or a row has no allowed option.
    """
    parts = Parts(blocks)
    sorter = SlopeSorter()
    base, end = [], []
    for table in parts.tables:
        for start, stop in table.spans():
            vertices = find_vertices(table.slab(start, stop), start)
            slope, added = vertices.steps
            inside = slope > 0.0
            sorter.add(slope[inside], added[inside])
            base.append(float(vertices.consumption[vertices.first].sum()))
            end.append(float(vertices.value[vertices.last].sum()))
    slope, step = sorter.take_sorted()
    consumption = _accumulate(math.fsum(base), step)
    np.multiply(step, slope, out=step)
    value = _accumulate(math.fsum(end), step[::-1])[::-1]
    return SlopesFrontier(parts, slope, consumption, value)


def _accumulate(start: float, steps: FloatArray) -> FloatArray:
    """Return the running totals of some steps, the start included, as sums of partial sums."""
    totals = np.empty(steps.size + 1)
    totals[0] = start
    for first in range(0, steps.size, _SUM_LENGTH):
        part = np.cumsum(steps[first : first + _SUM_LENGTH])
        part += totals[first]
        totals[first + 1 : first + 1 + part.size] = part
    return totals


def _thin(count: int, limit: int) -> IntArray:
    """Return all of ``count`` places, or ``limit`` of them evenly spread with both ends."""
    if count <= limit:
        return np.arange(count)
    return np.linspace(0, count - 1, limit).round().astype(np.int64)
