"""Distributions with all times moved to the points of a grid, so that sums are never later, or never earlier."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optplan.schema import FloatArray


@dataclass(frozen=True)
class RoundedTimes:
    """A distribution of a duration with all times moved to the points of a grid.

    Parameters
    ----------
    up
        (G + 1,) Probability of each point when times are rounded up to the next; the last entry: later than all.
    down
        (G + 1,) The same when times are rounded down.
    """

    up: FloatArray
    down: FloatArray


def round_times(below: FloatArray) -> RoundedTimes:
    """Round a duration to a grid.

    Parameters
    ----------
    below
        (G,) P(X <= t) for each point t of the grid, the first of which is zero.
    """
    late = 1.0 - below[-1]
    up = np.concatenate([np.diff(below, prepend=0.0), [late]])
    down = np.concatenate([np.diff(below), [0.0, late]])
    down[0] += below[0]
    return RoundedTimes(up=up, down=down)
