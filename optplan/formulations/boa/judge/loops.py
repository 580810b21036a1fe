"""The loops in which the judge of BOA spends its time: the least path of a class, and Panjer's recursion.

``loops.pxd`` has the types with which Cython compiles this file; without a compiler it runs as it stands, slower.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Places = NDArray[np.intp]


def find_least_path(run: Floats, enter: Floats, group: Places, best: Floats, least: Floats) -> float:
    """Return the least cost of a path, layer by layer.

    Being at a node costs ``run`` (E, K), coming to it from a group ``enter`` (F, E, K); ``best`` (K,) and ``least``
    (F,) are room to work in.
    """
    endless = 1e300 * 1e300
    nodes, groups = run.shape[1], enter.shape[0]
    for layer in range(run.shape[0]):
        for k in range(nodes):
            reached = enter[group[k], 0, k] if layer == 0 else best[k]
            if layer > 0:
                for f in range(groups):
                    reached = min(reached, least[f] + enter[f, layer, k])
            best[k] = run[layer, k] + reached
        for f in range(groups):
            least[f] = endless
        for k in range(nodes):
            least[group[k]] = min(least[group[k]], best[k])
    found = endless
    for f in range(groups):
        found = min(found, least[f])
    return found


def recur_cells(weights: Floats, chances: Floats, scale: Floats, begin: int, end: int, large: float) -> None:
    """Go on with Panjer's recursion from one number of cells to another, not included.

    ``weights`` (H, N) are y q(y) of each number of cells y by time of the day. ``chances`` (H, N) are up to
    e^``scale``, and scaled down where they exceed ``large``.
    """
    for hour in range(weights.shape[0]):
        for n in range(begin, end):
            summed = 0.0
            for y in range(1, n + 1):
                if weights[hour, y] != 0.0:
                    summed += weights[hour, y] * chances[hour, n - y]
            chances[hour, n] = summed / n
            if chances[hour, n] > large:
                for y in range(n + 1):
                    chances[hour, y] /= large
                scale[hour] += math.log(large)
