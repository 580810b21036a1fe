"""The independent judge of bounds for clusters of fixed size: what jobs make at least at prices of a GPU over time.

Prices are seconds of completion time for a GPU held for a second, one for each of the buckets into which time is cut,
and nothing after the last. At them each job, on its own, waits and runs so that its completion time plus what it pays
is least; the sum over the jobs, less the price of all GPUs of the cluster at all times, is no more than the sum of
their completion times under any policy (weak duality), whatever the prices. The least is found backwards over buckets,
by how far a job has come, at marks on its course; between two marks it is taken to lie on the chord. It is no more than
what a job can make. The fewest GPU-seconds for a way in so much time, a linear program, are no less than its dual at
any multiplier; so one is chosen for all ways from one cell between marks to another, and within a cell a GPU-second
counts as in its cheapest epoch. All that these ways cost is linear in where they begin then, so that the least of them
is concave between two marks, and above the chord.

The independent judge of audits: what jobs take at least at a price, and how many of them stand for which size.

Written from Lemma 4.8 alone; it imports no solver. The least path of a class at the prices is found by loops of the
judge's own. Sizes between two that are told apart count as shares of both, which is no more than they take.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from optplan.contracts.judgement import PathCosts, RefutedError
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.judge.duality import path_costs
from optplan.judging.enumeration import least_path
from optplan.lab.audits.courses import Course, relax
from optplan.lab.audits.records import AuditBound, AuditedClass, CapacityBound
from optplan.progress import Stopwatch
from optplan.schema import FloatArray

#: Most numbers in a table of the fewest GPU-seconds between cells.
MOST_STEPS = 4_000_000
#: Multipliers of the time for a way (the most of those that matter), and of the time to the end of a bucket.
_MULTIPLIERS, _URGENCIES = 96, np.append(1.0, 1.0 + np.geomspace(0.02, 200.0, 31))


class _Ways:
    """Ways along a course, between marks (M + 1,) of equal least time, of which some whole number make a bucket."""

    def __init__(self, course: Course, marks: int, bucket_s: float) -> None:
        self.course, self.bucket_s = course, bucket_s
        #: (E + 1,) Where epochs end, in the least seconds from the start.
        self.ends_s = np.append(0.0, np.cumsum(course.fastest_s))
        self.whole_s = float(self.ends_s[-1])
        #: How many cells the fastest comes on in a bucket; nobody comes farther.
        self.reach = max(1, math.ceil(marks * bucket_s / self.whole_s))
        self.cell_s = bucket_s / self.reach
        cells = math.ceil(self.whole_s / self.cell_s)
        self.band = min(self.reach, cells)
        if marks < 1 or cells * self.band > MOST_STEPS:
            raise RefutedError(f"{course.name}: {marks} marks; from 1 to where ways come to {MOST_STEPS:,} are allowed")
        #: marks_s, at: (M + 1,) Where marks are, in least seconds and in epochs; the first one before the start.
        self.marks_s = self.whole_s - self.cell_s * np.arange(cells, -1.0, -1.0)
        self.at = self._place(self.marks_s)
        first = np.clip(np.floor(self.at[:-1]).astype(np.intp), 0, len(course.rates) - 1)
        last = np.clip(np.ceil(self.at[1:]).astype(np.intp) - 1, first, len(course.rates) - 1)
        self.touched = np.stack([first, last + 1], axis=1).ravel()  # epochs of each cell
        self.multipliers = _choose_multipliers(course)
        #: (Q, E + 1) What the way to the end of each epoch costs in GPU-seconds, a second counting as so many of them.
        self.costs = self._sum_up(self.multipliers, 1.0)
        self.through = self._cross(self.costs)
        self.near, self.ahead, self.far = self._tabulate()

    def _place(self, least_s: FloatArray) -> FloatArray:
        """Return where places (n,) in least seconds are, in epochs."""
        epoch = np.clip(np.searchsorted(self.ends_s, least_s, side="right") - 1, 0, self.ends_s.size - 2)
        placed: FloatArray = epoch + (least_s - self.ends_s[epoch]) / self.course.fastest_s[epoch]
        return placed

    def _sum_up(self, seconds: FloatArray, gpu_second: float) -> FloatArray:
        """Return (Q, E + 1) the least weighted cost of the way to the end of each epoch, seconds weighted by (Q,)."""
        course = self.course
        cost = ((seconds[:, None, None] + gpu_second * course.gpus) / course.rates).min(axis=2)
        return np.concatenate([np.zeros((seconds.size, 1)), np.cumsum(cost, axis=1)], axis=1)

    def _cross(self, summed: FloatArray) -> FloatArray:
        """Return (Q, M) what it costs to cross each cell, all at the rate of its cheapest epoch."""
        rate = np.append(np.diff(summed, axis=1) / self.course.fastest_s, np.full((len(summed), 1), np.inf), axis=1)
        crossed: FloatArray = self.cell_s * np.minimum.reduceat(rate, self.touched, axis=1)[:, ::2]
        return crossed

    def _tabulate(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return, each (M, B), the fewest GPU-seconds in a bucket from a cell to the d-th after it.

        They are from its end to the beginning of that one, what is added from its own beginning, and to the end of
        that one; all three at the multiplier at which the first are most.
        """
        cells, band = self.at.size - 1, self.band
        near, ahead, far = np.full((cells, band), -np.inf), np.zeros((cells, band)), np.zeros((cells, band))
        for costs, own, multiplier in zip(
            _read(self.costs, self.at), self.through, self.multipliers.tolist(), strict=True
        ):
            to = sliding_window_view(np.append(costs[1:], np.full(band - 1, costs[-1])), band)[:cells]
            through = sliding_window_view(np.append(own[1:], np.zeros(band)), band)[:cells]
            value = to - (costs[1:, None] + multiplier * self.bucket_s)
            better = value > near
            np.copyto(near, value, where=better)
            np.copyto(ahead, own[:, None], where=better)
            np.copyto(far, value + through, where=better)
        return near, ahead, far

    def derive_least(self, prices: FloatArray, arrive_s: FloatArray, stopwatch: Stopwatch) -> FloatArray:
        """Return (n,) the least of completion time plus price of the course's jobs, which arrive at some times."""
        start_s = np.interp(self.course.start, np.arange(self.ends_s.size), self.ends_s)
        least: FloatArray = self.whole_s - start_s
        bucket = np.minimum(arrive_s / self.bucket_s, prices.size).astype(np.intp)
        after = self.whole_s - self.marks_s
        for number in range(prices.size - 1, bucket.min() - 1, -1):
            stopwatch.require()
            price = float(prices[number])
            ending = self._sum_up(_URGENCIES, price)
            for job in np.flatnonzero(bucket == number).tolist():
                left_s = (number + 1) * self.bucket_s - float(arrive_s[job])
                least[job] = self._begin(price, ending, left_s, float(start_s[job]), after)
            after = self._go_back(price, ending, after)
        return least

    def _go_back(self, price: float, ending: FloatArray, after: FloatArray) -> FloatArray:
        """Return (M + 1,) the least at each mark when a bucket begins, from those when it ends."""
        cells = after.size - 1
        windows = sliding_window_view(np.append(after[1:], np.zeros(self.band)), self.band + 1)[:cells]
        going = price * self.near + windows[:, :-1]
        farthest = going[:, -1].copy()
        np.minimum(going, price * self.far + windows[:, 1:], out=going)
        late = going.min(axis=1)
        if self.band == self.reach:  # from the beginning of a cell nobody comes beyond that of the farthest one
            going[:, -1] = farthest
        early = np.minimum((price * self.ahead + going).min(axis=1), after[:-1])
        finishing = _finish(ending, self.at[1:], self.bucket_s)
        which = finishing.argmax(axis=0)[None]
        ended = np.take_along_axis(finishing, which, axis=0)[0]
        through = np.take_along_axis(self._cross(ending), which, axis=0)[0]
        # By cell, from its beginning and from its end: a mark has the lesser of what two cells say.
        before = np.append(np.minimum(self.bucket_s + early, ended + through), 0.0)
        before[1:-1] = np.minimum(before[1:-1], np.minimum(self.bucket_s + late, ended)[:-1])
        return before

    def _begin(self, price: float, ending: FloatArray, left_s: float, start_s: float, after: FloatArray) -> float:
        """Return the least of a job that starts somewhere on the course when a bucket has some time left."""
        until_s = min(start_s + left_s, self.whole_s)
        first, last = np.searchsorted(self.marks_s, start_s, side="right"), np.searchsorted(self.marks_s, until_s)
        places_s = np.concatenate([[start_s], self.marks_s[first:last], [until_s]])
        at, least = self._place(places_s[:-1]), np.interp(places_s, self.marks_s, after)
        costs = _read(self.costs, at)
        near = costs - costs[:, :1] - (self.multipliers * left_s)[:, None]
        which = near.argmax(axis=0)
        paid = price * near.max(axis=0)
        cell = np.maximum(np.arange(first - 1, first + at.size - 1), 0)
        through = price * self.through[which, cell] * np.diff(places_s) / self.cell_s
        going = left_s + float(np.minimum(paid + least[:-1], paid + through + least[1:]).min())
        return min(going, float(_finish(ending, at[:1], left_s).max()))


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
    epoch = np.clip(at.astype(np.intp), 0, summed.shape[1] - 2)
    read: FloatArray = summed[:, epoch] + (at - epoch) * (summed[:, epoch + 1] - summed[:, epoch])
    return read


