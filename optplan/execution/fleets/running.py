"""``watch``: follow the fleet of a Srift plan to the end of its job, in a folder from which it can be gone on with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from optplan.contracts import Infeasibility
from optplan.errors import DataError, UsageError, nearest_name_hint
from optplan.execution.fleets.executors import make_fleet
from optplan.execution.fleets.monitor import Listener, Monitor
from optplan.execution.fleets.protocol import Fleet
from optplan.execution.fleets.state import FleetState
from optplan.execution.fleets.terms import WatchOptions, write_fleet
from optplan.execution.fleets.virtual import Course, VirtualFleet
from optplan.execution.journal import Beginning, Journal
from optplan.execution.options import require_effect
from optplan.execution.records import LimitsChanged, Record, Resumed
from optplan.execution.run_state import Phase
from optplan.execution.running import interruptible
from optplan.formulations.srift.data.instance import SriftInstance, VmType
from optplan.formulations.srift.planning import SriftPlan
from optplan.schema import FrozenModel

#: Heartbeats of all VMs on the virtual clock.
_MOST_BEATS = 1_000_000


class FleetOutcome(FrozenModel):
    """A watched run, as far as it went.

    Parameters
    ----------
    virtual
        Whether it was watched on a virtual clock, on which nothing trains.
    status, code
        ``ended``, ``paused`` or ``running``, and the exit code.
    why
        Why it ended before its end, or waits.
    time_s, cost_usd
        Until it ended, or until its last record; and what its VMs cost, without waiting where the instance says so.
    iterations, target
        Done, and to do, in all.
    fleets
        The fleets that trained, one after the other, as people write them.
    lost
        VMs that were lost, by type.
    plan_id
        Of the plan that was followed last.
    checkpoint
        The last one.
    infeasibility
        Why no fleet keeps the limits, and what each would have to be; None while one does.
    """

    virtual: bool = False
    status: Literal["ended", "paused", "running"]
    code: int
    why: str = ""
    time_s: float
    cost_usd: float
    iterations: int
    target: int
    fleets: tuple[str, ...]
    lost: Mapping[str, int]
    plan_id: str
    checkpoint: str = ""
    infeasibility: Infeasibility | None = None


def watch(
    plan: SriftPlan,
    *,
    out: Path | str | None = None,
    course: Course | None = None,
    listener: Listener | None = None,
    **options: Any,  # noqa: ANN401 - the fields of WatchOptions
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
        Fields of :class:`WatchOptions`.

    Returns
    -------
    FleetOutcome
        Also where the user is asked: code 3 and what each limit would have to be.

    Raises
    ------
    UsageError
        When the plan does not hold its instance, options do not fit, or the folder holds another run.
    """
    chosen = WatchOptions(**options)
    _check(plan, chosen, out, course)
    if out is None:
        return _Watch(plan, chosen, None, course).run(listener)
    with Journal(Path(out)) as journal:
        if journal.beginning is not None:
            raise UsageError(f"{out}: a run is there; go on with --resume {out}, or give another folder")
        journal.begin(Beginning("fleet", plan.to_json_data(), chosen.to_json_data(), {}), [])
        return _Watch(plan, chosen, journal, course).run(listener)


def resume_watch(
    out: Path | str,
    *,
    limits: Mapping[str, float] | None = None,
    abort: bool = False,
    listener: Listener | None = None,
) -> FleetOutcome:
    """Go on with a run whose monitor is gone, or that waits for an answer.

    Parameters
    ----------
    out
        Its folder.
    limits
        From now on: ``deadline`` in seconds since the beginning, ``budget`` in US dollars.
    abort
        Whether to give up: everything is given back.
    listener
        Is told of every record from now on.

    Raises
    ------
    UsageError
        When no such run is there, or another monitor follows it.
    """
    with Journal(Path(out), begun=True) as journal:
        return _read(journal).run(listener, limits=limits or {}, abort=abort, resumed=True)


def read_watch(out: Path | str) -> FleetOutcome:
    """Describe the run in a folder, whether or not a monitor follows it."""
    with Journal(Path(out), writable=False) as journal:
        return _read(journal).describe()


