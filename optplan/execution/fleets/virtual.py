"""Fleets on the virtual clock: VMs that boot, train, and are taken back when the script says so."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from optplan.contracts.plan import Plan
from optplan.errors import UsageError
from optplan.execution.protocol import Event, Observation, Operation
from optplan.execution.records import NodeChanged, NodeNoticed, NodeWanted, OperationEnded, Reported
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
    #: When its new VMs have booted; how long it has trained, and since when it does again: while all VMs are there.
    boots_s: float
    trained_s: float = 0.0
    since_s: float = math.inf
    is_told: bool = False
    #: The VMs whose ranks have ended.
    left: set[str] = field(default_factory=set)

    @property
    def takes_s(self) -> float:
        return ((self.operation.to_iterations or 0) - self.operation.from_iterations) * self.iteration_s

    def trained_by(self, now_s: float) -> float:
        return self.trained_s + max(0.0, now_s - self.since_s)

    def done_at(self, now_s: float) -> int:
        done = self.operation.from_iterations + math.floor(self.trained_by(now_s) / self.iteration_s + _ROUNDING)
        return min(done, self.operation.to_iterations or done)


class VirtualFleet(ClockExecutor):
    """Trains on a clock that jumps, and lets a course of things happen; without a word, new VMs boot as planned."""

    def __init__(self, plan: SriftPlan, course: Course, *, heartbeat_s: float, now_s: float = 0.0) -> None:
        super().__init__(now_s)
        self._plan, self._course, self._heartbeat_s = plan, course, heartbeat_s
        #: The fleets that train, by name; and the VMs that have gone, or will as announced.
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
                while self._clock.next_at <= now_s:
                    past += super().poll(now_s)
        self._clock.now = now_s
        self._hear(*past)
        return Observation(frozenset(self._nodes), frozenset(self._running))

    def ensure_nodes(self, requests: Sequence[NodeWanted]) -> None:
        """Ask for VMs: ranks may be started for them, which report once they have booted."""
        for request in requests:
            if request.node not in self._nodes:
                self._nodes[request.node] = self._hear(NodeChanged(self.now_s(), request.node, Phase.READY))

    def start(self, operation: Operation) -> None:
        """Let the fleet's new VMs boot, and its ranks train as soon as all are there."""
        if operation.id in self._running:
            return
        course, index, plan = self._course, operation.attempt - 1, self._plan
        iteration_s = course.iterations_s[index] if index < len(course.iterations_s) else plan.iteration_s
        planned_s = plan.launch_s if course.launch_s is None else course.launch_s
        boot_s = course.boots_s[index] if index < len(course.boots_s) else planned_s
        boots_s = operation.wanted_s + (boot_s if operation.started else 0.0)
        training = self._running[operation.id] = _Training(operation, iteration_s, boots_s)
        for vm in operation.place:
            self._plan_for(boots_s if vm in operation.started else operation.wanted_s, self._beat, operation.id, vm)
        self._train(training)

    def ask(self, operation: str, order: int, rank: int) -> None:
        """Let a rank store what is done, which takes no time."""
        training = self._running.get(operation)
        if training is not None and any(
            rank in ranks for vm, ranks in training.operation.ranks.items() if vm not in self._gone
        ):
            done = training.done_at(self.now_s())
            self._hear(Reported(self.now_s(), operation, rank, done, stored=f"iteration-{done}", order=order))

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
                self._plan_for(self.now_s() + grace_s, self._end, operation)

    def poll(self, until_s: float) -> list[Event]:
        """Return what is heard next; raise UsageError when nothing will ever happen again."""
        if math.isinf(until_s) and not len(self._clock):
            raise UsageError("losses: the fleet never gets the VMs that it waits for")
        return super().poll(until_s)

    # ---------------------------------------------------------------------------------------------------- what happens

    def _happen(self, what: partial[None]) -> list[Event]:
        what()
        return []

    def _plan_for(self, at_s: float, what: Callable[..., None], *of: object) -> None:
        """Let something happen at a time."""
        self._clock.schedule(at_s, partial(what, *of))

    def _hear(self, *events: Event) -> list[int]:
        return [self._clock.schedule(self.now_s(), event) for event in events]

    def _say(self, training: _Training, vm: str, **said: Any) -> None:  # noqa: ANN401 - its fields
        """Let the ranks of a VM report how far the training is, and what else they say."""
        now_s, done, name = self.now_s(), training.done_at(self.now_s()), training.operation.id
        self._hear(*(Reported(now_s, name, rank, done, **said) for rank in training.operation.ranks[vm]))

    def _expect(self, from_s: float, until_s: float) -> None:
        """Let VMs go that are taken back, as is said between two times."""
        for loss in sorted(self._course.losses, key=lambda loss: loss.at_s):
            told_s = max(0.0, loss.at_s - loss.notice_s)
            if from_s <= told_s < until_s:
                self._plan_for(told_s, self._announce, loss)

    def _beat(self, name: str, vm: str) -> None:
        training = self._running.get(name)
        if training is not None and not training.is_told and vm not in self._gone:
            self._say(training, vm)
            self._plan_for(self.now_s() + self._heartbeat_s, self._beat, name, vm)

    def _train(self, training: _Training) -> None:
        """Let a fleet train from now on, or from when its VMs have booted, unless one of them is gone."""
        if self._gone.isdisjoint(training.operation.place):
            training.since_s = max(self.now_s(), training.boots_s)
            self._plan_for(training.since_s + training.takes_s - training.trained_s, self._finish, training)

    def _finish(self, training: _Training) -> None:
        is_done = training.done_at(self.now_s()) == training.operation.to_iterations
        if is_done and not training.is_told and training.operation.id in self._running:
            for vm in training.operation.place:
                self._say(training, vm, ended=True, left=True)
            self._end(training.operation.id)

    def _leave(self, training: _Training, vm: str) -> None:
        """Let the ranks of a VM end, where it is there; with the last ones the fleet has ended."""
        if vm not in self._gone | training.left:
            self._say(training, vm, left=True)
            training.left.add(vm)
            if len(training.left) == len(training.operation.place):
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
        if vms:
            self._going.add(vms[-1])
            if loss.notice_s:
                self._hear(NodeNoticed(self.now_s(), vms[-1], loss.at_s))
            self._plan_for(loss.at_s, self._lose, vms[-1], loss.back_s)

    def _lose(self, vm: str, back_s: float) -> None:
        self._gone.add(vm)
        if math.isfinite(back_s):
            self._plan_for(self.now_s() + back_s, self._return, vm)
        for training in self._running.values():
            if vm in training.operation.place:
                training.trained_s, training.since_s = training.trained_by(self.now_s()), math.inf

    def _return(self, vm: str) -> None:
        """Let a VM that has stalled go on: its ranks report, and end where they were told to."""
        self._gone.discard(vm)
        self._going.discard(vm)
        for training in [each for each in self._running.values() if vm in each.operation.place]:
            if training.is_told:
                self._leave(training, vm)
            else:
                self._train(training)
                self._beat(training.operation.id, vm)
