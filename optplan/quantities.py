"""Kinds of numbers of several formulations: durations and money with a unit, roundings that all processors share."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike
from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema

from optplan.errors import UsageError
from optplan.schema import AMOUNTS, LARGEST_AMOUNT, LEAST_AMOUNT, FloatArray
from optplan.units import SECONDS_PER_MINUTE, Amount, BudgetUnit, parse_budget, parse_duration

#: Digits that processors share. NumPy's exp, log and powers differ in the last of 16 between processors, and a few
#: more get lost in sums; with 9 a generated table stays as smooth as it was drawn.
SHARED_DIGITS = 9


def round_shared(values: ArrayLike) -> FloatArray:
    """Round made-up numbers of any shape to the digits that all processors give, before they are hashed or written."""
    array = np.asarray(values, dtype=np.float64)
    rounded = [float(f"{value:.{SHARED_DIGITS}g}") for value in array.ravel().tolist()]
    return np.array(rounded, dtype=np.float64).reshape(array.shape)


def read_time(seconds_per_unit: float) -> Callable[[object], object]:
    """Make the reader of a duration: a number in the unit of the field's name, or text such as ``30min``."""

    def read(value: object) -> object:
        if isinstance(value, bool):
            # pydantic reports a ValueError only
            raise ValueError(f"got {value!r}; a number, or text such as '30min', is needed")
        if not isinstance(value, str):
            return value
        try:
            return parse_duration(value) / seconds_per_unit
        except UsageError as error:
            raise ValueError(str(error).removeprefix("duration: ")) from None

    return read


def require_range(value: float) -> float:
    """Return the number when products of several such numbers stay floats."""
    if value != 0 and not LEAST_AMOUNT <= abs(value) <= LARGEST_AMOUNT:
        raise ValueError(f"got {value!r}; numbers {AMOUNTS} are allowed; check the unit")
    return value


def read_amount(needed: str, *, units: Collection[BudgetUnit], otherwise: str = "") -> Callable[[object], Amount]:
    """Make the reader of an amount: messages say what is ``needed`` without a unit, ``otherwise`` with another."""

    def read(value: object) -> Amount:
        if not isinstance(value, Amount | str):
            raise ValueError(f"got {value!r}; write {needed}")
        amount = _parse_amount(value) if isinstance(value, str) else value
        if amount.unit not in units:
            raise ValueError(f"got {str(amount)!r}{otherwise}")
        if not (math.isfinite(amount.value) and amount.value > 0):
            raise ValueError(f"got {str(amount)!r}; a finite number above zero is needed")
        if not LEAST_AMOUNT <= amount.value <= LARGEST_AMOUNT:
            raise ValueError(f"got {str(amount)!r}; numbers {AMOUNTS} are allowed; check the unit")
        return amount

    return read


def _parse_amount(text: str) -> Amount:
    try:
        return parse_budget(text)
    except UsageError as error:
        raise ValueError(str(error).removeprefix("budget: ")) from None


def _read_gpus(value: object) -> object:
    if not isinstance(value, str):
        return value
    amount = _parse_amount(value)
    if amount.unit is not BudgetUnit.GPU:
        raise ValueError(f"got {value!r}; a number of GPUs is needed, as in 12gpu")
    return amount.value


#: Of a duration: a number, or text with a unit.
TIME_SCHEMA = WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string", "examples": ["30min", "1.5h"]}]})
_RANGE = AfterValidator(require_range)

#: Seconds above zero.
PositiveSeconds = Annotated[float, Field(gt=0), BeforeValidator(read_time(1.0)), _RANGE, TIME_SCHEMA]

#: Seconds from zero on.
SecondsOrZero = Annotated[float, Field(ge=0), BeforeValidator(read_time(1.0)), _RANGE, TIME_SCHEMA]

#: Minutes above zero.
PositiveMinutes = Annotated[float, Field(gt=0), BeforeValidator(read_time(SECONDS_PER_MINUTE)), _RANGE, TIME_SCHEMA]

#: Time-average GPUs above zero.
PositiveGpus = Annotated[
    float,
    Field(gt=0),
    BeforeValidator(_read_gpus),
    _RANGE,
    WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string", "examples": ["12gpu"]}]}),
]

#: Money in all, such as ``25usd``.
MoneyBudget = Annotated[
    Amount,
    BeforeValidator(
        read_amount(
            "an amount of money with its unit, as in 25usd",
            units=(BudgetUnit.USD,),
            otherwise="; the budget is money in all, as in 25usd",
        )
    ),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "examples": ["25usd"]}),
]
