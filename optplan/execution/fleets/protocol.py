"""What the monitor asks of a fleet, and what it hears from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from optplan.formulations.srift.planning import SriftPlan


@dataclass(frozen=True)
class FleetRequest:
    """A fleet that is to train.

    ``number`` is which of the run's fleets, from 1; asking twice does nothing twice. ``place`` has, by VM in the order
    of ranks, the ranks that it has; ``started`` are VMs that do not run yet. Iterations are done in all when it begins
    and ends; ``source`` is the rank that reads the ``checkpoint``, empty where it begins anew, for all, and stores the
    state every ``checkpoint_every_s`` unasked; 0: never. Every rank reports every ``heartbeat_s``.
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

    It was seen at ``t``. ``iterations`` are done in all, None where the line does not say; ``stored`` is the file that
    it has stored after these, ``order`` the order that asked for it, 0: unasked. It has ``ended`` all of its
    iterations, or its process ends (``left``). ``trouble`` is what has gone wrong for it, such as a neighbour that does
    not answer; it waits for orders.
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


class Fleet(ABC):
    """Starts and stops fleets, and hands on what their ranks report."""

    is_virtual: bool

    @abstractmethod
    def now_s(self) -> float:
        """Return the seconds since the run began."""

    @abstractmethod
    def start(self, request: FleetRequest) -> None:
        """Start a fleet, unless it was started before; and listen to it from now on."""

    @abstractmethod
    def ask(self, number: int, order: int, rank: int) -> None:
        """Ask a rank to store what all ranks share."""

    @abstractmethod
    def stop(self, number: int) -> None:
        """Ask a fleet's ranks to end."""

    @abstractmethod
    def end(self, number: int) -> None:
        """End what is left of a fleet's ranks."""

    def release(self) -> None:  # noqa: B027 - most have nothing to do
        """Give all VMs back: by default those end with their ranks."""

    def close(self) -> None:  # noqa: B027 - most have nothing to do
        """Let go of what runs, and leave it alone."""

    @abstractmethod
    def poll(self, until_s: float) -> list[Report | Notice]:
        """Return what was heard since the last call; wait for something until the clock shows ``until_s``."""
