"""Distributions of sums of independent durations, by numerical convolution, and expected maxima of such durations.

For what is clipped, skewed or measured, a normal approximation of a trial's time can be far off. Each summand is put on
a grid, its mass between two grid points split between them so that the mean is kept, and transformed (FFT); powers of
the transforms give the sum. Splitting widens each summand by at most half a step; the grid is chosen so fine that this
is at most a thousandth of the variance, and the values are drawn together about the mean by just as much. What remains
is a relative error of a mean of maxima below 1e-6 for durations with densities, measured against quadrature; sums of
few measured values keep their jumps, which a grid blurs by its step.

With F the distribution function of the maximum and U a point that it never exceeds, E[max] = U - integral of F up to
U. In standard deviations the integrand of normal variables is smooth and at most one wide, so that Gauss-Legendre
panels of width one reach the precision of floats, whatever the number of variables.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optplan.formulations.rubberband.data.distributions import (
    ConstantDistribution,
    Distribution,
    EmpiricalDistribution,
    LogNormalDistribution,
    NormalDistribution,
)
from optplan.schema import FloatArray, IntArray

#: Share of the variance that splitting may add before values are drawn together.
_WIDENING = 1e-3

#: Grid points for a standard deviation of the sum, with densities and with jumps.
_POINTS_PER_DEVIATION = 128
_POINTS_PER_DEVIATION_OF_JUMPS = 512

#: Deviations of the sum, and probability of a single summand, that the grid leaves out at either end.
_REACH = 10.0
LEFT_OUT = 1e-13

#: Largest grid; a coarser step is taken where it does not suffice.
_MOST_POINTS = 2**18

#: Grid points of a distribution that is known by its cdf.
_POINTS_OF_CDF = 4096


def weigh(mass: FloatArray, values: NDArray[np.floating[Any]] | NDArray[np.int64]) -> float:
    """Return the sum of values (N,) by their probabilities (N,); a dot product would start slow threads."""
    return float(np.einsum("i,i->", mass, values))


@dataclass(frozen=True)
class GridLaw:
    """A distribution on equally spaced values, with the probability (N,) of each."""

    first_s: float
    step_s: float
    mass: FloatArray

    @cached_property
    def values_s(self) -> FloatArray:
        """(N,) The values."""
        return np.asarray(self.first_s + self.step_s * np.arange(self.mass.size), dtype=np.float64)

    @cached_property
    def cumulative(self) -> FloatArray:
        """(N,) Probability of each value and all before it."""
        total = np.cumsum(self.mass)
        cumulative: FloatArray = np.minimum(total / total[-1], 1.0)
        return cumulative

    @cached_property
    def expected_s(self) -> float:
        """Mean."""
        return weigh(self.mass, self.values_s)

    @cached_property
    def deviation_s(self) -> float:
        """Standard deviation."""
        return math.sqrt(weigh(self.mass, (self.values_s - self.expected_s) ** 2))

    @property
    def is_constant(self) -> bool:
        """Whether there is only one value."""
        return self.mass.size == 1

    def cdf(self, t: FloatArray) -> FloatArray:
        """Return P(X <= t), linear between midpoints of the grid."""
        if self.is_constant:
            return np.where(t >= self.first_s, 1.0, 0.0)
        return np.interp(t, self.values_s + self.step_s / 2, self.cumulative, left=0.0)

    def quantile(self, probability: FloatArray) -> FloatArray:
        """Return the first value at which the cumulative probability is reached."""
        place = np.searchsorted(self.cumulative, probability)
        return self.values_s[np.minimum(place, self.mass.size - 1)]

    def shortfall(self, t: FloatArray) -> FloatArray:
        """Return E[max(t - X, 0)] for each t."""
        last = self.values_s[-1]
        inner: FloatArray = np.interp(np.minimum(t, last), self.values_s, self._shortfalls, left=0.0)
        shortfall: FloatArray = inner + np.maximum(t - last, 0.0)
        return shortfall

    @cached_property
    def _shortfalls(self) -> FloatArray:
        """(N,) E[max(t - X, 0)] where t is each of the values."""
        return np.concatenate([[0.0], self.step_s * np.cumsum(self.cumulative[:-1])])


@dataclass(frozen=True)
class ClippedLaw:
    """A distribution with zero in place of what is negative."""

    law: GridLaw

    @cached_property
    def _below(self) -> float:
        """E[max(-X, 0)]."""
        return float(self.law.shortfall(np.zeros(1))[0])

    @cached_property
    def expected_s(self) -> float:
        """Mean."""
        return self.law.expected_s + self._below

    @cached_property
    def deviation_s(self) -> float:
        """Standard deviation."""
        square = weigh(self.law.mass, np.maximum(self.law.values_s, 0.0) ** 2)
        return math.sqrt(max(square - self.expected_s**2, 0.0))

    @property
    def is_constant(self) -> bool:
        """Whether there is only one value."""
        return bool(self.law.values_s[-1] <= 0)

    def quantile(self, probability: FloatArray) -> FloatArray:
        """Return the least t with P(X <= t) >= probability."""
        return np.maximum(self.law.quantile(probability), 0.0)

    def shortfall(self, t: FloatArray) -> FloatArray:
        """Return E[max(t - X, 0)] for each t."""
        return np.where(t > 0, self.law.shortfall(np.maximum(t, 0.0)) - self._below, 0.0)


@dataclass(frozen=True)
class MaximumOfMeasured:
    """The largest of several draws of measured values."""

    single: EmpiricalDistribution
    draws: int

    @property
    def _mass(self) -> FloatArray:
        """(V,) Probability that each of the sorted values is the largest."""
        size = self.single.values_s.size
        return np.diff((np.arange(size + 1) / size) ** self.draws)

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
        return np.maximum(np.asarray(t)[..., None] - self.single.values_s, 0.0) @ self._mass


#: The distribution of a summand: that of a duration, or one made from it.
Law = Distribution | GridLaw | ClippedLaw | MaximumOfMeasured


def add_laws(summands: list[tuple[Law, int]], offset_s: float = 0.0, *, finer: int = 1) -> GridLaw:
    """Return the distribution of a sum of independent draws, so many of each law; mean and variance are exact."""
    offset = offset_s + sum(count * law.expected_s for law, count in summands if law.is_constant)
    random = [(law, count) for law, count in summands if not law.is_constant and law.deviation_s > 0]
    if not random:
        return GridLaw(offset, 1.0, np.ones(1))
    mean = sum(count * law.expected_s for law, count in random)
    variance = sum(count * law.deviation_s**2 for law, count in random)
    ends = [law.quantile(np.array([LEFT_OUT, 1 - LEFT_OUT])) for law, _ in random]
    # A sum is far from its mean because all of it is, or because one summand is.
    reach = _REACH * math.sqrt(variance)
    below = max(law.expected_s - float(end[0]) for (law, _), end in zip(random, ends, strict=True))
    above = max(float(end[1]) - law.expected_s for (law, _), end in zip(random, ends, strict=True))
    least = sum(count * float(end[0]) for (_, count), end in zip(random, ends, strict=True))
    lowest, highest = max(mean - reach - max(below, 0.0), least), mean + reach + max(above, 0.0)
    step = max(_choose_step(random, variance) / finer, (highest - lowest) / (_MOST_POINTS - 4))
    points = 2 ** math.ceil(math.log2((highest - lowest) / step + 4))
    spectrum, start, widened = np.ones(points // 2 + 1, dtype=np.complex128), 0.0, 0.0
    for (law, count), end in zip(random, ends, strict=True):
        mass = _split(law, float(end[0]), float(end[1]), step)
        spectrum *= _raise(np.fft.rfft(_wrap(mass, points), points), count)
        place = step * np.arange(mass.size)
        widened += count * weigh(mass, (place - weigh(mass, place)) ** 2)
        start += count * float(end[0])
    first = math.floor((lowest - start) / step)
    mass = np.roll(np.fft.irfft(spectrum, points), -(first % points))
    mass = np.maximum(mass, 0.0)
    drawn = math.sqrt(variance / widened)
    return GridLaw(offset + mean + drawn * (start + first * step - mean), drawn * step, mass / mass.sum())


def expected_shortfall(summands: list[tuple[Law, int]], t: float) -> float:
    """Return E[max(t - X, 0)] of a sum of independent draws."""
    random = [(law, count) for law, count in summands if not law.is_constant]
    if len(random) == 1 and random[0][1] == 1:  # no sum, so no grid, which would blur what lies exactly at t
        rest = t - sum(count * law.expected_s for law, count in summands if law.is_constant)
        return float(random[0][0].shortfall(np.array([rest]))[0])
    return float(add_laws(summands).shortfall(np.array([t]))[0])


def _choose_step(random: list[tuple[Law, int]], variance: float) -> float:
    jumps = any(isinstance(law, EmpiricalDistribution) for law, _ in random)
    points = _POINTS_PER_DEVIATION_OF_JUMPS if jumps else _POINTS_PER_DEVIATION
    draws = sum(count for _, count in random)
    # Splitting evenly spread mass adds a sixth of the squared step to the variance of each draw.
    return min(math.sqrt(variance) / points, math.sqrt(6 * _WIDENING * variance / draws))


def _split(law: Law, lowest: float, highest: float, step: float) -> FloatArray:
    """Put a distribution on a grid from ``lowest`` on: P(X <= t) averaged over each step, then differences."""
    count = math.ceil((highest - lowest) / step) + 1
    points: FloatArray = np.asarray(lowest + step * np.arange(count + 1), dtype=np.float64)
    shortfalls = law.shortfall(points)
    averages = np.clip(np.diff(shortfalls) / step, 0.0, 1.0)
    averages[-1] = 1.0
    return np.diff(np.maximum.accumulate(averages), prepend=0.0)


def _raise(spectrum: NDArray[np.complex128], count: int) -> NDArray[np.complex128]:
    """Return a whole power of a transform, by squaring: NumPy's own takes logarithms, which is slow."""
    power, square = None, spectrum
    while count:
        if count % 2:
            power = square if power is None else power * square
        count //= 2
        square = square * square if count else square
    return np.ones_like(spectrum) if power is None else power


