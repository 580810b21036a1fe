"""The expected final loss of a search under a prior, by sampling: the objective of the problem ``informed``.

A sample is one search: its trials are drawn from the prior, the first of them for the widest bracket, and Algorithm 1
is followed as :mod:`optplan.formulations.seer.published.policy` does, for many samples at once. A trial's loss after
its rounds is ``l(sum_k t_k lambda(p_k))``; rankings see it with the prior's noise; the sample's figure is the true loss
of the trial that looks best after the last round.

Random numbers belong to the instance: samples come in blocks, each with streams of its own for the trials and for the
noise of every round, trial by trial. So all plans of an instance meet the same trials (common random numbers), a plan's
figure does not depend on what else was sampled, and the judge finds the solver's figure again. Plans are chosen on one
kind of samples and judged on another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from optplan.errors import UsageError
from optplan.formulations.seer.data.instance import SeerInstance, SeerSolution
from optplan.formulations.seer.data.prior import ParametricPrior, TablePrior
from optplan.schema import FloatArray, IntArray

#: Samples of a block.
BLOCK = 1000
#: The 97.5 % quantile of the standard normal distribution.
_QUANTILE = 1.959963984540054


class Kind(IntEnum):
    """What samples are for."""

    CHOICE = 0
    REPORT = 1


@dataclass(frozen=True)
class Estimate:
    """A mean over samples, with the ends of its 95 % confidence interval (normal approximation)."""

    mean: float
    low: float
    high: float


def require_prior(instance: SeerInstance) -> ParametricPrior | TablePrior:
    """Return the instance's prior; refuse one without."""
    if instance.prior is None:
        raise UsageError(f"instance {instance.name!r} has no prior over learning curves; add the field prior")
    return instance.prior


def estimate_mean(figures: FloatArray) -> Estimate:
    """Estimate the mean of (S,) independent figures."""
    mean = float(figures.mean())
    half = _QUANTILE * float(figures.std(ddof=1)) / math.sqrt(figures.size)
    return Estimate(mean, mean - half, mean + half)


def sample_report(prior: ParametricPrior | TablePrior, searches: Sequence[Search]) -> FloatArray:
    """Return the final losses (searches, samples) by which searches are judged, all on the same samples."""
    parts = []
    for block, size in enumerate(_sizes(prior.samples)):
        drawn = _Block(prior, Kind.REPORT, block, size)
        parts.append(np.array([drawn.run(search, size) for search in searches]))
    return np.concatenate(parts, axis=1)


class ChoiceSamples:
    """The samples on which plans are chosen; what was drawn is kept."""

    def __init__(self, prior: ParametricPrior | TablePrior) -> None:
        self.size = prior.choice_samples
        sizes = _sizes(prior.choice_samples)
        self._blocks = [_Block(prior, Kind.CHOICE, block, size) for block, size in enumerate(sizes)]

    def losses_of(self, search: Search, samples: int) -> FloatArray:
        """Return the final losses of a search in the first samples, (samples,)."""
        parts, left = [], samples
        for block in self._blocks:
            if left > 0:
                parts.append(block.run(search, min(left, block.size)))
                left -= block.size
        return np.concatenate(parts)


@dataclass(frozen=True)
class Search:
    """A search as the sampling needs it."""

    minutes: tuple[float, ...]  # (K,) of training in each round
    gpus: tuple[float, ...]  # (brackets,) of a trial, the widest first
    trials: tuple[tuple[int, ...], ...]  # by bracket, in the same order, trials of each round

    @classmethod
    def of(cls, instance: SeerInstance, solution: SeerSolution) -> Search:
        """Make it of a solution with at least one trial in the last round."""
        minutes = tuple(solution.round_min * instance.eta**number for number in range(solution.rounds))
        wide = [bracket for bracket in reversed(solution.brackets) if bracket.trials[0]]
        return cls(minutes, tuple(each.gpus for each in wide), tuple(each.trials for each in wide))


