"""Fleets on the virtual clock: VMs that boot, train, and are taken back when the script says so."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from optplan.errors import UsageError
from optplan.execution.clock import VirtualClock
from optplan.execution.fleets.protocol import Fleet, FleetRequest, Notice, Report

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
    """A fleet on the virtual clock."""

    request: FleetRequest
    vm_of: dict[int, str]
    iteration_s: float
    ready_s: float = math.inf
    #: When the first of its VMs went, from which on nothing is trained.
    broken_s: float = math.inf
    joined: set[str] = field(default_factory=set)
    is_told: bool = False

    def done_at(self, now_s: float) -> int:
        """Return the iterations that are done in all."""
        trained_s = max(0.0, min(now_s, self.broken_s) - self.ready_s)
        done = self.request.from_iterations + math.floor(trained_s / self.iteration_s + _ROUNDING)
        return min(done, self.request.to_iterations)


class VirtualFleet(Fleet):
    """Trains on a clock that jumps, and lets a course of things happen."""

    is_virtual = True

    def __init__(self, course: Course, now_s: float = 0.0) -> None:
        self._course = course
        # What happens, each thing as a function that makes it happen.
        self._clock: VirtualClock[partial[None]] = VirtualClock(now_s)
        self._heard: list[Report | Notice] = []
        self._training: _Training | None = None
        self._gone: set[str] = set()
        self._going: set[str] = set()
        for loss in sorted(course.losses, key=lambda loss: loss.at_s):
            self._clock.schedule(loss.at_s - loss.notice_s, partial(self._announce, loss))

    def now_s(self) -> float:
        """Return what the clock shows."""
        return self._clock.now

    def start(self, request: FleetRequest) -> None:
        """Let the fleet's VMs boot and its ranks train as soon as all are there."""
        if self._training is not None and self._training.request.number == request.number:
            return
        course, index = self._course, request.number - 1
        iteration_s = course.iterations_s[index] if index < len(course.iterations_s) else request.plan.iteration_s
        vm_of = {role["rank"]: role["vm"] for role in request.roles()}
        self._training = _Training(request, vm_of, iteration_s)
        planned_s = request.plan.launch_s if course.launch_s is None else course.launch_s
        boot_s = course.boots_s[index] if index < len(course.boots_s) else planned_s
        for vm in request.place:
            after_s = boot_s if vm in request.started else 0.0
            self._clock.schedule(self.now_s() + after_s, partial(self._join, request.number, vm))

    def ask(self, number: int, order: int, rank: int) -> None:
        """Let a rank store what is done, which takes no time."""
        training = self._of(number)
        if training is not None and training.vm_of[rank] not in self._gone:
            done = training.done_at(self.now_s())
            self._heard.append(Report(number, rank, self.now_s(), done, stored=f"iteration-{done}", order=order))

    def stop(self, number: int) -> None:
        """Let the ranks end at once."""
        training = self._of(number)
        if training is not None:
            training.is_told = True
            for vm in training.request.place:
                self._leave(training, vm)

    def _leave(self, training: _Training, vm: str) -> None:
        """Let the ranks of a VM end, where it is there."""
        if vm not in self._gone:
            ranks = (rank for rank, at in training.vm_of.items() if at == vm)
            self._heard += [Report(training.request.number, rank, self.now_s(), left=True) for rank in ranks]

    def end(self, number: int) -> None:
        """Forget the fleet."""
        if self._of(number) is not None:
            self._training = None

    def release(self) -> None:
        """Forget everything."""
        self._training = None

    def poll(self, until_s: float) -> list[Report | Notice]:
        """Return what is heard next; raise UsageError when nothing will ever happen again."""
        while not self._heard:
            happening = self._clock.advance(until_s)
            if happening is None:
                if math.isinf(until_s):
                    raise UsageError("losses: the fleet never gets the VMs that it waits for")
                self._clock.now = max(self._clock.now, until_s)
                return []
            happening()
        heard, self._heard = self._heard, []
        return heard

    def _of(self, number: int) -> _Training | None:
        training = self._training
        return training if training is not None and training.request.number == number else None

    def _join(self, number: int, vm: str) -> None:
        training = self._of(number)
        if training is None or vm in self._gone:
            return
        training.joined.add(vm)
        if training.joined == set(training.request.place):
            training.ready_s = self.now_s()
            left = training.request.to_iterations - training.request.from_iterations
            self._clock.schedule(self.now_s() + left * training.iteration_s, partial(self._finish, number))
        self._beat(number, vm)

    def _beat(self, number: int, vm: str) -> None:
        training = self._of(number)
        if training is None or vm in self._gone:
            return
        done = training.done_at(self.now_s())
        self._heard += [Report(number, rank, self.now_s(), done) for rank, at in training.vm_of.items() if at == vm]
        self._clock.schedule(self.now_s() + training.request.heartbeat_s, partial(self._beat, number, vm))

    def _finish(self, number: int) -> None:
        training = self._of(number)
        if training is not None and math.isinf(training.broken_s):
            done = training.request.to_iterations
            self._heard += [Report(number, rank, self.now_s(), done, ended=True, left=True) for rank in training.vm_of]

    def _announce(self, loss: Loss) -> None:
        """Say that a VM will go; and let it go when its time has come."""
        places = () if self._training is None else self._training.request.place
        vms = [vm for vm in places if vm.startswith(f"{loss.type}.vm-") and vm not in self._going]
        if not vms:
            return
        self._going.add(vms[-1])
        if loss.notice_s:
            self._heard.append(Notice(vms[-1], loss.at_s))
        self._clock.schedule(loss.at_s, partial(self._lose, vms[-1], loss.back_s))

    def _return(self, vm: str) -> None:
        """Let a VM that has stalled go on: its ranks report, and end where they were told to."""
        self._gone.discard(vm)
        self._going.discard(vm)
        training = self._training
        if training is None or vm not in training.request.place:
            return
        if training.is_told:
            self._leave(training, vm)
        else:
            self._beat(training.request.number, vm)

    def _lose(self, vm: str, back_s: float) -> None:
        self._gone.add(vm)
        if math.isfinite(back_s):
            self._clock.schedule(self.now_s() + back_s, partial(self._return, vm))
        if self._training is not None and vm in self._training.request.place:
            self._training.broken_s = min(self._training.broken_s, self.now_s())
