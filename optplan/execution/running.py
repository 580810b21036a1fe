"""``run``: follow a plan of a search or of one job on an executor, in a folder from which it can be resumed.

What it came to: the winner, time and cost, and what was planned beside what happened, segment by segment.
"""

from __future__ import annotations

import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from pydantic import Field

from optplan.contracts.plan import Plan, UnitKind, require_size
from optplan.errors import DataError, UsageError, nearest_name_hint
from optplan.execution.folders import tell_step_limit
from optplan.execution.journal import Kind
from optplan.execution.options import Rules, SearchOptions, draw_configurations
from optplan.execution.protocol import Executor
from optplan.execution.records import Began, Noted, Record
from optplan.execution.runs import Listener, Outcome, Run, name_training
from optplan.execution.scheduler import Scheduler, list_trials
from optplan.execution.standing import Replanner, segment_usd, spent_usd
from optplan.execution.state import SegmentState, State
from optplan.schema import FrozenModel


class Winner(FrozenModel):
    """The best trial."""

    #: trial, configuration: Its name and what it tried.
    trial: str
    configuration: dict[str, Any]
    metric: float | None  #: What it showed last; None where that is no number.
    iterations: int  #: That it has done.
    checkpoint: str | None = None  #: Where its state is stored, relative to the run's folder; None where it is not.


class SegmentOutcome(FrozenModel):
    """A segment as planned and as it went."""

    #: id, label: Which.
    id: str
    label: str
    trials: int  #: How many it had.
    #: planned_start_s, actual_start_s: When it opens, since the run began; None where it has not. On a virtual clock
    #: that follows the plan nothing is actual; on one that is to differ from it, this and the following are what the
    #: clock showed.
    planned_start_s: float = 0.0
    actual_start_s: float | None = None
    #: planned_s, actual_s: Seconds from its opening to its end; None where it has not ended.
    planned_s: float
    actual_s: float | None = None
    #: planned_pause_s, actual_pause_s: Of these, before its first trial was started.
    planned_pause_s: float
    actual_pause_s: float | None = None
    #: start_s, iteration_s: Measured means: seconds until a trial's first iteration after its start, and of an
    #: iteration; None where nothing was measured.
    start_s: float | None = None
    iteration_s: float | None = None
    planned_iteration_s: float | None = None  #: What the plan took an iteration for.
    #: planned_usd, actual_usd: Cost.
    planned_usd: float | None = None
    actual_usd: float | None = None
    late_s: float | None = None  #: By how much it ended after its time was up; None where the clock does not end it.
    failures: int = 0  #: How often a trial of it failed.


class Replan(FrozenModel):
    """When the rest was planned anew, the plan that is followed since, and why."""

    t: float
    plan_id: str
    why: str


class RunOutcome(Outcome):
    """What the run of a search or of one job came to."""

    kind: ClassVar[Kind] = "search"
    trained: bool = True  #: Whether anything was trained; where nothing was, there is no winner.
    #: plan_id, plans: The plan that was followed last, and all of them in their order.
    plan_id: str
    plans: tuple[str, ...] = ()
    replans: tuple[Replan, ...] = ()  #: When the rest was planned anew, and why.
    winner: Winner | None = None  #: The best trial; None while there is none.
    best: Winner | None = None  #: The best trial so far of a run that has not ended.
    cost_usd: float | None = None  #: What it cost; None where prices are not known.
    #: planned_s, planned_usd: What the first plan expected.
    planned_s: float | None = None
    planned_usd: float | None = None
    #: trials, failed: How many began, and those that were given up, with the reason.
    trials: int
    failed: dict[str, str] = Field(default_factory=dict)
    segments: tuple[SegmentOutcome, ...]  #: In the plan's order.


