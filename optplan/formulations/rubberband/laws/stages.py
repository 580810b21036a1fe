"""What allocations of a stage take: expected time, GPU-seconds, and the distribution of the time.

Which allocations to look at is said elsewhere: the judge lists all that are allowed, the solver those that can be best.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import TypeVar, cast

import numpy as np

from optplan.formulations.rubberband.data.allocations import Allocations, read_allocations
from optplan.formulations.rubberband.data.distributions import Distribution
from optplan.formulations.rubberband.data.experiment import Stage
from optplan.formulations.rubberband.data.instance import RubberBandInstance, recall
from optplan.formulations.rubberband.laws.convolutions import (
    ClippedLaw,
    GridLaw,
    Law,
    add_laws,
    expected_chain_maximum,
    expected_law_maximum,
    expected_maximum,
    law_of_cdf,
)
from optplan.schema import FloatArray, IntArray

_Found = TypeVar("_Found")


class LruCache:
    """Remembers what was made up to a size of all together, for searches, and the judge, that share a profile."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.size = 0
        self._entries: OrderedDict[Hashable, tuple[object, int]] = OrderedDict()
        self._lock = Lock()

    def find(self, key: Hashable, make: Callable[[], _Found], measure: Callable[[_Found], int]) -> _Found:
        """Return what is there under a key, of all that the value follows from, or make it and put it there."""
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
                return cast("_Found", self._entries[key][0])
        made = make()
        with self._lock:
            self._drop(key)
            self._entries[key] = made, measure(made)
            self.size += self._entries[key][1]
            while self.size > self.most and len(self._entries) > 1:
                self._drop(next(iter(self._entries)))
        return made

    def _drop(self, key: Hashable) -> None:
        _, size = self._entries.pop(key, (None, 0))
        self.size -= size


#: Deviations above zero from which on a normal training time needs no clipping, as for single distributions.
_NEGLIGIBLE_DEVIATIONS = 6.0

#: Deviations from its mean within which a normal time lies for all that matters.
_REACH = 10.0

#: Expected seconds below zero, relative to the mean, that need no clipping.
_NEGLIGIBLE_SHARE = 1e-12

#: Grid points of all distributions that are remembered; each takes some 50 bytes with what is derived from it.
_MOST_POINTS = 1 << 22
_CACHE = LruCache(_MOST_POINTS)


