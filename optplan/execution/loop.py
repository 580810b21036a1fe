"""What the loops of all runs have in common: notice what has happened, decide, write it down, do it.

One round of a loop is one transaction of the journal: the facts that are new, and the decisions that follow from
them. Only then is the executor called; what came of the calls is written with the next round. So a driver that is
killed at any moment leaves a journal from which another one goes on: it asks the executor what is there, keeps that,
asks again for what was intended and is not there, and repeats nothing that has ended.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

from optplan.errors import OptplanError
from optplan.execution import records as told
from optplan.execution.protocol import Event, Executor
from optplan.execution.records import read_metric
from optplan.execution.runs import Listener, Run, tell
from optplan.execution.state import HELD, Phase, RunState

#: Exit codes: nothing has come of it, no plan keeps the limits, a limit or the solver's time is over, interrupted.
EXIT_FAILED, EXIT_INFEASIBLE, EXIT_LIMIT, EXIT_INTERRUPTED = 1, 3, 4, 130
#: Why a run has ended that the user has given up.
GIVEN_UP = "given up by the user"
#: Seconds after which what was shown on the way is written down, should nothing else be.
_SHOWN_S = 5.0
#: Iterations of an operation that are all kept of its curve, as a power of two; then every second, every fourth, ...
_WHOLE = 5

#: Facts that are not worth a transaction of their own: the intents say as much, or executors say it again.
_MINOR = (told.OperationStarted, told.EpochDone)

_State = TypeVar("_State", bound=RunState)


class Curves:
    """Gathers what operations show on the way, thinned so that a curve's points grow with its iterations' logarithm.

    Without the name of a ``metric``, the first number counts that is shown.
    """

    def __init__(self, metric: str) -> None:
        self._metric = metric
        self._begun: dict[str, int] = {}
        self._points: dict[str, list[tuple[int, float]]] = {}
        self._since_s = math.inf

    def see(self, event: told.Progressed) -> None:
        """Take note of an iteration."""
        shown = [event.metrics.get(self._metric)] if self._metric else [*event.metrics.values()]
        numbers = [each for each in map(read_metric, shown) if not math.isnan(each)]
        done = event.iterations - self._begun.setdefault(event.operation, event.iterations)
        if numbers and not done % (1 << max(0, done.bit_length() - _WHOLE)):
            self._points.setdefault(event.operation, []).append((event.iterations, numbers[0]))
            self._since_s = min(self._since_s, event.t)

    def take(self, now_s: float, *, at_once: bool) -> list[told.Record]:
        """Return what was not written down yet; unless ``at_once``, only when it has waited long enough."""
        if not self._points or not (at_once or now_s >= self._since_s + _SHOWN_S):
            return []
        shown, self._points, self._since_s = self._points, {}, math.inf
        return [told.MetricsShown(now_s, shown)]


class Loop(ABC, Generic[_State]):
    """Follows a run on an executor until it has ended or is paused: decides, writes it down, does it, and listens.

    Without a journal nothing is written down.
    """

    #: Seconds after which it looks around where time is real, whether or not an executor had something to report.
    round_s = 0.5

    def __init__(self, run: Run[Any, Any, _State, Any], executor: Executor, listener: Listener | None = None) -> None:
        self._state, self._journal, self._listener = run.state, run.journal, listener
        self._executor, self._grace_s, self._given_up = executor, run.options.grace_s, False
        #: What was noted and is not written down yet, and what of it was decided in this round.
        self._news: list[told.Record] = []
        self._decided: list[told.Record] = []
        self._curves = Curves(run.metric)
        self._interrupted = 0

    def interrupt(self, code: int = EXIT_INTERRUPTED) -> None:
        """Ask to stop in good order and to pause with an exit code; may be called from a signal handler."""
        self._interrupted = code

    def leave(self) -> None:
        """Tell the listener what is held and runs on when the loop is left at once, by a second interruption."""
        nodes = ", ".join(node.name for node in self._state.held_nodes()) or "none"
        running = ", ".join(each.operation.trial for each in self._state.operations.values()) or "none"
        text = (
            f"ended at once; nodes that are still held: {nodes}; trials that go on: {running}; --resume takes both over"
        )
        tell(self._listener, told.Noted(self._executor.now_s(), text))

    def resume(self, changes: Mapping[str, Any] | None = None, *, starts: bool = True) -> None:
        """Take over what an earlier driver left behind, with options that are others from now on.

        Unless it ``starts`` what that one only wanted to start, this is taken for gone.
        """
        state, executor, now_s = self._state, self._executor, self._executor.now_s()
        self._note(told.Resumed(now_s, dict(changes or {})))
        requests = [
            told.NodeWanted(node.wanted_s, node.name, node.pool, node.resource, node.segment, node.replacement)
            for node in state.held_nodes()
        ]
        running = list(state.operations.values())
        seen = executor.observe(requests, [each.operation for each in running])
        missing = [request for request in requests if request.node not in seen.nodes]
        gone = {each.node for each in missing if state.nodes[each.node].phase in (Phase.LAUNCHING, Phase.READY)}
        for node in sorted(gone):
            self._note(told.NodeChanged(now_s, node, Phase.LOST, "gone when the run was resumed"))
        if starts:
            executor.ensure_nodes([each for each in missing if state.nodes[each.node].phase is Phase.WANTED])
        for each in running:
            name = each.operation.id
            lost = sorted(gone.intersection(each.operation.place))
            if name not in seen.operations and lost:
                why = f"its node {lost[0]} was gone when the run was resumed"
                self._note(told.OperationFailed(now_s, name, why, blameless=True))
            elif each.phase is Phase.WANTED and (starts or name in seen.operations):
                if name not in seen.operations:
                    executor.start(each.operation)  # under its name: should it have been started, that does nothing
                self._see_start(name)
            elif name not in seen.operations:
                why = "was not there any more when the run was resumed"
                self._note(told.OperationFailed(now_s, name, why, blameless=True))
            elif each.phase is Phase.STOPPING:
                executor.stop(name, self._grace_s)
        self._release(sorted(name for name, node in state.nodes.items() if node.phase is Phase.RELEASING))

    def abort(self) -> int:
        """Stop everything in good order, give nodes back and end the run; return its exit code."""
        self._given_up = True
        self.interrupt(EXIT_FAILED)
        return self.follow()

    def follow(self) -> int:
        """Go round until the run has ended or is paused, and return its exit code.

        Where nothing can be written any more, or started, the OptplanError is raised once nothing is left running that
        nobody would look after: another driver finds what is left.
        """
        try:
            while (end := self._state.end) is None:
                now_s, known = self._executor.now_s(), len(self._news)
                self._decide(now_s)
                self._decided = self._news[known:]
                ends = [record for record in self._decided if isinstance(record, told.Ended | told.Paused)]
                del self._news[len(self._news) - len(ends) :]
                self._commit()
                self._news += ends  # written once nodes are given back: else nobody would look after them
                self._perform(self._decided)
                if self._state.end is None:
                    real_s = now_s if self._decided else now_s + self.round_s
                    self._listen(self._wait_until(now_s) if self._executor.is_virtual else real_s)
            self._commit()
        except OptplanError:
            self._abandon()
            raise
        return end.code

    @abstractmethod
    def _decide(self, now_s: float) -> None:
        """Note what is decided now; an end comes last."""

    @abstractmethod
    def _wait_until(self, now_s: float) -> float:
        """Return until when to wait for something to happen on a clock that jumps."""

    def _note(self, *records: told.Record) -> None:
        """Apply facts and decisions; they are written with the next transaction."""
        for record in records:
            self._state.apply(record)
        self._news += records

    def _commit(self) -> None:
        is_minor = self._state.end is None and all(isinstance(record, _MINOR) for record in self._news)
        shown = self._curves.take(self._executor.now_s(), at_once=not is_minor)
        if is_minor and not shown:
            return
        records, self._news = [*shown, *self._news], []  # what was shown before its operations end
        if self._journal is not None:
            self._journal.commit(records)
        for record in records:
            tell(self._listener, record)

    def _listen(self, until_s: float) -> None:
        """Take note of what happens, and wait for something until then."""
        for event in self._executor.poll(until_s):
            self._take_note(event)

    def _abandon(self) -> None:
        """Stop what runs and give nodes back, although it cannot be written down."""
        executor, running = self._executor, [each.operation for each in self._state.operations.values()]
        until_s, left = executor.now_s() + self._grace_s + self.round_s, {each.id for each in running}
        with suppress(OptplanError):  # nobody waits for what was never started
            left &= executor.observe((), running).operations
        for each in running:
            executor.stop(each.id, self._grace_s)
        while left and executor.now_s() < until_s:
            events = executor.poll(min(until_s, executor.now_s() + self.round_s))
            left -= {
                event.operation for event in events if isinstance(event, told.OperationEnded | told.OperationFailed)
            }
        executor.release_nodes([node.name for node in self._state.held_nodes()])

    def _stop_all(self, now_s: float, cause: str, why: str, code: int) -> None:
        """Stop what runs, for a cause; once nothing runs any more, pause, or end where the run is given up."""
        running = self._state.operations.values()
        if not running:
            self._close(told.Ended(now_s, None, GIVEN_UP, code) if self._given_up else told.Paused(now_s, why, code))
        for each in running:
            if each.phase is not Phase.STOPPING:
                self._note(told.StopWanted(now_s, each.operation.id, cause))

    def _close(self, end: told.Ended | told.Paused) -> None:
        """Give back all nodes, and end or pause."""
        held = [node.name for node in self._state.held_nodes() if node.phase is not Phase.RELEASING]
        self._note(*(told.NodeReleasing(end.t, name) for name in held), end)

    def _perform(self, decided: Sequence[told.Record]) -> None:
        """Do what was decided, and take note of what came of it."""
        executor = self._executor
        for record in decided:
            if isinstance(record, told.StopWanted):
                executor.stop(record.operation, self._grace_s)
        self._release([record.node for record in decided if isinstance(record, told.NodeReleasing)])
        if wanted := [record for record in decided if isinstance(record, told.NodeWanted)]:
            executor.ensure_nodes(wanted)
        for record in decided:
            if isinstance(record, told.OperationWanted):
                executor.start(self._state.operations[record.operation].operation)
                self._see_start(record.operation)

    def _release(self, nodes: Sequence[str]) -> None:
        if nodes:
            self._executor.release_nodes(nodes)
        self._note_release(nodes)

    def _note_release(self, nodes: Sequence[str]) -> None:
        for node in nodes:
            self._note(told.NodeChanged(self._executor.now_s(), node, Phase.RELEASED))

    def _take_note(self, event: Event) -> None:
        """Turn what an executor reports into facts; what is known already is left out."""
        match event:
            case told.NodeChanged():
                self._see_change(event)
            case told.Progressed():
                self._see_progress(event)
            case told.OperationEnded() | told.OperationFailed() if event.operation in self._state.operations:
                self._see_end(event)

    def _see_start(self, operation: str) -> None:
        self._note(told.OperationStarted(self._executor.now_s(), operation))

    def _see_change(self, event: told.NodeChanged) -> None:
        node = self._state.nodes[event.node]
        is_new = node.phase in HELD and (event.phase == Phase.LOST or node.phase not in (event.phase, Phase.READY))
        if is_new or (event.phase == Phase.LAUNCHING and event.t < (node.launch_s or 0.0)):  # told late
            self._note(event)

    def _see_progress(self, event: told.Progressed) -> None:
        self._curves.see(event)
        tell(self._listener, event)

    def _see_end(self, event: told.OperationEnded | told.OperationFailed) -> None:
        self._note(event)
