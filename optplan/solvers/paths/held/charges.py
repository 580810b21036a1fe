"""Costs of a path beyond the sums of its steps, such as minimum charges on what was held too short.

The graph's sums are then lower bounds. What a beginning of a path has to pay on top is known between two ends: what is
*settled*, whatever follows, and what is still *open*, at most. That is enough to compare labels: one dominates another
when its upper ends are no more than the other's lower ends. Only paths that are left at the end are charged exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from optplan.solvers.paths.families import FloatArray, IntArray
from optplan.solvers.paths.pareto_sets import find_undominated, scale_to_one


class Charges(Protocol):
    """Who knows what paths pay on top: value and consumption, each at least 0."""

    def charge(self, options: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return what beginnings of paths pay on top: at least, whatever follows, and the most that may be added.

        What is added is for what has been held so far; what is held later pays for itself.

        Parameters
        ----------
        options
            (L, j + 1) The options taken in the first layers; whole paths when j + 1 is the number of layers.

        Returns
        -------
        tuple[FloatArray, FloatArray]
            (2, L) settled and open.
        """

    def settle(self, options: IntArray) -> FloatArray:
        """Return (2, L) exactly what whole paths pay on top.

        Parameters
        ----------
        options
            (L, J) The option taken in each layer.
        """


@dataclass(frozen=True)
class _ExchangedCharges:
    """The charges of the graph with value and consumption in each other's place."""

    charges: Charges

    def charge(self, options: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return what beginnings of paths pay on top."""
        settled, still_open = self.charges.charge(options)
        return settled[::-1], still_open[::-1]

    def settle(self, options: IntArray) -> FloatArray:
        """Return exactly what whole paths pay on top."""
        return self.charges.settle(options)[::-1]


def exchange_charges(charges: Charges | None) -> Charges | None:
    """Return the charges of the graph with value and consumption in each other's place; None stays None."""
    return None if charges is None else _ExchangedCharges(charges)


def find_undominated_charged(segment: IntArray, low: FloatArray, still_open: FloatArray | None) -> IntArray:
    """Return the entries that no other entry of the same segment is certain to dominate, by segment and consumption.

    Parameters
    ----------
    segment
        (M,) Non-negative numbers of the sets.
    low, still_open
        (2, M) Lower ends of value and consumption, and what may come on top; None where nothing does.
    """
    if not segment.size:
        return np.empty(0, dtype=np.intp)
    if still_open is None:
        return find_undominated(segment, scale_to_one(low[1]), scale_to_one(low[0]))
    least = low.min(axis=1, keepdims=True)
    spread = (low + still_open).max(axis=1, keepdims=True) - least
    spread[spread <= 0.0] = 1.0
    scaled, high = (low - least) / spread, (low + still_open - least) / spread
    # Sets are two apart on both keys. What is open may vanish in them: then an entry is as good as certain.
    apart = np.array([-2.0, 2.0])[:, None] * segment
    (low_value, low_key), (high_value, high_key) = scaled + apart, high + apart
    certain = (low_key == high_key) & (low_value == high_value)
    known, unsure = np.flatnonzero(certain), np.flatnonzero(~certain)
    known = known[find_undominated(segment[known], scaled[1, known], scaled[0, known])]
    if not unsure.size:
        return known

    def is_dominated(these: IntArray, those: IntArray) -> NDArray[np.bool_]:
        order = those[np.argsort(high_key[those], kind="stable")]
        best = np.append(np.inf, np.minimum.accumulate(high_value[order]))
        return np.asarray(best[np.searchsorted(high_key[order], low_key[these], side="right")] <= low_value[these])

    # An unsure entry cannot dominate itself, as one of its upper ends is above the lower one; nor can two entries
    # dominate each other. So what a dominated entry dominates is dominated by one that stays, too.
    kept_unsure = unsure[~is_dominated(unsure, unsure) & ~is_dominated(unsure, known)]
    kept = np.concatenate([known[~is_dominated(known, unsure)], kept_unsure])
    return kept[np.argsort(low_key[kept], kind="stable")]


def skip_dominated_from_above(node: IntArray, low: FloatArray) -> IntArray:
    """Return the entries that no entry at a greater node dominates, in the given order.

    Halves of the nodes are held against one another, then halves of these, each depth in one pass.

    Parameters
    ----------
    node
        (M,) Where the entries are.
    low
        (2, M) Their values and consumptions.
    """
    rank = np.unique(node, return_inverse=True)[1]
    kept, width = np.ones(node.size, dtype=bool), 1
    value, consumption = (scale_to_one(each) for each in low) if node.size else low
    while width <= rank.max(initial=0):
        half = rank // width
        keys, heights = consumption + 2.0 * (half // 2), value - 2.0 * (half // 2)
        upper, lower = np.flatnonzero(half % 2 == 1), np.flatnonzero(half % 2 == 0)
        upper = upper[np.argsort(keys[upper], kind="stable")]
        least = np.append(np.inf, np.minimum.accumulate(heights[upper]))
        place = np.searchsorted(keys[upper], keys[lower], side="right")
        kept[lower[least[place] <= heights[lower]]] = False
        width *= 2
    return np.flatnonzero(kept)
