"""Distributions of whole durations: of growths, of a bracket's completion, of an instance's paid life.

All are sums of independent parts: stages, requests (SCALE) and the last of several initialisations (INIT_INSTANCE).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optplan.formulations.rubberband.data.distributions import EmpiricalDistribution
from optplan.formulations.rubberband.data.instance import RubberBandInstance, RubberBandSolution, StageAllocation
from optplan.formulations.rubberband.laws.convolutions import GridLaw, Law, add_laws, law_of_cdf
from optplan.formulations.rubberband.laws.maxima import expected_maximum
from optplan.formulations.rubberband.laws.stages import stage_cdf, stage_law
from optplan.schema import FloatArray

#: Probability that is left out at either end of a distribution.
_LEFT_OUT = 1e-13

#: Times closer than this, relatively, are the same: what is exactly on time must not be late by rounding.
_SAME = 1e-9


def initialisation_law(instance: RubberBandInstance, new: int) -> Law:
    """Return the distribution of the seconds until the last of ``new`` instances is initialised; cached."""
    key = ("initialisation", new)
    if key not in instance.stage_cache:
        instance.stage_cache[key] = _make_initialisation_law(instance, new)
    law: Law = instance.stage_cache[key]
    return law


def _make_initialisation_law(instance: RubberBandInstance, new: int) -> Law:
    single = instance.cloud.initialise_s
    if single.is_constant or new == 1:
        return single
    if isinstance(single, EmpiricalDistribution):
        return MaximumOfMeasured(single, new)
    ends = single.quantile(np.array([_LEFT_OUT, 1.0 - _LEFT_OUT]))
    expected = float(expected_maximum(single, np.array([new]))[0])
    return law_of_cdf(lambda t: np.power(single.cdf(t), new), (float(ends[0]), float(ends[1])), expected)


@dataclass(frozen=True)
class MaximumOfMeasured:
    """The largest of several draws of measured values.

    Parameters
    ----------
    single
        Of each draw.
    draws
        How many.
    """

    single: EmpiricalDistribution
    draws: int

    @property
    def _mass(self) -> FloatArray:
        """(V,) Probability that each of the sorted values is the largest."""
        size = self.single.values_s.size
        mass: FloatArray = np.diff((np.arange(size + 1) / size) ** self.draws)
        return mass

    @property
    def expected_s(self) -> float:
        """Mean."""
        return float(self._mass @ self.single.values_s)

    @property
    def deviation_s(self) -> float:
        """Standard deviation."""
        return math.sqrt(float(self._mass @ (self.single.values_s - self.expected_s) ** 2))

    @property
    def is_constant(self) -> bool:
        """Whether there is only one value."""
        return self.single.is_constant

    def cdf(self, t: FloatArray) -> FloatArray:
        """Return P(X <= t) for each t."""
        return np.power(self.single.cdf(t), self.draws)

    def quantile(self, probability: FloatArray) -> FloatArray:
        """Return the least t with P(X <= t) >= probability."""
        return self.single.quantile(np.power(probability, 1.0 / self.draws))

    def shortfall(self, t: FloatArray) -> FloatArray:
        """Return E[max(t - X, 0)] for each t."""
        short: FloatArray = np.maximum(np.asarray(t)[..., None] - self.single.values_s, 0.0) @ self._mass
        return short


def life_summands(
    instance: RubberBandInstance, bracket: int, chain: Sequence[StageAllocation], first: int, last: int
) -> list[tuple[Law, int]]:
    """Return what the paid life of an instance consists of, as independent summands.

    Parameters
    ----------
    instance
        The problem.
    bracket
        Which one, from zero.
    chain
        Its (allowed) allocations, at least up to ``last``.
    first, last
        Stages, from zero, at whose start the instance is requested and after which it is released. It is paid from the
        start of its initialisation on.
    """
    summands: list[tuple[Law, int]] = []
    for stage in range(first, last + 1):
        added = chain[stage].instances - (chain[stage - 1].instances if stage else 0)
        if added > 0:
            summands.append((initialisation_law(instance, added), 1))
            if stage > first:
                summands.append((instance.cloud.provision_s, 1))
        summands.append((stage_law(instance, bracket, stage, chain[stage].gpus), 1))
    return summands


def least_possible_s(summands: list[tuple[Law, int]]) -> float:
    """Return what a sum of independent durations never falls below, but with a negligible probability."""
    return sum(count * float(law.quantile(np.array([_LEFT_OUT]))[0]) for law, count in summands)


def completion_law(instance: RubberBandInstance, bracket: int, chain: tuple[StageAllocation, ...]) -> GridLaw:
    """Return the distribution of a bracket's completion time, on a grid.

    Parameters
    ----------
    instance
        The problem.
    bracket
        Which one, from zero.
    chain
        Its (allowed) allocations.
    """
    # It is the life of an instance that is held throughout, and the first request.
    summands = life_summands(instance, bracket, chain, 0, len(chain) - 1)
    return add_laws([*summands, (instance.cloud.provision_s, 1)])


def on_time_probability(instance: RubberBandInstance, solution: RubberBandSolution, deadline_s: float) -> float:
    """Return the probability that every bracket completes by a deadline.

    Parameters
    ----------
    instance
        The problem.
    solution
        Allowed allocations.
    deadline_s
        Seconds from the first request.
    """
    chance = 1.0
    for bracket, chain in enumerate(solution.brackets):
        law = completion_law(instance, bracket, chain)
        chance *= float(law.cdf(np.array([deadline_s * (1 + _SAME)]))[0])
    return chance


def completion_quantile(instance: RubberBandInstance, solution: RubberBandSolution, probability: float) -> float:
    """Return the time by which every bracket completes with the given probability.

    Parameters
    ----------
    instance
        The problem.
    solution
        Allowed allocations.
    probability
        Above zero and below one.
    """
    laws = [completion_law(instance, bracket, chain) for bracket, chain in enumerate(solution.brackets)]
    times = np.unique(np.concatenate([law.values_s + law.step_s / 2 * (not law.is_constant) for law in laws]))
    chances = np.prod([law.cdf(times) for law in laws], axis=0)
    reached = int(np.searchsorted(chances, probability))
    if 0 < reached < times.size and not all(law.is_constant for law in laws):
        return float(np.interp(probability, chances[reached - 1 : reached + 1], times[reached - 1 : reached + 1]))
    return float(times[min(reached, times.size - 1)])


@dataclass(frozen=True)
class RoundedTimes:
    """A distribution of a duration with all times moved to the points of a grid.

    Parameters
    ----------
    up
        (G + 1,) Probability of each point when times are rounded up to the next; the last entry: later than all.
    down
        (G + 1,) The same when times are rounded down.
    """

    up: FloatArray
    down: FloatArray


def stage_distribution(
    instance: RubberBandInstance, bracket: int, stage: int, gpus: int, grid_s: FloatArray
) -> RoundedTimes:
    """Return the distribution of the time of a stage's trials on a grid, for chance constraints.

    Parameters
    ----------
    instance
        The problem.
    bracket, stage
        Which stage, both from zero.
    gpus
        GPUs used, a (allowed).
    grid_s
        (G,) Increasing times, the first zero.
    """
    return _round_cdf(stage_cdf(instance, bracket, stage, gpus, grid_s))


def growth_distributions(
    instance: RubberBandInstance, before: int, after: int, grid_s: FloatArray
) -> tuple[RoundedTimes, ...]:
    """Return the distributions of the parts of a growth on a grid: SCALE, and the last INIT; empty without growth.

    Parameters
    ----------
    instance
        The problem.
    before, after
        Instances held.
    grid_s
        (G,) Increasing times, the first zero.
    """
    if after <= before:
        return ()
    single = instance.cloud.initialise_s
    # The end of a constant delay is on a grid point in spite of rounding.
    later = grid_s * (1 + _SAME)
    return (
        _round_cdf(instance.cloud.provision_s.cdf(later)),
        _round_cdf(np.power(single.cdf(later), after - before)),
    )


def _round_cdf(below: FloatArray) -> RoundedTimes:
    late = 1.0 - below[-1]
    up = np.concatenate([np.diff(below, prepend=0.0), [late]])
    steps = np.diff(below)
    down = np.concatenate([steps, [0.0, late]])
    down[0] += below[0]
    return RoundedTimes(up=up, down=down)
