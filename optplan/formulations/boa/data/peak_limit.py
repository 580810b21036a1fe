"""A limit on the GPUs in use at once, kept with a probability."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from optplan.schema import NUMBER, FrozenModel, PositiveAmount


class PeakLimit(FrozenModel):
    """At most so many GPUs at once, for that share of the time.

    Parameters
    ----------
    gpus
        Of all types together.
    probability
        Least share of the time in which no more are in use, hours of the day and clumps of arrivals included.
    """

    gpus: PositiveAmount
    probability: Annotated[float, Field(gt=0, lt=1), NUMBER] = 0.95
