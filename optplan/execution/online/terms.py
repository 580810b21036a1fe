"""What the width calculator goes by besides the instance: how fast it forgets, when it acts, how classes begin."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from optplan.errors import UsageError
from optplan.instances.job_logs.speedups import read_assumption
from optplan.schema import FrozenModel

_Positive = Annotated[float, Field(gt=0, le=1e9)]
_Part = Annotated[float, Field(ge=0, le=1)]


class Terms(FrozenModel):
    """The calculator's settings.

    Parameters
    ----------
    window_h
        Whatever was seen so many hours ago weighs 1/e of what is seen now.
    stated_jobs
        The instance's mean sizes weigh as much as so many jobs that ended, at the start.
    every_s
        Widths are calculated again after so many seconds at the latest (the paper: 15 minutes); 1 at least.
    settle_s
        And not again before so many.
    move
        They are calculated at once where a rate, a size or a speed has moved by more than this part.
    least_gain
        A new table that makes the mean completion time less than this part shorter is not published, so that no running
        job is rescaled for it; unless the present one exceeds the budget, or lacks a class.
    gap
        Relative gap within which a table has to be proven.
    gpus_per_node
        Of the nodes that AdaptDL's hints were measured on.
    new_speedup
        Of a class that the instance does not have, until it is measured: ``linear``, ``amdahl:FRACTION`` or
        ``power:EXPONENT``; what rests on it is said to be assumed.
    new_size_gpu_hours
        The same for its size; None for the median of the instance's classes.
    new_watched_h
        Its first arrival counts as the only one in so many hours.
    probe_widths
        Jobs of a new class run at these widths in turn until each of them was measured.
    probe_jobs
        Or until so many of its jobs have ended.
    probe_part
        There is no probing where it would take more than this part of the budget.
    most_classes
        New classes at most; beyond them arrivals are refused, as names are then taken for classes.
    """

    window_h: _Positive = 72.0
    stated_jobs: Annotated[float, Field(ge=0, le=1e9)] = 20.0
    every_s: Annotated[float, Field(ge=1, le=1e9)] = 900.0
    settle_s: Annotated[float, Field(ge=0, le=1e9)] = 5.0
    move: Annotated[float, Field(gt=0, le=1)] = 0.05
    least_gain: _Part = 0.02
    gap: Annotated[float, Field(ge=0, le=0.1)] = 1e-6
    gpus_per_node: Annotated[int, Field(ge=1, le=1024)] = 4
    new_speedup: str = "linear"
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