def run(
    plan: Plan,
    trainable: object = None,
    *,
    space: object = None,
    out: Path | str | None = None,
    listener: Listener | None = None,
    **options: Any,  # noqa: ANN401 - the fields of SearchOptions
) -> RunOutcome:
    """Follow a plan to its end.

    Parameters
    ----------
    plan
        Of a search, or of one job.
    trainable
        A class or generator function at the top level of a module, or where to import it (``module:name``).
    space
        What configurations are drawn from (:mod:`optplan.execution.options`); None takes the plan's own, or none.
    out
        Folder of the run; needed where processes are started, and to resume.
    listener
        Is told of every record.
    **options
        Fields of :class:`SearchOptions`.

    Returns
    -------
    RunOutcome
        Also when the run is paused, at a limit or by an interruption.

    Raises
    ------
    UsageError
        When the plan is one of streams, the folder holds another run, or options do not fit.
    DataError
        When the space or an option is not understood, or the plan is too large to be followed.
    OutputError
        When the folder cannot be written.
    """
    chosen = SearchOptions(**name_training(options, trainable))
    _require_followable(plan)
    require_size(plan)
    followed = SearchRun(plan, chosen)
    followed.require()
    first: list[Record] = [Began(0.0, draw_configurations(plan, list_trials(plan), space, chosen.seed))]
    if not chosen.is_virtual:
        if chosen.step_wait_s > 0:
            waits = f"every iteration waits until {chosen.step_wait_s:g} s are over, however quick this machine is"
            first.append(Noted(0.0, waits))
        planned = [segment.expected.iteration_s for segment in plan.segments]
        first.append(Noted(0.0, tell_step_limit(planned, chosen.step_timeout_s)))
    return followed.begin(out, listener, first)


class SearchRun(Run[Plan, SearchOptions, State, RunOutcome]):
    """A run of a search, or of one job."""

    kind = "search"
    options_type = SearchOptions

    @property
    def rules(self) -> Rules:
        """What holds for the whole run."""
        return Rules.of(self.plan, self.options)

    @property
    def metric(self) -> str:
        """What is shown after each iteration, by name."""
        return self.rules.metric

    def make_state(self) -> State:
        """Return the state before the first record."""
        return State(self.plan)

    def describe(self) -> RunOutcome:
        """Say how it stands."""
        state, rules, winner, best = self.state, self.rules, None, None
        totals, scheduler = state.first_plan.totals(), Scheduler(state, rules)
        if state.ended is None:
            shown = scheduler.rank(name for name in state.trials if not math.isnan(scheduler.value_of(name)))
            best = _describe_trial(state, scheduler, shown[0]) if shown else None
        elif state.ended.winner is not None:
            winner = _describe_trial(state, scheduler, state.ended.winner)
        return RunOutcome(
            **self._describe_end(),
            trained=rules.is_trained,
            plan_id=state.plan.plan_id,
            plans=(state.first_plan.plan_id, *(each.plan["plan_id"] for each in state.replans)),
            replans=tuple(Replan(t=each.t, plan_id=each.plan["plan_id"], why=each.why) for each in state.replans),
            winner=winner,
            best=best,
            cost_usd=spent_usd(state, state.t),
            planned_s=totals.get("time_s"),
            planned_usd=totals.get("cost_usd"),
            trials=len(state.trials),
            failed={name: trial.why_dropped for name, trial in state.trials.items() if trial.why_dropped},
            segments=tuple(
                _plan_segment(each) if rules.is_as_planned else _describe_segment(state, each)
                for each in state.segments.values()
            ),
        )

    def _make_executor(self) -> Executor:
        plan, options = self.state.plan, self.options
        if self.options.is_virtual:
            return self._make_virtual(plan)
        self._slots = _count_gpus(options) or (_count_slots(plan) if options.executor == "ray" else None)
        self._require_room(plan)
        gpus = {name: resource.gpus_per_node for name, resource in plan.resources.items()}
        slots = self._slots if options.executor == "ray" else options.slots
        return self._make_real(gpus, metric=self.metric, slots=slots)

    def _make_virtual(self, plan: Plan) -> Executor:
        from optplan.execution.virtual import Rehearsal, VirtualExecutor

        options, training = self.options, None
        if options.train:
            root = Path(self._held.enter_context(TemporaryDirectory())) if self.journal is None else self.journal.folder
            training = Rehearsal(plan, options.train, Path(options.folder), root)
        return VirtualExecutor(plan, options, training=training, now_s=self.state.t)

    def make_replanner(self) -> Replanner | None:
        """Return what plans the rest anew; None where nothing does."""
        options = self.options
        if options.replan_above is None:
            return None
        own = {"deadline": options.deadline_s, "budget": options.budget_usd, "gpus": _count_gpus(options)}
        limits = {name: amount for name, amount in own.items() if amount is not None}
        require = None if self.options.is_virtual else self._require_room
        return Replanner(self.state, above=options.replan_above, limits=limits, require=require)

    def _require_room(self, plan: Plan) -> None:
        """Refuse plans for which there is no room, or in which one process has GPUs on several machines."""
        options, where = self.options, "this machine"
        if options.executor != "local":
            where = "the cluster made here"
            for name in options.setup.nodes.keys() - plan.resources.keys():
                hint = nearest_name_hint(name, plan.resources)
                raise UsageError(f"setup.nodes: the plan has no resource {name!r}; {hint}")
            for segment in plan.segments:
                whose = f"{segment.label or segment.id} has {segment.gpus} GPUs for a trial"
                options.require_one_node(whose, segment.gpus, plan.resources[segment.resource].gpus_per_node)
        wanted = _count_slots(plan)
        if self._slots is not None and wanted > self._slots and not options.address:
            raise UsageError(f"slots: {wanted} GPUs are wanted at a time; {where} has {self._slots} that may be used")


