"""What a log's arrivals say: rates with their intervals, hours of the day, clumps, and where jobs are too few."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from optplan.errors import DataWarning
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.data.job_classes import HOURS_OF_DAY, ArrivalPattern
from optplan.schema import FloatArray
from optplan.units import HOURS_PER_DAY, SECONDS_PER_HOUR

#: Bins of an hour in which arrivals are counted for the dispersion: longer ones would take the day for clumps.
_BINS = 3
#: Jobs in an hour of the day that count as much as the shape that all classes have together.
_PRIOR_JOBS = 48.0
#: Jobs without which a log says nothing of the day.
_FEWEST_JOBS = 48
_MOST_DISPERSION = 100.0
_DIGITS = 4
#: Standard error of the whole load, relative, from which one class that causes it alone is named.
_NOTABLE_ERROR = 0.15
#: Chance that an interval does not cover the rate.
_MISS = 0.05
#: Days from which arrivals are counted by the day, so that the hours of the day play no part.
_MANY_DAYS = 10
#: Bins that a test of the dispersion needs.
_FEWEST_BINS = 5


def learn_patterns(arrivals_h: Mapping[str, FloatArray], since_h: float, until_h: float) -> dict[str, ArrivalPattern]:
    """Learn the pattern of each class from arrivals (n,), hours from some midnight; none without a day and 48 jobs."""
    # A class's day is its own counts by the hour, drawn to the shape of all classes together: few jobs say little of 24
    # hours. Its dispersion is the mean squared deviation from that day, of counts in 20 minutes, over the mean count.
    every = np.concatenate([np.zeros(0), *arrivals_h.values()])
    num_bins = int((until_h - since_h) * _BINS)
    if until_h - since_h < HOURS_OF_DAY or every.size < _FEWEST_JOBS:
        return {}
    edges = since_h + np.arange(num_bins + 1) / _BINS
    hour_of_bin = (0.5 * (edges[1:] + edges[:-1]) % HOURS_OF_DAY).astype(np.int64)
    seen_h = np.bincount(hour_of_bin, minlength=HOURS_OF_DAY) / _BINS
    shape = _count_hours(every) / seen_h
    shape /= shape.mean()
    patterns = {}
    for name, times_h in arrivals_h.items():
        hourly = _count_hours(times_h) * (seen_h.mean() / seen_h) + _PRIOR_JOBS * shape
        hourly /= hourly.mean()
        expected = hourly[hour_of_bin]
        expected *= times_h.size / expected.sum()
        counts = np.histogram(times_h, edges)[0]
        dispersion = float(((counts - expected) ** 2).sum() / expected.sum())
        patterns[name] = ArrivalPattern(
            hourly=np.round(hourly, _DIGITS),
            dispersion=round(min(max(dispersion, 1.0), _MOST_DISPERSION), _DIGITS),
        )
    return patterns


def _count_hours(times_h: FloatArray) -> FloatArray:
    """Return (24,) the arrivals in each hour of the day."""
    return np.bincount((times_h % HOURS_OF_DAY).astype(np.int64), minlength=HOURS_OF_DAY).astype(float)


def tell_patterns(patterns: Mapping[str, ArrivalPattern], *, hours: str) -> dict[str, str]:
    """Say where patterns come from, as an entry of an instance's source; nothing where there are none."""
    if not patterns:
        return {}
    clumps = ", ".join(f"{name} {pattern.dispersion:.2g}" for name, pattern in patterns.items())
    return {"hours and clumps": f"the log's, by hour of the day from {hours}; variance over mean in 20 min: {clumps}"}


def warn_few_jobs(instance: BoaInstance, jobs: Mapping[str, int]) -> None:
    """Warn of classes whose rates rest on so few jobs that the load of the whole instance is uncertain."""
    # Of n jobs with a share w of the load, the load's relative standard error is w / sqrt(n), were arrivals a Poisson
    # process; they come in clumps, so it is more.
    loads = {name: each.arrival_rate_per_hour * each.size_gpu_hours for name, each in instance.classes.items()}
    total = sum(loads.values())
    for name, load in loads.items():
        if load / total / math.sqrt(jobs[name]) > _NOTABLE_ERROR:
            count = f"{jobs[name]} job{'s' if jobs[name] > 1 else ''}"
            message = (
                f"classes.{name}.arrival_rate_per_hour rests on {count}, and the class carries {load:.3g} of "
                f"{total:.3g} GPUs; see what other rates would do, or import a longer trace"
            )
            warnings.warn(message, DataWarning, stacklevel=3)


@dataclass(frozen=True)
class Rate:
    """How often jobs arrive."""

    per_hour: float
    low: float  #: Ends of the 95 % interval, exact for a Poisson process.
    high: float
    dispersion: float  #: Variance over mean of counts, where that is more than chance explains (at 5 %), else 1.
    bin_h: float
    relative_error: float  #: One standard error over the estimate, dispersion included.


def estimate_rate(submits_s: FloatArray, since_s: float, until_s: float) -> Rate:
    """Estimate a rate from the times of arrivals in a span."""
    # The interval is Garwood's: of n arrivals, the gamma quantiles of n and of n + 1.
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
