"""Srift's decisions: groups of VMs, each with its batch."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from optplan.contracts.instance import Solution
from optplan.schema import NUMBER, FrozenModel

#: More of a type are a mistake.
LARGEST_COUNT = 1_000_000
Count = Annotated[int, Field(ge=1, le=LARGEST_COUNT), NUMBER]


class VmGroup(FrozenModel):
    """VMs of one type with one batch.

    Parameters
    ----------
    type
        Name of the type.
    count
        VMs.
    batch
        Samples of an iteration on each.
    """

    type: str
    count: Count
    batch: Count


class SriftSolution(Solution):
    """What Srift decides: the fleet.

    Parameters
    ----------
    groups
        In the order of the instance's types, the largest batch first.
    """

    groups: tuple[VmGroup, ...]
