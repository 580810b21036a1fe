"""Distributions of durations: how long a start, an initialisation or an iteration takes.

A duration is never negative: a normal distribution gives zero where the normal variable would be below zero. What a
distribution then *is* are its ``expected_s`` and ``deviation_s``; ``mean_s`` and ``sd_s`` are what a user's file says.

How iterations scatter around their mean, by the form of their noise.
"""

from __future__ import annotations

import math
import warnings
from functools import cached_property
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BeforeValidator, Field, field_validator, model_validator

from optplan.errors import DataWarning
from optplan.schema import (
    AMOUNTS,
    LARGEST_AMOUNT,
    AmountOrZero,
    FloatArray,
    FrozenModel,
    Numbers,
    PositiveAmount,
    freeze,
    require_amounts,
    require_positive,
)

#: From this many standard deviations above zero on, the clipped part moves a mean by less than 1e-10 deviations.
_NEGLIGIBLE_DEVIATIONS = 6.0

#: Relative change of a mean by clipping from which the user is told.
_TOLD_CHANGE = 1e-6


class _Duration(FrozenModel):
    """What every distribution says of itself: one without deviation is the constant that it expects."""

    @property
    def expected_s(self) -> float:
        """Mean."""
        raise NotImplementedError

    @property
    def deviation_s(self) -> float:
        """Standard deviation."""
        return 0.0

    @property
    def is_constant(self) -> bool:
        return self.deviation_s == 0

    @property
    def is_normal(self) -> bool:
        """Whether it is normal for all that matters; a constant is, with deviation zero."""
        return self.is_constant

    def scaled(self, factor: float) -> Self:
        """Return the distribution of ``factor`` times the duration: all its figures are seconds."""
        seconds = (name for name in type(self).model_fields if name != "form")
        return self.replace(**{name: factor * getattr(self, name) for name in seconds})

    def cdf(self, t: FloatArray) -> FloatArray:
        """Return P(X <= t) for each t."""
        return np.where(t >= self.expected_s, 1.0, 0.0) if self.is_constant else self._cdf(t)

    def quantile(self, probability: FloatArray) -> FloatArray:
        """Return the least t with P(X <= t) >= probability."""
        return np.full(np.shape(probability), self.expected_s) if self.is_constant else self._quantile(probability)

    def shortfall(self, t: FloatArray) -> FloatArray:
        """Return E[max(t - X, 0)], the integral of the cdf up to t."""
        return np.maximum(t - self.expected_s, 0.0) if self.is_constant else self._shortfall(t)

    def _cdf(self, t: FloatArray) -> FloatArray:
        raise NotImplementedError

    def _quantile(self, probability: FloatArray) -> FloatArray:
        raise NotImplementedError

    def _shortfall(self, t: FloatArray) -> FloatArray:
        raise NotImplementedError


class ConstantDistribution(_Duration):
    """Always the same."""

    form: Literal["constant"] = "constant"
    value_s: AmountOrZero  #: Seconds.

    @property
    def expected_s(self) -> float:
        """Mean."""
        return self.value_s


class NormalDistribution(_Duration):
    """A normal distribution, with zero in place of what would be negative."""

    form: Literal["normal"] = "normal"
    #: mean_s, sd_s: Mean and standard deviation of the normal variable, before clipping.
    mean_s: AmountOrZero
    sd_s: AmountOrZero

    @cached_property
    def _moments(self) -> tuple[float, float]:
        """Mean and standard deviation after clipping."""
        if self.is_normal:
            return self.mean_s, self.sd_s
        m, sd = self.mean_s, self.sd_s
        above, density = _normal_cdf(m / sd), math.exp(-0.5 * (m / sd) ** 2) / math.sqrt(2.0 * math.pi)
        mean = m * above + sd * density
        square = (m * m + sd * sd) * above + m * sd * density
        return mean, math.sqrt(max(square - mean * mean, 0.0))

    @property
    def expected_s(self) -> float:
        """Mean after clipping."""
        return self._moments[0]

    @property
    def deviation_s(self) -> float:
        """Standard deviation after clipping."""
        return self._moments[1]

    @property
    def is_normal(self) -> bool:
        """Whether clipping is negligible."""
        return self.mean_s >= _NEGLIGIBLE_DEVIATIONS * self.sd_s

    def _cdf(self, t: FloatArray) -> FloatArray:
        from scipy.special import ndtr

        return np.where(t >= 0, ndtr((t - self.mean_s) / self.sd_s), 0.0)

    def _quantile(self, probability: FloatArray) -> FloatArray:
        from scipy.special import ndtri

        quantile: FloatArray = np.maximum(self.mean_s + self.sd_s * ndtri(probability), 0.0)
        return quantile

    def _shortfall(self, t: FloatArray) -> FloatArray:
        return np.where(t > 0, self._integral(np.maximum(t, 0.0)) - self._integral(np.zeros(())), 0.0)

    def _integral(self, t: FloatArray) -> FloatArray:
        """Integrate the unclipped cdf from minus infinity to t."""
        from scipy.special import ndtr

        z = (t - self.mean_s) / self.sd_s
        integral: FloatArray = self.sd_s * (z * ndtr(z) + np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi))
        return integral


