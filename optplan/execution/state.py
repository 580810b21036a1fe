"""The states of runs: what follows from their plans and records, and from nothing else.

What the states of all kinds have in common comes first, then the state of a search. Applying a record takes constant
time, so that the loop's work does not grow with the number of trials.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from optplan.contracts.conditions import Elapsed, IterationsDone
from optplan.contracts.plan import Plan, Segment, UnitKind
from optplan.contracts.resources import Billing
from optplan.execution import records as told
from optplan.execution.protocol import Operation


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

    ``pools`` has the names of the nodes that are held, ``operations`` those that have their GPUs.
    """

    def __init__(self) -> None:
        self.t = 0.0
        self.nodes: dict[str, NodeState] = {}
        self.pools: dict[str, set[str]] = {}
        self.operations: dict[str, OperationState] = {}
        #: How often what is paid has changed.
        self.payments = 0
        self.notes: list[str] = []
        self.ended: told.Ended | None = None
        self.paused: told.Paused | None = None

    @property
    def end(self) -> told.Ended | told.Paused | None:
        """How it ended, or why it rests; None while it runs."""
        return self.ended or self.paused

    def held_nodes(self) -> list[NodeState]:
        """Return the nodes that are there, were asked for, or are not given back yet."""
        return [node for node in self.nodes.values() if node.phase in HELD]

    def ready_nodes(self, pool: str) -> list[str]:
        """Return the nodes of a pool that can train, the oldest first."""
        return sorted(name for name in self.pools[pool] if self.nodes[name].phase is Phase.READY)

    def apply(self, record: told.Record) -> None:
        """Take a record into account."""
        self.t = max(self.t, record.t)
        self._apply(record)

    def _apply(self, record: told.Record) -> None:
        match record:
            case told.Resumed():
                self.paused = None
            case told.NodeWanted():
                known = (record.node, record.pool, record.resource, record.segment, record.t, record.replacement)
                self.nodes[record.node] = NodeState(len(self.nodes), *known)
                self.pools.setdefault(record.pool, set()).add(record.node)
            case told.NodeChanged():
                self._change(self.nodes[record.node], record)
            case told.NodeReleasing():
                node = self.nodes[record.node]
                node.phase, node.releasing_s = Phase.RELEASING, record.t
                self.pools[node.pool].discard(node.name)
            case told.OperationStarted():
                self.operations[record.operation].phase = Phase.RUNNING
            case told.StopWanted():
                operation = self.operations[record.operation]
                operation.phase, operation.stop_why = Phase.STOPPING, record.why
            case told.MetricsShown():
                pass  # for readers alone
            case told.Noted():
                self.notes.append(record.text)
            case told.Paused():
                self.paused = record
            case told.Ended():
                self.ended = record
            case _:
                message = f"no rule for {type(record).__name__}"
                raise NotImplementedError(message)

    def _change(self, node: NodeState, record: told.NodeChanged) -> None:
        self.payments += 1
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


@dataclass(slots=True)
class Member:
    """What trains from one operation to the next, a trial or a job: how far it is, and where its state is stored."""

    name: str
    configuration: Mapping[str, Any]
    #: Done in all, and what was shown last; of jobs, iterations are epochs.
    iterations: int = 0
    metrics: Mapping[str, Any] = field(default_factory=dict)
    checkpoint: told.Checkpoint | None = None
    #: Where it is, or was last.
    place: Mapping[str, int] = field(default_factory=dict)
    #: Failures of its own since it last ended in good order.
    failures: int = 0
    last_failure: str = ""
    is_hopeless: bool = False
    why_dropped: str = ""

    def go_on(self, wanted: told.OperationWanted, **own: Any) -> Operation:  # noqa: ANN401 - fields of operations
        """Return what an intent asks the executor to start, from where this is."""
        return Operation(
            id=wanted.operation,
            segment=wanted.segment,
            trial=self.name,
            attempt=wanted.attempt,
            place=wanted.place,
            configuration=self.configuration,
            from_iterations=self.iterations,
            checkpoint=self.checkpoint,
            metrics=self.metrics,
            wanted_s=wanted.t,
            **own,
        )

    def see_end(self, record: told.OperationEnded | told.OperationFailed) -> None:
        """Take note of how its operation has ended."""
        if isinstance(record, told.OperationEnded):
            self.failures, self.checkpoint = 0, record.checkpoint or self.checkpoint
            self.iterations, self.metrics = record.iterations, record.metrics
            return
        self.failures += not record.blameless
        self.last_failure, self.is_hopeless = record.why, record.hopeless
        if record.iterations is not None and record.checkpoint is not None:
            self.iterations, self.metrics, self.checkpoint = record.iterations, record.metrics, record.checkpoint


@dataclass(slots=True)
class TrialState(Member):
    """A trial, and its attempts by segment."""

    attempts: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class SegmentState:
    """A segment: its members by rank, who waits for a turn, and who runs."""

    segment: Segment
    phase: Phase = Phase.WAITING
    members: list[str] = field(default_factory=list)
    queue: deque[str] = field(default_factory=deque)
    running: set[str] = field(default_factory=set)
    free: list[Mapping[str, int]] = field(default_factory=list)
    ranking: list[str] = field(default_factory=list)
    opened_s: float | None = None
    began_s: float | None = None
    ended_s: float | None = None
    busy_gpu_s: float = 0.0

    @property
    def ends_at_s(self) -> float | None:
        """When the clock ends it, since the run's origin; None where it ends by iterations."""
        return self.segment.exit.seconds if isinstance(self.segment.exit, Elapsed) else None


