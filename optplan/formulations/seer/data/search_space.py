"""What configurations a search draws from."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from optplan.contracts import configurations
from optplan.contracts.configurations import Configuration, Range
from optplan.errors import DataError, DataWarning, show_value
from optplan.schema import FrozenModel


class Scale(StrEnum):
    """How an interval is sampled."""

    LINEAR = "linear"
    LOG = "log"


def _refuse_truth(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError(f"got {value!r}; a number or a text is needed")
    return value


class Choices(FrozenModel):
    """A hyperparameter with some values, each as likely as any other."""

    form: Literal["choices"] = "choices"
    #: Numbers or texts, all different.
    values: tuple[Annotated[int | float | str, BeforeValidator(_refuse_truth)], ...]

    @model_validator(mode="after")
    def _check(self) -> Choices:
        if not self.values:
            raise DataError("values", "is empty", "give at least one value, or remove the hyperparameter")
        for number, value in enumerate(self.values):
            if value in self.values[:number]:
                raise DataError("values", f"has {show_value(value)} twice", "remove one of the two")
        return self


class Interval(FrozenModel):
    """A hyperparameter with every value between two ends."""

    form: Literal["interval"] = "interval"
    #: low, high: The ends.
    low: float
    high: float
    scale: Scale = Scale.LINEAR  #: Whether the values, or their logarithms, are equally likely.

    @model_validator(mode="after")
    def _check(self) -> Interval:
        if not self.low < self.high:
            raise DataError("low", f"got {self.low!r}, not below high ({self.high!r})", "exchange or correct them")
        if self.scale is Scale.LOG and not self.low > 0:
            raise DataError("low", f"got {self.low!r}; a log scale needs numbers above zero", "use scale linear")
        return self


Hyperparameter = Annotated[Choices | Interval, Field(discriminator="form")]
SearchSpace = Mapping[str, Choices | Interval]


def count_configurations(space: SearchSpace) -> int | None:
    """Return how many configurations a space has; None where there is no limit, or no space was stated."""
    return configurations.count_configurations(list_values(space))


def describe_shortage(space: SearchSpace, trials: int) -> str:
    """Say that a space has fewer configurations than trials are planned; empty where it has enough."""
    count = count_configurations(space)
    if count is None or count >= trials:
        return ""
    return (
        f"search_space: has {count:,} configurations, fewer than the {trials:,} trials of the plan; each is drawn "
        f"once, and {trials - count:,} places of the first round stay empty"
    )


def draw_configurations(space: SearchSpace, trials: int, *, seed: int = 0) -> list[Configuration]:
    """Draw different configurations at random, by a seed; all, with a warning, where there are no more."""
    shortage = describe_shortage(space, trials)
    if shortage:
        warnings.warn(shortage, DataWarning, stacklevel=2)
    return configurations.draw_configurations(list_values(space), trials, seed)


def list_values(space: SearchSpace) -> configurations.Space:
    """Return what each hyperparameter may be, as configurations are drawn."""
    return {
        name: each.values if isinstance(each, Choices) else Range(each.low, each.high, each.scale is Scale.LOG)
        for name, each in space.items()
    }
