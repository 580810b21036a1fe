"""BOA's data: job classes, GPU types, allowed widths and the budget.

Glossary: a *class* is a stream of jobs with the same sizes and speedups; an *epoch* is a phase of a job with one
speedup curve; a *width* is the number of GPUs that a job holds; a *branch* is one row of widths, taken by a fraction
of a class's jobs.
"""

from __future__ import annotations

import math
import warnings
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Literal

import numpy as np
from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema, field_validator, model_validator

from optplan.contracts.instance import Instance, Solution
from optplan.errors import DataError, DataWarning, UsageError
from optplan.schema import ByName, FloatArray, FrozenModel, IntArray, Numbers, WholeNumbers, freeze, require_positive
from optplan.speedup import Speedup, TableSpeedup, describe_hull_changes
from optplan.speedup.curves import list_widths
from optplan.units import PERIOD_HOURS, Amount, BudgetUnit, parse_budget

#: Relative tolerance on s(reference width) = 1.
_REFERENCE_SPEEDUP_TOLERANCE = 1e-6

#: Largest width that a rule may allow: its widths are listed one by one, and a slip of the pen must not fill memory.
_LARGEST_WIDTH = 1_000_000


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


def _refuse_text(value: object) -> object:
    if isinstance(value, str | bool):
        message = f"got {value!r}; a number is needed"
        raise ValueError(message)  # pydantic reports ValueError only
    return value


#: pydantic would read the number in a text, and take true for one.
_NUMBER = BeforeValidator(_refuse_text)


class Widths(FrozenModel):
    """Which widths a class may get: a rule, or a list.

    Parameters
    ----------
    min, max
        Least and largest number of GPUs.
    multiple_of
        Only multiples of this.
    only
        The allowed widths one by one; excludes the other fields.
    """

    min: Annotated[int, Field(ge=1), _NUMBER] = 1
    max: Annotated[int, Field(ge=1, le=_LARGEST_WIDTH), _NUMBER] | None = None
    multiple_of: Annotated[int, Field(ge=1), _NUMBER] = 1
    only: WholeNumbers | None = None

    @model_validator(mode="after")
    def _check(self) -> Widths:
        if self.only is not None:
            if self.max is not None or self.min != 1 or self.multiple_of != 1:
                message = "'only' lists the widths, so min, max and multiple_of must be left out"
                raise ValueError(message)
            if self.only.ndim != 1:
                message = f"'only' is {self.only.tolist()}; a list of widths is needed, as in [1, 2, 4]"
                raise ValueError(message)
            if self.only.size == 0:
                message = "'only' is empty; list at least one width"
                raise ValueError(message)
            if self.only.min() < 1 or np.any(np.diff(self.only) <= 0):
                message = f"'only' is {self.only.tolist()}; widths of at least 1 in increasing order are needed"
                raise ValueError(message)
        elif self.max is not None and self.rule().size == 0:
            message = f"no multiple of {self.multiple_of} lies between {self.min} and {self.max}; widen the range"
            raise ValueError(message)
        return self

    def rule(self) -> IntArray:
        """List the widths (needs ``only`` or ``max``)."""
        if self.only is not None:
            return self.only
        if self.max is None:
            message = "an upper limit is needed"
            raise ValueError(message)
        first = math.ceil(self.min / self.multiple_of) * self.multiple_of
        return np.arange(first, self.max + 1, self.multiple_of, dtype=np.int64)


class GpuType(FrozenModel):
    """A kind of GPU that can be rented.

    Parameters
    ----------
    price_usd_per_hour
        Of one GPU, in US dollars; needed for budgets in money.
    price_source, price_date
        Who published the price and when.
    """

    price_usd_per_hour: Annotated[float, Field(gt=0), _NUMBER] | None = None
    price_source: str = ""
    price_date: str = ""


