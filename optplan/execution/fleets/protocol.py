"""What the monitor asks of a fleet, and what it hears from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from optplan.formulations.srift.planning import SriftPlan


@dataclass(frozen=True)
class FleetRequest:
    """A fleet that is to train.

    Parameters
    ----------
    number
        Which of the run's fleets, from 1; asking twice does nothing twice.
    plan, place
        Its plan, and by VM, in the order of ranks, the ranks that it has.
    started
        VMs that do not run yet.
    from_iterations, to_iterations
        Done in all when it begins, and when it ends.
    checkpoint, source
        The file that it goes on from, empty where it begins anew; and the rank that reads it for all.
    heartbeat_s
        How often every rank reports.
    checkpoint_every_s
        How often the source stores the state unasked; 0: never.
    """

    number: int
    plan: SriftPlan
    place: Mapping[str, int]
    started: tuple[str, ...]
    from_iterations: int
    to_iterations: int
    checkpoint: str = ""
    source: int = 0
    heartbeat_s: float = 5.0
    checkpoint_every_s: float = 0.0

    def roles(self) -> Iterator[dict[str, Any]]:
        """Yield what each rank does: its VM, its part of the global batch, and the weight of its loss."""
        vms = iter(self.place)
        rank = first_sample = 0
        for group in self.plan.fleet:
            for vm in (next(vms) for _ in range(group.count)):
                for local_rank in range(group.gpus_per_vm):
                    yield {
                        "rank": rank,
                        "vm": vm,
                        "local_rank": local_rank,
                        "first_sample": first_sample,
                        "batch": group.batch_per_rank,
                        "loss_weight": group.loss_weight,
                    }
                    rank += 1
                    first_sample += group.batch_per_rank


@dataclass(frozen=True)
class Report:
    """A line that a rank has written; whatever it says, the rank is alive.

    Parameters
    ----------
    number, rank, t
        Which fleet's, which rank, and when it was seen.
    iterations
        That it has done in all; None where the line does not say.
    stored, order
        The file that it has stored after these iterations, and the order that asked for it; 0: unasked.
    ended, left
        Whether it has done all of its iterations, and whether its process ends.
    trouble
        What has gone wrong for it, such as a neighbour that does not answer; it waits for orders.
    """

    number: int
    rank: int
    t: float
    iterations: int | None = None
    stored: str = ""
    order: int = 0
    ended: bool = False
    left: bool = False
    trouble: str = ""


@dataclass(frozen=True)
class Notice:
    """The provider takes a VM back, at a time on the run's clock."""

    vm: str
    at_s: float


class Fleet(Protocol):
    """Starts and stops fleets, and hands on what their ranks report."""

    is_virtual: bool

    def now_s(self) -> float:
        """Return the seconds since the run began."""
        ...

    def start(self, request: FleetRequest) -> None:
        """Start a fleet, unless it was started before; and listen to it from now on."""
        ...

    def ask(self, number: int, order: int, rank: int) -> None:
        """Ask a rank to store what all ranks share."""
        ...

    def stop(self, number: int) -> None:
        """Ask a fleet's ranks to end."""
        ...

    def end(self, number: int) -> None:
        """End what is left of a fleet's ranks."""
        ...

    def release(self) -> None:
        """Give all VMs back."""
        ...

    def close(self) -> None:
        """Let go of what runs, and leave it alone."""
        ...

    def poll(self, until_s: float) -> list[Report | Notice]:
        """Return what was heard since the last call; wait for something until the clock shows ``until_s``."""
        ...
