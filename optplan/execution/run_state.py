"""What the states of all runs have in common: time, nodes, notes and how they end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from optplan.execution.protocol import NodeRequest, Operation
from optplan.execution.records import (
    Ended,
    NodeChanged,
    NodeReleasing,
    NodeWanted,
    Noted,
    OperationStarted,
    Paused,
    Record,
    Resumed,
    StopWanted,
)


class Phase(StrEnum):
    """Where a node, a segment or an operation is."""

    WAITING = "waiting"
    WANTED = "wanted"
    LAUNCHING = "launching"
    READY = "ready"
    RELEASING = "releasing"
    RELEASED = "released"
    LOST = "lost"
    OPEN = "open"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"
    FAILED = "failed"


#: Phases in which a node is held, will be, or is not given back yet.
HELD = frozenset({Phase.WANTED, Phase.LAUNCHING, Phase.READY, Phase.RELEASING})


@dataclass(slots=True)
class NodeState:
    """A node, asked for after so many: when it was wanted, launched, ready, and when it went."""

    number: int
    name: str
    pool: str
    resource: str
    segment: str
    wanted_s: float
    replacement: bool = False
    phase: Phase = Phase.WANTED
    launch_s: float | None = None
    ready_s: float | None = None
    #: When it was decided that it goes, and when it was gone.
    releasing_s: float | None = None
    end_s: float | None = None
    #: Its own price; None where it is the plan's.
    usd_per_hour: float | None = None


@dataclass(slots=True)
class OperationState:
    """An operation, and what it took."""

    operation: Operation
    phase: Phase
    wanted_s: float
    stop_why: str = ""
    end_s: float | None = None
    busy_s: float = 0.0
    timings: Mapping[str, float] = field(default_factory=dict)


class RunState:
    """The state of a run, which its records make; subclasses say what else a record does.

    ``pools`` has the names of the nodes that are held.
    """

    def __init__(self) -> None:
        self.t = 0.0
        self.nodes: dict[str, NodeState] = {}
        self.pools: dict[str, set[str]] = {}
        self.operations: dict[str, OperationState] = {}
        self.notes: list[str] = []
        self.ended: Ended | None = None
        self.paused: Paused | None = None

    @property
    def end(self) -> Ended | Paused | None:
        """How it ended, or why it rests; None while it runs."""
        return self.ended or self.paused

    @property
    def status(self) -> Literal["ended", "paused", "running"]:
        """The same in a word."""
        return "ended" if self.ended else "paused" if self.paused else "running"

    @property
    def code(self) -> int:
        """The exit code of its driver."""
        return 0 if self.end is None else self.end.code

    @property
    def running(self) -> list[OperationState]:
        """The operations that have their GPUs."""
        return list(self.operations.values())

    def is_running(self, operation: str) -> bool:
        """Whether an operation has its GPUs."""
        return operation in self.operations

    def held_nodes(self) -> list[NodeState]:
        """Return the nodes that are there, were asked for, or are not given back yet."""
        return [node for node in self.nodes.values() if node.phase in HELD]

    def node_requests(self) -> list[NodeRequest]:
        """Return them as they were asked for."""
        return [
            NodeRequest(node.name, node.resource, node.segment, node.wanted_s, node.replacement)
            for node in self.held_nodes()
        ]

    def apply(self, record: Record) -> None:
        """Take a record into account."""
        self.t = max(self.t, record.t)
        self._apply(record)

    def _apply(self, record: Record) -> None:
        match record:
            case Resumed():
                self.paused = None
            case NodeWanted():
                known = (record.node, record.pool, record.resource, record.segment, record.t, record.replacement)
                self.nodes[record.node] = NodeState(len(self.nodes), *known)
                self.pools.setdefault(record.pool, set()).add(record.node)
            case NodeChanged():
                self._change(self.nodes[record.node], record)
            case NodeReleasing():
                node = self.nodes[record.node]
                node.phase, node.releasing_s = Phase.RELEASING, record.t
                self.pools[node.pool].discard(node.name)
            case OperationStarted():
                self.operations[record.operation].phase = Phase.RUNNING
            case StopWanted():
                operation = self.operations[record.operation]
                operation.phase, operation.stop_why = Phase.STOPPING, record.why
            case Noted():
                self.notes.append(record.text)
            case Paused():
                self.paused = record
            case Ended():
                self.ended = record
            case _:
                message = f"no rule for {type(record).__name__}"
                raise NotImplementedError(message)

    def _change(self, node: NodeState, record: NodeChanged) -> None:
        was, node.phase = node.phase, Phase(record.phase)
        node.usd_per_hour = node.usd_per_hour if record.usd_per_hour is None else record.usd_per_hour
        match node.phase:
            case Phase.LAUNCHING:
                node.launch_s = record.t
                if was is not Phase.WANTED:  # it is told late: only from when on it was paid is new
                    node.phase = was
            case Phase.READY:
                node.ready_s = record.t
                node.launch_s = record.t if node.launch_s is None else node.launch_s
            case Phase.RELEASED | Phase.LOST:
                node.end_s = record.t
                self.pools[node.pool].discard(node.name)