def count_chains(trials: int, slots: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return (A,) trials of a long chain, and how many chains are long and how many one shorter, of (A,) slots."""
    waves = -(-trials // slots)
    long_chains = trials - (waves - 1) * slots
    return waves, long_chains, slots - long_chains


@dataclass(frozen=True)
class TrialTime:
    """The time of one trial: start + max(0, x * S + I_1 + ... + I_x - x * s), s the mean of S and I."""

    start: Distribution
    pace: Distribution
    iteration: Distribution
    mean_s: float
    iterations: int

    @cached_property
    def is_normal(self) -> bool:
        """Whether a normal distribution (or a constant) describes the time but for less than 1e-10 of it."""
        parts = self.start.is_normal and self.pace.is_normal and self.iteration.is_normal
        x = self.iterations
        deviation_s = math.hypot(math.sqrt(x) * self.iteration.deviation_s, x * self.pace.deviation_s)
        return parts and x * self.mean_s >= _NEGLIGIBLE_DEVIATIONS * deviation_s

    @cached_property
    def _training(self) -> tuple[list[tuple[Law, int]], float]:
        """Summands of the training time, and what is added to them."""
        x = self.iterations
        summands: list[tuple[Law, int]] = [(self.iteration, x), (self.pace.scaled(x), 1)]
        offset = -x * self.mean_s
        if self.iteration.is_constant or self.pace.is_constant or self.is_normal:
            return summands, offset  # one kind of noise alone never makes the time negative
        clipped = ClippedLaw(add_laws(summands, offset))
        if clipped.expected_s - clipped.law.expected_s <= _NEGLIGIBLE_SHARE * clipped.expected_s:
            return summands, offset
        return [(clipped, 1)], 0.0

    @cached_property
    def expected_s(self) -> float:
        """Mean."""
        summands, offset = self._training
        return self.start.expected_s + offset + sum(count * law.expected_s for law, count in summands)

    @cached_property
    def deviation_s(self) -> float:
        """Standard deviation."""
        variance = sum(count * law.deviation_s**2 for law, count in self._training[0])
        return math.sqrt(self.start.deviation_s**2 + variance)

    def chain_law(self, trials: int) -> GridLaw:
        """Return the distribution of the time of several trials in series."""

        def add_up() -> GridLaw:
            summands, offset = self._training
            return add_laws([(law, count * trials) for law, count in [*summands, (self.start, 1)]], trials * offset)

        return _CACHE.find((self._content, trials), add_up, _count_points)

    @cached_property
    def _content(self) -> tuple[object, ...]:
        """What everything here follows from."""
        parts = (self.start, self.pace, self.iteration)
        return *(part.content_hash() for part in parts), self.mean_s, self.iterations

    def expected_last(self, waves: int, long_chains: int, short_chains: int) -> float:
        """Return the expected end of the last of several chains; a short one has a trial fewer than ``waves``."""
        key = (self._content, waves, long_chains, short_chains)
        return _CACHE.find(key, lambda: self._expect_last(waves, long_chains, short_chains), lambda _: 1)

    def _expect_last(self, waves: int, long_chains: int, short_chains: int) -> float:
        single = self._single_random()
        if waves == 1 and single is not None:
            constant = self.expected_s - single.expected_s
            return constant + float(expected_maximum(single, np.array([long_chains]))[0])
        short = self.chain_law(waves - 1) if short_chains and waves > 1 else None
        return expected_law_maximum(self.chain_law(waves), long_chains, short, short_chains)

    def _single_random(self) -> Distribution | None:
        """Return the only part that varies, where there is only one and it is drawn once."""
        x = self.iterations
        random = [part for part in (self.start, self.pace, self.iteration) if not part.is_constant]
        if len(random) != 1 or (random[0] is self.iteration and x > 1):
            return None
        return random[0].scaled(x) if random[0] is self.pace else random[0]

    def last_cdf(self, waves: int, long_chains: int, short_chains: int, t: FloatArray) -> FloatArray:
        """Return P(the last of several chains has ended by t) for each t; see :meth:`expected_last`."""
        below = np.power(self._chain_cdf(waves, t), long_chains)
        if short_chains and waves > 1:
            below = below * np.power(self._chain_cdf(waves - 1, t), short_chains)
        return below

    def last_law(self, waves: int, long_chains: int, short_chains: int, expected_s: float) -> GridLaw:
        """Return the distribution of the end of the last of several chains, on a grid, from its mean; see above."""
        if self.deviation_s == 0:
            return GridLaw(expected_s, 1.0, np.ones(1))
        key = (self._content, waves, long_chains, short_chains, expected_s)
        return _CACHE.find(
            key, lambda: self._find_last_law(waves, long_chains, short_chains, expected_s), _count_points
        )

    def _find_last_law(self, waves: int, long_chains: int, short_chains: int, expected_s: float) -> GridLaw:
        if self.is_normal:
            reach = _REACH * math.sqrt(waves) * self.deviation_s
            ends = (waves * self.expected_s - reach, waves * self.expected_s + reach)
        else:
            values = self.chain_law(waves).values_s
            ends = (float(values[0]), float(values[-1]))
        return law_of_cdf(lambda t: self.last_cdf(waves, long_chains, short_chains, t), ends, expected_s)

    def _chain_cdf(self, trials: int, t: FloatArray) -> FloatArray:
        from scipy.special import ndtr

        if not self.is_normal:
            return self.chain_law(trials).cdf(t)
        mean, deviation = trials * self.expected_s, math.sqrt(trials) * self.deviation_s
        if deviation == 0:
            # What is exactly on time must not be late by rounding.
            return np.where(t >= mean * (1 - _NEGLIGIBLE_SHARE), 1.0, 0.0)
        cdf: FloatArray = ndtr((t - mean) / deviation)
        return cdf


def _count_points(law: GridLaw) -> int:
    return law.mass.size


@dataclass(frozen=True)
class StageOptions(Allocations):
    """Allocations (A,) of a stage: ``waves`` of the longest chains, expected time, and GPU-seconds that are busy."""

    waves: IntArray
    expected_s: FloatArray
    busy_gpu_s: FloatArray


def time_allocations(
    instance: RubberBandInstance, stage: Stage, read: Allocations, go_on: Callable[[], None] = lambda: None
) -> StageOptions:
    """Work out what allocations of widths that are known take; ``go_on``, called all along, raises to end the work."""
    widths, place = np.unique(read.gpus_per_trial, return_inverse=True)
    times, figures = [], np.empty((widths.size, 3))
    for number, gpus in enumerate(widths.tolist()):
        time = trial_time(instance, stage, gpus)
        times.append(time)
        figures[number] = time.expected_s, time.deviation_s, time.is_normal
        go_on()
    mean_s, deviation_s, normal = figures[place, 0], figures[place, 1], figures[place, 2] > 0.0
    waves, long_chains, short_chains = count_chains(stage.trials, read.slots)
    expected_s = np.zeros(waves.shape)
    expected_s[normal] = expected_chain_maximum(
        mean_s[normal], deviation_s[normal], waves[normal], long_chains[normal], short_chains[normal]
    )
    for row in np.flatnonzero(~normal).tolist():
        time = times[int(place[row])]
        expected_s[row] = time.expected_last(int(waves[row]), int(long_chains[row]), int(short_chains[row]))
        go_on()
    busy_gpu_s = stage.trials * read.gpus_per_trial * mean_s
    for array in (expected_s, busy_gpu_s):
        array.setflags(write=False)
    return StageOptions(**vars(read), waves=waves, expected_s=expected_s, busy_gpu_s=busy_gpu_s)


def option_of(instance: RubberBandInstance, bracket: int, stage: int, gpus: int) -> StageOptions:
    """Return the one (allowed) allocation of a stage, both from zero, with that many GPUs; cached."""
    which = instance.brackets[bracket][stage]
    key = ("option", which.trials, which.iterations, gpus)
    return recall(
        instance.law_cache,
        key,
        lambda: time_allocations(instance, which, read_allocations(instance, which.trials, np.array([gpus]))),
    )


def trial_time(instance: RubberBandInstance, stage: Stage, gpus_per_trial: int) -> TrialTime:
    """Return the time of one trial of a stage on that many GPUs, which the profile knows; cached."""

    def state() -> TrialTime:
        training, spanned = instance.training, math.ceil(gpus_per_trial / instance.cloud.gpus_per_instance)
        mean_s = float(training.seconds(np.array([gpus_per_trial]), np.array([spanned]))[0])
        start, pace, iteration = training.start(gpus_per_trial), training.pace(mean_s), training.iteration(mean_s)
        return TrialTime(start, pace, iteration, mean_s, stage.iterations)

    return recall(instance.law_cache, ("trial", stage.iterations, gpus_per_trial), state)


def stage_cdf(instance: RubberBandInstance, bracket: int, stage: int, gpus: int, t: FloatArray) -> FloatArray:
    """Return P(the stage's trials take at most t) for each t (T,); bracket and stage count from zero."""
    time, chains = _queue(instance, bracket, stage, gpus)
    return time.last_cdf(*chains, t)


def stage_law(instance: RubberBandInstance, bracket: int, stage: int, gpus: int) -> GridLaw:
    """Return the distribution of the time that a stage's trials take, on a grid; parameters as :func:`stage_cdf`."""
    time, chains = _queue(instance, bracket, stage, gpus)
    return time.last_law(*chains, float(option_of(instance, bracket, stage, gpus).expected_s[0]))


def _queue(instance: RubberBandInstance, bracket: int, stage: int, gpus: int) -> tuple[TrialTime, tuple[int, int, int]]:
    """Return how a stage runs: a trial's time; a long chain's trials, and how many long and short chains there are."""
    which, option = instance.brackets[bracket][stage], option_of(instance, bracket, stage, gpus)
    waves, long_chains, short_chains = (int(count[0]) for count in count_chains(which.trials, option.slots))
    return trial_time(instance, which, int(option.gpus_per_trial[0])), (waves, long_chains, short_chains)
