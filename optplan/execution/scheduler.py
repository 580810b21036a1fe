"""The scheduler: which segments open and end, who is promoted, and who starts on which GPUs.

It looks at a run's state and decides; nothing here calls an executor. Each decision is a record, applied at once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence

from optplan.contracts.conditions import Promoted, waits_for
from optplan.contracts.modes import Mode
from optplan.contracts.plan import Plan, UnitKind, last_of_each_unit
from optplan.execution import records as told
from optplan.execution.options import Rules
from optplan.execution.placement import choose_surplus, place_trials, want_nodes
from optplan.execution.standing import Replanner
from optplan.execution.state import Phase, SegmentState, State

#: Why an operation is stopped when the clock ends its segment.
TIME_UP = "time_up"


def name_trial(unit: str, number: int) -> str:
    """Return the name of a trial of a unit, by its number from 1."""
    return f"{_safe(unit)}-{number:04d}"


def list_trials(plan: Plan) -> list[str]:
    """Return the names of a plan's trials, in the order of drawing; of a fleet, of its one job."""
    if plan.units[0].kind is UnitKind.FLEET_GROUP:
        return ["job"]
    return [name_trial(unit.id, number) for unit in plan.units for number in range(1, unit.members + 1)]


def rank_trials(
    trials: Iterable[str], value_of: Callable[[str], float], mode: Mode, dropped: Callable[[str], bool]
) -> list[str]:
    """Return trials, the best first; equal ones stay in order.

    Those without a number (NaN) are behind the others, those that were dropped behind all.
    """

    def merit(trial: str) -> tuple[bool, float]:
        value = value_of(trial)
        return dropped(trial), math.inf if math.isnan(value) else value if mode is Mode.MIN else -value

    return sorted(trials, key=merit)


