"""Which of BOA's problems is asked, for which plans, within which limits; and what decides it: branches of classes."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from optplan.contracts.instance import Solution
from optplan.quantities import read_amount
from optplan.schema import NUMBER, ByName, FrozenModel, Numbers, PositiveAmount
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


class PeakLimit(FrozenModel):
    """At most so many GPUs at once, for that share of the time."""

    gpus: PositiveAmount  # of all types together
    #: Least share of the time, hours of the day and clumps included; shares are known to 1e-9.
    probability: Annotated[float, Field(ge=1e-6, le=1.0 - 1e-6), NUMBER] = 0.95


class Branch(FrozenModel):
    """One row of widths."""

    fraction: Annotated[float, Field(gt=0, le=1), NUMBER] = 1.0  # of the class's jobs
    widths: Numbers  # (E,) GPUs in each epoch; whole but for the continuous problem
    gpu_types: tuple[str, ...] | None = None  # (E,) in each epoch; None where the instance has one type


class BoaSolution(Solution):
    """What BOA decides: for each class the widths of each epoch, for each fraction of its jobs."""

    branches: ByName[tuple[Branch, ...]]  # by class; fractions add up to one