class JobClass(FrozenModel):
    """A stream of jobs of one kind.

    Parameters
    ----------
    arrival_rate_per_hour
        Long-run mean number of arrivals per hour, lambda_i.
    epoch_size_gpu_hours
        (E,) Mean time of each epoch on one GPU (on ``reference_width`` GPUs), E[X_ij], in hours.
    speedup
        By GPU type: speed at k GPUs relative to the reference width, s_ij(k).
    rescale_s
        Mean seconds that a start or a change of width takes without progress, r_i.
    weight
        Weight in the mean completion time.
    widths
        Allowed widths; None leaves it to the instance, and for tables to the table.
    reference_width
        The width at which the sizes were measured.
    """

    arrival_rate_per_hour: Annotated[float, Field(gt=0), _NUMBER]
    epoch_size_gpu_hours: Numbers
    speedup: ByName[Speedup]
    rescale_s: Annotated[float, Field(ge=0), _NUMBER] = 0.0
    weight: Annotated[float, Field(gt=0), _NUMBER] = 1.0
    widths: Widths | None = None
    reference_width: Annotated[int, Field(ge=1), _NUMBER] = 1

    @field_validator("epoch_size_gpu_hours")
    @classmethod
    def _check_sizes(cls, sizes: FloatArray) -> FloatArray:
        sizes = np.atleast_1d(sizes)
        if sizes.ndim != 1 or sizes.size == 0:
            message = "a list with one size per epoch is needed, at least one epoch"
            raise ValueError(message)
        require_positive(sizes)
        return freeze(sizes)

    @model_validator(mode="after")
    def _check_speedups(self) -> JobClass:
        if not self.speedup:
            message = "no speedup is given; add one for each GPU type that the class can run on"
            raise ValueError(message)
        for gpu_type, curve in self.speedup.items():
            epochs = curve.num_epochs
            if epochs is not None and epochs != self.num_epochs:
                message = (
                    f"the speedup on {gpu_type} has {epochs} epochs and epoch_size_gpu_hours has {self.num_epochs}; "
                    "give one row per epoch, or one for all"
                )
                raise ValueError(message)
        return self

    @property
    def num_epochs(self) -> int:
        """Number of epochs, l_i."""
        return int(self.epoch_size_gpu_hours.size)

    @property
    def size_gpu_hours(self) -> float:
        """Time of a whole job on one GPU, E[X_i]."""
        return float(self.epoch_size_gpu_hours.sum())


def _read_budget(value: object) -> Amount:
    if isinstance(value, Amount):
        if not (math.isfinite(value.value) and value.value > 0):
            message = f"got {str(value)!r}; a finite number above zero is needed"
            raise ValueError(message)
        return value
    if not isinstance(value, str):
        message = f"got {value!r}; write a number with its unit, as in 120gpu or 30000usd/month"
        raise ValueError(message)
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


