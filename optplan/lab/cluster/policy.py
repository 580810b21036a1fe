"""What a policy is: it is shown the cluster and says who is to hold how many GPUs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from optplan.errors import UsageError
from optplan.lab.cluster.jobs import Job, Places

#: Seconds of a round, as Pollux and Tiresias are run in the simulators published with Pollux and Sia.
ROUND_S = 60.0
#: What a job is to hold: GPUs wherever they are free, or these GPUs of these nodes.
Wish: TypeAlias = int | Places


@dataclass(frozen=True)
class Sight:
    """What a policy sees.

    ``jobs`` have arrived and are not over, in the order of arrival; ``changed`` are those that arrived, completed an
    epoch or lost a node since the policy was last asked. ``gpus`` is infinite where nodes are rented as they are
    needed; whoever is put on one of the ``starting`` nodes waits for it.
    """

    now_s: float
    jobs: Mapping[Job, None]
    changed: Sequence[Job]
    gpus: float
    free_gpus: float
    nodes: Sequence[int] = ()
    gpus_per_node: int = 1
    starting: frozenset[int] = frozenset()

    def require_fixed(self, policy: str, does: str) -> int:
        """Return the GPUs of a cluster of fixed size."""
        if math.isinf(self.gpus):
            raise UsageError(f"{policy}: {does} a cluster of fixed size; give its number of nodes (--nodes)")
        return int(self.gpus)


class SchedulingPolicy(Protocol):
    """Who holds how many GPUs."""

    @property
    def name(self) -> str:
        """How it is called in results."""

    @property
    def interval_s(self) -> float | None:
        """Seconds between two times that it is asked; None asks it whenever a job arrives, ends an epoch or goes."""

    def need(self, job: Job) -> int:
        """Return the GPUs without which a job would never start; it is reported where it cannot have them."""

    def allocate(self, sight: Sight) -> Mapping[Job, Wish]:
        """Return what jobs are to hold from now on; those that are not named keep what they hold.

        Jobs that give GPUs back do so before others take them, whatever their order here.
        """


@runtime_checkable
class SizingPolicy(SchedulingPolicy, Protocol):
    """One that also says how many nodes there are to be, and that decides in rounds."""

    def choose_nodes(self, sight: Sight) -> int:
        """Return the nodes to rent from now on; it is asked to allocate on those that stay and those that come."""