def _check(plan: SriftPlan, options: WatchOptions, out: object, course: Course | None) -> None:
    looked_at = {**dict.fromkeys(("sbatch", "gres"), ("slurm",)), "address": ("ray",)}
    require_effect(options, options.executor, looked_at, {})
    if options.executor == "ray" and not options.address:
        raise UsageError("address: VMs of a fleet are machines of a Ray cluster; give its HOST:PORT, or auto")
    if not plan.instance:
        raise UsageError("plan: it does not hold its instance; make it anew with `optplan solve --plan`")
    types = SriftInstance.parse(plan.instance, path="plan.instance").types
    for place, unit in enumerate(plan.units):
        if unit.type not in types:
            problem = f"is {unit.type!r}, and the plan's instance has no such type of VM"
            raise DataError(f"plan.units.{place}.type", problem, nearest_name_hint(unit.type, types))
    if options.executor == "virtual":
        _check_losses(types, course)
        _require_an_end(plan, options, course)
        return
    if not options.command:
        raise UsageError(f"command: executor {options.executor!r} needs one; give what it starts")
    if out is None:
        raise UsageError("out: a folder is needed in which ranks report")
    if course is not None:
        raise UsageError(f"course: what happens is not up to executor {options.executor!r}; leave it out")


def _check_losses(types: Mapping[str, VmType], course: Course | None) -> None:
    """Refuse to lose VMs of a type that no fleet of the run can have: nothing would happen, without a word."""
    for loss in () if course is None else course.losses:
        if loss.type not in types:
            raise UsageError(f"lose: there is no type of VM {loss.type!r}; {nearest_name_hint(loss.type, types)}")


def _require_an_end(plan: SriftPlan, options: WatchOptions, course: Course | None) -> None:
    """Refuse what would keep a virtual clock busy for minutes: too many heartbeats until the end."""
    longest_s = max((plan.iteration_s, *(() if course is None else course.iterations_s)))
    beats = plan.iterations * longest_s / options.heartbeat_s * sum(unit.count for unit in plan.units)
    if beats > _MOST_BEATS:
        problem = f"training that long takes {beats:.3g} of them, more than {_MOST_BEATS:,}"
        raise UsageError(f"heartbeat: {problem}; check the plan's iteration_s, or let VMs tell less often")


def _read(journal: Journal) -> _Watch:
    beginning = journal.require("fleet")
    plan = SriftPlan.parse(beginning.plan, path="plan")
    return _Watch(plan, WatchOptions.parse(beginning.options, path="options"), journal, None)


class _Watch:
    """What a run is made from."""

    def __init__(self, plan: SriftPlan, options: WatchOptions, journal: Journal | None, course: Course | None) -> None:
        self._options, self._journal, self._course = options, journal, course
        instance = SriftInstance.parse(plan.instance, path="plan.instance")
        self.state = FleetState(plan, instance)
        for record in () if journal is None else journal.replay():
            self.state.apply(record)

    def describe(self) -> FleetOutcome:
        """Say how it stands."""
        from optplan.execution.fleets.folder import read_iterations

        state = self.state
        told = 0 if self._journal is None else read_iterations(self._journal.folder, state.attempts)
        return FleetOutcome(
            virtual=self._options.executor == "virtual",
            status=state.status,
            code=state.code,
            why="" if state.end is None else state.end.why,
            time_s=state.t,
            cost_usd=state.spent_by(state.t),
            iterations=max(state.iterations, told),
            target=state.instance.iterations,
            fleets=tuple(write_fleet(plan) for plan in state.followed),
            lost=state.count(Phase.LOST),
            plan_id=state.plan.plan_id,
            checkpoint="" if state.checkpoint is None else state.checkpoint.path,
            infeasibility=state.question,
        )

    def run(
        self,
        listener: Listener | None,
        *,
        limits: Mapping[str, float] | None = None,
        abort: bool = False,
        resumed: bool = False,
    ) -> FleetOutcome:
        """Watch it."""
        if self.state.ended is not None:
            return self.describe()
        fleet = self._make_fleet()
        monitor = Monitor(self.state, self._options, fleet, journal=self._journal, listener=listener)
        if resumed:
            records: Sequence[Record] = [Resumed(fleet.now_s())]
            if limits:
                records = [*records, LimitsChanged(fleet.now_s(), dict(limits))]
            monitor.write(*records)
        try:
            with interruptible(monitor.interrupt):
                if abort:
                    monitor.abort()
                else:
                    monitor.follow()
        finally:
            fleet.close()
        return self.describe()

    def _make_fleet(self) -> Fleet:
        options, journal = self._options, self._journal
        if options.executor == "virtual":
            if self.state.t:
                raise UsageError("--resume: what happens on the virtual clock is not kept; begin anew")
            return VirtualFleet(replace(self._course or Course(), launch_s=options.launch_s))
        if journal is None:
            raise UsageError("out: a folder is needed in which ranks report")
        now_s = self.state.t
        if self.state.nodes:  # a deadline does not wait for a monitor
            now_s += journal.idle_s()
        return make_fleet(options, journal.folder, now_s=now_s)
