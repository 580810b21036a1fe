"""Goodput: the speed of training that adapts its batch size to the number of GPUs (AdaptDL, Pollux, Sia).

More GPUs allow larger batches, and larger batches make less progress per sample; the goodput weighs the two:

- *Step time.* On k GPUs of N nodes a pass over a local batch of b samples per GPU takes
  ``T_grad = alpha_c + beta_c b``, and the synchronisation ``T_sync`` takes nothing on one GPU,
  ``alpha_r + beta_r max(k - 2, 0)`` within a node and ``alpha_n + beta_n max(k - 2, 0)`` across nodes. The two overlap,
  and ``a`` passes accumulate gradients before the one that synchronises:
  ``T = a T_grad + (T_grad^gamma + T_sync^gamma)^(1/gamma)``.
- *Gain.* With q the squared norm of the mean gradient and v its variance at the initial batch size M0, an iteration
  at batch size B = sigma M0 makes the progress of ``G = (v + q) / (v / sigma + q)`` iterations at M0.
- *Goodput.* The largest ``G / T`` over 50 batch sizes in geometric progression, each split into passes and local
  batches that fit into memory (:class:`~optplan.speedup.goodput.BatchRule`).

Batch sizes are samples, times are seconds, and progress is counted in iterations at the initial batch size. Widths are
placed on as few nodes as possible.

Batch sizes of adaptive training: how AdaptDL splits a batch over GPUs and passes, and which batch it prefers.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI 2021, sections 3.1, 3.2.
Jayaram Subramanya et al., "Sia: Heterogeneity-aware, goodput-optimized ML-cluster scheduling", SOSP 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator

from optplan.errors import DataError
from optplan.schema import FloatArray, FrozenModel, IntArray, Numbers, WholeNumbers, require_positive
from optplan.speedup.curves import DoublingError, Evidence, Law, require_widths

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


#: Entries of the largest intermediate array; wider requests are handled in blocks.
_BLOCK_ENTRIES = 2_000_000

_Seconds = Annotated[float, Field(ge=0)]
_Samples = Annotated[int, Field(ge=1)]


class ThroughputParameters(FrozenModel):
    """The parameters of the step time, for one application on one type of GPU: seconds, and seconds a sample or GPU."""

    alpha_c: _Seconds  #: A forward and backward pass, and each sample of it on each GPU.
    beta_c: _Seconds
    #: Synchronisation across nodes, and each GPU beyond two; ``alpha_r`` and ``beta_r`` the same within one.
    alpha_n: _Seconds
    beta_n: _Seconds
    alpha_r: _Seconds
    beta_r: _Seconds
    #: Overlap, from 1 (one after the other) to 10 (next to the longer one alone).
    gamma: Annotated[float, Field(ge=1, le=10)]

    @model_validator(mode="after")
    def _check(self) -> ThroughputParameters:
        if self.alpha_c + self.beta_c <= 0.0:
            message = "alpha_c and beta_c are both zero, so a pass would take no time; give at least one above zero"
            raise ValueError(message)
        return self

    def pass_time_s(self, local_batch: IntArray | FloatArray) -> FloatArray:
        """Return T_grad, the seconds of a pass without synchronisation, at b samples per GPU."""
        return np.asarray(self.alpha_c + self.beta_c * np.asarray(local_batch, dtype=np.float64))

    def sync_time_s(self, num_nodes: IntArray | FloatArray, gpus: IntArray | FloatArray) -> FloatArray:
        """Return T_sync, the seconds of a synchronisation that nothing hides, on k GPUs of N nodes."""
        nodes, k = np.asarray(num_nodes), np.asarray(gpus)
        beyond_two = np.maximum(k - 2, 0)
        across, within = self.alpha_n + self.beta_n * beyond_two, self.alpha_r + self.beta_r * beyond_two
        return np.where(nodes > 1, across, np.where(k > 1, within, 0.0))

    def iteration_time_s(
        self,
        num_nodes: IntArray | FloatArray,
        gpus: IntArray | FloatArray,
        local_batch: IntArray | FloatArray,
        accumulated: IntArray | int = 0,
    ) -> FloatArray:
        """Return T, the seconds of one iteration, for N, k, b and a in shapes that broadcast."""
        compute, sync = self.pass_time_s(local_batch), self.sync_time_s(num_nodes, gpus)
        longer, shorter = np.maximum(compute, sync), np.minimum(compute, sync)
        # With the longer one taken out, no power can overflow or vanish.
        ratio = np.divide(shorter, longer, out=np.zeros_like(longer), where=longer > 0.0)
        last = longer * (1.0 + ratio**self.gamma) ** (1.0 / self.gamma)
        return np.asarray(accumulated * compute + last)


class GradientTable(FrozenModel):
    """Gradient statistics measured at some batch sizes, linear in between; only their ratio counts."""

    batch_sizes: WholeNumbers  #: (sizes,) Samples, strictly increasing.
    grad_sqr: Numbers  #: Squared norm of the mean gradient, (epochs, sizes), or (sizes,) for the same in each epoch.
    grad_var: Numbers  #: Variance at the initial batch size, likewise.

    @field_validator("batch_sizes")
    @classmethod
    def _check_sizes(cls, sizes: IntArray) -> IntArray:
        if sizes.ndim != 1 or not sizes.size or sizes[0] < 1 or np.any(np.diff(sizes) <= 0):
            raise ValueError(f"got {sizes.tolist()}; batch sizes of at least 1 in increasing order are needed")
        return sizes

    @field_validator("grad_sqr", "grad_var")
    @classmethod
    def _check_statistics(cls, statistics: FloatArray) -> FloatArray:
        require_positive(statistics, strictly=False)
        return statistics

    @model_validator(mode="after")
    def _check(self) -> GradientTable:
        shape = self.grad_sqr.shape
        if self.grad_var.shape != shape or len(shape) not in (1, 2) or shape[-1] != self.batch_sizes.size:
            raise ValueError(
                f"grad_sqr has shape {shape}, grad_var {self.grad_var.shape}, for {self.batch_sizes.size} batch sizes; "
                "give both one value per batch size, or one such row per epoch"
            )
        return self

    @property
    def num_epochs(self) -> int | None:
        """Number of rows by epoch; None when one row holds in each epoch."""
        return self.grad_sqr.shape[0] if self.grad_sqr.ndim == 2 else None

    def gain(self, batch_size: IntArray, init_batch_size: int) -> FloatArray:
        """Return G at batch sizes of any shape, shape (epochs or 1, *shape); beyond the table its ends hold."""
        sizes = self.batch_sizes
        at = np.clip(batch_size, sizes[0], sizes[-1])
        upper = np.clip(np.searchsorted(sizes, at), min(1, sizes.size - 1), sizes.size - 1)
        lower = np.maximum(upper - 1, 0)
        weight = (at - sizes[lower]) / np.maximum(sizes[upper] - sizes[lower], 1)
        sqr, var = (
            rows[:, lower] * (1.0 - weight) + rows[:, upper] * weight
            for rows in (np.atleast_2d(self.grad_sqr), np.atleast_2d(self.grad_var))
        )
        return statistical_gain(sqr, var, batch_size / init_batch_size)


def statistical_gain(grad_sqr: FloatArray, grad_var: FloatArray, scale: FloatArray) -> FloatArray:
    """Return G = (v + q) / (v / sigma + q), progress of an iteration at batch size sigma M0, in iterations at M0."""
    # Between 1 and sigma, for q and v, not negative, and sigma in shapes that broadcast; 1 where q and v are both zero
    # and tell nothing.
    scale = np.asarray(scale, dtype=np.float64)
    beneath = np.divide(grad_var, scale, out=np.zeros(np.broadcast(grad_var, scale).shape), where=scale > 0.0)
    beneath = beneath + grad_sqr
    return np.divide(grad_var + grad_sqr, beneath, out=np.ones_like(beneath), where=beneath > 0.0)


class GoodputSpeedup(Law):
    """The speedup of a job that adapts its batch size, from the goodput model: goodput(k) / goodput(1).

    Widths that leave each GPU less than ``min_local_batch_size`` samples of the largest batch have no speedup: asking
    for one is an error.
    """

    form: Literal["goodput"] = "goodput"
    parameters: ThroughputParameters  #: The step time.
    gpus_per_node: Annotated[int, Field(ge=1)]  #: Widths above it use several nodes.
    #: init_batch_size, max_batch_size: Range of the batch size, samples.
    init_batch_size: _Samples
    max_batch_size: _Samples
    #: min_local_batch_size, max_local_batch_size: Range of the samples per GPU in one pass.
    min_local_batch_size: _Samples
    max_local_batch_size: _Samples
    gradients: GradientTable | None = None  #: Gradient statistics by batch size, for each epoch or for all.
    #: The simple alternative: the gradient noise scale M0 v / q, one number, or one per epoch. Exactly one of the two
    #: is given.
    noise_scale_samples: Numbers | None = None
    evidence: Evidence | None = None  #: Where it comes from; None where that is not said.
    error: DoublingError | None = None  #: For each doubling of the width from the reference width; None: not said.

    @field_validator("noise_scale_samples")
    @classmethod
    def _check_noise_scale(cls, noise_scale: FloatArray | None) -> FloatArray | None:
        if noise_scale is not None:
            if noise_scale.ndim > 1 or not noise_scale.size:
                message = f"got an array of shape {noise_scale.shape}; a number, or a list of one per epoch, is needed"
                raise ValueError(message)
            require_positive(noise_scale, strictly=False)
        return noise_scale

    @model_validator(mode="after")
    def _check(self) -> GoodputSpeedup:
        for least, largest in (
            ("init_batch_size", "max_batch_size"),
            ("min_local_batch_size", "max_local_batch_size"),
            ("min_local_batch_size", "max_batch_size"),
        ):
            if getattr(self, least) > getattr(self, largest):
                low, high = getattr(self, least), getattr(self, largest)
                message = f"{least} is {low}, above {largest}, which is {high}; lower the one or raise the other"
                raise ValueError(message)
        if (self.gradients is None) == (self.noise_scale_samples is None):
            message = "give one of gradients and noise_scale_samples: both, or neither, leave the gain undetermined"
            raise ValueError(message)
        if self.gradients is not None:
            sizes = self.gradients.batch_sizes
            if sizes[0] > self.init_batch_size or sizes[-1] < self.max_batch_size:
                raise ValueError(
                    f"gradients.batch_sizes range from {sizes[0]} to {sizes[-1]}; they must reach from init_batch_size "
                    f"({self.init_batch_size}) to max_batch_size ({self.max_batch_size})"
                )
        return self

    @property
    def num_epochs(self) -> int | None:
        """Number of epochs with gradient statistics of their own; None when the same hold in each epoch."""
        if self.gradients is not None:
            return self.gradients.num_epochs
        scale = np.asarray(self.noise_scale_samples)
        return scale.size if scale.ndim else None

    @property
    def batch_rule(self) -> BatchRule:
        """The limits on batch sizes."""
        return BatchRule(
            self.init_batch_size, self.max_batch_size, self.min_local_batch_size, self.max_local_batch_size
        )

    def at(self, widths: IntArray) -> FloatArray:
        """Return the speedup; see :meth:`optplan.speedup.curves.SpeedupCurve.at`."""
        return self.goodput(widths) / self.goodput(np.array([1]))

    def goodput(self, widths: IntArray) -> FloatArray:
        """Return the goodput (epochs or 1, widths) in iterations at the initial batch size per second, on k GPUs."""
        k = require_widths(widths, whole=True).astype(np.int64)
        block = max(1, _BLOCK_ENTRIES // (NUM_CANDIDATES * (self.num_epochs or 1)))
        parts = [self._goodput_of_block(k[start : start + block]) for start in range(0, k.size, block)]
        return np.concatenate(parts, axis=1) if parts else np.empty((self.num_epochs or 1, 0))

    def _goodput_of_block(self, k: IntArray) -> FloatArray:
        batches = self.batch_rule.split(k)
        stuck = np.flatnonzero(~batches.feasible.any(axis=0))
        if stuck.size:
            problem = (
                f"no batch size is feasible on {k[stuck[0]]} GPUs: at least {self.min_local_batch_size} samples per GPU"
                f" are needed and the largest batch has {self.max_batch_size}"
            )
            limit = self.max_batch_size // self.min_local_batch_size
            raise DataError("widths", problem, f"choose widths of at most {limit} GPUs")
        nodes = -(-k // self.gpus_per_node)
        time_s = self.parameters.iteration_time_s(nodes, k, batches.local_batch, batches.accumulated)
        return best_goodput(self._gain(batches.batch_size), time_s, batches.feasible)[0]

    def _gain(self, batch_size: IntArray) -> FloatArray:
        if self.gradients is not None:
            return self.gradients.gain(batch_size, self.init_batch_size)
        # v / q is the noise scale over M0.
        ratio = np.atleast_1d(np.asarray(self.noise_scale_samples))[:, None, None] / self.init_batch_size
        return statistical_gain(np.ones_like(ratio), ratio, batch_size / self.init_batch_size)
