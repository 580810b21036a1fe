"""Prices of a GPU over time that make a good bound for a cluster of fixed size: the dual, maximised by L-BFGS-B.

Capacity is relaxed bucket by bucket of time. At prices each job goes its own way, the same for all that are as far in
the same course; the GPUs that all of them hold, less those that there are, are the gradient. Values are numerical, of
steps and cells: what the prices prove is the judge's to say.

Byrd, Lu, Nocedal and Zhu, "A limited memory algorithm for bound constrained optimization", SIAM J. Sci. Comput. 1995.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from optplan.lab.audits.courses import Course
from optplan.lab.audits.price_loops import go_ahead, go_back
from optplan.schema import FloatArray

#: Steps in a bucket, cells of a course and evaluations at most, from coarse to fine.
_STAGES = ((3, 100, 250), (5, 300, 45))
#: Prices that begin the search, in seconds a GPU-second, as long as jobs arrive.
_FIRST = np.geomspace(1e-4, 100.0, 25)
#: Relative change of the dual below which a stage ends; how many pairs the approximation of the curvature keeps.
_TOLERANCE, _MEMORY = 1e-7, 20
#: How much longer than at the fewest GPU-seconds all jobs may have to be worked off, and than the fastest the longest
#: one; cells of all courses at most.
_ROOM, _ALONE, _MOST_CELLS = 2.0, 3.0, 2_000


class _Cells:
    """A course in cells and steps, with its jobs."""

    def __init__(self, course: Course, ready_s: FloatArray, cells: int, steps: int, step_s: float) -> None:
        each = math.ceil(cells / len(course.rates))
        self.rates = np.repeat(course.rates * each, each, axis=0)
        self.gpus = np.repeat(course.gpus, each, axis=0)
        self.step_s, at = step_s, np.minimum(ready_s / step_s, float(steps))
        begun, cell = np.minimum(at.astype(np.intp), steps - 1), course.start * each
        first = np.minimum(cell.astype(np.intp), len(self.rates) - 1)
        #: Jobs between steps and cells count as shares of the four around them: places (4, n) and shares (4, n).
        self.places = np.array([begun, begun, begun + 1, begun + 1]), np.array([first, first + 1, first, first + 1])
        late, far = at - begun, cell - first
        self.shares = np.array([(1 - late) * (1 - far), (1 - late) * far, late * (1 - far), late * far])
        self.least = np.zeros((steps + 1, len(self.rates) + 1))
        self.least[-1, :-1] = np.cumsum(1.0 / self.rates[::-1].max(axis=1))[::-1]
        self.choice = np.full((steps + 1, len(self.rates)), -1, dtype=np.int8)

    def find_least(self, prices: FloatArray, per_bucket: int, held: FloatArray) -> float:
        """Return what the jobs make together at prices (B,), and add what they hold to (B,)."""
        go_back(self.rates, self.gpus, prices, per_bucket, self.step_s, self.least, self.choice)
        present = np.zeros_like(self.least)
        np.add.at(present, self.places, self.shares)
        go_ahead(self.rates, self.gpus, per_bucket, self.step_s, self.choice, present, held)
        return float((self.least[self.places] * self.shares).sum())


class _Dual:
    """The dual of one stage, in steps and cells."""

    def __init__(
        self,
        courses: Sequence[Course],
        arrive_s: FloatArray,
        gpus: int,
        buckets: int,
        bucket_s: float,
        stage: tuple[int, int, int],
    ) -> None:
        self.per_bucket, cells, self.evaluations = stage
        cells = min(cells, math.ceil(_MOST_CELLS / len(courses)))
        steps, self.capacity_s = buckets * self.per_bucket, gpus * bucket_s
        self.parts = [
            _Cells(each, arrive_s[each.jobs] + each.pause_s, cells, steps, bucket_s / self.per_bucket)
            for each in courses
        ]
        self.best, self.prices, self.done = -math.inf, np.zeros(buckets), 0

    def evaluate(self, prices: FloatArray) -> tuple[float, FloatArray]:
        """Return minus the dual and its gradient (B,), and remember the best prices; both over capacity."""
        held = np.zeros(prices.size)
        value = sum(part.find_least(prices, self.per_bucket, held) for part in self.parts)
        value -= self.capacity_s * float(prices.sum())
        self.done += 1
        if value > self.best:
            self.best, self.prices = value, prices.copy()
        return -value / self.capacity_s, 1.0 - held / self.capacity_s

    def climb(self, prices: FloatArray) -> FloatArray:
        """Return the best prices found from some on."""
        from scipy.optimize import minimize

        while self.done < self.evaluations:
            before, done = self.best, self.done
            options = {"maxfun": self.evaluations - done, "maxcor": _MEMORY, "ftol": _TOLERANCE, "gtol": 1e-9}
            bounds = [(0.0, None)] * prices.size
            minimize(self.evaluate, prices, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
            prices = self.prices
            # The dual has kinks, at which a search along a line may give up: from there it begins anew.
            if self.best <= before + _TOLERANCE * abs(self.best):
                break
        return prices


def find_prices(
    courses: Sequence[Course], arrive_s: FloatArray, gpus: int, bucket_s: float, buckets: int
) -> FloatArray:
    """Find prices (B,) of buckets, in seconds a GPU-second, for jobs that arrive at times (N,) on so many GPUs."""
    arriving = np.arange(buckets) * bucket_s <= arrive_s.max()
    coarse = _Dual(courses, arrive_s, gpus, buckets, bucket_s, _STAGES[0])
    for price in _FIRST.tolist():
        coarse.evaluate(np.where(arriving, price, 0.0))
    prices = coarse.climb(coarse.prices)
    for stage in _STAGES[1:]:
        prices = _Dual(courses, arrive_s, gpus, buckets, bucket_s, stage).climb(prices)
    return prices


def find_horizon_s(courses: Sequence[Course], arrive_s: FloatArray, gpus: int) -> float:
    """Return until when jobs may have to be worked off, with some room; beyond, prices are nothing."""
    last_s, backlog, order = 0.0, 0.0, np.argsort(arrive_s, kind="stable")
    work, fastest_s = np.zeros(arrive_s.size), max(float(each.fastest_s.sum()) for each in courses)
    for each in courses:
        fewest = (each.gpus / each.rates).min(axis=1)
        work[each.jobs] = fewest.sum() * (1.0 - each.start / len(fewest))
    for at_s, own in zip(arrive_s[order].tolist(), work[order].tolist(), strict=True):
        backlog = max(0.0, backlog - gpus * (at_s - last_s)) + own
        last_s = at_s
    return last_s + _ROOM * backlog / gpus + _ALONE * fastest_s
