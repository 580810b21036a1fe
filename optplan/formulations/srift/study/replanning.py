"""Planning again in the middle of a run, when VMs were lost: what is left to do, within what is left (4.5).

The new problem is the old one with the iterations that are left, the deadline less the time gone by and the time until
the live VMs can go on, the budget less what is spent, and no new VMs of a type that was interrupted: the paper takes a
loss for a sign that the type has run out. Live VMs are kept; where new ones come, training waits until they are
launched, which the new problem counts itself.

A limit that is gone already cannot be part of a new problem: it is left out there and named, and :func:`continue_run`
answers what it would have to be.

What happens to a run that loses VMs, from its beginning to its predicted end (figure 8).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, model_validator

from optplan.contracts import Infeasibility, Result, Status
from optplan.contracts.time_and_money import BUDGET, DEADLINE, Objective
from optplan.errors import DataError, UsageError, nearest_name_hint
from optplan.formulations.srift.data.instance import SriftInstance, SriftSolution, count_vms, write_fleet
from optplan.formulations.srift.judge.evaluation import evaluate
from optplan.formulations.srift.planning import SriftPlan, build_plan
from optplan.quantities import SecondsOrZero
from optplan.schema import NUMBER, AmountOrZero, ByName, FrozenModel
from optplan.units import Amount, BudgetUnit, format_duration

_Count = Annotated[int, Field(ge=1), NUMBER]
_CountOrZero = Annotated[int, Field(ge=0), NUMBER]

#: Solves an instance; :func:`optplan.solve`, with whatever settings.
Solve = Callable[[SriftInstance], Result[SriftSolution]]


class FleetStanding(FrozenModel):
    """Where a run stands when some of its VMs have just been lost."""

    version: Literal[1] = 1
    elapsed_s: SecondsOrZero  #: Since the beginning, when the first VMs were asked for.
    iterations_done: _CountOrZero  #: So far.
    running: ByName[_Count] = Field(default_factory=dict)  #: VMs that are alive, by type.
    #: VMs that were lost, by type; no new ones of these types are asked for.
    lost: ByName[_Count] = Field(default_factory=dict)
    #: So far; None: the price of these VMs, the lost ones included, since ``ready_s`` (since the beginning where the
    #: instance bills launches).
    spent_usd: AmountOrZero | None = None
    ready_s: SecondsOrZero | None = None  #: When the first fleet could train; None: after the instance's ``launch_s``.
    launch_s: SecondsOrZero | None = None  #: Until new VMs can train; None: as the instance says.
    detach_s: SecondsOrZero = 0.0  #: Until what a lost VM has stored can be used.
    checkpoint_s: SecondsOrZero = 0.0  #: To save the training on a live VM.
    restart_s: SecondsOrZero = 0.0  #: To load it and go on.
    #: Of those done: since the last checkpoint, where live VMs cannot save what they have.
    iterations_lost: _CountOrZero = 0

    @model_validator(mode="after")
    def _check(self) -> FleetStanding:
        if self.iterations_lost > self.iterations_done:
            problem = f"is {self.iterations_lost}, more than the {self.iterations_done} done"
            raise DataError("iterations_lost", problem, "iterations_done counts those that are lost, too")
        if self.ready_s is not None and self.ready_s > self.elapsed_s:
            problem = f"is {self.ready_s:g}, later than elapsed_s, {self.elapsed_s:g}"
            raise DataError("ready_s", problem, "give seconds since the beginning")
        return self

    @property
    def pause_s(self) -> float:
        """From the loss until the live VMs can go on: saving, detaching and loading, one after the other."""
        return self.checkpoint_s + self.detach_s + self.restart_s

    @property
    def vms(self) -> dict[str, int]:
        """VMs by type before the loss."""
        return dict(Counter(self.running) + Counter(self.lost))


@dataclass(frozen=True)
class Remainder:
    """What is left of a problem in the middle of its run."""

    instance: SriftInstance  #: The new problem: iterations and limits that are left, VMs that are kept.
    #: By limit of the old problem (``deadline`` in seconds, ``budget`` in US dollars): what is gone when training can
    #: go on, launches excepted.
    used: Mapping[str, float]
    gone: tuple[str, ...]  #: Limits of which nothing is left; the new problem goes without them.


@dataclass(frozen=True)
class FleetContinuation:
    """How a run goes on."""

    remainder: Remainder  #: What is left.
    #: Of the new problem; of the one without the limits that are gone, where there are such.
    result: Result[SriftSolution]
    #: Why the old limits cannot be kept, in their terms, and what they would have to be; None when they can be kept, or
    #: nobody knows.
    infeasibility: Infeasibility | None = None


def replan(instance: SriftInstance, state: FleetStanding) -> Remainder:
    """Make the problem that is left; a DataError where the state is not the instance's, or nothing is left."""
    _require_known(instance, state)
    left = instance.iterations - (state.iterations_done - state.iterations_lost)
    if left <= 0:
        problem = f"is {state.iterations_done} of {instance.iterations}"
        raise DataError("iterations_done", problem, "nothing is left to plan: the run is finished")
    used = {DEADLINE: state.elapsed_s + state.pause_s, BUDGET: derive_spent_usd(instance, state)}
    if instance.launch_billed:
        used[BUDGET] += state.pause_s * _price_usd_per_s(instance, state.running)
    rest = {limit: amount - used[limit] for limit, amount in instance.limits.items()}
    kept = {limit: amount for limit, amount in rest.items() if amount > 0}
    types = {
        name: vm.replace(
            running=state.running.get(name, 0),
            available=state.running.get(name, 0) if name in state.lost else vm.available,
        )
        for name, vm in instance.types.items()
    }
    remaining = instance.replace(
        name=f"{instance.name}-from-iteration-{instance.iterations - left}",
        source={**instance.source, "state": _tell(instance, state, left)},
        iterations=left,
        types=types,
        deadline_s=kept.get(DEADLINE),
        budget=Amount(kept[BUDGET], BudgetUnit.USD) if BUDGET in kept else None,
        launch_s=instance.launch_s if state.launch_s is None else state.launch_s,
    )
    return Remainder(remaining, used, tuple(limit for limit in rest if limit not in kept))