class State(RunState):
    """The state of a run of a plan."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        #: The plan that is followed; the one that the run began with; and how one came after the other.
        self.plan = self.first_plan = plan
        self.replans: list[told.Replanned] = []
        self.origin_s: float | None = None
        self.trials: dict[str, TrialState] = {}
        self.pools = {segment.pool: set() for segment in plan.segments}
        self.segments = {segment.id: SegmentState(segment) for segment in plan.segments}
        #: Operations that are over.
        self.past_operations: list[OperationState] = []
        self.open: set[str] = set()

    def operation_of(self, wanted: told.OperationWanted) -> Operation:
        """Return what an intent asks the executor to start."""
        state = self.segments[wanted.segment]
        segment, until = state.segment, state.ends_at_s
        # All segments of a fleet train one job together.
        partners = self.plan.segments if self.plan.units[0].kind is UnitKind.FLEET_GROUP else (segment,)
        return self.trials[wanted.trial].go_on(
            wanted,
            workers=sum(each.workers for each in partners),
            gpus_per_worker=segment.gpus_per_worker,
            to_iterations=segment.exit.iterations if isinstance(segment.exit, IterationsDone) else None,
            until_s=None if until is None else (self.origin_s or 0.0) + until,
            step_s=segment.expected.iteration_s,
            is_last=wanted.trial == state.members[-1],
        )

    def ends_at(self, segment: SegmentState) -> float:
        """Return when the run's clock ends a segment; infinite where it does not, or nothing has begun."""
        if segment.ends_at_s is None or self.origin_s is None:
            return math.inf
        return self.origin_s + segment.ends_at_s

    def _apply(self, record: told.Record) -> None:
        match record:
            case told.Began():
                self.trials = {name: TrialState(name, values) for name, values in record.configurations.items()}
            case told.SegmentOpened():
                state = self.segments[record.segment]
                state.phase, state.opened_s = Phase.OPEN, record.t
                state.members, state.queue = list(record.members), deque(record.members)
                self.open.add(record.segment)
            case told.SegmentBegan():
                state = self.segments[record.segment]
                state.phase, state.began_s = Phase.RUNNING, record.t
                self.origin_s = record.t if self.origin_s is None else self.origin_s
            case told.SegmentEnded():
                state = self.segments[record.segment]
                state.phase, state.ended_s, state.ranking = Phase.ENDED, record.t, list(record.ranking)
                if state.opened_s is None:
                    state.opened_s = state.began_s = record.t
                self.open.discard(record.segment)
            case told.TrialDropped():
                self.trials[record.trial].why_dropped = record.why
                for state in map(self.segments.__getitem__, self.open):
                    if record.trial in state.queue:
                        state.queue.remove(record.trial)
            case told.OperationWanted():
                self._start(record)
            case told.OperationEnded() | told.OperationFailed():
                self._end(record)
            case told.Replanned():
                self._follow(record)
            case _:
                super()._apply(record)

    def _start(self, record: told.OperationWanted) -> None:
        state, trial = self.segments[record.segment], self.trials[record.trial]
        self.operations[record.operation] = OperationState(self.operation_of(record), Phase.WANTED, record.t)
        self.payments += self.plan.resources[state.segment.resource].billing is Billing.GPUS
        trial.attempts[record.segment] = record.attempt
        trial.place = record.place
        if state.free and state.free[-1] == record.place:
            state.free.pop()
        else:  # it was placed anew: what others have left is not as it was
            state.free.clear()
        state.queue.remove(record.trial)
        state.running.add(record.operation)

    def _end(self, record: told.OperationEnded | told.OperationFailed) -> None:
        ended = self.operations.pop(record.operation)
        self.past_operations.append(ended)
        operation, ended.end_s = ended.operation, record.t
        state, trial = self.segments[operation.segment], self.trials[operation.trial]
        if isinstance(record, told.OperationEnded):
            ended.phase, ended.busy_s, ended.timings = Phase.ENDED, record.busy_s, record.timings
        else:
            ended.phase, ended.busy_s = Phase.FAILED, record.t - ended.wanted_s
        trial.see_end(record)
        if not (isinstance(record, told.OperationEnded) and record.complete):
            state.queue.appendleft(trial.name)
        state.running.discard(record.operation)
        state.free.append(operation.place)
        state.busy_gpu_s += ended.busy_s * operation.gpus

    def _follow(self, record: told.Replanned) -> None:
        from optplan.instances.parsing import parse_plan

        self.replans.append(record)
        self.plan = parse_plan(record.plan, path="plan")
        begun = {name: each for name, each in self.segments.items() if each.phase is not Phase.WAITING}
        self.segments = {each.id: begun.get(each.id) or SegmentState(each) for each in self.plan.segments}
        for segment in self.plan.segments:
            self.pools.setdefault(segment.pool, set())
