"""The width table as it is published: what a job of each class holds, epoch by epoch, from now on.

The calculator writes it, schedulers read it, and nothing else passes between the two. It is whole in itself: a
scheduler that lost the calculator goes on with the last one that it read.

Which way through a width table each job takes, and how long it is still expected to take.
"""

from __future__ import annotations

import math
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import Annotated, Literal, NamedTuple, TypeVar

import numpy as np
from pydantic import Field, model_validator

from optplan.contracts.judgement import Evaluation
from optplan.contracts.plan import span
from optplan.errors import DataError
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Branch, Policy, Problem
from optplan.formulations.boa.judge.evaluation import evaluate
from optplan.formulations.boa.planning import BoaPlan, WidthRow, choose_way
from optplan.schema import ByName, FrozenModel

#: What a job of a class that the table does not have holds, as plans of streams have it.
_UNKNOWN_WIDTH = 1
_Found = TypeVar("_Found")
#: How far the shares of a class may be from one together.
_SHARE_TOLERANCE = 1e-6


def look_up(
    ways: Mapping[str, Sequence[Sequence[_Found]]], job_class: str, epochs_done: int, row: int
) -> _Found | None:
    """Return what a class's row has for an epoch, or for its last; None for classes that are not known."""
    rows = ways.get(job_class)
    if rows is None:
        return None
    epochs = rows[row if row < len(rows) else 0]
    return epochs[epochs_done if epochs_done < len(epochs) else -1]


class Holding(NamedTuple):
    """What a job is to hold; of any type where that is None, because the table does not know the class."""

    gpus: int
    gpu_type: str | None


def rows_of(branches: tuple[Branch, ...]) -> tuple[WidthRow, ...]:
    """Return decisions of a class on whole widths as rows of a table."""
    return tuple(WidthRow(share=b.fraction, gpus=b.widths.astype(int), gpu_types=b.gpu_types) for b in branches)


def weigh(instance: BoaInstance, solution: BoaSolution) -> Evaluation:
    """Evaluate decisions on whole widths, rows by shares; the objective is NaN where they do not fit the instance."""
    problem = Problem.WHOLE if instance.problem is Problem.CONTINUOUS else instance.problem
    return evaluate(instance.replace(problem=problem, policy=Policy.MIXED), solution)