def _count_gpus(options: SearchOptions) -> int | None:
    """Return the GPUs, or slots, that there are; None where there are as many as are asked for."""
    if options.executor != "local" or options.slots is not None:
        return options.slots
    from optplan.execution.executors import list_devices

    return len(list_devices()) or None


def _count_slots(plan: Plan) -> int:
    most: dict[str, int] = {}
    for segment in plan.segments:
        gpus = segment.nodes * plan.resources[segment.resource].gpus_per_node
        most[segment.pool] = max(most.get(segment.pool, 0), gpus)
    return sum(most.values())


def _require_followable(plan: Plan) -> None:
    if any(unit.kind is UnitKind.JOB_CLASS for unit in plan.units):
        raise UsageError(
            "plan: it is one of streams of jobs; `optplan run PLAN JOBS` serves jobs by it as they arrive, and this "
            "function follows searches and single jobs"
        )
    if not plan.segments:
        raise DataError("plan.segments", "has none, so that nothing would run", "make the plan anew")
    for segment in plan.segments:
        gpus = segment.nodes * plan.resources[segment.resource].gpus_per_node
        if plan.units[0].kind is not UnitKind.FLEET_GROUP and segment.gpus > gpus:
            problem = f"a member has {segment.gpus} GPUs, and the segment's nodes {gpus}"
            raise DataError(f"segments.{segment.id}.workers", problem, "give it more nodes, or make the plan anew")


def _describe_trial(state: State, scheduler: Scheduler, name: str) -> Winner:
    trial, value = state.trials[name], scheduler.value_of(name)
    return Winner(
        trial=name,
        configuration=dict(trial.configuration),
        metric=None if math.isnan(value) else value,
        iterations=trial.iterations,
        checkpoint=None if trial.checkpoint is None else trial.checkpoint.path,
    )


def _plan_segment(segment: SegmentState) -> SegmentOutcome:
    what, expected = segment.segment, segment.segment.expected
    return SegmentOutcome(
        id=what.id,
        label=what.label,
        trials=len(segment.members) if segment.opened_s is not None else what.members,
        planned_start_s=expected.start_s,
        planned_s=expected.seconds,
        planned_pause_s=expected.launch_s,
        planned_iteration_s=expected.iteration_s,
        planned_usd=expected.cost_usd,
    )


def _describe_segment(state: State, segment: SegmentState) -> SegmentOutcome:
    operations = [each for each in state.past_operations if each.operation.segment == segment.segment.id]
    opened_s, began_s, ended_s, end_s = segment.opened_s, segment.began_s, segment.ended_s, segment.ends_at_s
    return _plan_segment(segment).replace(
        actual_start_s=opened_s,
        actual_s=None if opened_s is None or ended_s is None else ended_s - opened_s,
        actual_pause_s=None if opened_s is None or began_s is None else began_s - opened_s,
        start_s=_mean([(each.timings.get("start_s"), 1.0) for each in operations]),
        iteration_s=_mean([(each.timings.get("step_s"), each.timings.get("steps", 0.0)) for each in operations]),
        actual_usd=None if opened_s is None else segment_usd(state, segment, state.t),
        late_s=None if end_s is None or ended_s is None else ended_s - (state.origin_s or 0.0) - end_s,
        failures=sum(each.phase.value == "failed" for each in operations),
    )


def _mean(weighted: list[tuple[float | None, float]]) -> float | None:
    known = [(value, weight) for value, weight in weighted if value is not None and weight > 0]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total else None