def continue_run(instance: SriftInstance, state: FleetStanding, solve: Solve) -> FleetContinuation:
    """Plan the rest of a run, or say why the limits cannot be kept any more and what they would have to be.

    Parameters
    ----------
    instance, state
        As of :func:`replan`.
    solve
        Solves the new problem.

    Raises
    ------
    DataError
        As :func:`replan`.
    """
    remainder = replan(instance, state)
    result = solve(remainder.instance)
    if remainder.gone:
        return FleetContinuation(remainder, result, _answer_for_gone(instance, remainder, solve))
    if result.infeasibility is None:
        return FleetContinuation(remainder, result)
    return FleetContinuation(remainder, result, _restate(instance, remainder, result.infeasibility))


def succeed(
    instance: SriftInstance, plan: SriftPlan, state: FleetStanding, solve: Solve
) -> tuple[SriftPlan | None, Infeasibility | None]:
    """Plan the rest anew within the limits that hold now, as a plan with its problem; or say why none keeps them."""
    continuation = continue_run(instance, state, solve)
    if continuation.infeasibility is not None:
        return None, continuation.infeasibility
    if continuation.result.solution is None or continuation.remainder.gone:
        raise UsageError("time_limit_s: no fleet was found in that time, nor that there is none; give more")
    rest = continuation.remainder.instance
    made = build_plan(rest, continuation.result)
    return made.replace(plan_id="", supersedes=plan.plan_id, instance=rest.to_json_data()), None


def derive_spent_usd(instance: SriftInstance, state: FleetStanding) -> float:
    """Return what was spent: as the state says, or the price of its VMs for the time that they are paid for."""
    if state.spent_usd is not None:
        return state.spent_usd
    if not state.vms and state.elapsed_s:
        raise DataError("spent_usd", "is missing, and there are no VMs to derive it from", "give running, lost or both")
    unpaid_s = 0.0 if instance.launch_billed else ready_after_s(instance, state)
    return _price_usd_per_s(instance, state.vms) * max(0.0, state.elapsed_s - unpaid_s)


