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
from optplan.solvers.paths.skyline import find_undominated


@dataclass(frozen=True, eq=False)
class Charge:
    """What beginnings of paths pay on top; all arrays (L,), at least 0.

    Parameters
    ----------
    settled_value, settled_consumption
        At least, whatever follows.
    open_value, open_consumption
        The most that may be added for what has been held so far; what is held later pays for itself.
    """

    settled_value: FloatArray
    settled_consumption: FloatArray
    open_value: FloatArray
    open_consumption: FloatArray

    def take(self, positions: IntArray) -> Charge:
        """Return the charges at some positions, in that order."""
        return Charge(
            self.settled_value[positions],
            self.settled_consumption[positions],
            self.open_value[positions],
            self.open_consumption[positions],
        )

    def exchanged(self) -> Charge:
        """Return the same charges with value and consumption in each other's place."""
        return Charge(self.settled_consumption, self.settled_value, self.open_consumption, self.open_value)


class Charges(Protocol):
    """Who knows what paths pay on top."""

    def charge(self, options: IntArray) -> Charge:
        """Return what beginnings of paths pay on top.

        Parameters
        ----------
        options
            (L, j + 1) The options taken in the first layers; whole paths when j + 1 is the number of layers.
        """

    def settle(self, options: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return exactly what whole paths pay on top: value and consumption.

        Parameters
        ----------
        options
            (L, J) The option taken in each layer.
        """


@dataclass(frozen=True)
class _ExchangedCharges:
    """The charges of the graph with value and consumption in each other's place."""

    charges: Charges

    def charge(self, options: IntArray) -> Charge:
        """Return what beginnings of paths pay on top."""
        return self.charges.charge(options).exchanged()

    def settle(self, options: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return exactly what whole paths pay on top."""
        value, consumption = self.charges.settle(options)
        return consumption, value


def exchange_charges(charges: Charges | None) -> Charges | None:
    """Return the charges of the graph with value and consumption in each other's place; None stays None."""
    return None if charges is None else _ExchangedCharges(charges)


def no_charge(count: int) -> Charge:
    """Return that nothing is paid on top."""
    nothing = np.zeros(count)
    return Charge(nothing, nothing, nothing, nothing)


def join_charges(pieces: list[Charge]) -> Charge:
    """Return several charges one after another; at least one."""
    return Charge(
        np.concatenate([piece.settled_value for piece in pieces]),
        np.concatenate([piece.settled_consumption for piece in pieces]),
        np.concatenate([piece.open_value for piece in pieces]),
        np.concatenate([piece.open_consumption for piece in pieces]),
    )


def find_undominated_charged(segment: IntArray, consumption: FloatArray, value: FloatArray, charge: Charge) -> IntArray:
    """Return the entries that no other entry of the same segment is certain to dominate, by segment and consumption.

    Parameters
    ----------
    segment
        (M,) Non-negative numbers of the sets.
    consumption, value
        (M,) Lower ends, what is settled included.
    charge
        What is open on top.
    """
    if not segment.size:
        return np.empty(0, dtype=np.intp)
    consumption, high_consumption = _scale(consumption, consumption + charge.open_consumption)
    value, high_value = _scale(value, value + charge.open_value)
    # Sets are two apart on both keys. What is open may vanish in them: then an entry is as good as certain.
    apart = 2.0 * segment
    low = consumption + apart, value - apart
    high = high_consumption + apart, high_value - apart
    certain = (low[0] == high[0]) & (low[1] == high[1])
    known, unsure = np.flatnonzero(certain), np.flatnonzero(~certain)
    known = known[find_undominated(segment[known], consumption[known], value[known])]
    if not unsure.size:
        return known

    def is_dominated(these: IntArray, those: IntArray) -> NDArray[np.bool_]:
        order = those[np.argsort(high[0][those], kind="stable")]
        least = np.append(np.inf, np.minimum.accumulate(high[1][order]))
        place = np.searchsorted(high[0][order], low[0][these], side="right")
        return np.asarray(least[place] <= low[1][these])

    # An unsure entry cannot dominate itself, as one of its upper ends is above the lower one; nor can two entries
    # dominate each other. So what a dominated entry dominates is dominated by one that stays, too.
    kept_unsure = unsure[~is_dominated(unsure, unsure) & ~is_dominated(unsure, known)]
    kept = np.concatenate([known[~is_dominated(known, unsure)], kept_unsure])
    return kept[np.argsort(low[0][kept], kind="stable")]


def _scale(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return both shifted and scaled to [0, 1]."""
    least = low.min()
    spread = high.max() - least
    spread = spread if spread > 0 else 1.0
    return (low - least) / spread, (high - least) / spread


def skip_dominated_from_above(node: IntArray, consumption: FloatArray, value: FloatArray) -> IntArray:
    """Return the entries that no entry at a greater node dominates, in the given order.

    Halves of the nodes are held against one another, then halves of these, each depth in one pass.

    Parameters
    ----------
    node
        (M,) Where the entries are.
    consumption, value
        (M,) Their costs.
    """
    if not node.size:
        return node
    consumption, value = _scale(consumption, consumption)[0], _scale(value, value)[0]
    rank = np.unique(node, return_inverse=True)[1]
    kept = np.ones(node.size, dtype=bool)
    width = 1
    while width <= rank.max():
        half = rank // width
        apart = 2.0 * (half // 2)
        keys, heights = consumption + apart, value - apart
        upper = np.flatnonzero(half % 2 == 1)
        lower = np.flatnonzero(half % 2 == 0)
        upper = upper[np.argsort(keys[upper], kind="stable")]
        least = np.append(np.inf, np.minimum.accumulate(heights[upper]))
        place = np.searchsorted(keys[upper], keys[lower], side="right")
        kept[lower[least[place] <= heights[lower]]] = False
        width *= 2
    return np.flatnonzero(kept)
