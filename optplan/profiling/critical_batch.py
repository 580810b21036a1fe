"""The critical batch: how many more samples training takes as its batch grows, from runs to one target.

To a target quality a run at batch size B takes ``S(B) = S_min (1 + B / B_crit)`` samples: next to ``S_min`` at small
batches, twice as many at the critical batch. Its steps, S / B, never fall below ``S_min / B_crit``, however many GPUs
share one. The critical batch is the gradient noise scale averaged over the run, ``noise_scale_samples`` of
:class:`~optplan.speedup.goodput.GoodputSpeedup`; progress by step, B / S, is Amdahl's law in B.

References
----------
McCandlish, Kaplan, Amodei et al., "An Empirical Model of Large-Batch Training", 2018, sections 2.2 and 2.3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from optplan.errors import DataError, show_value
from optplan.schema import FloatArray, IntArray
from optplan.speedup.fitting import fit_amdahl, student_quantile

#: The profile is followed so far beyond the batches that were tried, down and up.
_BEYOND = 1e9
#: Squared residuals of log samples below this are rounding.
_ROUNDING = 1e-20


@dataclass(frozen=True)
class CriticalBatch:
    """A fitted critical batch, with its 90 % interval."""

    least_samples: float  #: S_min, in the unit of the samples given.
    least_steps: float  #: S_min / B_crit, that unit for each sample of a batch: S(B) = least_samples + least_steps B.
    #: low, high: The interval of the critical batch by its profile likelihood, samples; ``high`` may be infinite. None
    #: where two batches leave no error to state.
    low: float | None
    high: float | None
    rmse_log: float  #: Root of the mean squared residual of log samples; 0.01 is about 1 %.

    @property
    def batch(self) -> float:
        """B_crit, samples; infinite where samples do not grow with the batch."""
        return self.least_samples / self.least_steps if self.least_steps > 0.0 else math.inf

    def largest_gain(self, batch: ArrayLike) -> FloatArray:
        """Return how many times fewer steps any larger batch takes than this one, at most: 1 + B_crit / B."""
        return np.asarray(1.0 + self.batch / np.asarray(batch, dtype=np.float64))


def fit_critical_batch(batch_sizes: Sequence[int] | IntArray, samples: Sequence[float] | FloatArray) -> CriticalBatch:
    """Fit the critical batch to samples that runs took to one target.

    Parameters
    ----------
    batch_sizes
        Global batch of each run in samples, shape (runs,).
    samples
        Samples to the target in any unit (epochs, too), shape (runs,).

    Returns
    -------
    CriticalBatch
        By least squares of log samples. Runs of one batch count once, at their geometric mean: they share its learning
        rate, and are no evidence for one another.

    Raises
    ------
    DataError
        When there are fewer than two distinct batches, a figure is not above zero, or lengths differ.
    """
    given, taken = np.asarray(batch_sizes), np.asarray(samples, dtype=np.float64)
    if given.ndim != 1 or given.shape != taken.shape:
        problem = f"got shapes {given.shape} and {taken.shape}; a list of one figure for each run is needed"
        raise DataError("batch_sizes and samples", problem, "give both the same length")
    wrong = np.flatnonzero(~((given >= 1) & (given == np.round(given)) & (taken > 0.0) & np.isfinite(taken)))
    if wrong.size:
        problem = f"got a batch of {show_value(given[wrong[0]].item())} and {taken[wrong[0]]:g} samples"
        raise DataError(f"run {wrong[0]}", problem, "give whole batches and samples above zero, or leave the run out")
    sizes, which = np.unique(given, return_inverse=True)
    if sizes.size < 2:
        problem = f"{sizes.size} distinct batch(es) in {given.size} runs; at least 2 are needed"
        raise DataError("batch_sizes", problem, "train to the same target with another batch")
    mean = np.exp(np.bincount(which, weights=np.log(taken)) / np.bincount(which))
    fit = fit_amdahl(sizes, sizes / mean)
    fraction = float(fit.curve.serial_fraction)
    low, high = _find_interval(sizes, np.log(mean), fraction) if sizes.size > 2 else (None, None)
    return CriticalBatch(
        (1.0 - fraction) / fit.reference_throughput, fraction / fit.reference_throughput, low, high, fit.rmse_log
    )


def _find_interval(sizes: IntArray, log_samples: FloatArray, fraction: float) -> tuple[float, float]:
    """Return the critical batches whose best fit is not worse than chance allows, by an F test of the profile."""
    from scipy.optimize import brentq

    def misfit(log_batch: float) -> float:
        residual = log_samples - np.logaddexp(0.0, np.log(sizes) - log_batch)
        return float(((residual - residual.mean()) ** 2).sum())

    ends = math.log(sizes[0] / _BEYOND), math.log(sizes[-1] * _BEYOND)
    with np.errstate(divide="ignore"):  # a fraction at its bound is a batch at the end
        best = float(np.clip(np.log(np.float64(1.0 - fraction)) - np.log(np.float64(fraction)), *ends))
    freedom = sizes.size - 2
    allowed = (misfit(best) + _ROUNDING) * (1.0 + student_quantile(freedom) ** 2 / freedom)
    low, high = (
        brentq(lambda at: misfit(at) - allowed, *sorted((best, end))) if misfit(end) > allowed else outside
        for end, outside in zip(ends, (-math.inf, math.inf), strict=True)
    )
    return math.exp(low), math.exp(high)