class _Block:
    """Some samples: who their trials are, and the noise of their rankings."""

    def __init__(self, prior: ParametricPrior | TablePrior, kind: Kind, number: int, size: int) -> None:
        self.size = size
        self._prior = prior
        self._name = (int(kind), number)
        self._trials: tuple[FloatArray, ...] = ()
        self._noise: dict[int, FloatArray] = {}

    def run(self, search: Search, samples: int) -> FloatArray:
        """Run a search in the first samples; return the final losses, (samples,)."""
        prior, total = self._prior, sum(trials[0] for trials in search.trials)
        drawn = [each[:samples, :total] for each in self._draw(total)]
        losses = seen = passed = np.zeros((1, total))
        # Places in the order of drawing settle ties.
        places = np.broadcast_to(np.arange(total), (samples, total)) if prior.has_ties else None
        for number, minutes in enumerate(search.minutes):
            groups = [trials[number] for trials in search.trials]
            if number:
                kept = _keep(seen, places, [trials[number - 1] for trials in search.trials], groups)
                drawn = [np.take_along_axis(each, kept, axis=1) for each in drawn]
                passed = np.take_along_axis(np.broadcast_to(passed, losses.shape), kept, axis=1)
                places = None if places is None else np.take_along_axis(places, kept, axis=1)
            passed = passed + minutes * np.repeat([prior.scaling.of(gpus) for gpus in search.gpus], groups)
            losses = prior.losses_after(drawn, passed)
            seen = self._see(losses, number)
        return np.take_along_axis(losses, _first(seen, places)[:, None], axis=1)[:, 0]

    def _draw(self, trials: int) -> tuple[FloatArray, ...]:
        if not self._trials or self._trials[0].shape[1] < trials:
            self._trials = self._prior.draw_trials(self._stream(0), trials, self.size)
        return self._trials

    def _see(self, losses: FloatArray, number: int) -> FloatArray:
        """Add the noise of a round's ranking, by place: who holds a place depends on earlier rounds only."""
        deviation = self._prior.ranking_noise_loss
        if deviation == 0.0:
            return losses
        samples, trials = losses.shape
        noise = self._noise.get(number)
        if noise is None or noise.shape[1] < trials:
            drawn = self._stream(1 + number).standard_normal((trials, self.size))
            noise = self._noise[number] = deviation * np.ascontiguousarray(drawn.T)
        return np.asarray(losses + noise[:samples, :trials], dtype=np.float64)

    def _stream(self, what: int) -> np.random.Generator:
        name = (*self._name, what)
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence(self._prior.samples_seed, spawn_key=name)))


def _sizes(samples: int) -> list[int]:
    return [min(BLOCK, samples - start) for start in range(0, samples, BLOCK)]


def _first(seen: FloatArray, places: IntArray | None) -> IntArray:
    """Return the column of each sample's least loss; of equal ones that of the trial drawn first."""
    if places is None:
        return np.asarray(seen.argmin(axis=1), dtype=np.int64)
    least = seen == seen.min(axis=1, keepdims=True)
    return np.asarray(np.where(least, places, np.iinfo(np.int64).max).argmin(axis=1), dtype=np.int64)


def _keep(seen: FloatArray, places: IntArray | None, groups: Sequence[int], going_on: Sequence[int]) -> IntArray:
    """Return the columns, (samples, kept), of the trials that go on: the best of each bracket, ranked all together."""
    parts, start = [], 0
    for group, count in zip(groups, going_on, strict=True):
        if count:
            columns = slice(start, start + group)
            ranked = _rank(seen[:, columns], None if places is None else places[:, columns])
            parts.append(start + ranked[:, :count])
        start += group
    kept: IntArray = np.concatenate(parts, axis=1)
    if len(parts) == 1:
        return kept
    again = np.take_along_axis(seen, kept, axis=1)
    ranked = _rank(again, None if places is None else np.take_along_axis(places, kept, axis=1))
    return np.take_along_axis(kept, ranked, axis=1)


def _rank(seen: FloatArray, places: IntArray | None) -> IntArray:
    """Return each sample's columns from the least loss to the largest; of equal ones the trial drawn first is first."""
    return seen.argsort(axis=1) if places is None else np.lexsort((places, seen), axis=1)
