"""How arrivals of a log follow the day, and in what clumps they come."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from optplan.formulations.boa.data.job_classes import HOURS_OF_DAY, ArrivalPattern
from optplan.schema import FloatArray

#: Bins of an hour in which arrivals are counted for the dispersion: longer ones would take the day for clumps.
_BINS = 3
#: Jobs in an hour of the day that count as much as the shape that all classes have together.
_PRIOR_JOBS = 48.0
#: Jobs without which a log says nothing of the day.
_FEWEST_JOBS = 48
_MOST_DISPERSION = 100.0
_DIGITS = 4


def learn_patterns(arrivals_h: Mapping[str, FloatArray], since_h: float, until_h: float) -> dict[str, ArrivalPattern]:
    """Learn the pattern of each class.

    A class's day is its own counts by the hour, drawn to the shape of all classes together: few jobs say little of 24
    hours. Its dispersion is the mean squared deviation from that day, of counts in 20 minutes, over the mean count.

    Parameters
    ----------
    arrivals_h
        By class: hours (n,) of its arrivals, in the span, counted from some midnight.
    since_h, until_h
        The span.

    Returns
    -------
    dict
        By class; empty where the span has no whole day, or fewer than 48 jobs.
    """
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
    """Say where patterns come from, as an entry of an instance's source; nothing where there are none.

    Parameters
    ----------
    patterns
        By class.
    hours
        What hour 0 is.
    """
    if not patterns:
        return {}
    clumps = ", ".join(f"{name} {pattern.dispersion:.2g}" for name, pattern in patterns.items())
    return {"hours and clumps": f"the log's, by hour of the day from {hours}; variance over mean in 20 min: {clumps}"}
