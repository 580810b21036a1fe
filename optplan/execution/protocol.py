"""What an executor is: something that has nodes and runs operations on them, and can say what it has and runs.

The control loop decides, an executor does. Everything it is asked for has a name that the loop chose, so that asking
twice does nothing twice; after a crash the loop asks what there is (:meth:`Executor.observe`) and goes on from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from optplan.contracts.plan import Plan

#: Plain data that a trainable reports.
Metrics = Mapping[str, Any]


@dataclass(frozen=True)
class Capabilities:
    """What an executor can do beyond starting and stopping.

    Parameters
    ----------
    name
        What users call it.
    is_virtual
        Whether its clock jumps; it then trains nothing unless it is given something to train.
    lateness
        By what part of a hard limit a run may be over it, because processes take a moment to end.
    """

    name: str
    is_virtual: bool = False
    lateness: float = 1e-9


@dataclass(frozen=True)
class NodeRequest:
    """A node that is wanted.

    Parameters
    ----------
    node
        The name that it is given.
    resource
        Which of the plan's resources.
    segment
        The segment for which it is wanted first.
    wanted_s
        When it was asked for first, on the run's clock.
    replacement
        Whether it takes the place of one that was lost.
    """

    node: str
    resource: str
    segment: str
    wanted_s: float = 0.0
    replacement: bool = False


@dataclass(frozen=True)
class Checkpoint:
    """The stored state of a trial.

    Parameters
    ----------
    path
        Of its folder, relative to the run's.
    sha256
        Of the names and contents of its files.
    """

    path: str
    sha256: str


@dataclass(frozen=True)
class Operation:
    """A trial on its GPUs in one segment.

    Parameters
    ----------
    id
        Name of the process, actor or job: segment, trial and attempt.
    segment, trial, attempt
        What it runs, and which try it is, from 1.
    place
        By node, the GPUs that it has there.
    workers, gpus_per_worker
        Its processes.
    batches
        Samples of an iteration of each worker; empty where the plan does not know them.
    configuration
        What the trial tries.
    from_iterations
        Iterations that the trial has done when it begins.
    to_iterations
        When it ends by itself; None where it ends by the clock.
    until_s
        When the clock ends it, on the run's clock; None where it ends by iterations.
    checkpoint, metrics
        What it goes on from, and what the trial showed there; None and empty where it begins anew.
    wanted_s
        When it was asked for first, on the run's clock.
    step_s
        What an iteration is planned to take; None where that is not known.
    position, members
        Which of the segment's members the trial is, from 0, and how many there are.
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
    checkpoint: Checkpoint | None = None
    metrics: Metrics = field(default_factory=dict)
    wanted_s: float = 0.0
    step_s: float | None = None
    position: int = 0
    members: int = 1


@dataclass(frozen=True)
class NodeLaunching:
    """The provider has begun to launch a node: from now on it may be paid, if known at a price of its own."""

    node: str
    t: float
    usd_per_hour: float | None = None


@dataclass(frozen=True)
class NodeReady:
    """A node can train; its price, where it is known to be another than the plan's."""

    node: str
    t: float
    usd_per_hour: float | None = None


@dataclass(frozen=True)
class NodeLost:
    """A node is gone, and what ran on it."""

    node: str
    t: float
    why: str = ""


@dataclass(frozen=True)
class Progressed:
    """An operation has done another iteration.

    Parameters
    ----------
    operation, t
        Which, and when that was noticed.
    iterations, metrics
        That the trial has done in all, and what it showed last.
    seconds
        What the iteration took; None where it was not timed.
    """

    operation: str
    t: float
    iterations: int
    metrics: Metrics
    seconds: float | None = None


@dataclass(frozen=True)
class Finished:
    """An operation has ended in good order: it did its iterations, or stopped when it was asked to.

    Parameters
    ----------
    operation, t
        Which, and when.
    iterations
        That the trial has done in all.
    metrics
        The last that it reported; empty where there are none.
    checkpoint
        Its state; None where it stored none.
    busy_s
        Seconds for which it had its GPUs, waiting for others not counted.
    complete
        Whether it did what was asked; False where it was stopped before.
    timings
        What was measured: seconds until the first iteration (``start_s``), of an iteration (``step_s``, mean and
        ``step_sd_s``), of loading and of storing (``load_s``, ``save_s``), and how many iterations (``steps``). What
        does not tell iterations from the start has no ``step_s``.
    """

    operation: str
    t: float
    iterations: int
    metrics: Metrics
    checkpoint: Checkpoint | None
    busy_s: float
    complete: bool = True
    timings: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Failed:
    """An operation has crashed, or was killed.

    Parameters
    ----------
    operation, t
        Which, and when.
    why
        One line.
    tail
        The last lines of its output.
    blameless
        Whether it is not the trial's fault, as when its node is lost: it does not count as a failure of the trial.
    hopeless
        Whether trying again would fail again, as when there is nothing to import.
    no_room
        Whether it could not write: the run is paused.
    iterations, metrics, checkpoint
        What it had stored on the way, for the next attempt; None and empty where it had not.
    """

    operation: str
    t: float
    why: str
    tail: str = ""
    blameless: bool = False
    hopeless: bool = False
    no_room: bool = False
    iterations: int | None = None
    metrics: Metrics = field(default_factory=dict)
    checkpoint: Checkpoint | None = None


Event = NodeLaunching | NodeReady | NodeLost | Progressed | Finished | Failed


@dataclass(frozen=True)
class Observation:
    """What an executor has and runs.

    Parameters
    ----------
    nodes
        Names of nodes that are there, or are being launched.
    operations
        Ids of operations that run, or have ended and will be reported by :meth:`Executor.poll`.
    """

    nodes: frozenset[str]
    operations: frozenset[str]


class Executor(Protocol):
    """Runs operations on nodes."""

    capabilities: Capabilities

    def now_s(self) -> float:
        """Return what its clock shows, in seconds since the run began."""
        ...

    def observe(self, nodes: Sequence[NodeRequest], operations: Sequence[Operation]) -> Observation:
        """Take over what an earlier driver asked for, as far as it is still there, and say what that is.

        Parameters
        ----------
        nodes, operations
            What has not ended, as the journal knows it.
        """
        ...

    def ensure_nodes(self, requests: Sequence[NodeRequest]) -> None:
        """Ask for nodes; those that are there already are left alone."""
        ...

    def release_nodes(self, nodes: Sequence[str]) -> None:
        """Give nodes back; nothing runs on them any more."""
        ...

    def start(self, operation: Operation) -> None:
        """Start an operation from its checkpoint, unless it runs already.

        Raises
        ------
        OptplanError
            When nothing of the kind can be started here, such as when the disk is full.
        """
        ...

    def stop(self, operation: str, grace_s: float) -> None:
        """Ask an operation to store its state and end; after ``grace_s`` seconds it is killed."""
        ...

    def poll(self, until_s: float) -> list[Event]:
        """Return what has happened since the last call; wait for something until its clock shows ``until_s``."""
        ...

    def prune(self, keep: Sequence[Checkpoint], droppable: Sequence[Checkpoint]) -> None:
        """Delete all checkpoints but these; droppable ones, the first first, while they take too much space."""
        ...

    def close(self) -> None:
        """Give back what the executor itself holds; operations that run are left alone."""
        ...


@runtime_checkable
class Rehearser(Protocol):
    """An executor that takes times from the plan, and so has to know which one is followed."""

    def adopt(self, plan: Plan) -> None:
        """Take times from another plan, for what is started from now on."""
        ...
