"""The independent judge of bounds for clusters of fixed size: what jobs make at least at prices of a GPU over time.

Prices are seconds of completion time for a GPU held for a second, one for each of the buckets into which time is cut,
and nothing after the last. At them each job, on its own, waits and runs so that its completion time plus what it pays
is least; the sum over the jobs, less the price of all GPUs of the cluster at all times, is no more than the sum of
their completion times under any policy (weak duality), whatever the prices. The least is found backwards over buckets,
by how far a job has come, at marks on its course. It is no more than what a job can make: whatever lies between two
marks when a bucket ends counts as having reached the later one, but is paid for up to the earlier one only; and the
fewest GPU-seconds for a way in so much time, a linear program, are those of its dual at some multipliers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from optplan.contracts.audits import CapacityBound
from optplan.contracts.judgement import RefutedError
from optplan.formulations.boa.laws.courses import Course
from optplan.progress import Stopwatch
from optplan.schema import FloatArray

#: Most numbers in a table of the fewest GPU-seconds between marks.
MOST_STEPS = 8_000_000
#: Multipliers of the time for a way (the most of those that matter), and of the time to the end of a bucket.
_MULTIPLIERS, _URGENCIES = 48, np.append(1.0, 1.0 + np.geomspace(0.02, 200.0, 23))
#: Numbers that are handled together: few enough for the cache.
_BLOCK = 65_536


class _Ways:
    """Ways along a course, between marks (M + 1,) of equal least time."""

    def __init__(self, course: Course, marks: int, bucket_s: float) -> None:
        self.course, self.bucket_s = course, bucket_s
        ends_s = np.append(0.0, np.cumsum(course.fastest_s))
        self.band = min(marks, math.ceil(marks * bucket_s / ends_s[-1]) + 1)
        if marks < 1 or marks * (self.band + 1) > MOST_STEPS:
            raise RefutedError(f"{course.name}: {marks} marks; from 1 to where ways come to {MOST_STEPS:,} are allowed")
        marks_s = np.linspace(0.0, ends_s[-1], marks + 1)
        #: at, left_s: (M + 1,) Where each mark is, in epochs, and the least seconds from there to the end.
        self.at, self.left_s = np.interp(marks_s, ends_s, np.arange(ends_s.size)), ends_s[-1] - marks_s
        self.multipliers = _choose_multipliers(course)
        #: (Q, E + 1) What the way to the end of each epoch costs in GPU-seconds, a second counting as so many of them.
        self.costs = self._sum_up(self.multipliers, 1.0)
        self.fewest = self._tabulate()
        self.rows = max(1, _BLOCK // (self.band + 1))
        #: By block of marks, how much more going one mark further takes at least, for each way and all farther ones.
        self.more = [self._find_more(first) for first in range(0, marks, self.rows)]

    def _find_more(self, first: int) -> FloatArray:
        """Return (B,) what a mark more takes at least from those of a block, for each way and all farther ones."""
        more = np.diff(self.fewest[first : first + self.rows], axis=1)
        for row, own in enumerate(more, first):
            own[self.at.size - 1 - row :] = np.inf  # nothing is beyond the last mark
        least: FloatArray = np.minimum.accumulate(more.min(axis=0)[::-1])[::-1]
        return least

    def _sum_up(self, seconds: FloatArray, gpu_second: float) -> FloatArray:
        """Return (Q, E + 1) the least weighted cost of the way to the end of each epoch, seconds weighted by (Q,)."""
        course = self.course
        cost = ((seconds[:, None, None] + gpu_second * course.gpus) / course.rates).min(axis=2)
        return np.concatenate([np.zeros((seconds.size, 1)), np.cumsum(cost, axis=1)], axis=1)

    def _tabulate(self) -> FloatArray:
        """Return (M, B + 1) the fewest GPU-seconds in a bucket from each mark to between d - 1 and d further."""
        costs, marks = _read(self.costs, self.at), self.at.size - 1
        fewest = np.zeros((marks, self.band + 1))
        for own, multiplier in zip(costs, self.multipliers.tolist(), strict=True):
            windows = sliding_window_view(np.append(own, np.full(self.band, own[-1])), self.band)[:marks]
            np.maximum(fewest[:, 1:], windows - (own[:-1, None] + multiplier * self.bucket_s), out=fewest[:, 1:])
        return fewest

    def derive_least(self, prices: FloatArray, arrive_s: FloatArray, stopwatch: Stopwatch) -> FloatArray:
        """Return (n,) the least of completion time plus price of the course's jobs, which arrive at some times."""
        start, alone = self.course.start, self._sum_up(np.ones(1), 0.0)
        least: FloatArray = (alone[:, -1:] - _read(alone, start))[0]
        bucket = np.minimum(arrive_s / self.bucket_s, prices.size).astype(np.intp)
        after = self.left_s
        for number in range(prices.size - 1, bucket.min() - 1, -1):
            stopwatch.require()
            price = float(prices[number])
            ending = self._sum_up(_URGENCIES, price)
            for job in np.flatnonzero(bucket == number).tolist():
                left_s = (number + 1) * self.bucket_s - float(arrive_s[job])
                least[job] = self._begin(price, ending, left_s, start[job : job + 1], after)
            after = self._go_back(price, ending, after)
        return least

    def _go_back(self, price: float, ending: FloatArray, after: FloatArray) -> FloatArray:
        """Return (M + 1,) the least at each mark when a bucket begins, from those when it ends."""
        marks = after.size - 1
        windows = sliding_window_view(np.append(after, np.zeros(self.band)), self.band + 1)
        before = np.zeros(marks + 1)
        gains = after[:-1] - after[1:]
        for first, more in zip(range(0, marks, self.rows), self.more, strict=True):
            block = slice(first, min(first + self.rows, marks))
            # Where one mark more, and any after it, takes more than any mark is worth, nobody goes.
            most = gains[first : block.stop + self.band].max()
            ahead = int(np.searchsorted(more, most / price)) + 1 if price > 0.0 else self.band + 1
            ahead = min(ahead, marks - first + 1)
            paid = price * self.fewest[block, :ahead]
            paid += windows[block, :ahead]
            before[block] = self.bucket_s + paid.min(axis=1)
        least: FloatArray = np.minimum(before, _finish(ending, self.at, self.bucket_s))
        return least

    def _begin(self, price: float, ending: FloatArray, left_s: float, start: FloatArray, after: FloatArray) -> float:
        """Return the least of a job that starts somewhere (1,) on the course when a bucket has some time left."""
        first = int(np.searchsorted(self.at, start[0]))
        # From one mark on nobody comes so far, however little GPUs cost; rounding may put it one mark further.
        beyond = first + math.ceil((self.at.size - 1) * left_s / self.left_s[0]) + 2
        costs = _read(self.costs, self.at[first : min(beyond, self.at.size) - 1]) - _read(self.costs, start)
        fewest = np.maximum((costs - (self.multipliers * left_s)[:, None]).max(axis=0), 0.0)
        going = left_s + float((price * np.append(0.0, fewest) + after[first:beyond]).min())
        return min(going, float(_finish(ending, start, left_s)[0]))