class LogNormalDistribution(_Duration):
    """A log-normal distribution: skewed, never negative."""

    form: Literal["log-normal"] = "log-normal"
    #: mean_s, sd_s: Mean and standard deviation of the duration itself (not of its logarithm).
    mean_s: PositiveAmount
    sd_s: AmountOrZero

    @cached_property
    def log_sd(self) -> float:
        """Standard deviation of the logarithm."""
        return math.sqrt(math.log1p((self.sd_s / self.mean_s) ** 2))

    @cached_property
    def log_mean(self) -> float:
        """Mean of the logarithm."""
        return math.log(self.mean_s) - self.log_sd**2 / 2

    @property
    def expected_s(self) -> float:
        """Mean."""
        return self.mean_s

    @property
    def deviation_s(self) -> float:
        """Standard deviation."""
        return self.sd_s

    def _cdf(self, t: FloatArray) -> FloatArray:
        from scipy.special import ndtr

        return np.where(t > 0, ndtr((np.log(np.maximum(t, 1e-300)) - self.log_mean) / self.log_sd), 0.0)

    def _quantile(self, probability: FloatArray) -> FloatArray:
        from scipy.special import ndtri

        quantile: FloatArray = np.exp(self.log_mean + self.log_sd * ndtri(probability))
        return quantile

    def _shortfall(self, t: FloatArray) -> FloatArray:
        from scipy.special import ndtr

        z = (np.log(np.maximum(t, 1e-300)) - self.log_mean) / self.log_sd
        return np.where(t > 0, t * ndtr(z) - self.mean_s * ndtr(z - self.log_sd), 0.0)


class EmpiricalDistribution(_Duration):
    """Measured durations, each equally likely."""

    form: Literal["empirical"] = "empirical"
    values_s: Numbers  #: (V,) Seconds, in any order.

    @field_validator("values_s")
    @classmethod
    def _check(cls, values: FloatArray) -> FloatArray:
        if values.ndim != 1 or not values.size:
            message = f"got an array of shape {values.shape}; a list of at least one measured duration is needed"
            raise ValueError(message)
        require_positive(values, strictly=False)
        if values.max() > LARGEST_AMOUNT:
            raise ValueError(f"got {float(values.max())!r}; numbers {AMOUNTS} are allowed; check the unit")
        return freeze(np.sort(values))

    @property
    def expected_s(self) -> float:
        """Mean."""
        return float(self.values_s.mean())

    @property
    def deviation_s(self) -> float:
        """Standard deviation, the measured values being all there are."""
        return 0.0 if self.is_constant else float(self.values_s.std())

    @property
    def is_constant(self) -> bool:
        """Whether there is only one value."""
        return bool(self.values_s[0] == self.values_s[-1])

    @cached_property
    def _sums(self) -> FloatArray:
        return np.concatenate([[0.0], np.cumsum(self.values_s)])

    def _cdf(self, t: FloatArray) -> FloatArray:
        return np.searchsorted(self.values_s, t, side="right") / self.values_s.size

    def _quantile(self, probability: FloatArray) -> FloatArray:
        # Rounding must not push k/V, which the k-th value reaches exactly, on to the next value.
        rank = np.ceil(np.asarray(probability) * self.values_s.size * (1 - 1e-12)).astype(np.int64) - 1
        return self.values_s[np.clip(rank, 0, self.values_s.size - 1)]

    def _shortfall(self, t: FloatArray) -> FloatArray:
        below = np.searchsorted(self.values_s, t, side="right")
        return (below * t - self._sums[below]) / self.values_s.size


