"""``watch``: follow the fleet of a Srift plan to the end of its job, in a folder from which it can be gone on with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar

from optplan.contracts import Infeasibility
from optplan.errors import DataError, UsageError, nearest_name_hint
from optplan.execution.fleets.folder import read_iterations
from optplan.execution.fleets.state import NAME, FleetState
from optplan.execution.fleets.virtual import Course, Loss, VirtualFleet
from optplan.execution.journal import Kind
from optplan.execution.options import NOTHING_STARTS, FleetOptions
from optplan.execution.protocol import Executor
from optplan.execution.runs import Listener, Outcome, Run
from optplan.execution.state import Phase
from optplan.formulations.srift.data.instance import SriftInstance, write_fleet
from optplan.formulations.srift.planning import SriftPlan

#: Heartbeats of all VMs on the virtual clock.
_MOST_BEATS = 1_000_000


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
    course: Course | None = None

    def _understand(self) -> None:
        if self.own:
            losses = tuple(Loss(**loss) for loss in self.own["losses"])
            self.course = Course(**{**self.own, "losses": losses})

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
            for loss in () if self.course is None else self.course.losses:
                if loss.type not in types:  # nothing would happen, without a word
                    hint = nearest_name_hint(loss.type, types)
                    raise UsageError(f"lose: there is no type of VM {loss.type!r}; {hint}")
            _require_an_end(self.plan, options, self.course)
            return
        if not options.command:
            raise UsageError(f"command: executor {options.executor!r} needs one; give what it starts")
        if options.executor == "ray" and not options.address:
            raise UsageError("address: VMs of a fleet are machines of a Ray cluster; give its HOST:PORT, or auto")
        if self.course is not None:
            raise UsageError(f"course: what happens is not up to executor {options.executor!r}; leave it out")

    def make_state(self) -> FleetState:
        """Return the state before the first record."""
        return FleetState(self.plan, SriftInstance.parse(self.plan.instance, path="plan.instance"))

    def _make_executor(self) -> Executor:
        options = self.options
        if self.options.is_virtual:
            state, course = self.state, self.course or Course()
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


def _require_an_end(plan: SriftPlan, options: FleetOptions, course: Course | None) -> None:
    """Refuse what would keep a virtual clock busy for minutes: too many heartbeats until the end."""
    longest_s = max((plan.iteration_s, *(() if course is None else course.iterations_s)))
    beats = plan.iterations * longest_s / options.heartbeat_s * sum(unit.count for unit in plan.units)
    if beats > _MOST_BEATS:
        problem = f"training that long takes {beats:.3g} of them, more than {_MOST_BEATS:,}"
        raise UsageError(f"heartbeat: {problem}; check the plan's iteration_s, or let VMs tell less often")
