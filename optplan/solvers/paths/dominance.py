"""Which of many costs no other one of its set dominates, of many sets at once: of two criteria, and of several.

A vector is dominated when another of its set has no more in any criterion; of equal ones the first stays (the maxima
of a set of vectors: Kung, Luccio and Preparata, Journal of the ACM 22, 1975). Of two criteria, sets are sorted by the
one and kept where the other is a new least. Of several they are sorted by their sums, so that only earlier vectors can
dominate later ones; leaving a dominated one in does no harm, so sets that would take too long are filtered in part.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optplan.solvers.paths import TUNING
from optplan.solvers.paths.families import FloatArray, IntArray


def find_undominated(segment: IntArray, consumption: FloatArray, value: FloatArray) -> IntArray:
    """Return the entries that no other of their segment dominates, by segment and increasing consumption."""
    # Consumption and value (M,) are scaled to [0, 1] and packed with the segment into one sorting key, which blurs
    # differences below 1e-16 * segments; the stable sort merges runs that are in order already.
    if not segment.size:
        return np.empty(0, dtype=np.intp)
    offset = 2.0 * segment
    order = np.argsort(consumption + offset, kind="stable")
    height = (value - offset)[order]
    running = np.minimum.accumulate(height)
    kept = np.empty(order.size, dtype=bool)
    kept[0] = True
    np.less(height[1:], running[:-1], out=kept[1:])
    return order[kept]


def scale_to_one(numbers: FloatArray) -> FloatArray:
    """Return the numbers shifted and scaled to [0, 1]."""
    least = numbers.min()
    spread = numbers.max() - least
    return np.asarray((numbers - least) / (spread if spread > 0 else 1.0))


def expand_ranges(starts: IntArray, sizes: IntArray) -> tuple[IntArray, IntArray]:
    """Return, for ranges start..start+size-1 one after another, (owner of each element, element)."""
    owner = np.repeat(np.arange(sizes.size), sizes)
    return owner, np.arange(owner.size) + (starts - (np.cumsum(sizes) - sizes))[owner]


def weigh_criteria(value: float, limits: FloatArray) -> FloatArray:
    """Return (L,) by what consumptions are multiplied so that a limit used up counts as much as a value, if not 0."""
    typical = value if value > 0.0 else 1.0
    return np.asarray(typical / np.where(limits > 0.0, limits, 1.0))


def find_undominated_vectors(segment: IntArray, costs: FloatArray) -> IntArray:
    """Return the vectors (M, D) that no other of their segment (M,) dominates, by their sums; in part of very many."""
    # A vector can only be dominated by one of no greater sum; equal sums go by the criteria in turn, so that of equal
    # vectors, and of those that differ by less than a sum can hold, the dominating one comes first.
    total = costs.sum(axis=1)
    order = np.lexsort((*costs.T[::-1], total, segment))
    # Criterion by criterion, as comparisons along long rows are the quick ones.
    segment, rows = segment[order], np.ascontiguousarray(costs[order].T)
    starts = np.flatnonzero(np.concatenate([[True], segment[1:] != segment[:-1]])) if order.size else order
    sizes = np.diff(np.append(starts, order.size))
    kept = np.zeros(order.size, dtype=bool)
    small = np.repeat(sizes <= TUNING.small_set, sizes)
    kept[small] = _filter_small(segment[small], rows[:, small])
    for start, size in zip(
        starts[sizes > TUNING.small_set].tolist(), sizes[sizes > TUNING.small_set].tolist(), strict=True
    ):
        kept[start : start + size] = _filter_large(np.ascontiguousarray(rows[:, start : start + size]))
    return order[kept]


def _filter_small(segment: IntArray, rows: FloatArray) -> NDArray[np.bool_]:
    """Return which vectors stay, one champion of every segment per round; ``rows`` (D, M) sorted by segment and sum."""
    if segment.size <= TUNING.small_set:  # all pairs at once are quicker than rounds
        dominated = segment[:, None] == segment
        for row in rows:
            dominated &= row[:, None] <= row
        return np.asarray(~np.triu(dominated, 1).any(axis=0))
    kept = np.zeros(segment.size, dtype=bool)
    open_ones = np.arange(segment.size)
    while open_ones.size:
        owner = segment[open_ones]
        first = np.concatenate([[True], owner[1:] != owner[:-1]])
        champion = open_ones[np.maximum.accumulate(np.where(first, np.arange(owner.size), 0))]
        kept[open_ones[first]] = True
        beaten = (rows[:, champion] <= rows[:, open_ones]).all(axis=0)
        open_ones = open_ones[~beaten]
    return kept


def _filter_large(rows: FloatArray) -> NDArray[np.bool_]:
    """Return which vectors of one set stay, many champions at a time; ``rows`` (D, M) sorted by sum."""
    kept = np.zeros(rows.shape[1], dtype=bool)
    open_ones = np.arange(rows.shape[1])
    left = TUNING.comparisons
    while open_ones.size and left > 0:
        head = open_ones[: TUNING.champions]
        champions = head[_filter_small(np.zeros(head.size, dtype=np.intp), rows[:, head])]
        kept[champions] = True
        rest = open_ones[head.size :]
        left -= rest.size * champions.size
        others = rows[:, rest]
        beaten = np.zeros(rest.size, dtype=bool)
        for champion in champions.tolist():
            dominated = others[0] >= rows[0, champion]
            for criterion in range(1, len(rows)):
                dominated &= others[criterion] >= rows[criterion, champion]
            beaten |= dominated
        open_ones = rest[~beaten]
    kept[open_ones] = True
    return kept
