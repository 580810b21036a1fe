"""What one calculation of widths found, and what became of it.

What the width calculator goes by besides the instance: how fast it forgets, when it acts, how classes begin.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import Field, field_validator

from optplan.errors import UsageError
from optplan.execution.online.fields import ServiceFields
from optplan.instances.job_logs.speedups import read_assumption
from optplan.schema import FrozenModel


class Verdict(StrEnum):
    """What became of a calculation."""

    PUBLISHED = "published"
    #: The present table stays: the new one gains too little.
    KEPT = "kept"
    #: No table keeps the limits; the present one stays.
    OVER_BUDGET = "over-budget"
    #: There is no plan; the present table stays.
    FAILED = "failed"


class Calculation(FrozenModel):
    """One calculation, and what became of it.

    ``at_s`` is in seconds since 1970; ``reason`` is why it was made, ``changes`` what had moved since the last one, in
    words. ``notes`` say why the table was kept, which classes are probed, or that a budget is too small. ``number`` is
    of the table that holds from now on, None before the first. ``mean_jct_s``, ``bound_s`` and ``gap`` are the new
    plan's; while classes are probed there is no bound, and the gap is that of the others. ``present_jct_s`` is what the
    table before promises under the same estimates; None where it breaks a limit or lacks a class. ``budget``,
    ``followed`` (what widths are made for, so that the budget holds), ``planned`` (what the table that holds takes) and
    ``needed`` (the least that carries the load, where the given one does not) are in ``unit``; ``debt_h`` is in hours
    of the budget, as :class:`~optplan.execution.online.ledger.Ledger` has it.
    """

    at_s: float
    verdict: Verdict
    reason: str
    changes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    number: int | None = None
    mean_jct_s: float | None = None
    bound_s: float | None = None
    gap: float | None = None
    present_jct_s: float | None = None
    budget: float
    followed: float | None = None
    debt_h: float = 0.0
    planned: float | None = None
    needed: float | None = None
    unit: str


def find_excess(limits: Mapping[str, float], takes: Mapping[str, float]) -> tuple[str, float] | None:
    """Return the limit that is exceeded most, and by which part of it; None where all are kept."""
    excess = {name: takes[name] / amount - 1.0 for name, amount in limits.items() if amount > 0}
    worst = max(excess, key=lambda name: excess[name])
    return (worst, excess[worst]) if excess[worst] > 0 else None


def say_kept(
    new_s: float, present_s: float | None, excess: tuple[str, float] | None, least_gain: float, at_most: str = ""
) -> str:
    """Return why the present table stays; empty where the new one is to be published."""
    if present_s is None or (excess is not None and excess[1] > least_gain):
        return ""
    gain = 1.0 - new_s / present_s
    if gain >= least_gain:
        return ""
    beyond = f"; it takes {excess[1]:.2%} more than the limit {excess[0]}" if excess is not None else ""
    return f"the table stays: a gain of{at_most} {max(gain, 0.0):.2%} is below {least_gain:.2%}{beyond}"


_Positive = Annotated[float, Field(gt=0, le=1e9)]
_Part = Annotated[float, Field(ge=0, le=1)]


class Terms(FrozenModel, ServiceFields):
    """The calculator's settings.

    At the start the instance's mean sizes weigh as much as ``stated_jobs`` jobs that ended. Widths are not calculated
    again before ``settle_s``, and to within the relative ``gap``.

    A class that the instance does not have is taken to have ``new_speedup`` until it is measured (what rests on it
    is said to be assumed) and ``new_size_gpu_hours`` (None:
    the median of the others'), and its first arrival counts as the only one in ``new_watched_h``. Its jobs run at
    ``probe_widths`` in turn until each of them was measured, or ``probe_jobs`` have ended, unless that takes more than
    ``probe_part`` of the budget. Beyond ``most_classes`` new ones arrivals are refused, as names are then taken for
    classes.
    """

    stated_jobs: Annotated[float, Field(ge=0, le=1e9)] = 20.0
    settle_s: Annotated[float, Field(ge=0, le=1e9)] = 5.0
    gap: Annotated[float, Field(ge=0, le=0.1)] = 1e-6
    new_size_gpu_hours: _Positive | None = None
    new_watched_h: _Positive = 1.0
    probe_widths: tuple[Annotated[int, Field(ge=1, le=1024)], ...] = (1, 2, 4, 8)
    probe_jobs: Annotated[int, Field(ge=0)] = 20
    probe_part: _Part = 0.25
    most_classes: Annotated[int, Field(ge=0, le=10_000)] = 200

    @field_validator("new_speedup")
    @classmethod
    def _check_speedup(cls, text: str) -> str:
        try:
            read_assumption(text)
        except UsageError as error:
            raise ValueError(str(error).removeprefix("assume: ")) from None
        return text
