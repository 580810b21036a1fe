"""Pareto sets of (consumption, value), many at once: sorted, and kept where the value is a new least."""

from __future__ import annotations

import numpy as np

from optplan.solvers.paths.families import FloatArray, IntArray


def find_undominated(segment: IntArray, consumption: FloatArray, value: FloatArray) -> IntArray:
    """Return the entries that no other entry of the same segment dominates, by segment and increasing consumption.

    An entry is dominated when another has no more of either; of equal entries the first stays.

    Parameters
    ----------
    segment
        (M,) Non-negative numbers of the sets.
    consumption, value
        (M,) Scaled to [0, 1], so that the segments do not blur one another's differences.

    Returns
    -------
    IntArray
        Positions.

    Notes
    -----
    Segment and consumption are packed into one sorting key, likewise segment and value for the running minimum, the
    segments two apart. That blurs differences below 1e-16 * segments, far less than the tolerances. The stable sort
    merges runs that are in order already, as the callers' are.
    """
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