class WidthTable(FrozenModel):
    """A width table, as published."""

    version: Literal[1] = 1
    #: Of the publication, counted from 1; a table with a larger one takes the place of the others.
    number: Annotated[int, Field(ge=1)]
    made_s: float  #: When it was made, seconds since 1970.
    plan_id: str = ""  #: Of the plan that it was made from; empty where there is none.
    #: Names of the types of GPU; a row says which where there are several.
    gpu_types: Annotated[tuple[str, ...], Field(min_length=1)]
    #: By class: its rows, each for a share of the jobs (one row where all hold the same).
    classes: ByName[Annotated[tuple[WidthRow, ...], Field(min_length=1)]]
    #: gpus, mean_jct_s: Time-average GPUs and mean completion time that are expected of it.
    gpus: float
    mean_jct_s: float

    @model_validator(mode="after")
    def _check(self) -> WidthTable:
        for name, rows in self.classes.items():
            total = sum(row.share for row in rows)
            if abs(total - 1.0) > _SHARE_TOLERANCE:
                raise DataError(f"classes.{name}", f"its shares add up to {total:g}", "shares add up to 1")
            for place, row in enumerate(rows):
                self._check_row(f"classes.{name}[{place}]", row)
        return self

    def _check_row(self, path: str, row: WidthRow) -> None:
        if not row.gpus.size or row.gpus.min() < 1:
            raise DataError(f"{path}.gpus", f"got {row.gpus.tolist()}", "one width of at least 1 per epoch is needed")
        types = row.gpu_types
        if types is None and len(self.gpu_types) > 1:
            raise DataError(f"{path}.gpu_types", "is missing", "say the type of each epoch, as there are several")
        if types is not None and (len(types) != row.gpus.size or not set(types) <= set(self.gpu_types)):
            problem = f"got {len(types)} types ({', '.join(sorted(set(types)))}) for {row.gpus.size} epochs"
            raise DataError(f"{path}.gpu_types", problem, f"one of {', '.join(self.gpu_types)} per epoch is needed")

    @property
    def solution(self) -> BoaSolution:
        """The rows as decisions."""
        return BoaSolution(
            branches={
                name: tuple(
                    Branch(fraction=row.share, widths=row.gpus.astype(float), gpu_types=row.gpu_types) for row in rows
                )
                for name, rows in self.classes.items()
            }
        )

    @classmethod
    def from_plan(cls, plan: BoaPlan) -> WidthTable:
        """Return the table of a plan, the first one."""
        totals = plan.totals()
        return cls(
            number=1,
            made_s=0.0,
            plan_id=plan.plan_id,
            gpu_types=tuple(plan.resources),
            classes=plan.width_table,
            gpus=totals["gpus"],
            mean_jct_s=totals["mean_jct_s"],
        )

    def held_at(self, job_class: str, epochs_done: int, row: int = 0) -> Holding:
        """Return what a job holds that has completed so many epochs; beyond its last one it holds what it held there.

        A job in a row that has gone since is in the first. A class that the table does not have holds one GPU, of any
        type.
        """
        found = look_up(self._held, job_class, epochs_done, row)
        return Holding(_UNKNOWN_WIDTH, None) if found is None else found[0]

    def keeps_until(self, job_class: str, epochs_done: int, row: int = 0) -> int:
        """Return after how many epochs a job first holds something else; the largest number where it never does."""
        found = look_up(self._held, job_class, epochs_done, row)
        return sys.maxsize if found is None else found[1]

    @cached_property
    def _held(self) -> dict[str, list[list[tuple[Holding, int]]]]:
        """By class and row, what is held in each epoch, and until which: lists, as jobs are looked up one at a time."""
        return {name: [self._list_held(row) for row in rows] for name, rows in self.classes.items()}

    def _list_held(self, row: WidthRow) -> list[tuple[Holding, int]]:
        types, listed = row.gpu_types or self.gpu_types[:1] * row.gpus.size, list[tuple[Holding, int]]()
        for held, alike in groupby(map(Holding, row.gpus.tolist(), types)):
            count = len(list(alike))
            until = len(listed) + count
            listed += [(held, until if until < row.gpus.size else sys.maxsize)] * count
        return listed


class Rows:
    """Deals the rows of a class out to its jobs, each once, by their shares."""

    def __init__(self) -> None:
        self._row: dict[str, int] = {}
        self._dealt: dict[str, Counter[int]] = defaultdict(Counter)

    def row_of(self, name: str, job_class: str, table: WidthTable) -> int:
        """Return the row of a job; the first time that is asked, it is dealt."""
        if name not in self._row:
            rows, dealt = table.classes.get(job_class, ()), self._dealt[job_class]
            # Of classes that are not known jobs have what will be the first row.
            way = choose_way([each.share for each in rows], [dealt[row] for row in range(len(rows))]) if rows else 0
            self.restore(name, job_class, way)
        return self._row[name]

    def restore(self, name: str, job_class: str, row: int) -> None:
        """Take note of a row that was dealt before."""
        self._dealt[job_class][row] += 1
        self._row[name] = row


class RemainingTimes:
    """How long jobs are expected to go on under a plan; within a segment all epochs are taken to be equally long."""

    def __init__(self, plan: BoaPlan) -> None:
        # By class and row, for each epoch: until the job's end, and of the epoch alone.
        self._times_s: dict[str, list[list[tuple[float, float]]]] = {}
        for name, ways in plan.ways.items():
            for way in ways:
                counts = [end - first for first, end in map(span, way)]
                means_s = [segment.expected.seconds / count for segment, count in zip(way, counts, strict=True)]
                left_s = np.cumsum(np.repeat(means_s, counts)[::-1])[::-1]
                times_s = zip(left_s.tolist(), (-np.diff(left_s, append=0.0)).tolist(), strict=True)
                self._times_s.setdefault(name, []).append(list(times_s))

    def left_s(self, job_class: str, epochs_done: int, row: int = 0) -> float:
        """Return the seconds from an epoch's beginning to the job's end; infinite for classes that are not known."""
        found = look_up(self._times_s, job_class, epochs_done, row)
        return math.inf if found is None else found[0]

    def epoch_s(self, job_class: str, epochs_done: int, row: int = 0) -> float | None:
        """Return the seconds of an epoch, the first of them 0; None for classes that are not known."""
        found = look_up(self._times_s, job_class, epochs_done, row)
        return None if found is None else found[1]
