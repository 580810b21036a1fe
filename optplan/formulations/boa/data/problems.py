"""Which of BOA's problems is asked, for which plans, within which budget."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from optplan.errors import UsageError
from optplan.schema import (
    AMOUNTS,
    LARGEST_AMOUNT,
    LEAST_AMOUNT,
)
from optplan.units import Amount, parse_budget


class Problem(StrEnum):
    """Which of BOA's problems is asked."""

    #: (a) Problem (1): real widths; on whole GPUs a fraction of the jobs at each of two widths. No rescaling cost.
    CONTINUOUS = "continuous"
    #: (b) Whole widths, no rescaling cost.
    WHOLE = "whole"
    #: (c) Whole widths; every change of width costs the class's rescale time (Lemma 4.8).
    RESCALING = "rescaling"


class Policy(StrEnum):
    """Whether all jobs of a class get the same widths."""

    #: One row of widths per class.
    PURE = "pure"
    #: Fractions of a class's jobs may follow different rows.
    MIXED = "mixed"


def _read_budget(value: object) -> Amount:
    amount = value if isinstance(value, Amount) else _parse_budget(value)
    if not (math.isfinite(amount.value) and amount.value > 0):
        raise ValueError(f"got {str(amount)!r}; a finite number above zero is needed")
    if not LEAST_AMOUNT <= amount.value <= LARGEST_AMOUNT:
        raise ValueError(f"got {str(amount)!r}; numbers {AMOUNTS} are allowed; check the unit")
    return amount


def _parse_budget(value: object) -> Amount:
    if not isinstance(value, str):
        raise ValueError(f"got {value!r}; write a number with its unit, as in 120gpu or 30000usd/month")
    try:
        return parse_budget(value)
    except UsageError as error:
        raise ValueError(str(error).removeprefix("budget: ")) from None


Budget = Annotated[
    Amount,
    BeforeValidator(_read_budget),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "examples": ["120gpu", "45usd/hour", "1000usd/day", "30000usd/month"]}),
]
