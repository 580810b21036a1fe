"""Batch sizes of adaptive training: how AdaptDL splits a batch over GPUs and passes, and which batch it prefers.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI 2021, section 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optplan.schema import FloatArray, IntArray

#: Batch sizes tried between the least and the largest one.
NUM_CANDIDATES = 50
#: Slack of the ceilings, in passes or samples: both are whole numbers far above it.
_CEILING_SLACK = 1e-8


@dataclass(frozen=True)
class Batches:
    """Ways to run on a number of widths; every array has shape (candidates, widths)."""

    local_batch: IntArray  #: b: samples per GPU in one pass.
    accumulated: IntArray  #: a: passes before the one that synchronises.
    batch_size: IntArray  #: B = k b (a + 1) samples per iteration.
    feasible: NDArray[np.bool_]  #: Keeps all limits.


@dataclass(frozen=True)
class BatchRule:
    """How AdaptDL splits a batch over GPUs and passes, with batch sizes and samples per GPU in a pass in ranges."""

    # Candidates M are NUM_CANDIDATES sizes in geometric progression from the least size that the width allows to the
    # largest. M / k samples per GPU are split into the fewest passes that fit into memory; on one GPU a batch above the
    # initial size takes at least two, because the noise of the gradient cannot be estimated from one pass. Ceilings
    # make local batches whole, so the batch B that really runs may differ from M.

    init_batch_size: int
    max_batch_size: int
    min_local_batch_size: int
    max_local_batch_size: int

    def split(
        self, gpus: IntArray, *, largest_local: IntArray | None = None, fixed_batch_size: int | None = None
    ) -> Batches:
        """Return the candidates of widths (widths,), local batches within limits (widths,); one for a fixed batch."""
        limit = np.full(gpus.shape, self.max_local_batch_size)
        limit = limit if largest_local is None else np.minimum(limit, largest_local)
        least = np.maximum(self.init_batch_size, self.min_local_batch_size * gpus).astype(np.float64)
        if fixed_batch_size is None:
            wanted = np.geomspace(least, float(self.max_batch_size), NUM_CANDIDATES)
        else:
            wanted = np.full((1, gpus.size), float(fixed_batch_size))
        share = wanted / gpus
        accumulated = np.maximum(_ceil(share / limit) - 1, 0)
        alone = (gpus == 1) & (share > self.init_batch_size + _CEILING_SLACK)
        accumulated = np.where(alone, np.maximum(accumulated, 1), accumulated)
        passes = accumulated + 1
        local = np.minimum(_ceil(share / passes), self.max_batch_size // (gpus * passes))
        batch = gpus * local * passes
        feasible = (local >= self.min_local_batch_size) & (local <= limit) & (batch >= self.init_batch_size)
        return Batches(local, accumulated, batch, feasible & (least <= self.max_batch_size))


def _ceil(values: FloatArray) -> IntArray:
    return np.ceil(values - _CEILING_SLACK).astype(np.int64)


def best_goodput(
    gain: FloatArray, time_s: FloatArray, feasible: NDArray[np.bool_]
) -> tuple[FloatArray, NDArray[np.intp]]:
    """Return (epochs, widths) the largest G / T, zero where nothing is feasible, and the first candidate with it."""
    # G is (epochs, candidates, widths), T and ``feasible`` (candidates, widths).
    speed = np.where(feasible, gain / np.where(feasible, time_s, 1.0), 0.0)
    best = speed.argmax(axis=1)
    return np.take_along_axis(speed, best[:, None, :], axis=1)[:, 0, :], best
