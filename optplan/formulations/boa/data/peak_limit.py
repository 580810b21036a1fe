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
        Least share of the time in which no more are in use, hours of the day and clumps of arrivals included. From 1e-6
        to 1 - 1e-6: shares are known to 1e-9.
    """

    gpus: PositiveAmount
    probability: Annotated[float, Field(ge=1e-6, le=1.0 - 1e-6), NUMBER] = 0.95