def _wrap(mass: FloatArray, points: int) -> FloatArray:
    """Wrap masses around a ring of grid points; fewer masses stay as they are, which transforms fill up with zeros."""
    if mass.size <= points:
        return mass
    return np.asarray(np.bincount(np.arange(mass.size) % points, mass, points), dtype=np.float64)


def expected_law_maximum(long: GridLaw, long_count: int, short: GridLaw | None, short_count: int) -> float:
    """Return the expected maximum of draws of two distributions, at least one of the larger, ``long``; seconds."""
    below = np.power(long.cumulative, long_count)
    if short is not None and short_count:
        # Up to the middle of the step the maximum counts for this value, after it for the next.
        below = below * np.power(short.cdf(long.values_s + long.step_s / 2), short_count)
    return float(long.values_s[-1] - long.step_s * below[:-1].sum())


def law_of_cdf(cdf: Callable[[FloatArray], FloatArray], ends_s: tuple[float, float], expected_s: float) -> GridLaw:
    """Put a distribution that is known by its cdf on a grid between two ends, shifted to have the expected mean."""
    lowest, highest = ends_s
    points: FloatArray = np.linspace(lowest, highest, _POINTS_OF_CDF)
    step = (highest - lowest) / (_POINTS_OF_CDF - 1)
    below = np.maximum.accumulate(np.clip(cdf(points + step / 2), 0.0, 1.0))
    below[-1] = 1.0
    mass = np.diff(below, prepend=0.0)
    kept = np.flatnonzero(mass > 0)
    mass = mass[kept[0] : kept[-1] + 1]
    first = expected_s - step * weigh(mass, np.arange(mass.size))
    return GridLaw(first, step, mass)