class BoaInstance(Instance):
    """One problem of BOA: streams of jobs, and a time-average budget.

    Parameters
    ----------
    classes
        The job classes by name.
    gpu_types
        The GPU types by name. More than one is accepted in the data and not yet by the solvers.
    widths
        Allowed widths of the classes that have none of their own.
    budget
        Time-average GPUs (``120gpu``), or money per hour, day or month (``30000usd/month``); None where only the
        frontier is asked.
    problem, policy
        Which problem, and what kind of plan.
    """

    formulation: Literal["boa"] = "boa"
    version: Literal[1] = 1
    classes: ByName[JobClass]
    gpu_types: ByName[GpuType]
    widths: Widths | None = None
    budget: Budget | None = None
    problem: Problem = Problem.RESCALING
    policy: Policy = Policy.PURE

    @model_validator(mode="after")
    def _check(self) -> BoaInstance:
        if not self.classes:
            raise DataError("classes", "is empty", "add at least one job class")
        if not self.gpu_types:
            raise DataError("gpu_types", "is empty", "add at least one, as in {t4: {}}")
        for name, job_class in self.classes.items():
            self._check_class(name, job_class)
        self._check_budget()
        if self.problem is Problem.CONTINUOUS:
            self._warn_of_hulls()
        return self

    def _warn_of_hulls(self) -> None:
        """Say once which tables the continuous problem does not take as they are."""
        changed = []
        for name, job_class in self.classes.items():
            for gpu_type, curve in job_class.speedup.items():
                if isinstance(curve, TableSpeedup):
                    widths = self._allowed(name, job_class, gpu_type)
                    columns = np.searchsorted(curve.gpus, widths)
                    table = curve.speedup[..., columns]
                    if not _is_concave(widths, table):
                        changed.append((f"classes.{name}.speedup.{gpu_type}", widths, table))
        if changed:
            path, widths, table = changed[0]
            others = f"; {len(changed) - 1} more tables likewise" if len(changed) > 1 else ""
            message = f"{path}: {describe_hull_changes(widths, table)}{others}"
            warnings.warn(message, DataWarning, stacklevel=2)

    def _check_class(self, name: str, job_class: JobClass) -> None:
        unknown = sorted(set(job_class.speedup) - set(self.gpu_types))
        if unknown:
            problem = f"{unknown[0]!r} is not among gpu_types ({', '.join(self.gpu_types)})"
            raise DataError(f"classes.{name}.speedup", problem, "add it there or correct the name")
        for gpu_type, curve in job_class.speedup.items():
            widths = self._allowed(name, job_class, gpu_type)
            self._check_reference(name, job_class, gpu_type)
            if not isinstance(curve, TableSpeedup):
                curve.at(widths)  # a width that the curve does not cover is found here, not in the middle of a solve

    def _allowed(self, name: str, job_class: JobClass, gpu_type: str) -> IntArray:
        rule = job_class.widths or self.widths
        known = job_class.speedup[gpu_type].known_widths()
        path = f"classes.{name}.widths"
        if known is None:
            if rule is None or (rule.only is None and rule.max is None):
                fix = "this speedup covers any width, so say how far to go, as in {max: 64}"
                raise DataError(path, "is missing" if rule is None else "has no upper limit", fix)
            return rule.rule()
        if rule is None:
            return known
        if rule.only is not None:
            missing = np.setdiff1d(rule.only, known)
            if missing.size:
                problem = (
                    f"width {missing[0]} has no speedup in the table for {gpu_type}, which has {list_widths(known)}"
                )
                raise DataError(path, problem, "add the measurement or leave the width out")
            return rule.only
        largest = known[-1] if rule.max is None else rule.max
        kept: IntArray = known[(known >= rule.min) & (known <= largest) & (known % rule.multiple_of == 0)]
        if kept.size == 0:
            problem = f"no width of the table for {gpu_type} fits the rule; the table has {list_widths(known)}"
            raise DataError(path, problem, "widen the rule")
        return kept

    def _check_reference(self, name: str, job_class: JobClass, gpu_type: str) -> None:
        """s(reference width) = 1, where there is one GPU type and the curve covers that width."""
        curve, reference = job_class.speedup[gpu_type], job_class.reference_width
        known = curve.known_widths()
        if len(self.gpu_types) > 1 or (known is not None and reference not in known):
            return
        if known is None and reference == 1:
            return  # formulas have s(1) = 1 by construction
        at_reference = curve.at(np.array([reference], dtype=np.int64))
        wrong = np.flatnonzero(np.abs(at_reference - 1.0) > _REFERENCE_SPEEDUP_TOLERANCE)
        if wrong.size:
            at = f"{reference} GPU{'s' if reference > 1 else ''}"
            got = float(at_reference.ravel()[wrong[0]])
            problem = (
                f"the speedup at {at} is {got!r} in epoch {wrong[0] + 1}; it must be 1, because sizes are times there"
            )
            fix = "divide the table by it, or name another reference_width"
            raise DataError(f"classes.{name}.speedup.{gpu_type}", problem, fix)

    def _check_budget(self) -> None:
        if self.budget is None or self.budget.unit is BudgetUnit.GPU:
            return
        if self.budget.unit not in PERIOD_HOURS:
            fix = "BOA's budget is a rate: time-average GPUs (120gpu) or money per hour, day or month (30000usd/month)"
            raise DataError("budget", f"got {str(self.budget)!r}", fix)
        for name, gpu_type in self.gpu_types.items():
            if gpu_type.price_usd_per_hour is None:
                fix = "a budget in money needs it"
                raise DataError(f"gpu_types.{name}.price_usd_per_hour", "is missing", fix)

    @property
    def only_gpu_type(self) -> str:
        """The name of the one GPU type.

        Raises
        ------
        UsageError
            When there are several.
        """
        if len(self.gpu_types) > 1:
            types = ', '.join(self.gpu_types)
            message = f"this needs one GPU type; the instance has {types}; keep one, in gpu_types and in every speedup"
            raise UsageError(message)
        return next(iter(self.gpu_types))

    def allowed_widths(self, name: str) -> IntArray:
        """Return the widths (K,) that a class may get, increasing."""
        return self._allowed(name, self.classes[name], self.only_gpu_type)

    def speeds(self, name: str) -> FloatArray:
        """Return s_ij(k) of a class at its allowed widths, shape (E, K) or (1, K) when the same in every epoch."""
        return self.classes[name].speedup[self.only_gpu_type].at(self.allowed_widths(name))

    def budget_gpus(self) -> float:
        """Return the budget as time-average GPUs.

        Raises
        ------
        UsageError
            When the instance has none.
        """
        if self.budget is None:
            message = f"instance {self.name!r} has no budget; give one, as in --budget 120gpu or budget='120gpu'"
            raise UsageError(message)
        if self.budget.unit is BudgetUnit.GPU:
            return self.budget.value
        price = self.gpu_types[self.only_gpu_type].price_usd_per_hour
        if price is None:  # excluded by validation
            raise UsageError("a budget in money needs a price")
        return self.budget.value / PERIOD_HOURS[self.budget.unit] / price

    @property
    def total_rate_per_hour(self) -> float:
        """Arrivals per hour of all classes together, lambda."""
        return float(sum(c.arrival_rate_per_hour for c in self.classes.values()))

    @cached_property
    def total_weighted_rate_per_hour(self) -> float:
        """Sum of weight times arrival rate: what weighted means are divided by."""
        return float(sum(c.weight * c.arrival_rate_per_hour for c in self.classes.values()))


