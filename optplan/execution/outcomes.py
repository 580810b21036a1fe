"""What a run came to: the winner, time and cost, and what was planned beside what happened, segment by segment."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

from pydantic import Field

from optplan.contracts.faces import Shown
from optplan.execution.cluster import segment_usd, spent_usd
from optplan.execution.journal import Kind
from optplan.execution.scheduler import Rules, Scheduler
from optplan.execution.state import OperationState, RunState, SegmentState, State
from optplan.schema import FrozenModel


class Outcome(Shown, FrozenModel):
    """What a run of any kind came to, as far as it went."""

    SHOWN_BY: ClassVar[str] = "optplan.execution.cli.kinds:face_of"
    kind: ClassVar[Kind]  #: What runs.

    #: Whether it ran on a virtual clock: then times and costs are calculated, and none is measured.
    virtual: bool = False
    status: Literal["ended", "paused", "running"]  #: ``ended``, ``paused`` (it can be resumed) or ``running``.
    #: Exit code: 0 done, 1 every trial failed, none has reported a number, a job was given up or the whole run, 3 the
    #: rest has become infeasible, 4 stopped at a limit, 130 interrupted.
    code: int
    why: str = ""  #: Why it is paused, or ended before its end.
    time_s: float  #: Until it ended, or until its last record.
    notes: tuple[str, ...] = ()  #: What a reader should know.
    held: tuple[str, ...] = ()  #: Nodes that are held, or not given back yet.


def describe_end(state: RunState, *, virtual: bool) -> dict[str, Any]:
    """Return the fields that outcomes of all kinds have."""
    why = "" if state.end is None else state.end.why
    ended = {"status": state.status, "code": state.code, "why": why, "time_s": state.t}
    held = tuple(node.name for node in state.held_nodes())
    return {"virtual": virtual, **ended, "notes": tuple(state.notes), "held": held}


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


def describe(state: State, rules: Rules) -> RunOutcome:
    """Describe a run as it stands."""
    totals = state.first_plan.totals()
    by_segment: dict[str, list[OperationState]] = {}
    for each in state.operations.values():
        by_segment.setdefault(each.operation.segment, []).append(each)
    winner = best = None
    if state.ended is not None:
        winner = None if state.ended.winner is None else _describe_trial(state, rules, state.ended.winner)
    else:
        leader = find_leader(state, rules)
        best = None if leader is None else _describe_trial(state, rules, leader)
    follows = rules.is_virtual and not rules.is_varied
    return RunOutcome(
        **describe_end(state, virtual=rules.is_virtual),
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
            _plan_segment(each) if follows else _describe_segment(state, each, by_segment.get(name, []))
            for name, each in state.segments.items()
        ),
    )


def find_leader(state: State, rules: Rules) -> str | None:
    """Return the trial that shows most so far; None while none shows anything."""
    scheduler = Scheduler(state, rules)
    shown = [name for name in state.trials if not math.isnan(scheduler.value_of(name))]
    return scheduler.rank(shown)[0] if shown else None


def _describe_trial(state: State, rules: Rules, name: str) -> Winner:
    trial, value = state.trials[name], Scheduler(state, rules).value_of(name)
    return Winner(
        trial=name,
        configuration=dict(trial.configuration),
        metric=None if math.isnan(value) else value,
        iterations=trial.iterations,
        checkpoint=None if trial.checkpoint is None else trial.checkpoint.path,
    )


def _plan_segment(segment: SegmentState) -> SegmentOutcome:
    """Describe a segment as planned."""
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


def _describe_segment(state: State, segment: SegmentState, operations: list[OperationState]) -> SegmentOutcome:
    """Describe a segment as planned and as it went."""
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
