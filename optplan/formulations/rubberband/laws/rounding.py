"""Distributions with all times moved back to the points of a grid, so that sums are never later than they are."""

from __future__ import annotations

import numpy as np

from optplan.schema import FloatArray


def round_down(below: FloatArray) -> FloatArray:
    """Return (G,) the probability of each point of a grid when times are rounded down; that of the last is left out.

    Parameters
    ----------
    below
        (G,) P(X <= t) for each point t of the grid, the first of which is zero.
    """
    down = np.append(np.diff(below), 0.0)
    down[0] += below[0]
    return down