def _finish(ending: FloatArray, at: FloatArray, left_s: float) -> FloatArray:
    """Return (U, n) what finishing within some time takes at least from places (n,), given sums at all urgencies."""
    return ending[:, -1:] - _read(ending, at) - ((_URGENCIES - 1.0) * left_s)[:, None]


def derive_bound(courses: Sequence[Course], arrive_s: FloatArray, bound: CapacityBound, stopwatch: Stopwatch) -> float:
    """Derive from prices the least sum of completion times, in seconds, of jobs that arrive at times (N,)."""
    total_s = 0.0
    for course, marks in zip(courses, bound.marks, strict=True):
        ready_s = arrive_s[course.jobs] + course.pause_s  # whoever starts later has waited
        least_s = _Ways(course, marks, bound.bucket_s).derive_least(bound.prices, ready_s, stopwatch)
        total_s += float((course.pause_s + least_s).sum())
    return total_s - bound.gpus * bound.bucket_s * float(bound.prices.sum())


def derive_least(
    instance: BoaInstance, classes: Mapping[str, AuditedClass], bound: AuditBound, stopwatch: Stopwatch
) -> dict[str, float]:
    """Return by class the least of what is bounded, and of the other at the bound's price, over all its jobs."""
    relaxed = relax(instance, {name: each.jobs for name, each in classes.items()}, pauses=bound.pauses)
    prices = np.array([1.0, bound.price] if bound.of == "mean_jct_s" else [bound.price, 1.0])
    least = {}
    for graph in path_costs(relaxed):
        own, total = classes[graph.name], 0.0
        running = _favour(relaxed, graph)
        for size, weight in zip(own.sizes.tolist(), own.weights.tolist(), strict=True):
            stopwatch.require()
            scaled = replace(
                graph,
                run_value=size * running * graph.run_value,
                run_consumption=size * running * graph.run_consumption,
            )
            total += weight / own.jobs * least_path(scaled, prices)
        least[graph.name] = total
    return least