class Scheduler:
    """Decides what a run does next, and applies that to its state.

    A ``gate`` is asked once for each segment, before any node is asked for, and says why it must not begin, if so; a
    replanner is asked before segments open that follow others, where nothing runs.
    """

    def __init__(
        self,
        state: State,
        rules: Rules,
        gate: Callable[[SegmentState, float], str] | None = None,
        replanner: Replanner | None = None,
    ) -> None:
        self._state = state
        self._gate = gate
        self._replanner = replanner
        #: Why a segment that could begin must not; empty where nothing stands in the way.
        self.refusal = ""
        self._admitted: set[str] = set()
        self._rules = rules
        self._decided: list[told.Record] = []
        self._is_fleet = state.plan.units[0].kind is UnitKind.FLEET_GROUP

    def decide(self, now_s: float) -> list[told.Record]:
        """Return what is decided now, already applied to the state."""
        self._decided = []
        while self._stop_and_end(now_s):
            pass
        if self._state.ended is None and not self.refusal:
            self._begin(now_s)
            for name in sorted(self._state.open):
                self._refill(self._state.segments[name], now_s)
            self._give_back(now_s)
        return self._decided

    def rank(self, trials: Iterable[str]) -> list[str]:
        """Return trials, the best first; those without a number for the metric are last, equal ones stay in order."""
        return rank_trials(
            trials, self.value_of, self._rules.mode, lambda trial: bool(self._state.trials[trial].why_dropped)
        )

    def value_of(self, trial: str) -> float:
        """Return what a trial showed last; NaN where that is no number."""
        return told.read_metric(self._state.trials[trial].metrics.get(self._rules.metric))

    def next_end_s(self) -> float:
        """Return when the clock ends the next segment; infinite where it ends none."""
        return min((self._state.ends_at(self._state.segments[name]) for name in self._state.open), default=math.inf)

    def _emit(self, *records: told.Record) -> None:
        for record in records:
            self._state.apply(record)
        self._decided += records

    def _stop_and_end(self, now_s: float) -> bool:
        """Stop what the clock ends, end what is over, open what waited for it; say whether anything ended."""
        state, ended = self._state, False
        for name in sorted(state.open):
            segment = state.segments[name]
            if self._follows(segment):
                continue
            self._drop_failures(segment, now_s)
            self._stop_at_end(segment, now_s)
            if self._is_over(segment, now_s):
                self._end(segment, now_s)
                ended = True
        if state.ended is None and (ended or not state.open):
            if all(each.phase is Phase.ENDED for each in state.segments.values()):
                self._finish(now_s)
            else:
                self._open_next(now_s)
        return ended

    def _open_next(self, now_s: float) -> None:
        """Open the segments that wait for none that has not ended."""
        state = self._state
        if (
            not state.open
            and self._replanner is not None
            and any(e.phase is Phase.ENDED for e in state.segments.values())
        ):
            self._emit(*self._replanner(now_s))
            self.refusal = self._replanner.refusal
            if self.refusal:
                return
        for waiting in state.segments.values():
            others = waits_for(waiting.segment.enter)
            if waiting.phase is Phase.WAITING and all(state.segments[o].phase is Phase.ENDED for o in others):
                self._emit(told.SegmentOpened(now_s, waiting.segment.id, self._choose_members(waiting)))

    def _follows(self, segment: SegmentState) -> bool:
        """Whether a segment is a fleet's, and not the one that stands for the whole job."""
        return self._is_fleet and segment.segment.id != self._state.plan.segments[0].id

    def _stop_at_end(self, segment: SegmentState, now_s: float) -> None:
        if now_s < self._state.ends_at(segment):
            return
        for name in sorted(segment.running):
            if self._state.operations[name].phase is not Phase.STOPPING:
                self._emit(told.StopWanted(now_s, name, TIME_UP))

    def _is_over(self, segment: SegmentState, now_s: float) -> bool:
        if segment.running:
            return False
        if not segment.queue:
            return segment.phase is Phase.RUNNING or not segment.members
        return now_s >= self._state.ends_at(segment)

    def _end(self, segment: SegmentState, now_s: float) -> None:
        state = self._state
        blank = [t for t in segment.members if math.isnan(self.value_of(t)) and not state.trials[t].why_dropped]
        if blank and self._rules.is_trained:
            many = f"{blank[0]}{f' and {len(blank) - 1} more' if len(blank) > 1 else ''}"
            what = f"no number for {self._rules.metric!r} from {many}: ranked last"
            self._emit(told.Noted(now_s, f"{segment.segment.label or segment.segment.id}: {what}"))
        self._emit(told.SegmentEnded(now_s, segment.segment.id, self.rank(segment.members)))
        if self._is_fleet:
            others = state.plan.segments[1:]
            self._emit(*(told.SegmentEnded(now_s, other.id, segment.members) for other in others))

    def _finish(self, now_s: float) -> None:
        state = self._state
        self._give_back(now_s)
        last = [state.segments[each.id] for each in last_of_each_unit(state.plan.segments)]
        final = self.rank(t for each in last for t in each.members if not state.trials[t].why_dropped)
        finalists = list(dict.fromkeys(final))
        if not finalists:
            self._emit(told.Ended(now_s, None, why="every trial failed", code=1))
        elif not self._rules.is_trained:
            self._emit(told.Ended(now_s, None, finalists=finalists))
        elif len(state.trials) > 1 and math.isnan(self.value_of(finalists[0])):
            why = f"no trial has reported a number for {self._rules.metric!r}; name what they report with --metric"
            self._emit(told.Ended(now_s, None, why=why, code=1, finalists=finalists))
        else:
            self._emit(told.Ended(now_s, finalists[0], finalists=finalists))

    def _choose_members(self, segment: SegmentState) -> list[str]:
        what, state = segment.segment, self._state
        if self._is_fleet:
            return ["job"]
        ranks = slice(what.first_rank - 1, what.last_rank)
        if isinstance(what.enter, Promoted):
            chosen = [t for each in what.enter.of for t in state.segments[each.segment].ranking[: each.top]]
            return self.rank(t for t in chosen if not state.trials[t].why_dropped)[ranks]
        names = [name_trial(what.unit, number) for number in range(what.first_rank, what.last_rank + 1)]
        return [name for name in names if name in state.trials]

    def _drop_failures(self, segment: SegmentState, now_s: float) -> None:
        for trial in map(self._state.trials.__getitem__, list(segment.queue)):
            if trial.is_hopeless or trial.failures > self._rules.retries:
                times = "once" if trial.failures == 1 else f"{trial.failures} times in a row"
                self._emit(told.TrialDropped(now_s, trial.name, f"failed {times}: {trial.last_failure}"))

    def _begin(self, now_s: float) -> None:
        """Let open segments begin whose pool has the nodes, and ask for those that are missing."""
        state = self._state
        opened = [state.segments[name] for name in sorted(state.open)]
        for segment in opened:
            if segment.phase is Phase.OPEN and segment.segment.id not in self._admitted and self._gate is not None:
                self.refusal = self._gate(segment, now_s)
                if self.refusal:
                    return
                self._admitted.add(segment.segment.id)
        for segment in opened:
            self._emit(*want_nodes(state, segment, now_s))
        waiting = [segment for segment in opened if segment.phase is Phase.OPEN]
        if self._is_fleet:  # all groups train one job: it begins when all are there
            if waiting and all(self._has_nodes(segment) for segment in waiting):
                self._emit(*(told.SegmentBegan(now_s, segment.segment.id) for segment in waiting))
            return
        for pool in sorted({segment.segment.pool for segment in waiting}):
            beginning = [segment for segment in waiting if segment.segment.pool == pool]
            if all(self._has_nodes(segment) for segment in beginning):
                self._begin_pool(pool, beginning, now_s)

    def _has_nodes(self, segment: SegmentState) -> bool:
        return len(self._state.ready_nodes(segment.segment.pool)) >= segment.segment.nodes

    def _begin_pool(self, pool: str, beginning: Sequence[SegmentState], now_s: float) -> None:
        state = self._state
        first = {t: each.segment.gpus for each in beginning for t in each.members[: each.segment.at_once]}
        busy = any(state.segments[name].running for name in state.open if state.segments[name].segment.pool == pool)
        if not busy:
            nodes = max(each.segment.nodes for each in beginning)
            self._release(choose_surplus(state, pool, nodes, first, now_s), now_s)
        places = place_trials(state, pool, first)
        for each in beginning:
            self._emit(told.SegmentBegan(now_s, each.segment.id))
            for trial in each.members[: each.segment.at_once]:
                if trial in places:
                    self._start(each, trial, places[trial], now_s)

    def _refill(self, segment: SegmentState, now_s: float) -> None:
        state, what = self._state, segment.segment
        if segment.phase is not Phase.RUNNING or self._follows(segment) or now_s >= state.ends_at(segment):
            return
        if self._is_fleet:  # its one job has all nodes of all groups, as soon as all of them are there
            if segment.queue and all(map(self._has_nodes, state.segments.values())):
                whole: dict[str, int] = {}
                for each in state.plan.segments:
                    gpus = state.plan.resources[each.resource].gpus_per_node
                    whole |= dict.fromkeys(state.ready_nodes(each.pool)[: each.nodes], gpus)
                self._start(segment, "job", whole, now_s)
            return
        while segment.queue and len(segment.running) < what.at_once:
            trial = segment.queue[0]
            place = segment.free[-1] if segment.free else None
            if place is None or not all(state.nodes[node].phase is Phase.READY for node in place):
                running = {t: sum(state.trials[t].place.values()) for t in self._running_in(what.pool)}
                place = place_trials(state, what.pool, {**running, trial: what.gpus}, list(running)).get(trial)
            if place is None:
                return
            self._start(segment, trial, dict(place), now_s)

    def _running_in(self, pool: str) -> list[str]:
        state = self._state
        operations = (state.operations[name].operation for name in sorted(state.operations))
        return [each.trial for each in operations if state.segments[each.segment].segment.pool == pool]

    def _start(self, segment: SegmentState, trial: str, place: dict[str, int], now_s: float) -> None:
        attempt = self._state.trials[trial].attempts.get(segment.segment.id, 0) + 1
        name = f"{self._state.plan.plan_id[:8]}.{_safe(segment.segment.id)}.{trial}.{attempt}"
        self._emit(told.OperationWanted(now_s, name, segment.segment.id, trial, attempt, place))

    def _give_back(self, now_s: float) -> None:
        state = self._state
        needed = {each.segment.pool for each in state.segments.values() if each.phase is not Phase.ENDED}
        for pool in sorted(set(state.pools) - needed):
            self._release(state.pools[pool], now_s)

    def _release(self, nodes: Iterable[str], now_s: float) -> None:
        self._emit(*(told.NodeReleasing(now_s, node) for node in sorted(nodes)))


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name)
