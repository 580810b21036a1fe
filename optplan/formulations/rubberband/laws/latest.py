"""The distribution of the last of several equal durations, such as initialisations that start together."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from optplan.formulations.rubberband.data.distributions import Distribution, EmpiricalDistribution
from optplan.formulations.rubberband.laws.convolutions import LEFT_OUT, Law, law_of_cdf
from optplan.formulations.rubberband.laws.maxima import expected_maximum
from optplan.schema import FloatArray


def law_of_last(single: Distribution, draws: int) -> Law:
    """Return the distribution of the largest of several independent draws."""
    if single.is_constant or draws == 1:
        return single
    if isinstance(single, EmpiricalDistribution):
        return MaximumOfMeasured(single, draws)
    ends = single.quantile(np.array([LEFT_OUT, 1.0 - LEFT_OUT]))
    expected = float(expected_maximum(single, np.array([draws]))[0])
    return law_of_cdf(lambda t: np.power(single.cdf(t), draws), (float(ends[0]), float(ends[1])), expected)


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
