"""Arrival rates with their confidence intervals, and how uneven arrivals are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optplan.schema import FloatArray
from optplan.units import HOURS_PER_DAY, SECONDS_PER_HOUR

#: Chance that an interval does not cover the rate.
_MISS = 0.05
#: Days from which arrivals are counted by the day, so that the hours of the day play no part.
_MANY_DAYS = 10
#: Bins that a test of the dispersion needs.
_FEWEST_BINS = 5


@dataclass(frozen=True)
class Rate:
    """How often jobs arrive.

    Attributes
    ----------
    per_hour
        The estimate.
    low, high
        Ends of the 95 % interval, exact for a Poisson process.
    dispersion
        Variance over mean of the arrivals in ``bin_h`` hours where that is more than chance explains (at 5 %); 1 where
        it is not, or where there are too few bins to tell.
    bin_h
        Hours of a bin.
    relative_error
        One standard error over the estimate, the dispersion included.
    """

    per_hour: float
    low: float
    high: float
    dispersion: float
    bin_h: float
    relative_error: float


def estimate_rate(submits_s: FloatArray, since_s: float, until_s: float) -> Rate:
    """Estimate a rate from the times of arrivals in a span.

    The interval is Garwood's: of n arrivals, the gamma quantiles of n and of n + 1.

    Parameters
    ----------
    submits_s
        (n,) at least one, seconds; in the span.
    since_s, until_s
        The span.
    """
    from scipy.special import chdtri, gammaincinv

    hours = (until_s - since_s) / SECONDS_PER_HOUR
    count = submits_s.size
    low, high = (float(gammaincinv(shape, level)) for shape, level in ((count, _MISS / 2), (count + 1, 1 - _MISS / 2)))
    bin_h = HOURS_PER_DAY if hours >= _MANY_DAYS * HOURS_PER_DAY else 1.0
    bins = int(hours // bin_h)
    dispersion = 1.0
    if bins >= _FEWEST_BINS:
        edges = since_s + np.arange(bins + 1) * bin_h * SECONDS_PER_HOUR
        counts = np.histogram(submits_s, edges)[0]
        if counts.sum() > 0:
            statistic = float(counts.var(ddof=1) / counts.mean())
            if (bins - 1) * statistic > chdtri(bins - 1, _MISS):
                dispersion = statistic
    return Rate(
        per_hour=count / hours,
        low=low / hours,
        high=high / hours,
        dispersion=dispersion,
        bin_h=bin_h,
        relative_error=float(np.sqrt(dispersion / count)),
    )
