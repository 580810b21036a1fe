"""What a decision is made from: jobs that are there, nodes, and the rules of a cluster."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Protocol, TypeAlias

from optplan.errors import DataError
from optplan.units import SECONDS_PER_HOUR

#: By node, the GPUs that a job holds there; empty while it holds none.
Place: TypeAlias = Mapping[str, int]

NOWHERE: Place = MappingProxyType({})


class Widths(Protocol):
    """A table of widths."""

    def held_at(self, job_class: str, epochs_done: int, row: int = 0) -> tuple[int, str | None]:
        """Return the GPUs that a job is to hold, at least one, and their type; None where any type will do."""


@dataclass(frozen=True, slots=True)
class ActiveJob:
    """A job that has arrived and is not over."""

    #: name, job_class: Its own name, and that of its class.
    name: str
    job_class: str
    epochs_done: int = 0  #: Epochs that it has completed.
    place: Place = field(default_factory=lambda: NOWHERE)  #: What it holds.
    row: int = 0  #: Of the width table, where the jobs of a class take several ways.
    submitted_s: float = 0.0  #: When it arrived.
    attained_gpu_s: float = 0.0  #: GPU-seconds that it has held.
    expected_left_s: float = math.inf  #: Seconds for which it is expected to go on.
    weight: float = 1.0  #: Of its class.


class Order(StrEnum):
    """Who comes first where not all can have their widths."""

    #: Whoever arrived first; those who run are not stopped for others.
    FIRST_COME = "first-come"
    #: Whoever has attained less than 16 GPU-hours before all others, each in the order of arrival (Tiresias).
    LEAST_ATTAINED = "least-attained"
    #: Whoever is expected to go on for the least time per weight.
    WEIGHTED_SHORTEST = "weighted-shortest"


#: GPU-seconds from which on a job is in the second queue of :attr:`Order.LEAST_ATTAINED`, as Pollux' simulator has it.
SECOND_QUEUE_GPU_S = 16.0 * SECONDS_PER_HOUR


def rank_claim(job: ActiveJob, held: int, order: Order) -> tuple[float, float, str]:
    """Return by what jobs are sorted, the first first; first come puts those who hold something before the others."""
    match order:
        case Order.FIRST_COME:
            first = float(held == 0)
        case Order.LEAST_ATTAINED:
            first = float(job.attained_gpu_s >= SECOND_QUEUE_GPU_S)
        case Order.WEIGHTED_SHORTEST:
            first = job.expected_left_s / job.weight if job.weight > 0 else math.inf
    return first, job.submitted_s, job.name


@dataclass(frozen=True)
class Rules:
    """What holds for a cluster; numbers below one and quotas of no type, or without room for a node, are refused."""

    #: By type of GPU: GPUs of a node that can be had; the first type is that of jobs which run on any.
    gpus_per_node: Mapping[str, int]
    #: The most GPUs of all types at a time; None where as many can be rented as are asked for.
    most_gpus: int | None = None
    #: By type: the most GPUs at a time; types that are left out have no quota.
    quotas: Mapping[str, int] = field(default_factory=dict)
    order: Order = Order.FIRST_COME  #: Who comes first where quotas or ``most_gpus`` leave somebody waiting.
    weights: Mapping[str, float] = field(default_factory=dict)  #: Of a class's jobs in that order; 1 where left out.
    #: By class: the widths on which its jobs can run at all, where not on any; what is left may be none of them.
    runnable: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.gpus_per_node:
            raise DataError("gpus_per_node", "is empty", "name at least one type of GPU")
        for name, gpus in self.gpus_per_node.items():
            if gpus < 1:
                raise DataError(f"gpus_per_node.{name}", f"got {gpus}", "a node has at least 1 GPU")
        for name, most in self.quotas.items():
            if name not in self.gpus_per_node:
                known = ", ".join(self.gpus_per_node)
                raise DataError(f"quotas.{name}", "no node has GPUs of this type", f"known types are {known}")
            if most < self.gpus_per_node[name]:
                fix = f"a node has {self.gpus_per_node[name]} GPUs; leave nodes of this type out, or allow one"
                raise DataError(f"quotas.{name}", f"got {most}", fix)
        if self.most_gpus is not None and self.most_gpus < min(self.gpus_per_node.values()):
            fix = f"the smallest node has {min(self.gpus_per_node.values())} GPUs; allow at least one node"
            raise DataError("most_gpus", f"got {self.most_gpus}", fix)

    def cap(self, gpu_type: str) -> float:
        """Return the most GPUs of a type; infinite where there is no quota."""
        return self.quotas.get(gpu_type, math.inf)

    @property
    def most(self) -> float:
        """The most GPUs of all types that there can ever be; infinite where nothing limits them."""
        most = math.inf if self.most_gpus is None else self.most_gpus
        return min(most, sum(self.cap(name) for name in self.gpus_per_node))

    def most_of(self, gpu_type: str) -> float:
        """Return the most GPUs of a type that there can ever be; infinite where nothing limits them."""
        return min(self.cap(gpu_type), math.inf if self.most_gpus is None else self.most_gpus)

    def largest_runnable(self, job_class: str, gpus: int) -> int:
        """Return the most GPUs up to a number on which a job can run; 0 where there are none."""
        widths = self.runnable.get(job_class)
        return gpus if widths is None else max((width for width in widths if width <= gpus), default=0)
