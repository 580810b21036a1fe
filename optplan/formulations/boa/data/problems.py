"""Which of BOA's problems is asked, for which plans, within which budget."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from optplan.quantities import read_amount
from optplan.units import Amount, BudgetUnit


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


Budget = Annotated[
    Amount,
    BeforeValidator(read_amount("a number with its unit, as in 120gpu or 30000usd/month", units=BudgetUnit)),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "examples": ["120gpu", "45usd/hour", "1000usd/day", "30000usd/month"]}),
]
