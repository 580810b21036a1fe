"""Where the budget is spent: the multiplier, the segments taken, and the one taken in part."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optplan.solvers.slopes.segments import (
    EVERYTHING,
    Bracket,
    Parts,
    Segments,
    find_vertices,
    sample_slabs,
)
from optplan.solvers.slopes.smooth import SNAP_TOLERANCE, FloatArray, SmoothPart

#: Instances of fewer entries are not sampled: collecting all segments is as quick.
_SAMPLED_FROM_ENTRIES = 2**20
#: About one unit in so many is sampled, in pieces of so many units, and so many pieces at least over all blocks.
_SAMPLING_RATE = 32
_SAMPLED_UNITS = 256
_LEAST_PIECES = 8
#: Half the bracket, as a share of what the sample was off by, and at least as a share of the
#: budget.
_MARGIN = 0.5
_LEAST_MARGIN = 1e-4
#: Relative distance of the bracket's ends from the slopes that they were taken from.
_EDGE = 1e-9


@dataclass(frozen=True, eq=False)
class Crossing:
    """How a budget is spent.

    Parameters
    ----------
    multiplier
        At which the smooth choices are made.
    taken
        (segments,) Which segments are taken whole.
    partial
        The segment taken in part; None when there is none.
    fraction
        How much of it, from 0 to below 1.
    multiplier_left, multiplier_right
        The least slope taken and the largest left; None where they lie outside the bracket.
    """

    multiplier: float
    taken: NDArray[np.bool_]
    partial: int | None
    fraction: float
    multiplier_left: float | None
    multiplier_right: float | None


def stop_at_end(segments: Segments, smooth: SmoothPart, bracket: Bracket, multiplier: float) -> Crossing:
    """Take no segment (multiplier ``inf``) or all of them (multiplier 0).

    Parameters
    ----------
    segments
        Those inside the bracket.
    bracket
        Multipliers; it reaches that end.
    multiplier
        0 or ``inf``.
    """
    taken = segments.slope > multiplier
    left, right = _find_sides(segments.slope, taken, bracket, smooth.still_range(multiplier))
    return Crossing(multiplier, taken, None, 0.0, left, right)


def find_crossing(segments: Segments, smooth: SmoothPart, bracket: Bracket, budget: float) -> Crossing:
    """Spend a budget on segments in order of falling slope; smooth choices follow the multiplier.

    Parameters
    ----------
    segments
        Those inside the bracket.
    budget
        Not below what is consumed at ``bracket.high``, not above what is consumed at
        ``bracket.low``.
    """
    multiplier = select_multiplier(
        segments.slope,
        segments.consumption,
        segments.base_consumption,
        smooth,
        budget,
        bracket,
    )
    taken = segments.slope > multiplier
    spent = segments.base_consumption + float(segments.consumption[taken].sum())
    ties = np.flatnonzero(segments.slope == multiplier)
    room = budget - spent - smooth.consumption(multiplier)
    whole, fraction = _fill(segments.consumption[ties], room, SNAP_TOLERANCE * budget)
    taken[ties[:whole]] = True
    if fraction > 0.0:
        return Crossing(multiplier, taken, int(ties[whole]), fraction, multiplier, multiplier)
    left, right = _find_sides(segments.slope, taken, bracket, smooth.still_range(multiplier))
    return Crossing(multiplier, taken, None, 0.0, left, right)


def select_multiplier(
    slope: FloatArray,
    consumption: FloatArray,
    base: float,
    smooth: SmoothPart,
    budget: float,
    bracket: Bracket,
) -> float:
    """Return the multiplier at which a budget is spent, by halving the slopes at their median.

    Parameters
    ----------
    slope, consumption
        (segments,) Inside the bracket, in any order.
    base
        Consumed before them.
    smooth, budget, bracket
        As :func:`find_crossing`.

    Returns
    -------
    float
        The slope of the segment that spends the budget, or, between two slopes, where the smooth
        choices spend it.
    """
    low, high = bracket
    while slope.size:
        middle = slope.size // 2
        pivot = float(np.partition(slope, middle)[middle])
        steeper = slope > pivot
        at_pivot = base + float(consumption[steeper].sum())
        rest = smooth.consumption(pivot)
        if at_pivot + rest > budget:
            slope, consumption, low = slope[steeper], consumption[steeper], pivot
            continue
        base = at_pivot + float(consumption[slope == pivot].sum())
        if base + rest >= budget:
            return pivot
        flatter = slope < pivot
        slope, consumption, high = slope[flatter], consumption[flatter], pivot
    return smooth.solve_between(lambda mu: base + smooth.consumption(mu), budget, low, high)


def guess_bracket(parts: Parts, budget: float) -> Bracket:
    """Bracket the multiplier by a sample of the rows and one exact evaluation.

    A sample shows where the budget is spent, but only to within its error, some per cent. One pass
    over all rows there gives their exact consumption; how it changes nearby the sample knows well
    enough for a bracket a hundred times narrower.

    Parameters
    ----------
    parts
        The instance; small ones are not sampled.
    budget
        To be spent.

    Returns
    -------
    Bracket
        Likely, not certain, to hold the multiplier.
    """
    if sum(table.units * table.columns for table in parts.tables) < _SAMPLED_FROM_ENTRIES:
        return EVERYTHING
    slope, consumption, base = _sample(parts)
    everything = base + float(consumption.sum()) + parts.smooth.consumption(0.0)
    nothing = base + parts.smooth.consumption(math.inf)

    def solve(target: float) -> float:
        if target >= everything:
            return 0.0
        if target <= nothing:
            return math.inf
        return select_multiplier(slope, consumption, base, parts.smooth, target, EVERYTHING)

    multiplier = solve(budget)
    if multiplier == 0.0 or math.isinf(multiplier):
        return EVERYTHING
    exact = math.fsum(table.least_consumption(multiplier) for table in parts.tables)
    missing = budget - exact - parts.smooth.consumption(multiplier)
    sampled = base + float(consumption[slope > multiplier].sum())
    target = sampled + parts.smooth.consumption(multiplier) + missing
    margin = _MARGIN * abs(missing) + _LEAST_MARGIN * budget
    # The ends are slopes of sampled rows; a little beyond, rounding cannot take those rows either
    # way.
    return Bracket(low=solve(target + margin) * (1.0 - _EDGE), high=solve(target - margin) * (1.0 + _EDGE))


def _sample(parts: Parts) -> tuple[FloatArray, FloatArray, float]:
    """Return sampled slopes, consumptions and their base, scaled to stand for all units."""
    slopes, consumptions, base = [np.empty(0)], [np.empty(0)], []
    least_pieces = max(1, _LEAST_PIECES // len(parts.tables))
    for table in parts.tables:
        for slab, first_unit, behind in sample_slabs(table, _SAMPLING_RATE, _SAMPLED_UNITS, least_pieces):
            vertices = find_vertices(slab, first_unit)
            slope, added = vertices.steps
            inside = slope > 0.0
            slopes.append(slope[inside])
            consumptions.append(behind * added[inside])
            base.append(behind * float(vertices.consumption[vertices.first].sum()))
    return np.concatenate(slopes), np.concatenate(consumptions), math.fsum(base)


def _fill(consumption: FloatArray, room: float, tolerance: float) -> tuple[int, float]:
    """Return how many segments of one slope fit whole, in order, and the fraction of the next."""
    filled = np.cumsum(consumption)
    whole = int(np.searchsorted(filled, room))
    if whole == filled.size:
        return whole, 0.0
    if filled[whole] - room <= tolerance:
        return whole + 1, 0.0
    before = float(filled[whole - 1]) if whole else 0.0
    if room - before <= tolerance:
        return whole, 0.0
    return whole, (room - before) / float(consumption[whole])


def _find_sides(
    slope: FloatArray,
    taken: NDArray[np.bool_],
    bracket: Bracket,
    still: tuple[float, float],
) -> tuple[float | None, float | None]:
    """Return the multipliers beside a breakpoint; None where the bracket does not show them."""
    left = min(float(slope.min(where=taken, initial=math.inf)), still[1])
    right = max(float(slope.max(where=~taken, initial=0.0)), still[0])
    return (
        left if left <= bracket.high else None,
        right if right >= bracket.low else None,
    )
