"""The loops behind prices over time: what jobs make at them, and how many GPUs they hold where.

``price_loops.pxd`` has the types with which Cython compiles this file; without a compiler it runs as it stands,
slower. Time goes in steps, progress in cells. The scheme is upwind and implicit in time (Kushner and Dupuis, *Numerical
Methods for Stochastic Control Problems in Continuous Time*): who holds GPUs comes to the next cell with a probability.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Choices = NDArray[np.int8]


def go_back(
    rates: Floats, gpus: Floats, prices: Floats, per_bucket: int, step_s: float, least: Floats, choice: Choices
) -> None:
    """Fill least (T + 1, C + 1) and choice (T + 1, C) from their last rows on; -1 is to wait.

    ``rates`` (C, K) are cells a second on ``gpus`` (C, K), ascending; ``prices`` are of buckets of some steps each.
    """
    cells = rates.shape[0]
    widths = rates.shape[1]
    for i in range(least.shape[0] - 2, -1, -1):
        price = prices[i // per_bucket] * step_s
        least[i, cells] = 0.0
        for j in range(cells - 1, -1, -1):
            wait = least[i + 1, j] + step_s
            ahead = least[i, j + 1]
            k = choice[i + 1, j]
            k = max(k, 0)
            moved = step_s * rates[j, k]
            best = (wait + price * gpus[j, k] + moved * ahead) / (1.0 + moved)
            # What is best is on a hull, so that from any width on the cost falls to the best one.
            for way in range(2):
                turn = 1 if way == 0 else -1
                while 0 <= k + turn < widths:
                    moved = step_s * rates[j, k + turn]
                    cost = (wait + price * gpus[j, k + turn] + moved * ahead) / (1.0 + moved)
                    if cost >= best:
                        break
                    best = cost
                    k = k + turn
            if wait < best:
                best = wait
                k = -1
            least[i, j] = best
            choice[i, j] = k


def go_ahead(
    rates: Floats, gpus: Floats, per_bucket: int, step_s: float, choice: Choices, present: Floats, held: Floats
) -> None:
    """Move jobs (T + 1, C + 1) on, from where they arrive; add the GPU-seconds that they hold to those of buckets."""
    cells = rates.shape[0]
    for i in range(present.shape[0] - 1):
        for j in range(cells):
            jobs = present[i, j]
            if jobs == 0.0:
                continue
            k = choice[i, j]
            if k < 0:
                present[i + 1, j] += jobs
                continue
            moved = step_s * rates[j, k]
            stay = jobs / (1.0 + moved)
            present[i, j + 1] += stay * moved
            present[i + 1, j] += stay
            held[i // per_bucket] += stay * step_s * gpus[j, k]
