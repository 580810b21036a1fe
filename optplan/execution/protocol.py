"""What an executor is: something that has nodes and runs operations on them, and can say what it has and runs.

The control loop decides, an executor does. Everything it is asked for has a name that the loop chose, so that asking
twice does nothing twice; after a crash the loop asks what there is (:meth:`Executor.observe`) and goes on from there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any

from optplan.contracts.plan import Plan
from optplan.execution import records as told

#: Plain data that a trainable reports.
Metrics = Mapping[str, Any]


@dataclass(frozen=True)
class Operation:
    """A trial on its GPUs in one segment.

    ``id`` names the process, actor or job: segment, trial and attempt, from 1. By node, ``place`` has its GPUs; of a
    fleet, ``started`` are the VMs that were asked for with it.
    ``batches`` are samples of an iteration of each worker, empty where the plan does not know them. It ends by itself
    after ``to_iterations``, or by the run's clock at ``until_s``; the other is None. ``checkpoint`` and ``metrics`` are
    what it goes on from, None and empty where it begins anew. ``step_s`` is what an iteration is planned to take, where
    that is known; ``is_last`` is a trial that none of the segment's members follows.
    """

    id: str
    segment: str
    trial: str
    attempt: int
    place: Mapping[str, int]
    workers: int
    gpus_per_worker: int
    batches: tuple[int, ...] = ()
    configuration: Mapping[str, Any] = field(default_factory=dict)
    from_iterations: int = 0
    to_iterations: int | None = None
    until_s: float | None = None
    started: tuple[str, ...] = ()
    checkpoint: told.Checkpoint | None = None
    metrics: Metrics = field(default_factory=dict)
    wanted_s: float = 0.0
    step_s: float | None = None
    is_last: bool = True

    @property
    def gpus(self) -> int:
        """GPUs of all its workers."""
        return self.workers * self.gpus_per_worker

    @cached_property
    def ranks(self) -> Mapping[str, range]:
        """By node, its ranks, where each GPU is one."""
        ends = accumulate(self.place.values())
        return {node: range(end - gpus, end) for (node, gpus), end in zip(self.place.items(), ends, strict=True)}


#: What executors report; of fleets alone, what their ranks say and what providers announce.
Event = (
    told.NodeChanged | told.NodeNoticed | told.Progressed | told.Reported | told.OperationEnded | told.OperationFailed
)


@dataclass(frozen=True)
class Observation:
    """What an executor has and runs.

    Nodes are there or being launched; operations run, or have ended and will be reported by :meth:`Executor.poll`.
    """

    nodes: frozenset[str]
    operations: frozenset[str]


class Executor(ABC):
    """Runs operations on nodes; nodes are asked for by the records that say so."""

    #: Whether its clock jumps, and by what part of a hard limit a run may be over it, as processes end late.
    is_virtual = False
    lateness = 1e-9
    #: Whether nodes are there at once, so that nobody is spared one.
    at_once = False

    @abstractmethod
    def now_s(self) -> float:
        """Return what its clock shows, in seconds since the run began."""

    @abstractmethod
    def observe(self, nodes: Sequence[told.NodeWanted], operations: Sequence[Operation]) -> Observation:
        """Take over what an earlier driver asked for, as far as it is still there, and say what that is.

        Given is what has not ended, as the journal knows it.
        """

    @abstractmethod
    def ensure_nodes(self, requests: Sequence[told.NodeWanted]) -> None:
        """Ask for nodes; those that are there already are left alone."""

    @abstractmethod
    def release_nodes(self, nodes: Sequence[str]) -> None:
        """Give nodes back; nothing runs on them any more."""

    @abstractmethod
    def start(self, operation: Operation) -> None:
        """Start an operation from its checkpoint, unless it runs already."""

    @abstractmethod
    def stop(self, operation: str, grace_s: float) -> None:
        """Ask an operation to store its state and end; after ``grace_s`` seconds it is killed."""

    @abstractmethod
    def poll(self, until_s: float) -> list[Event]:
        """Return what has happened since the last call; wait for something until its clock shows ``until_s``.

        What ranks of an operation have said comes before its end: whether a VM is back is not asked any more after it.
        """

    def ask(self, operation: str, order: int, rank: int) -> None:  # noqa: B027 - only fleets' ranks take orders
        """Ask a rank to store what all ranks share; orders are numbered."""

    def adopt(self, plan: Plan) -> None:  # noqa: B027 - only those that take times from it have to know
        """Follow another plan, for what is started from now on."""

    def prune(self, keep: Sequence[told.Checkpoint], droppable: Sequence[told.Checkpoint]) -> None:  # noqa: B027 - nothing by default
        """Delete all checkpoints but these; droppable ones, the first first, while they take too much space."""

    def close(self) -> None:  # noqa: B027 - nothing by default
        """Give back what the executor itself holds; operations that run are left alone."""
