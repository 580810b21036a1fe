"""What the width calculator goes by besides the instance: how fast it forgets, when it acts, how classes begin."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from optplan.errors import UsageError
from optplan.execution.online.fields import ServiceFields
from optplan.instances.job_logs.speedups import read_assumption
from optplan.schema import FrozenModel

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