def _read_number(value: object) -> Any:  # noqa: ANN401 - what comes in, goes on to the union
    is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return {"form": "constant", "value_s": value} if is_number else value


_AnyDistribution = Annotated[
    ConstantDistribution | NormalDistribution | LogNormalDistribution | EmpiricalDistribution,
    Field(discriminator="form"),
]

#: Any distribution of a duration, as the type of a field; a bare number is a constant.
Distribution = Annotated[
    _AnyDistribution,
    BeforeValidator(_read_number, json_schema_input_type=float | _AnyDistribution),
]


def warn_of_clipping(path: str, distribution: Distribution) -> None:
    """Warn where a normal distribution reaches below zero far enough to move its mean by more than a millionth."""
    if not isinstance(distribution, NormalDistribution) or distribution.is_normal:
        return
    given, resulting = distribution.mean_s, distribution.expected_s
    if resulting - given > _TOLD_CHANGE * given:
        share = _normal_cdf(-given / distribution.sd_s)
        problem = (
            f"a normal distribution with mean {given:g} s and deviation {distribution.sd_s:g} s is negative in "
            f"{share:.2g} of all cases; these count as zero, so the mean is {resulting:.6g} s"
        )
        message = f"{path}: {problem}; use log-normal or empirical noise to keep the mean"
        warnings.warn(message, DataWarning, stacklevel=2)


def _normal_cdf(z: float) -> float:
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


#: Factors whose mean is this close to one are taken to have mean one.
_MEAN_TOLERANCE = 1e-6


class _Spread(FrozenModel):
    """Noise with a standard deviation: of seconds on any number of GPUs, or of a fraction of the mean."""

    form: str
    sd_s: AmountOrZero | None = None
    sd_fraction: AmountOrZero | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.sd_s is None) == (self.sd_fraction is None):
            raise ValueError("give either sd_s (seconds) or sd_fraction (of the mean)")
        return self

    def deviation_s(self, mean_s: float) -> float:
        return self.sd_s if self.sd_s is not None else (self.sd_fraction or 0.0) * mean_s

    def around(self, mean_s: float) -> Distribution:
        """Return the distribution of a time with that mean."""
        makes = NormalDistribution if self.form == "normal" else LogNormalDistribution
        return makes(mean_s=mean_s, sd_s=self.deviation_s(mean_s))


class NormalNoise(_Spread):
    """Normally distributed around the mean; times below zero count as zero.

    Parameters
    ----------
    sd_s
        Standard deviation of an iteration's time in seconds, on any number of GPUs; or
    sd_fraction
        the same as a fraction of the mean.
    """

    form: Literal["normal"] = "normal"


class LogNormalNoise(_Spread):
    """Log-normally distributed with the given mean; parameters as of :class:`NormalNoise`."""

    form: Literal["log-normal"] = "log-normal"


class EmpiricalNoise(FrozenModel):
    """Measured factors, each equally likely."""

    form: Literal["empirical"] = "empirical"
    factors: Numbers  #: (V,) Measured times divided by their mean.

    @field_validator("factors")
    @classmethod
    def _check(cls, factors: FloatArray) -> FloatArray:
        if factors.ndim != 1 or not factors.size:
            raise ValueError(f"got an array of shape {factors.shape}; a list of at least one factor is needed")
        require_amounts(factors)
        mean = float(factors.mean())
        if abs(mean - 1.0) > _MEAN_TOLERANCE:
            message = f"the mean of the factors is {mean:.6g}; it must be 1: divide each measured time by their mean"
            raise ValueError(message)
        return factors

    def around(self, mean_s: float) -> Distribution:
        """Return the distribution of a time with that mean."""
        return EmpiricalDistribution(values_s=mean_s * self.factors)


#: Any noise, as the type of a field; its own field ``form`` says which it is.
Noise = Annotated[NormalNoise | LogNormalNoise | EmpiricalNoise, Field(discriminator="form")]