def _choose_multipliers(course: Course) -> FloatArray:
    """Choose multipliers (Q,) of time, in GPUs: from nothing to beyond all at which another width becomes the best."""
    gpus, rates = course.gpus, course.rates
    faster = np.diff(rates, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        equal = (gpus[:, 1:] * rates[:, :-1] - gpus[:, :-1] * rates[:, 1:]) / faster
    equal = equal[faster > 0.0]
    spread = np.quantile(equal, np.linspace(0.0, 1.0, _MULTIPLIERS)) if equal.size else np.zeros(0)
    most = max(float(spread.max(initial=0.0)), float(gpus.max()))
    return np.unique(np.concatenate([[0.0, 10.0 * most, 1000.0 * most], spread[spread > 0.0]]))


def _read(summed: FloatArray, at: FloatArray) -> FloatArray:
    """Read sums (Q, E + 1) over epochs at places (n,) of the course."""
    epoch = np.minimum(at.astype(np.intp), summed.shape[1] - 2)
    read: FloatArray = summed[:, epoch] + (at - epoch) * (summed[:, epoch + 1] - summed[:, epoch])
    return read


def _finish(ending: FloatArray, at: FloatArray, left_s: float) -> FloatArray:
    """Return (n,) what finishing within some time takes at least from places (n,), given sums at all urgencies."""
    least: FloatArray = (ending[:, -1:] - _read(ending, at) - ((_URGENCIES - 1.0) * left_s)[:, None]).max(axis=0)
    return least


def derive_bound(courses: Sequence[Course], arrive_s: FloatArray, bound: CapacityBound, stopwatch: Stopwatch) -> float:
    """Derive from prices the least sum of completion times, in seconds, of jobs that arrive at times (N,)."""
    total_s = 0.0
    for course, marks in zip(courses, bound.marks, strict=True):
        ready_s = arrive_s[course.jobs] + course.pause_s  # whoever starts later has waited
        least_s = _Ways(course, marks, bound.bucket_s).derive_least(bound.prices, ready_s, stopwatch)
        total_s += float((course.pause_s + least_s).sum())
    return total_s - bound.gpus * bound.bucket_s * float(bound.prices.sum())
