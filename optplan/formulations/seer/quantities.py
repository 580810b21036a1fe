"""Kinds of numbers in SEER's data: amounts, durations that may be written with a unit, and the budget."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema

from optplan.errors import UsageError
from optplan.schema import AMOUNTS, LARGEST_AMOUNT, LEAST_AMOUNT
from optplan.units import SECONDS_PER_MINUTE, Amount, BudgetUnit, parse_budget, parse_duration

#: What a budget of SEER may count: it is a total for one search, no rate.
TOTALS = (BudgetUnit.GPU_MINUTE, BudgetUnit.GPU_HOUR, BudgetUnit.USD)


def _refuse_text(value: object) -> object:
    if isinstance(value, str | bool):
        message = f"got {value!r}; a number is needed"
        raise ValueError(message)  # pydantic reports ValueError only
    return value


def _require_range(value: float) -> float:
    if value != 0 and not LEAST_AMOUNT <= abs(value) <= LARGEST_AMOUNT:
        message = f"got {value!r}; numbers {AMOUNTS} are allowed; check the unit"
        raise ValueError(message)
    return value


def _read_time(seconds_per_unit: float) -> Callable[[object], object]:
    """Make the reader of a duration: a number in the unit of the field's name, or text such as ``30min``."""

    def read(value: object) -> object:
        if isinstance(value, bool):
            message = f"got {value!r}; a number, or text such as '30min', is needed"
            raise ValueError(message)
        if not isinstance(value, str):
            return value
        try:
            return parse_duration(value) / seconds_per_unit
        except UsageError as error:
            raise ValueError(str(error).removeprefix("duration: ")) from None

    return read


def _read_budget(value: object) -> Amount:
    amount = value if isinstance(value, Amount) else _parse_budget(value)
    if amount.unit not in TOTALS:
        message = f"got {str(amount)!r}, a rate; the total of one search is needed, as in 480gpu-min, 8gpu-h or 20usd"
        raise ValueError(message)
    if not (math.isfinite(amount.value) and amount.value > 0):
        message = f"got {str(amount)!r}; a finite number above zero is needed"
        raise ValueError(message)
    _require_range(amount.value)
    return amount


def _parse_budget(value: object) -> Amount:
    if not isinstance(value, str):
        message = f"got {value!r}; write a number with its unit, as in 480gpu-min, 8gpu-h or 20usd"
        raise ValueError(message)
    try:
        return parse_budget(value)
    except UsageError as error:
        raise ValueError(str(error).removeprefix("budget: ")) from None


def _require_decay(value: float) -> float:
    if not value > 1:
        message = f"got {value!r}; a number above 1 is needed: one trial in eta goes on to the next round"
        raise ValueError(message)
    return value


def _require_growth(value: float) -> float:
    if not value >= 1:
        message = f"got {value!r}; a number from 1 on is needed: each bracket gives a trial nu times as many GPUs"
        raise ValueError(message)
    return value


_NUMBER = BeforeValidator(_refuse_text)
_RANGE = AfterValidator(_require_range)
_TIME_SCHEMA = WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string", "examples": ["30min", "1.5h"]}]})

#: A number above zero, far enough from the ends of floats for products of several of them.
PositiveAmount = Annotated[float, Field(gt=0), _NUMBER, _RANGE]

#: Minutes above zero.
PositiveMinutes = Annotated[float, Field(gt=0), BeforeValidator(_read_time(SECONDS_PER_MINUTE)), _RANGE, _TIME_SCHEMA]

#: Seconds from zero on.
SecondsOrZero = Annotated[float, Field(ge=0), BeforeValidator(_read_time(1.0)), _RANGE, _TIME_SCHEMA]

#: How many times fewer trials the next round has.
Decay = Annotated[float, _NUMBER, _RANGE, AfterValidator(_require_decay)]

#: How many times more GPUs the next bracket gives a trial.
Growth = Annotated[float, _NUMBER, _RANGE, AfterValidator(_require_growth)]

#: The total that a search may take: GPU-time, or money.
Budget = Annotated[
    Amount,
    BeforeValidator(_read_budget),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "examples": ["480gpu-min", "8gpu-h", "20usd"]}),
]