def ready_after_s(instance: SriftInstance, state: FleetStanding) -> float:
    """Return when the first fleet could train, in seconds since the beginning."""
    return min(instance.launch_s, state.elapsed_s) if state.ready_s is None else state.ready_s


def _require_known(instance: SriftInstance, state: FleetStanding) -> None:
    for where, counts in (("running", state.running), ("lost", state.lost)):
        for name in counts:
            if name not in instance.types:
                raise DataError(f"{where}.{name}", "no such type of VM", nearest_name_hint(name, instance.types))
    for name, count in state.vms.items():
        available = instance.types[name].available
        if available is not None and count > available:
            alive, lost = state.running.get(name, 0), state.lost.get(name, 0)
            problem = f"{alive} alive and {lost} lost are more than the {available} available"
            raise DataError(f"running.{name}", problem, "correct the state, or types.*.available in the instance")


def _price_usd_per_s(instance: SriftInstance, vms: Mapping[str, int]) -> float:
    return math.fsum(count * instance.types[name].price_usd_per_s for name, count in vms.items())


def _tell(instance: SriftInstance, state: FleetStanding, left: int) -> str:
    """Say in a sentence where the new problem comes from."""
    sentence = (
        f"{instance.name} after {format_duration(state.elapsed_s)}: {left} of {instance.iterations} iterations left"
    )
    for counts, what in ((state.lost, "lost"), (state.running, "kept")):
        if counts:
            sentence += f", {name_vms(counts)} {what}"
    return sentence


def name_vms(vms: Mapping[str, int]) -> str:
    """Write VMs for a reader: ``1 p3.8xlarge and 8 g3.8xlarge``."""
    return " and ".join(f"{count} {name}" for name, count in vms.items())


def _restate(instance: SriftInstance, remainder: Remainder, found: Infeasibility) -> Infeasibility:
    """Say what the old limits would have to be, from what the new ones would have to be."""
    left = {limit: amount for limit, amount in remainder.instance.limits.items() if limit in instance.limits}
    parts = [f"{_write(amount, limit)} of the {limit}" for limit, amount in left.items()]
    reason = f"with {' and '.join(parts)} left, {found.reason}" if parts else found.reason
    relaxations = [
        instance.relax(one.limit, remainder.used[one.limit] + one.least_feasible)
        if one.limit in remainder.used
        else one
        for one in found.relaxations
    ]
    return Infeasibility(reason=reason, relaxations=tuple(relaxations))


def _answer_for_gone(instance: SriftInstance, remainder: Remainder, solve: Solve) -> Infeasibility | None:
    """Find the least of each limit that is gone, the others kept; None where the solver proves none."""
    sentences, relaxations = [], []
    for limit in remainder.gone:
        objective = Objective.TIME if limit == DEADLINE else Objective.COST
        best = solve(remainder.instance.replace(objective=objective))
        if best.status not in {Status.OPTIMAL, Status.INFEASIBLE}:
            return None
        given, _ = instance.limit_as_given(limit)
        gone = f"{_write(remainder.used[limit], limit)} of the {limit} of {_write(given, limit)} are gone"
        if best.objective is None:
            reason = best.infeasibility.reason if best.infeasibility else ""
            sentences.append(f"{gone}, and no more of it would help: {reason}")
            continue
        total = remainder.used[limit] + best.objective
        way = "fastest way to finish ends at" if limit == DEADLINE else "cheapest way to finish costs, in all,"
        sentences.append(f"{gone}; the {way} {_write(total, limit)}")
        if len(remainder.gone) == 1:  # with another limit gone, none helps alone
            relaxations.append(instance.relax(limit, total))
    return Infeasibility(reason="; ".join(sentences), relaxations=tuple(relaxations))


