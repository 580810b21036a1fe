"""The control loop of a plan, in rounds as :mod:`optplan.execution.loop` has them: limits, and what follows next."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from optplan.execution import records as told
from optplan.execution.loop import EXIT_INFEASIBLE, EXIT_LIMIT, Loop
from optplan.execution.protocol import Executor
from optplan.execution.running import SearchRun
from optplan.execution.runs import Listener
from optplan.execution.scheduler import TIME_UP, Scheduler
from optplan.execution.standing import committed_usd, lasts_until_s, spent_gpu_hours, spent_usd
from optplan.execution.state import Phase, SegmentState, State
from optplan.units import format_duration


class BudgetWatch:
    """Knows until when a budget in US dollars lasts at least; ``lateness`` is by what part the cost may be over it.

    Until then, or until something new is paid, nothing has to be added up.
    """

    def __init__(self, state: State, budget_usd: float | None, lateness: float) -> None:
        self._state = state
        self._most_usd = math.inf if budget_usd is None else budget_usd * (1.0 + lateness)
        self._lasts_until_s, self._payments = -math.inf, 0

    def lasts_until_s(self, now_s: float) -> float:
        """Return a time until which the budget is not spent; now where it is."""
        state = self._state
        if math.isinf(self._most_usd):
            return math.inf
        if now_s >= self._lasts_until_s or self._payments != state.payments:
            left_usd = self._most_usd - (spent_usd(state, now_s) or 0.0)
            self._lasts_until_s = lasts_until_s(state, now_s, left_usd) if left_usd > 0 else now_s
            self._payments = state.payments
        return self._lasts_until_s


class Driver(Loop[State]):
    """Follows a plan to its end."""

    def __init__(self, run: SearchRun, executor: Executor, listener: Listener | None = None) -> None:
        super().__init__(run, executor, listener)
        self._rules, self._replanner = run.rules, run.make_replanner()
        self._scheduler = Scheduler(run.state, self._rules, self.admits, self._replanner)
        self._budget = BudgetWatch(run.state, self._rules.budget_usd, executor.lateness)
        #: What stops the run here, in a word and in words, and the exit code; none of them while it goes on.
        self._halt: tuple[str, str, int] | None = None

    def admits(self, segment: SegmentState, now_s: float) -> str:
        """Say why a segment must not begin now: what it commits to would break a hard limit; else nothing."""
        limits, expected = self._rules, segment.segment.expected
        name, slack = segment.segment.label or segment.segment.id, 1.0 + self._executor.lateness
        usd = committed_usd(self._state, segment, now_s)
        if limits.budget_usd is not None and usd is not None and usd > limits.budget_usd * slack:
            return f"{name} would bring the cost to ${usd:.2f}; the budget is ${limits.budget_usd:.2f}"
        end_s = now_s + expected.seconds
        if segment.ends_at_s is not None:
            end_s = min(end_s, (self._state.origin_s or 0.0) + segment.ends_at_s)
        if limits.deadline_s is not None and end_s > limits.deadline_s * slack:
            deadline = format_duration(limits.deadline_s)
            return f"{name} would end after {format_duration(end_s)}; the deadline is {deadline}"
        hours = spent_gpu_hours(self._state, now_s) + expected.busy_gpu_hours
        if limits.budget_gpu_hours is not None and hours > limits.budget_gpu_hours * slack:
            return f"{name} would bring GPU-hours to {hours:.4g}; the budget is {limits.budget_gpu_hours:.4g}"
        return ""

    # ------------------------------------------------------------------------------------------------------ deciding

    def _decide(self, now_s: float) -> None:
        self._check_limits(now_s)
        if self._halt is None:
            self._news += self._scheduler.decide(now_s)
            if self._replanner is not None and self._replanner.refusal:
                self._halt = "infeasible", self._scheduler.refusal, EXIT_INFEASIBLE
            elif self._scheduler.refusal:
                self._halt_at_limit(self._scheduler.refusal)
        if self._halt is not None:
            self._stop_all(now_s, *self._halt)

    def _halt_at_limit(self, why: str) -> None:
        self._halt = self._halt or ("limit", why, EXIT_LIMIT)

    def _check_limits(self, now_s: float) -> None:
        """Notice that the user, a limit or missing nodes end the run here."""
        if self._interrupted:
            on = "go on with --resume" if self._journal is not None else "without --out there is nothing to go on from"
            self._halt = self._halt or ("interrupted", f"interrupted; {on}", self._interrupted)
        limits, slack = self._rules, 1.0 + self._executor.lateness
        if not self._is_at_work():
            if not self._executor.is_virtual:
                self._check_nodes(now_s)
            return
        if limits.deadline_s is not None and now_s > limits.deadline_s * slack:
            self._halt_at_limit(f"the deadline of {format_duration(limits.deadline_s)} is over")
        if self._budget.lasts_until_s(now_s) <= now_s:
            self._halt_at_limit(f"the budget of ${limits.budget_usd:.2f} is spent")

    def _is_at_work(self) -> bool:
        """Whether a trial runs, or one of a segment that has begun is to go on, for which nodes would be asked for."""
        state = self._state
        going = (state.segments[name] for name in state.open)
        if any(each.queue and each.phase is Phase.RUNNING and each.ends_at_s is None for each in going):
            return True  # one that the clock ends is over then, whoever waits
        return any(each.phase is not Phase.STOPPING for each in state.operations.values())

    def _check_nodes(self, now_s: float) -> None:
        for pool, names in self._state.pools.items():
            late = [
                node
                for node in map(self._state.nodes.__getitem__, names)
                if node.phase in (Phase.WANTED, Phase.LAUNCHING) and now_s - node.wanted_s > self._rules.node_wait_s
            ]
            if late:
                kind, wait = late[0].resource, format_duration(self._rules.node_wait_s)
                why = f"{len(late)} of {len(names)} nodes ({kind}, pool {pool}) did not come within {wait}"
                self._halt_at_limit(f"{why}; make room for them, then go on with --resume")

    def _wait_until(self, now_s: float) -> float:
        until_s, deadline_s = self._scheduler.next_end_s(), self._rules.deadline_s
        if not self._state.operations:
            return until_s
        if deadline_s is not None:
            until_s = min(until_s, deadline_s * (1.0 + 2.0 * self._executor.lateness))
        return min(until_s, self._budget.lasts_until_s(now_s))

    # --------------------------------------------------------------------------------------------- writing and doing

    def _perform(self, decided: Sequence[told.Record]) -> None:
        if any(isinstance(record, told.Replanned) for record in decided):
            self._executor.adopt(self._state.plan)
        super()._perform(decided)
        if any(isinstance(record, told.SegmentEnded) for record in decided):
            self._prune()

    def _prune(self) -> None:
        """Keep the newest checkpoint of each trial; those of trials that are out may go."""
        state = self._state
        alive = {t for name in state.open for t in state.segments[name].members}
        alive |= set(state.ended.finalists) if state.ended is not None else set()
        stored = [(t.name, t.checkpoint) for t in state.trials.values() if t.checkpoint is not None]
        self._executor.prune([c for name, c in stored if name in alive], [c for name, c in stored if name not in alive])

    def _see_end(self, event: told.OperationEnded | told.OperationFailed) -> None:
        ended = self._state.operations[event.operation]
        if isinstance(event, told.OperationEnded) and ended.stop_why == TIME_UP:
            event = replace(event, complete=True)
        super()._see_end(event)
        if isinstance(event, told.OperationFailed) and event.no_room:
            self._halt_at_limit(f"{ended.operation.trial} {event.why}; make room, then go on with --resume")