def list_favoured(instance: BoaInstance, classes: Mapping[str, AuditedClass]) -> tuple[str, ...]:
    """List the classes of which running takes less than stated at some end of a band."""
    relaxed = relax(instance, {name: each.jobs for name, each in classes.items()}, pauses=False)
    return tuple(graph.name for graph in path_costs(relaxed) if (_favour(relaxed, graph) < 1.0).any())


def _favour(instance: BoaInstance, graph: PathCosts) -> FloatArray:
    """Return (E, K) what running takes of the stated time where speeds are at the upper ends of their bands."""
    options, job_class = instance.options(graph.name), instance.classes[graph.name]
    fastest = np.array(options.speeds)
    for gpu_type in options.gpu_types:
        own = options.of_type(gpu_type)
        _, high = job_class.speedup[gpu_type].band_at(options.widths[own], job_class.reference_width)
        fastest[:, own] = np.maximum(fastest[:, own], high)
    share: FloatArray = options.speeds / fastest
    return np.broadcast_to(share, graph.run_value.shape)


def share_out(sizes: FloatArray, own: AuditedClass) -> FloatArray:
    """Return (S,) how many jobs of sizes (n,) stand for each size that is told apart; a RefutedError if they cannot."""
    if (np.diff(own.sizes) <= 0.0).any():
        raise RefutedError("sizes must ascend")
    if not (own.sizes[0] <= sizes.min() and sizes.max() <= own.sizes[-1]):
        raise RefutedError(f"jobs have sizes from {sizes.min():.6g} to {sizes.max():.6g}, which are not between these")
    if own.sizes.size == 1:
        return np.array([float(sizes.size)])
    above = np.searchsorted(own.sizes, sizes, side="left").clip(1)
    low, high = own.sizes[above - 1], own.sizes[above]
    of_low = (high - sizes) / (high - low)
    shares = np.zeros(own.sizes.size)
    np.add.at(shares, above - 1, of_low)
    np.add.at(shares, above, 1.0 - of_low)
    return shares