def _write(amount: float, limit: str) -> str:
    return f"{amount:,.4g} {'s' if limit == DEADLINE else 'usd'}"


class Happening(StrEnum):
    """What a run does for a while."""

    LAUNCH = "launch"
    TRAIN = "train"
    #: Save the training, wait for what a lost VM has stored, load it.
    PAUSE = "pause"


@dataclass(frozen=True)
class TimelineSegment:
    """A while in which a run does one thing."""

    #: Since the beginning of the run.
    start_s: float
    end_s: float
    happening: Happening
    vms: Mapping[str, int]  # types that it has or, while they are launched, waits for, and how many VMs of each
    fleet: str  # the same in words, with the samples of each where they are known
    #: Done at its start and at its end.
    iterations_from: int
    iterations_to: int
    #: Spent by then.
    spent_from_usd: float
    spent_to_usd: float
    predicted: bool  # whether it is still to come


@dataclass(frozen=True)
class Timeline:
    """A run that loses VMs, from its beginning to its predicted end."""

    segments: tuple[TimelineSegment, ...]  # one after the other, without gaps
    lost: Mapping[str, int]  # VMs, by type
    interrupted_s: float  # when
    limits: Mapping[str, float]  # of the whole run: seconds of ``deadline``, US dollars of ``budget``

    @property
    def end_s(self) -> float:
        """When the last segment ends."""
        return self.segments[-1].end_s if self.segments else 0.0

    @property
    def spent_usd(self) -> float:
        """What is spent by then."""
        return self.segments[-1].spent_to_usd if self.segments else 0.0

    @property
    def spare(self) -> dict[str, float]:
        """What is left of each limit at the end; negative where it is exceeded."""
        used = {DEADLINE: self.end_s, BUDGET: self.spent_usd}
        return {limit: amount - used[limit] for limit, amount in self.limits.items()}


def build_timeline(
    instance: SriftInstance, state: FleetStanding, remainder: Remainder, *, new: SriftSolution | None = None
) -> Timeline:
    """Lay a run out in time, up to the loss and, with a ``new`` fleet, beyond; what takes no time is left out."""
    ready_s, spent_usd = ready_after_s(instance, state), derive_spent_usd(instance, state)
    launch_usd = spent_usd * ready_s / state.elapsed_s if instance.launch_billed and state.elapsed_s else 0.0
    before, kept = (state.vms, name_vms(state.vms)), (dict(state.running), name_vms(state.running))
    # Each is a happening, the VMs, and the seconds, iterations and US dollars that it adds.
    past = [
        (Happening.LAUNCH, before, ready_s, 0, launch_usd),
        (Happening.TRAIN, before, state.elapsed_s - ready_s, state.iterations_done, spent_usd - launch_usd),
    ]
    ahead = [(Happening.PAUSE, kept, state.pause_s, -state.iterations_lost, remainder.used[BUDGET] - spent_usd)]
    if new is not None:
        rest, fleet = remainder.instance, (count_vms(new.groups), write_fleet(new.groups))
        measures = evaluate(rest, new).measures
        launch_s, cost_usd = measures["launch_s"], measures["cost_usd"]
        launch_usd = cost_usd / measures["billed_s"] * launch_s if instance.launch_billed else 0.0
        ahead.append((Happening.LAUNCH, fleet, launch_s, 0, launch_usd))
        ahead.append((Happening.TRAIN, fleet, measures["training_s"], rest.iterations, cost_usd - launch_usd))
    segments = []
    end_s, done, spent = 0.0, 0, 0.0
    for number, (happening, (vms, words), seconds, iterations, usd) in enumerate([*past, *ahead]):
        start_s, had_done, had_spent = end_s, done, spent
        end_s, done, spent = end_s + seconds, done + iterations, spent + usd
        if seconds > 0:
            sums = had_done, done, had_spent, spent
            segments.append(TimelineSegment(start_s, end_s, happening, vms, words, *sums, number >= len(past)))
    return Timeline(tuple(segments), dict(state.lost), state.elapsed_s, instance.limits)