#: Deviations from the mean beyond which a normal variable of a million lies with a probability below 1e-12.
_NORMAL_REACH = 10

#: Nodes of a panel.
_NODES = 12

#: Counts for which maxima are computed at once: bounds the memory.
_BLOCK = 2048


def expected_maximum(distribution: Distribution, counts: IntArray) -> FloatArray:
    """Return the expected maxima (K,) of numbers of independent draws, to a relative 1e-10; that of none is zero."""
    maxima = np.zeros(counts.shape)
    for first in range(0, counts.size, _BLOCK):
        block = slice(first, first + _BLOCK)
        maxima[block] = _expected_maximum(distribution, counts[block])
    return np.where(counts > 0, maxima, 0.0)


def _expected_maximum(distribution: Distribution, counts: IntArray) -> FloatArray:
    if isinstance(distribution, ConstantDistribution) or distribution.is_constant:
        return np.full(counts.shape, distribution.expected_s)
    match distribution:
        case EmpiricalDistribution():
            size = distribution.values_s.size
            below = (np.arange(size + 1) / size) ** counts[:, None]
            return np.asarray(np.diff(below, axis=1) @ distribution.values_s)
        case NormalDistribution():
            return _maximum_of_clipped_normals(distribution, counts)
        case LogNormalDistribution():
            return _maximum_of_log_normals(distribution, counts)


