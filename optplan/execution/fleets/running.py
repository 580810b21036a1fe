"""``watch``: follow the fleet of a Srift plan to the end of its job, in a folder from which it can be gone on with.

On the virtual clock VMs boot, train, and are taken back when a course of things says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, cast

from optplan.contracts import Infeasibility
from optplan.contracts.plan import Plan
from optplan.errors import DataError, UsageError, nearest_name_hint
from optplan.execution.fleets.folder import read_iterations
from optplan.execution.fleets.state import NAME, FleetState
from optplan.execution.journal import Kind
from optplan.execution.options import NOTHING_STARTS, FleetOptions
from optplan.execution.protocol import Event, Executor, Observation, Operation
from optplan.execution.records import NodeChanged, NodeNoticed, NodeWanted, OperationEnded, Reported
from optplan.execution.runs import Listener, Outcome, Run
from optplan.execution.state import Phase
from optplan.execution.virtual import ClockExecutor
from optplan.formulations.srift.data.instance import SriftInstance, write_fleet
from optplan.formulations.srift.planning import SriftPlan

#: Heartbeats of all VMs on the virtual clock.
_MOST_BEATS = 1_000_000
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


class FleetOutcome(Outcome):
    """A watched run, as far as it went; on a virtual clock nothing trains."""

    kind: ClassVar[Kind] = "fleet"
    cost_usd: float  #: What its VMs cost, without waiting where the instance says so.
    #: iterations, target: Done, and to do, in all.
    iterations: int
    target: int
    fleets: tuple[str, ...]  #: The fleets that trained, one after the other, as people write them.
    lost: Mapping[str, int]  #: VMs that were lost, by type.
    plan_id: str  #: Of the plan that was followed last.
    checkpoint: str = ""  #: The last one.
    #: Why no fleet keeps the limits, and what each would have to be; None while one does.
    infeasibility: Infeasibility | None = None


def watch(
    plan: SriftPlan,
    *,
    out: Path | str | None = None,
    course: Course | None = None,
    listener: Listener | None = None,
    **options: Any,  # noqa: ANN401 - the fields of FleetOptions
) -> FleetOutcome:
    """Follow the fleet of a plan until its job has ended; where VMs are lost, plan the rest anew and go on.

    Parameters
    ----------
    plan
        Of Srift, with its instance.
    out
        Folder of the run; needed where anything is started.
    course
        On the virtual clock, what happens.
    listener
        Is told of every record.
    **options
        Fields of :class:`FleetOptions`.

    Returns
    -------
    FleetOutcome
        Also where the user is asked: code 3 and what each limit would have to be.

    Raises
    ------
    UsageError
        When the plan does not hold its instance, options do not fit, or the folder holds another run.
    """
    chosen = FleetOptions(**options)
    for name in ("deadline_s", "budget_usd"):
        if getattr(chosen, name) is not None:
            problem = "a fleet begins with the limits of its plan's instance"
            raise UsageError(f"{name}: {problem}; solve that with another one, or give it to go on with")
    if not plan.instance:
        raise UsageError("plan: it does not hold its instance; make it anew with `optplan solve --plan`")
    run = FleetRun(plan, chosen, {} if course is None else asdict(course))
    run.require()
    return run.begin(out, listener)


class FleetRun(Run[SriftPlan, FleetOptions, FleetState, FleetOutcome]):
    """A fleet that is watched; its own is what happens to it on the virtual clock."""

    kind = "fleet"
    options_type = FleetOptions
    rests = False  # a deadline does not wait for a monitor, nor do VMs

    @cached_property
    def course(self) -> Course:
        """What happens on the virtual clock."""
        return Course(**self.own | {"losses": tuple(Loss(**loss) for loss in self.own.get("losses", ()))})

    def require(self) -> None:
        """Raise UsageError or DataError where plan, options and what is to happen do not fit together."""
        super().require()
        types, options = self.state.instance.types, self.options
        for place, unit in enumerate(self.plan.units):
            if unit.type not in types:
                problem = f"is {unit.type!r}, and the plan's instance has no such type of VM"
                raise DataError(f"plan.units.{place}.type", problem, nearest_name_hint(unit.type, types))
        if self.options.is_virtual:
            if options.command:
                raise UsageError(f"command: {NOTHING_STARTS}")
            for loss in self.course.losses:
                if loss.type not in types:  # nothing would happen, without a word
                    hint = nearest_name_hint(loss.type, types)
                    raise UsageError(f"lose: there is no type of VM {loss.type!r}; {hint}")
            self._require_an_end()
            return
        if not options.command:
            raise UsageError(f"command: executor {options.executor!r} needs one; give what it starts")
        if options.executor == "ray" and not options.address:
            raise UsageError("address: VMs of a fleet are machines of a Ray cluster; give its HOST:PORT, or auto")
        if self.own:
            raise UsageError(f"course: what happens is not up to executor {options.executor!r}; leave it out")

    def _require_an_end(self) -> None:
        """Refuse what would keep a virtual clock busy for minutes: too many heartbeats until the end."""
        plan, longest_s = self.plan, max((self.plan.iteration_s, *self.course.iterations_s))
        beats = plan.iterations * longest_s / self.options.heartbeat_s * sum(unit.count for unit in plan.units)
        if beats > _MOST_BEATS:
            problem = f"training that long takes {beats:.3g} of them, more than {_MOST_BEATS:,}"
            raise UsageError(f"heartbeat: {problem}; check the plan's iteration_s, or let VMs tell less often")

    def make_state(self) -> FleetState:
        """Return the state before the first record."""
        return FleetState(self.plan, SriftInstance.parse(self.plan.instance, path="plan.instance"))

    def _make_executor(self) -> Executor:
        options = self.options
        if self.options.is_virtual:
            state, course = self.state, self.course
            place = {} if state.attempt is None else state.attempt.operation.place
            told = {at_s for vm, at_s in state.taken_s.items() if vm not in place}  # nobody waits for these any more
            losses = tuple(loss for loss in course.losses if not (loss.notice_s and loss.at_s in told))
            course = replace(course, losses=losses, launch_s=options.launch_s)
            return VirtualFleet(state.plan, course, heartbeat_s=options.heartbeat_s, now_s=state.t)
        ranks = {unit.type: unit.gpus_per_vm for unit in self.plan.units}
        return self._make_real(ranks, fleet=True)

    def describe(self) -> FleetOutcome:
        """Say how it stands."""
        state = self.state
        name = NAME.format(state.attempts)
        told = 0 if self.journal is None else read_iterations(self.journal.folder, name)
        return FleetOutcome(
            **self._describe_end(),
            cost_usd=state.spent_by(state.t),
            iterations=max(state.iterations, told),
            target=state.instance.iterations,
            fleets=tuple(write_fleet(plan.groups) for plan in state.followed),
            lost=state.count(Phase.LOST),
            plan_id=state.plan.plan_id,
            checkpoint="" if state.checkpoint is None else state.checkpoint.stored,
            infeasibility=state.question,
        )


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
        operation = training.operation
        if self._gone.isdisjoint(operation.place):
            training.since_s = max(self.now_s(), training.boots_s)
            takes_s = ((operation.to_iterations or 0) - operation.from_iterations) * training.iteration_s
            self._plan_for(training.since_s + takes_s - training.trained_s, self._finish, training)

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
