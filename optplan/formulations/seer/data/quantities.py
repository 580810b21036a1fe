"""Kinds of numbers in SEER's data: minutes, the factors eta and nu, and the budget."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema

from optplan.quantities import TIME_SCHEMA, read_amount, read_time, require_range
from optplan.schema import NUMBER
from optplan.units import SECONDS_PER_MINUTE, Amount, BudgetUnit

#: What a budget of SEER may count: it is a total for one search, no rate.
TOTALS = (BudgetUnit.GPU_MINUTE, BudgetUnit.GPU_HOUR, BudgetUnit.USD)
_TOTAL = "480gpu-min, 8gpu-h or 20usd"


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
    BeforeValidator(
        read_amount(
            f"a number with its unit, as in {_TOTAL}",
            units=TOTALS,
            otherwise=f", a rate; the total of one search is needed, as in {_TOTAL}",
        )
    ),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "examples": ["480gpu-min", "8gpu-h", "20usd"]}),
]
