"""How iterations scatter around their mean, by the form of their noise."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from optplan.formulations.rubberband.data.distributions import (
    Distribution,
    EmpiricalDistribution,
    LogNormalDistribution,
    NormalDistribution,
)
from optplan.schema import AmountOrZero, FloatArray, FrozenModel, Numbers, require_amounts

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
        """Return the standard deviation around a mean."""
        return self.sd_s if self.sd_s is not None else (self.sd_fraction or 0.0) * mean_s


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

    def around(self, mean_s: float) -> Distribution:
        """Return the distribution of a time with that mean."""
        return NormalDistribution(mean_s=mean_s, sd_s=self.deviation_s(mean_s))


class LogNormalNoise(_Spread):
    """Log-normally distributed with the given mean; parameters as of :class:`NormalNoise`."""

    form: Literal["log-normal"] = "log-normal"

    def around(self, mean_s: float) -> Distribution:
        """Return the distribution of a time with that mean."""
        return LogNormalDistribution(mean_s=mean_s, sd_s=self.deviation_s(mean_s))


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
