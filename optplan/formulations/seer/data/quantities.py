"""Kinds of numbers in SEER's data: minutes, the factors eta and nu, and the budget."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema

from optplan.errors import UsageError
from optplan.quantities import TIME_SCHEMA, read_time, require_range
from optplan.schema import NUMBER
from optplan.units import SECONDS_PER_MINUTE, Amount, BudgetUnit, parse_budget

#: What a budget of SEER may count: it is a total for one search, no rate.
TOTALS = (BudgetUnit.GPU_MINUTE, BudgetUnit.GPU_HOUR, BudgetUnit.USD)


def _read_budget(value: object) -> Amount:
    amount = value if isinstance(value, Amount) else _parse_budget(value)
    if amount.unit not in TOTALS:
        message = f"got {str(amount)!r}, a rate; the total of one search is needed, as in 480gpu-min, 8gpu-h or 20usd"
        raise ValueError(message)
    if not (math.isfinite(amount.value) and amount.value > 0):
        raise ValueError(f"got {str(amount)!r}; a finite number above zero is needed")
    require_range(amount.value)
    return amount


def _parse_budget(value: object) -> Amount:
    if not isinstance(value, str):
        raise ValueError(f"got {value!r}; write a number with its unit, as in 480gpu-min, 8gpu-h or 20usd")
    try:
        return parse_budget(value)
    except UsageError as error:
        raise ValueError(str(error).removeprefix("budget: ")) from None


def _require_decay(value: float) -> float:
    if not value > 1:
        raise ValueError(f"got {value!r}; a number above 1 is needed: one trial in eta goes on to the next round")
    return value


def _require_growth(value: float) -> float:
    if not value >= 1:
        message = f"got {value!r}; a number from 1 on is needed: each bracket gives a trial nu times as many GPUs"
        raise ValueError(message)
    return value


_RANGE = AfterValidator(require_range)

#: Minutes above zero.
PositiveMinutes = Annotated[float, Field(gt=0), BeforeValidator(read_time(SECONDS_PER_MINUTE)), _RANGE, TIME_SCHEMA]

#: How many times fewer trials the next round has.
Decay = Annotated[float, NUMBER, _RANGE, AfterValidator(_require_decay)]

#: How many times more GPUs the next bracket gives a trial.
Growth = Annotated[float, NUMBER, _RANGE, AfterValidator(_require_growth)]

#: The total that a search may take: GPU-time, or money.
Budget = Annotated[
    Amount,
    BeforeValidator(_read_budget),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "examples": ["480gpu-min", "8gpu-h", "20usd"]}),
]
