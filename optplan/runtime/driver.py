"""The control loop: notice what has happened, decide, write it down, do it.

One round of the loop is one transaction of the journal: the facts that are new, and the decisions that follow from
them. Only then is the executor called; what came of the calls is written with the next round. So a driver that is
killed at any moment leaves a journal from which another one goes on: it asks the executor what is there, keeps that,
asks again for what was intended and is not there, and repeats nothing that has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from optplan.errors import OutputError
from optplan.runtime.budget_watch import BudgetWatch
from optplan.runtime.cluster import committed_usd, release_all, spent_gpu_hours
from optplan.runtime.journal import Journal
from optplan.runtime.protocol import (
    Event,
    Executor,
    Failed,
    Finished,
    NodeLaunching,
    NodeLost,
    NodeReady,
    NodeRequest,
    Progressed,
    Rehearser,
)
from optplan.runtime.records import (
    NodeChanged,
    NodeReleasing,
    NodeWanted,
    OperationEnded,
    OperationFailed,
    OperationStarted,
    OperationWanted,
    Paused,
    Record,
    Replanned,
    Resumed,
    SegmentEnded,
    StopWanted,
    plain,
)
from optplan.runtime.scheduler import BELL, Rethink, Rules, Scheduler
from optplan.runtime.state import HELD, Phase, SegmentState, State
from optplan.units import format_duration

#: Seconds after which the loop looks around, whether or not an executor had something to report.
_ROUND_S = 0.5

#: Why operations are stopped before their time.
INTERRUPTED = "interrupted"
LIMIT = "limit"
INFEASIBLE = "infeasible"

EXIT_INFEASIBLE = 3
EXIT_LIMIT = 4
EXIT_INTERRUPTED = 130
_EXITS = {INFEASIBLE: EXIT_INFEASIBLE, LIMIT: EXIT_LIMIT, INTERRUPTED: EXIT_INTERRUPTED}


@dataclass(frozen=True)
class Limits:
    """What a run may take, and how patient it is.

    Parameters
    ----------
    budget_usd, budget_gpu_hours, deadline_s
        Hard limits of this run; None where there are none.
    node_wait_s
        Seconds to wait for nodes before the run is paused.
    grace_s
        Seconds that an operation has to store its state when it is stopped.
    """

    budget_usd: float | None = None
    budget_gpu_hours: float | None = None
    deadline_s: float | None = None
    node_wait_s: float = 600.0
    grace_s: float = 30.0


Listener = Callable[[Record | Progressed], None]


class Driver:
    """Follows a plan to its end.

    Parameters
    ----------
    state, rules, executor
        Of the run.
    journal
        What is written down; None writes nothing.
    limits
        What it may take.
    rethink
        Plans the rest anew where a run does not go as planned; None follows the plan as it is.
    listener
        Is told of every record, and of progress; None tells nobody.
    """

    def __init__(
        self,
        state: State,
        rules: Rules,
        executor: Executor,
        *,
        journal: Journal | None = None,
        limits: Limits | None = None,
        rethink: Rethink | None = None,
        listener: Listener | None = None,
    ) -> None:
        self._state = state
        self._rethink = rethink
        self._scheduler = Scheduler(state, rules, self.admits, rethink)
        self._executor = executor
        self._journal = journal
        self._limits = limits or Limits()
        self._budget = BudgetWatch(state, self._limits.budget_usd, executor.capabilities.lateness)
        self._listener = listener
        self._facts: list[Record] = []
        self._interrupted = False
        self._halting = ""
        self._why = ""

    def interrupt(self) -> None:
        """Ask the loop to stop everything in good order and to pause; may be called from a signal handler."""
        self._interrupted = True

    def resume(self) -> None:
        """Take over what an earlier driver left behind."""
        state = self._state
        now_s = self._executor.now_s()
        self._note(Resumed(now_s))
        requests = state.node_requests()
        operations = [state.operations[name].operation for name in sorted(state.active)]
        seen = self._executor.observe(requests, operations)
        for request in requests:
            if request.node not in seen.nodes and state.nodes[request.node].phase is not Phase.WANTED:
                self._note(NodeChanged(now_s, request.node, Phase.LOST.value, "gone when the run was resumed"))
        for operation in operations:
            if operation.id not in seen.operations and state.operations[operation.id].phase is Phase.WANTED:
                self._executor.start(operation)  # under its name: should it have been started, that does nothing
                self._note(OperationStarted(now_s, operation.id))
            elif operation.id not in seen.operations:
                why = "was not there any more when the run was resumed"
                self._note(OperationFailed(now_s, operation.id, why, blameless=True))
            elif state.operations[operation.id].phase is Phase.WANTED:
                self._note(OperationStarted(now_s, operation.id))
        missing = [r for r in requests if r.node not in seen.nodes and state.nodes[r.node].phase is Phase.WANTED]
        self._executor.ensure_nodes(missing)
        for name in sorted(n for n, node in state.nodes.items() if node.phase is Phase.RELEASING):
            self._executor.release_nodes([name])
            self._note(NodeChanged(now_s, name, Phase.RELEASED.value))
        for name in sorted(state.active):
            if state.operations[name].phase is Phase.STOPPING:
                self._executor.stop(name, self._limits.grace_s)

    def follow(self) -> int:
        """Follow the plan until it has ended or is paused.

        Returns
        -------
        int
            The exit code: 0 when it has ended, 1 when every trial failed, 3 when the rest cannot keep its limits any
            more, 4 at a limit, 130 when interrupted.

        Raises
        ------
        OutputError
            When nothing can be written any more. What runs was stopped then, and nodes were given back: another driver
            finds what is left.
        """
        try:
            return self._follow()
        except OutputError:
            self._abandon()
            raise

    def _abandon(self) -> None:
        """Stop what runs and give nodes back, although it cannot be written down."""
        executor, names = self._executor, sorted(self._state.active)
        until_s = executor.now_s() + self._limits.grace_s + _ROUND_S
        for name in names:
            executor.stop(name, self._limits.grace_s)
        left = set(names)
        while left and executor.now_s() < until_s:
            events = executor.poll(min(until_s, executor.now_s() + _ROUND_S))
            left -= {event.operation for event in events if isinstance(event, Finished | Failed)}
        executor.release_nodes([name for pool in self._state.pools.values() for name in sorted(pool)])

    def _follow(self) -> int:
        while True:
            now_s = self._executor.now_s()
            self._check_limits(now_s)
            decided = self._decide(now_s)
            self._commit(decided)
            self._perform(decided)
            if self._state.ended is not None or self._state.paused is not None:
                self._commit(())
                return self._exit_code()
            for event in self._executor.poll(self._wait_until(now_s)):
                self._take_note(event)

    def _exit_code(self) -> int:
        end = self._state.ended or self._state.paused
        return 0 if end is None else end.code

    def admits(self, segment: SegmentState, now_s: float) -> str:
        """Say why a segment must not begin now: what it commits to would break a hard limit; else nothing."""
        limits, expected = self._limits, segment.segment.expected
        name, slack = segment.segment.label or segment.segment.id, 1.0 + self._executor.capabilities.lateness
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

    def _decide(self, now_s: float) -> list[Record]:
        if self._halting:
            return self._wind_down(now_s)
        decided = self._scheduler.decide(now_s)
        if not self._scheduler.refusal:
            return decided
        infeasible = self._rethink is not None and self._rethink.refusal
        self._halt_for(INFEASIBLE if infeasible else LIMIT, self._scheduler.refusal)
        return [*decided, *self._wind_down(now_s)]

    def _wind_down(self, now_s: float) -> list[Record]:
        """Stop what runs; once nothing runs any more, give everything back and pause."""
        state = self._state
        decided: list[Record] = []

        def decide(record: Record) -> None:
            state.apply(record)
            decided.append(record)

        for name in sorted(state.active):
            if state.operations[name].phase is not Phase.STOPPING:
                decide(StopWanted(now_s, name, self._halting))
        if not state.active and state.ended is None:
            for pool in state.pools:
                for record in release_all(state, pool, now_s):
                    decide(record)
            decide(Paused(now_s, self._why, _EXITS[self._halting]))
        return decided

    def _halt_for(self, halting: str, why: str) -> None:
        if not self._halting:
            self._halting, self._why = halting, why

    def _check_limits(self, now_s: float) -> None:
        """Notice that the user, a limit or missing nodes end the run here."""
        if self._interrupted:
            on = "go on with --resume" if self._journal is not None else "without --out there is nothing to go on from"
            self._halt_for(INTERRUPTED, f"interrupted; {on}")
        state, limits, slack = self._state, self._limits, 1.0 + self._executor.capabilities.lateness
        if not any(state.operations[name].phase is not Phase.STOPPING for name in state.active):
            if not self._executor.capabilities.is_virtual:
                self._check_nodes(now_s)
            return
        if limits.deadline_s is not None and now_s > limits.deadline_s * slack:
            self._halt_for(LIMIT, f"the deadline of {format_duration(limits.deadline_s)} is over")
        if self._budget.is_spent(now_s):
            self._halt_for(LIMIT, f"the budget of ${limits.budget_usd:.2f} is spent")

    def _check_nodes(self, now_s: float) -> None:
        for pool, names in self._state.pools.items():
            late = [
                node
                for node in map(self._state.nodes.__getitem__, names)
                if node.phase in (Phase.WANTED, Phase.LAUNCHING) and now_s - node.wanted_s > self._limits.node_wait_s
            ]
            if late:
                kind, wait = late[0].resource, format_duration(self._limits.node_wait_s)
                why = f"{len(late)} of {len(names)} nodes ({kind}, pool {pool}) did not come within {wait}"
                self._halt_for(LIMIT, f"{why}; make room for them, then go on with --resume")

    def _wait_until(self, now_s: float) -> float:
        """Return until when to wait for something to happen."""
        limits = self._limits
        if not self._executor.capabilities.is_virtual:
            return now_s + _ROUND_S
        until_s = self._scheduler.next_bell_s()
        slack = 1.0 + 2.0 * self._executor.capabilities.lateness
        if self._state.active and limits.deadline_s is not None:
            until_s = min(until_s, limits.deadline_s * slack)
        return min(until_s, self._budget.lasts_until_s(now_s)) if self._state.active else until_s

    # --------------------------------------------------------------------------------------------- writing and doing

    def _note(self, fact: Record) -> None:
        """Apply a fact; it is written with the next transaction."""
        self._state.apply(fact)
        self._budget.note(fact)
        self._facts.append(fact)

    def _commit(self, decided: Sequence[Record]) -> None:
        going_on = self._state.ended is None and self._state.paused is None
        if going_on and not decided and all(isinstance(fact, OperationStarted) for fact in self._facts):
            return  # the intents say as much: not worth a transaction of their own
        records = [*self._facts, *decided]
        self._facts = []
        for record in decided:
            self._budget.note(record)
        if self._journal is not None:
            self._journal.commit(records)
        if self._listener is not None:
            for record in records:
                self._listener(record)

    def _perform(self, decided: Sequence[Record]) -> None:
        """Do what was decided, and take note of what came of it."""
        state, executor = self._state, self._executor
        wanted: list[NodeRequest] = []
        released: list[str] = []
        pruned = False
        for record in decided:
            match record:
                case NodeWanted():
                    request = NodeRequest(record.node, record.resource, record.segment, record.t, record.replacement)
                    wanted.append(request)
                case NodeReleasing():
                    released.append(record.node)
                case StopWanted():
                    executor.stop(record.operation, self._limits.grace_s)
                case SegmentEnded():
                    pruned = True
                case Replanned() if isinstance(executor, Rehearser):
                    executor.adopt(state.plan)
        if released:
            executor.release_nodes(released)
            for node in released:
                self._note(NodeChanged(executor.now_s(), node, Phase.RELEASED.value))
        if wanted:
            executor.ensure_nodes(wanted)
        for record in decided:
            if isinstance(record, OperationWanted):
                executor.start(state.operations[record.operation].operation)
                self._note(OperationStarted(executor.now_s(), record.operation))
        if pruned:
            self._prune()

    def _prune(self) -> None:
        """Keep the newest checkpoint of each trial; those of trials that are out may go."""
        state = self._state
        alive = {t for name in state.open for t in state.segments[name].members}
        alive |= set(state.ended.finalists) if state.ended is not None else set()
        stored = [(t.name, t.checkpoint) for t in state.trials.values() if t.checkpoint is not None]
        self._executor.prune([c for name, c in stored if name in alive], [c for name, c in stored if name not in alive])

    def _take_note(self, event: Event) -> None:
        """Turn what an executor reports into facts; what is known already is left out."""
        state = self._state
        match event:
            case NodeLaunching() | NodeReady():
                node = state.nodes[event.node]
                ready = isinstance(event, NodeReady)
                known = (Phase.READY,) if ready else (Phase.LAUNCHING, Phase.READY)
                if node.phase in HELD and node.phase not in known:
                    phase = Phase.READY if ready else Phase.LAUNCHING
                    self._note(NodeChanged(event.t, event.node, phase.value, usd_per_hour=event.usd_per_hour))
            case NodeLost():
                if state.nodes[event.node].phase in HELD:
                    self._note(NodeChanged(event.t, event.node, Phase.LOST.value, event.why))
            case Progressed():
                if self._listener is not None:
                    self._listener(event)
            case Finished():
                if event.operation in state.active:
                    self._note(self._ended(event))
            case Failed():
                if event.operation in state.active:
                    self._note(self._failed(event))
                    if event.no_room:
                        trial = state.operations[event.operation].operation.trial
                        self._halt_for(LIMIT, f"{trial} {event.why}; make room, then go on with --resume")

    @staticmethod
    def _failed(event: Failed) -> OperationFailed:
        return OperationFailed(
            event.t,
            event.operation,
            event.why,
            event.tail,
            event.blameless,
            event.hopeless,
            event.iterations,
            plain(dict(event.metrics)),
            None if event.checkpoint is None else asdict(event.checkpoint),
        )

    def _ended(self, event: Finished) -> OperationEnded:
        rung = self._state.operations[event.operation].stop_why == BELL
        return OperationEnded(
            event.t,
            event.operation,
            event.iterations,
            plain(dict(event.metrics)),
            None if event.checkpoint is None else asdict(event.checkpoint),
            event.busy_s,
            event.complete or rung,
            plain(dict(event.timings)),
        )