def _maximum_of_clipped_normals(distribution: NormalDistribution, counts: IntArray) -> FloatArray:
    from scipy.special import ndtr

    mean, sd = distribution.mean_s, distribution.sd_s
    lowest = max(-mean / sd, -float(_NORMAL_REACH))
    z, weight = _panels(lowest, float(_NORMAL_REACH))
    below = np.power(ndtr(z), counts[:, None]) @ weight
    return np.asarray(mean + sd * (_NORMAL_REACH - below))


def _maximum_of_log_normals(distribution: LogNormalDistribution, counts: IntArray) -> FloatArray:
    """Integrate in the logarithm: the maximum of logarithms is the logarithm of the maximum."""
    from scipy.special import log_ndtr

    mu, sigma = distribution.log_mean, distribution.log_sd
    # The largest summands lie sigma further up than the variable does.
    z, weight = _panels(-float(_NORMAL_REACH), _NORMAL_REACH + sigma)
    log_density = -0.5 * z * z - 0.5 * np.log(2 * np.pi)
    draws = np.maximum(counts, 1)[:, None]
    maxima: FloatArray = np.exp(mu + sigma * z + log_density + (draws - 1) * log_ndtr(z) + np.log(draws)) @ weight
    return maxima


def expected_chain_maximum(
    mean_s: FloatArray, sd_s: FloatArray, waves: IntArray, long_chains: IntArray, short_chains: IntArray
) -> FloatArray:
    """Return the expected end (A,) of several chains of normal trials, w long or w - 1, to a relative 1e-10."""
    from scipy.special import ndtr

    z, weight = _panels(-float(_NORMAL_REACH), float(_NORMAL_REACH))
    maxima = waves * mean_s
    noisy = np.flatnonzero(sd_s > 0)
    for first in range(0, noisy.size, _BLOCK):
        rows = noisy[first : first + _BLOCK]
        w, sd = waves[rows].astype(float), sd_s[rows]
        below = np.power(ndtr(z), long_chains[rows, None])
        mixed = np.flatnonzero((short_chains[rows] > 0) & (w > 1))
        if mixed.size:
            # Where a long chain is z deviations from its mean, a short one is one trial's mean further up.
            above = (np.sqrt(w[mixed])[:, None] * z + (mean_s[rows] / sd)[mixed, None]) / np.sqrt(w[mixed] - 1)[:, None]
            below[mixed] *= np.power(ndtr(above), short_chains[rows][mixed, None])
        maxima[rows] += np.sqrt(w) * sd * (_NORMAL_REACH - below @ weight)
    return maxima


@cache
def _panels(lowest: float, highest: float) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights of Gauss-Legendre panels of width one or less."""
    count = max(int(np.ceil(highest - lowest)), 1)
    edges = np.linspace(lowest, highest, count + 1)
    node, weight = np.polynomial.legendre.leggauss(_NODES)
    half = np.diff(edges)[:, None] / 2
    nodes = (edges[:-1, None] + half * (node + 1)).ravel()
    return nodes, (half * weight).ravel()
