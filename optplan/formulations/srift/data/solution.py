"""Srift's decisions: groups of VMs, each with its batch."""

from __future__ import annotations

from collections.abc import Iterable
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


def write_fleet(groups: Iterable[VmGroup]) -> str:
    """Write a fleet as the paper does: ``4 p3.8xlarge@1024 + 8 g3.8xlarge@128``."""
    return " + ".join(f"{group.count} {group.type}@{group.batch}" for group in groups)


def count_vms(groups: Iterable[VmGroup]) -> dict[str, int]:
    """Return the VMs of a fleet by type."""
    counts: dict[str, int] = {}
    for group in groups:
        counts[group.type] = counts.get(group.type, 0) + group.count
    return counts
