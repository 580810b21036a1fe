"""When jobs of a class arrive: how their rate follows the day, and in what clumps they come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from numpy.typing import ArrayLike
from pydantic import Field, field_validator

from optplan.schema import NUMBER, FloatArray, FrozenModel, NumberRow, freeze, require_positive

HOURS_OF_DAY = 24
#: Beyond this, most jobs of a class would come in one clump, and a log says nothing of the next.
_MOST_DISPERSION = 1000.0


class ArrivalPattern(FrozenModel):
    """How arrivals differ from a steady Poisson stream.

    Parameters
    ----------
    hourly
        (24,) The rate in each hour of the day relative to the mean; what is given is divided by its mean. All classes
        count the same hours.
    dispersion
        Variance over mean of the class's arrivals in a short time within an hour of the day, at least 1: jobs come in
        clumps of (dispersion + 1) / 2 on average.
    """

    hourly: NumberRow
    dispersion: Annotated[float, Field(ge=1, le=_MOST_DISPERSION), NUMBER] = 1.0

    if TYPE_CHECKING:  # what a person may write; validation makes the fields of it

        def __init__(self, *, hourly: ArrayLike = ..., dispersion: float = ...) -> None: ...

    @field_validator("hourly")
    @classmethod
    def _check_hours(cls, hourly: FloatArray) -> FloatArray:
        if hourly.size != HOURS_OF_DAY:
            raise ValueError(f"{hourly.size} numbers; {HOURS_OF_DAY} are needed, one for each hour of the day")
        require_positive(hourly, strictly=False)
        if hourly.sum() <= 0.0:
            raise ValueError("no hour has arrivals; at least one number above zero is needed")
        return freeze(hourly)

    @property
    def relative(self) -> FloatArray:
        """(24,) The same with mean 1."""
        relative: FloatArray = self.hourly / self.hourly.mean()
        return relative

    @property
    def repeat(self) -> float:
        """Chance that a job of a clump is followed by one more: sizes are geometric with variance as the dispersion."""
        return (self.dispersion - 1.0) / (self.dispersion + 1.0)