class Branch(FrozenModel):
    """One row of widths.

    Parameters
    ----------
    fraction
        Of the class's jobs.
    widths
        (E,) GPUs in each epoch; whole numbers except in the continuous problem.
    """

    fraction: Annotated[float, Field(gt=0, le=1), _NUMBER] = 1.0
    widths: Numbers


class BoaSolution(Solution):
    """What BOA decides: for each class the widths of each epoch, for each fraction of its jobs.

    Parameters
    ----------
    branches
        By class; fractions add up to one.
    """

    branches: ByName[tuple[Branch, ...]]


def _is_concave(widths: IntArray, table: FloatArray) -> bool:
    """Whether a table is non-decreasing and concave as it stands, to a relative 1e-9."""
    slack = 1e-9 * float(table.max())
    rise = np.diff(table, axis=-1)
    slope = rise / np.diff(widths)
    return bool((rise >= -slack).all() and (np.diff(slope, axis=-1) <= slack).all())


def describe(instance: BoaInstance) -> dict[str, str | int]:
    """Return what solvers are matched against: problem, policy and the number of (class, epoch, width) choices."""
    cells = sum(c.num_epochs * instance.allowed_widths(n).size for n, c in instance.classes.items())
    policy = Policy.MIXED if instance.problem is Problem.CONTINUOUS else instance.policy
    return {"problem": instance.problem.value, "policy": policy.value, "cells": int(cells)}
