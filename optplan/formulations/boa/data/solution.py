"""BOA's decisions: branches of a class, each a row of widths for a share of its jobs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from optplan.contracts.instance import Solution
from optplan.schema import NUMBER, ByName, FrozenModel, Numbers


class Branch(FrozenModel):
    """One row of widths.

    Parameters
    ----------
    fraction
        Of the class's jobs.
    widths
        (E,) GPUs in each epoch; whole numbers except in the continuous problem.
    gpu_types
        (E,) Their type in each epoch; None where the instance has one type.
    """

    fraction: Annotated[float, Field(gt=0, le=1), NUMBER] = 1.0
    widths: Numbers
    gpu_types: tuple[str, ...] | None = None


class BoaSolution(Solution):
    """What BOA decides: for each class the widths of each epoch, for each fraction of its jobs.

    Parameters
    ----------
    branches
        By class; fractions add up to one.
    """

    branches: ByName[tuple[Branch, ...]]
