"""Fleets on the virtual clock: VMs that boot, train, and are taken back when the script says so."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from optplan.contracts.plan import Plan
from optplan.errors import UsageError
from optplan.execution.protocol import Event, Observation, Operation, Reported
from optplan.execution.records import NodeChanged, NodeNoticed, NodeWanted, OperationEnded
from optplan.execution.state import Phase
from optplan.execution.virtual import ClockExecutor
from optplan.formulations.srift.planning import SriftPlan

#: An iteration that is due now is done, whatever the last bit says.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Loss:
    """A VM that is taken back."""

    type: str  #: Of the VM; the last one of the type that is there goes.
    at_s: float  #: When, on the run's clock.
    notice_s: float = 0.0  #: How long ahead the provider says so; 0: not at all.
    back_s: float = math.inf  #: Seconds after which it is there again, as it had only stalled.


@dataclass(frozen=True)
class Course:
    """What happens."""

    losses: Sequence[Loss] = ()  #: VMs that are taken back.
    #: boots_s, iterations_s: Of each fleet, in their order: until its new VMs are there, and seconds of an iteration;
    #: others as planned.
    boots_s: Sequence[float] = ()
    iterations_s: Sequence[float] = ()
    launch_s: float | None = None  #: Until new VMs are there where ``boots_s`` does not say.


@dataclass
class _Training:
    operation: Operation
    iteration_s: float
    heartbeat_s: float
    #: When it trains; and when the first of its VMs went, from which on nothing is trained.
    ready_s: float = math.inf
    broken_s: float = math.inf
    joined: set[str] = field(default_factory=set)
    is_told: bool = False
    #: The ranks whose processes have ended.
    left: set[int] = field(default_factory=set)

    @property
    def vm_of(self) -> dict[int, str]:
        return dict(enumerate(vm for vm, ranks in self.operation.place.items() for _ in range(ranks)))

    def done_at(self, now_s: float) -> int:
        trained_s = max(0.0, min(now_s, self.broken_s) - self.ready_s)
        done = self.operation.from_iterations + math.floor(trained_s / self.iteration_s + _ROUNDING)
        return min(done, self.operation.to_iterations or done)


class VirtualFleet(ClockExecutor):
    """Trains on a clock that jumps, and lets a course of things happen; without a word, new VMs boot as planned."""

    def __init__(self, plan: SriftPlan, course: Course, *, heartbeat_s: float, now_s: float = 0.0) -> None:
        super().__init__(now_s)
        self._plan, self._course, self._heartbeat_s = plan, course, heartbeat_s
        #: When each VM was asked for; the fleet that trains, by its name; and who has gone, or will as announced.
        self._wanted_s: dict[str, float] = {}
        self._running: dict[str, _Training] = {}
        self._gone: set[str] = set()
        self._going: set[str] = set()
        self._expect(now_s, math.inf)

    def adopt(self, plan: Plan) -> None:
        """Take times from another plan, for what is started from now on."""
        self._plan = cast("SriftPlan", plan)

    def observe(self, nodes: Sequence[NodeWanted], operations: Sequence[Operation]) -> Observation:
        """Go on with what an earlier monitor asked for: everything takes what it would have taken."""
        self.ensure_nodes(nodes)
        now_s, past = self._clock.now, list[Any]()
        for operation in operations:
            if operation.id not in self._running:
                self._clock.now = operation.wanted_s
                self.start(operation)
                self._expect(operation.wanted_s, now_s)
                while (item := self._clock.advance(now_s)) is not None:
                    past += self._happen(item) if isinstance(item, partial) else [item]
        self._clock.now = now_s
        self._hear(*past)
        return Observation(frozenset(self._nodes), frozenset(self._running))

    def ensure_nodes(self, requests: Sequence[NodeWanted]) -> None:
        """Ask for VMs: ranks may be started for them, which report once they have booted."""
        for request in requests:
            if request.node not in self._nodes:
                self._wanted_s[request.node] = request.t
                self._nodes[request.node] = self._hear(NodeChanged(self.now_s(), request.node, Phase.READY))

    def start(self, operation: Operation) -> None:
        """Let the fleet's new VMs boot, and its ranks train as soon as all are there."""
        if operation.id in self._running:
            return
        course, index, plan = self._course, operation.attempt - 1, self._plan
        iteration_s = course.iterations_s[index] if index < len(course.iterations_s) else plan.iteration_s
        self._running[operation.id] = _Training(operation, iteration_s, self._heartbeat_s)
        planned_s = plan.launch_s if course.launch_s is None else course.launch_s
        boot_s = course.boots_s[index] if index < len(course.boots_s) else planned_s
        for vm in operation.place:
            after_s = boot_s if self._wanted_s.get(vm, operation.wanted_s) == operation.wanted_s else 0.0
            self._clock.schedule(operation.wanted_s + after_s, partial(self._join, operation.id, vm))

    def ask(self, operation: str, order: int, rank: int) -> None:
        """Let a rank store what is done, which takes no time."""
        training = self._running.get(operation)
        if training is not None and training.vm_of[rank] not in self._gone:
            done = training.done_at(self.now_s())
            self._hear(self._say(training, rank, done, stored=f"iteration-{done}", order=order))

    def stop(self, operation: str, grace_s: float) -> None:
        """Let the ranks end at once; those of VMs that are gone are not waited for beyond the grace."""
        training = self._running.get(operation)
        if training is not None:
            training.is_told = True
            for vm in training.operation.place:
                self._leave(training, vm)
            if grace_s <= 0:
                self._end(operation)
            else:
                self._clock.schedule(self.now_s() + grace_s, partial(self._end, operation))

    def poll(self, until_s: float) -> list[Event]:
        """Return what is heard next; raise UsageError when nothing will ever happen again."""
        if math.isinf(until_s) and not len(self._clock):
            raise UsageError("losses: the fleet never gets the VMs that it waits for")
        return super().poll(until_s)

    # ---------------------------------------------------------------------------------------------------- what happens

    def _happen(self, what: partial[None]) -> list[Event]:
        what()
        return []

    def _hear(self, *events: Event) -> list[int]:
        return [self._clock.schedule(self.now_s(), event) for event in events]

    def _expect(self, from_s: float, until_s: float) -> None:
        """Let VMs go that are taken back, as is said between two times."""
        for loss in sorted(self._course.losses, key=lambda loss: loss.at_s):
            told_s = max(0.0, loss.at_s - loss.notice_s)
            if from_s <= told_s < until_s:
                self._clock.schedule(told_s, partial(self._announce, loss))

    def _say(self, training: _Training, rank: int, done: int, **said: Any) -> Reported:  # noqa: ANN401 - its fields
        return Reported(self.now_s(), training.operation.id, rank, done, **said)

    def _join(self, name: str, vm: str) -> None:
        training = self._running.get(name)
        if training is None or vm in self._gone:
            return
        training.joined.add(vm)
        if training.joined == set(training.operation.place):
            training.ready_s = self.now_s()
            left = (training.operation.to_iterations or 0) - training.operation.from_iterations
            self._clock.schedule(self.now_s() + left * training.iteration_s, partial(self._finish, name))
        self._beat(name, vm)

    def _beat(self, name: str, vm: str) -> None:
        training = self._running.get(name)
        if training is None or training.is_told or vm in self._gone:
            return
        done = training.done_at(self.now_s())
        self._hear(*(self._say(training, rank, done) for rank, at in training.vm_of.items() if at == vm))
        self._clock.schedule(self.now_s() + training.heartbeat_s, partial(self._beat, name, vm))

    def _finish(self, name: str) -> None:
        training = self._running.get(name)
        if training is not None and not training.is_told and math.isinf(training.broken_s):
            done = training.operation.to_iterations or 0
            self._hear(*(self._say(training, rank, done, ended=True, left=True) for rank in training.vm_of))
            self._end(name)

    def _leave(self, training: _Training, vm: str) -> None:
        """Let the ranks of a VM end, where it is there; with the last ones the fleet has ended."""
        if vm not in self._gone:
            ranks = [rank for rank, at in training.vm_of.items() if at == vm and rank not in training.left]
            self._hear(*(self._say(training, rank, training.done_at(self.now_s()), left=True) for rank in ranks))
            training.left.update(ranks)
            if len(training.left) == len(training.vm_of):
                self._end(training.operation.id)

    def _end(self, name: str) -> None:
        """Let nothing of a fleet be there any more, and say so."""
        training = self._running.pop(name, None)
        if training is not None:
            now_s, operation = self.now_s(), training.operation
            done = training.done_at(now_s)
            busy_s, complete = now_s - operation.wanted_s, done == operation.to_iterations
            self._hear(OperationEnded(now_s, name, done, {}, None, busy_s, complete))

    def _announce(self, loss: Loss) -> None:
        places = [vm for training in self._running.values() for vm in training.operation.place]
        vms = [vm for vm in places if vm.startswith(f"{loss.type}.vm-") and vm not in self._going]
        if not vms:
            return
        self._going.add(vms[-1])
        if loss.notice_s:
            self._hear(NodeNoticed(self.now_s(), vms[-1], loss.at_s))
        self._clock.schedule(loss.at_s, partial(self._lose, vms[-1], loss.back_s))

    def _return(self, vm: str) -> None:
        """Let a VM that has stalled go on: its ranks report, and end where they were told to."""
        self._gone.discard(vm)
        self._going.discard(vm)
        for training in list(self._running.values()):
            if vm not in training.operation.place:
                continue
            if training.is_told:
                self._leave(training, vm)
            else:
                self._beat(training.operation.id, vm)

    def _lose(self, vm: str, back_s: float) -> None:
        self._gone.add(vm)
        if math.isfinite(back_s):
            self._clock.schedule(self.now_s() + back_s, partial(self._return, vm))
        for training in self._running.values():
            if vm in training.operation.place:
                training.broken_s = min(training.broken_s, self.now_s())
