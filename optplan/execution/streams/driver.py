"""The loop of a stream, in rounds as :mod:`optplan.execution.loop` has them: who holds what, and how many nodes."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

from optplan.execution import records as told
from optplan.execution.executors import call
from optplan.execution.loop import Loop
from optplan.execution.online.decisions import Allocator, Decision
from optplan.execution.online.jobs import SECOND_QUEUE_GPU_S, ActiveJob, Order
from optplan.execution.online.width_table import Rows
from optplan.execution.progress import VirtualClock
from optplan.execution.protocol import Executor
from optplan.execution.runs import Listener
from optplan.execution.state import Phase
from optplan.execution.streams.running import StreamRun
from optplan.execution.streams.state import JobState, StreamJob, StreamState

_number = attrgetter("number")
#: What to do where the command is missing that is told how many nodes are wanted.
_INSTEAD = "give one that is there as --scale-command"
#: What rounding may put a moment too late by.
_SLACK = 1.0 + 1e-9


class StreamDriver(Loop[StreamState]):
    """Serves the jobs of a stream until all of them are over.

    Jobs that do not say how many epochs they have do one. Without a learner the first table stays.
    """

    round_s = 0.25

    def __init__(self, run: StreamRun, executor: Executor, listener: Listener | None = None) -> None:
        super().__init__(run, executor, listener)
        self._rules, self._options, state = run.rules, run.options, run.state
        self._coming = [job for job in reversed(run.jobs) if job.name not in state.jobs]
        self._learner = run.make_learner()
        self._rows = Rows()
        for job in state.jobs.values():
            self._rows.restore(job.name, job.job_class, job.row)
        self._allocator = Allocator(state.table, self._rules, at_once=executor.at_once)
        self._have_to_start = any(node.launch_s != node.ready_s for node in state.nodes.values())
        # Jobs without an operation that claim the place of their last one.
        self._claiming: dict[str, JobState] = {}
        # Who will have held so much that others come first, and when.
        self._lagging: VirtualClock[str] = VirtualClock()
        self._told: Mapping[str, int] = {}

    # ------------------------------------------------------------------------------------------------------ deciding

    def _decide(self, now_s: float) -> None:
        if self._interrupted:
            self._stop_all(now_s, "interrupted", "interrupted", self._interrupted)
            return
        state, known = self._state, len(self._news)
        if not state.jobs:
            self._learn(now_s)  # the first widths are those of what was known before any job came
        while self._coming and self._coming[-1].at_s <= now_s:
            self._note(self._admit(self._coming.pop(), now_s))
        self._learn(now_s)
        self._give_up(now_s)
        decision = self._divide(now_s)
        moving = {**self._claiming, **{name: state.jobs[name] for name in decision.places}}
        targets = {name: decision.places.get(name, job.place) for name, job in moving.items()}
        leaving = {name: job for name, job in moving.items() if job.operation and targets[name] != job.place}
        if not (leaving and self._executor.is_virtual):
            self._size(decision, now_s)
            leaving = moving
        blocked = self._find_blocked(targets)
        if blocked:  # who takes what is left would be given more before them, once others have left that
            blocked.update(name for name in decision.short if not state.jobs[name].place)
        for job in sorted(leaving.values(), key=_number):  # on a clock that jumps all leave before anybody begins
            if job.name not in blocked:
                self._place(job, targets[job.name], now_s)
        if len(self._news) == known and self._is_stuck():
            for name in [name for name, job in state.active.items() if not decision.places.get(name, job.place)]:
                self._note(
                    told.TrialDropped(now_s, name, "never got the GPUs to go on, and nothing else was to happen")
                )
        if not (self._coming or state.active or state.operations):
            self._close(told.Ended(now_s, None, code=int(any(job.why_dropped for job in state.jobs.values()))))

    def _admit(self, job: StreamJob, now_s: float) -> told.JobArrived:
        row = self._rows.row_of(job.name, job.job_class, self._state.table)
        committed = None if self._learner is None else self._learner.calculator.expect(job.job_class)
        return told.JobArrived(now_s, job.name, job.job_class, job.epochs or 1, row, dict(job.configuration), committed)

    def _learn(self, now_s: float) -> None:
        made = None if self._learner is None else self._learner.consider(now_s)
        if made is not None and made[0].classes != self._state.table.classes:
            self._note(told.TablePublished(now_s, made[0].to_json_data(), made[1]))

    def _give_up(self, now_s: float) -> None:
        """Drop jobs that have failed too often."""
        jobs = [self._state.jobs[name] for name in self._state.changed_jobs]
        failing = [job for job in jobs if job.is_hopeless or job.failures > self._options.retries]
        for job in sorted(failing, key=_number):
            if not (job.is_over or job.operation):
                self._note(told.TrialDropped(now_s, job.name, job.last_failure))

    def _divide(self, now_s: float) -> Decision:
        """Tell the allocator what has changed since it was last asked, and ask it."""
        state, allocator = self._state, self._allocator
        allocator.follow(state.table)
        while (name := self._lagging.advance(now_s * _SLACK)) is not None:
            state.changed_jobs[name] = None
        for name in state.changed_nodes:
            node = state.nodes[name]
            self._have_to_start |= node.launch_s != node.ready_s
            if node.phase is Phase.READY:
                allocator.add_node(name, node.resource, node.number)
            else:
                allocator.drop_node(name)
        self._watch_claims(now_s)
        for name in state.changed_jobs:
            if name in state.active:
                allocator.put(self._describe(state.active[name], now_s))
            else:
                allocator.drop(name)
        state.changed_jobs, state.changed_nodes = {}, {}
        decision = allocator.decide()
        return replace(decision, places={}) if decision.coming else decision  # they are there in a moment

    def _watch_claims(self, now_s: float) -> None:
        """Let jobs between two operations claim their last place, as long as it is there and nobody else is."""
        state = self._state
        for name in state.changed_jobs:
            job = state.jobs[name]
            if job.place and not (job.is_over or job.operation):
                self._claiming[name] = job
            else:
                self._claiming.pop(name, None)
        claimed: dict[str, int] = {}
        for job in sorted(self._claiming.values(), key=_number):
            place = {node: gpus + claimed.get(node, 0) for node, gpus in job.place.items()}
            if state.has_free(place, self._rules.gpus_per_node):
                claimed.update(place)
            else:
                self._leave(job, now_s)

    def _leave(self, job: JobState, now_s: float) -> None:
        """Claim the place of a job no more."""
        self._claiming.pop(job.name, None)
        if job.place:
            self._note(told.PlaceLeft(now_s, job.name))

    def _describe(self, job: JobState, now_s: float) -> ActiveJob:
        """Return a job as the allocator has to know it."""
        gpus, left = sum(job.place.values()), self._state.remaining.left_s(job.job_class, job.iterations, job.row)
        held_s = now_s - self._state.operations[job.operation].wanted_s if job.operation else 0.0
        attained = job.gpu_s + held_s * gpus
        if self._rules.order is Order.LEAST_ATTAINED and job.operation and attained < SECOND_QUEUE_GPU_S:
            self._lagging.schedule(now_s + (SECOND_QUEUE_GPU_S - attained) / gpus, job.name)
        known = (job.name, job.job_class, job.iterations, job.place, job.row, job.arrived_s)
        return ActiveJob(*known, attained, left, self._rules.weights.get(job.job_class, 1.0))

    def _place(self, job: JobState, target: Mapping[str, int], now_s: float) -> None:
        """Stop a job that is to be elsewhere; start one that is nowhere, as soon as its GPUs are free."""
        state = self._state
        if job.operation:
            running = state.operations[job.operation]
            if running.phase is not Phase.STOPPING and dict(target) != dict(running.operation.place):
                self._note(told.StopWanted(now_s, job.operation, "resize"))
        elif not target:
            self._leave(job, now_s)
        else:
            attempt = job.attempts + 1
            what = f"{job.name}.{attempt}", str(self._find_end(job, target)), job.name
            self._note(told.OperationWanted(now_s, *what, attempt, dict(target)))

    def _find_blocked(self, targets: Mapping[str, Mapping[str, int]]) -> set[str]:
        """Find jobs that cannot start: others have their GPUs, or claim them between two operations and cannot start.

        So whoever is to go elsewhere keeps its claim until it can.
        """
        state, sizes, blocked = self._state, self._rules.gpus_per_node, set[str]()
        starting = [name for name, target in targets.items() if target and not state.jobs[name].operation]
        starting.sort(key=lambda name: (name not in self._claiming, state.jobs[name].number))
        while True:
            taken, before = Counter[str](), len(blocked)
            for name in blocked & self._claiming.keys():
                taken.update(self._claiming[name].place)
            for name in starting:
                if name not in blocked:
                    if state.has_free({node: gpus + taken[node] for node, gpus in targets[name].items()}, sizes):
                        taken.update(targets[name])
                    else:
                        blocked.add(name)
            if len(blocked) == before:
                return blocked

    def _find_end(self, job: JobState, target: Mapping[str, int]) -> int:
        """Return up to which epoch a job goes on in one piece: until it holds others that are surely there then.

        Where they may not be, it goes on with what it has, and is stopped once they are all there and ready. To end by
        itself before would be a pause for nothing, as nodes are asked for only when the epoch is over, and as another
        table may say by then that it stays.
        """
        if self._learner is not None:
            return job.epochs
        table, (gpus, epoch) = self._state.table, (sum(target.values()), job.iterations)
        now = table.held_at(job.job_class, epoch, job.row)
        change = table.keeps_until(job.job_class, epoch, job.row)
        if now.gpus != gpus or change >= job.epochs:
            return job.epochs
        following = table.held_at(job.job_class, change, job.row)
        shrinks = following.gpus < gpus and following.gpu_type == now.gpu_type
        is_plenty = math.isinf(self._rules.most) and not self._have_to_start
        return change if shrinks or is_plenty else job.epochs

    def _size(self, decision: Decision, now_s: float) -> None:
        """Ask for nodes that are missing, and give back those that nobody needs."""
        state = self._state
        for kind, wanted in decision.nodes.items():
            for _ in range(wanted - len(state.pools.get(kind, ()))):
                self._note(told.NodeWanted(now_s, f"{kind}.node-{len(state.nodes) + 1:05d}", kind, kind, kind))
        for name in decision.idle:
            if not state.taken.get(name):
                self._note(told.NodeReleasing(now_s, name))
        if self._options.scale_command and decision.nodes != self._told:
            self._told = dict(decision.nodes)
            for kind, count in self._told.items():
                own = {"OPTPLAN_GPU_TYPE": kind, "OPTPLAN_NODES": str(count)}
                call(*shlex.split(self._options.scale_command), instead=_INSTEAD, variables=own)

    def _is_stuck(self) -> bool:
        """Whether nothing will happen any more on a clock that jumps."""
        if not self._executor.is_virtual or self._coming or self._state.operations:
            return False
        return not any(node.phase in (Phase.WANTED, Phase.LAUNCHING) for node in self._state.held_nodes())

    def _wait_until(self, now_s: float) -> float:  # noqa: ARG002 - what is next is next at any time
        if self._interrupted:
            return math.inf
        arrival_s = self._coming[-1].at_s if self._coming else math.inf
        return min(arrival_s, math.inf if self._learner is None else self._learner.calculator.due_s)

    # --------------------------------------------------------------------------------------------- writing and doing

    def _perform(self, decided: Sequence[told.Record]) -> None:
        super()._perform(decided)
        if any(isinstance(record, told.Ended) for record in decided):
            stored = [job.checkpoint for job in self._state.jobs.values() if job.checkpoint is not None]
            self._executor.prune(stored, ())

    def _note(self, *records: told.Record) -> None:
        for record in records:
            if self._learner is not None:
                self._learner.see(record, self._state)
            super()._note(record)

    def _see_end(self, event: told.OperationEnded | told.OperationFailed) -> None:
        """See the end of what a job ran; all of it without one epoch is a failure, or it would start for ever."""
        begun = self._state.operations[event.operation].operation.from_iterations
        if isinstance(event, told.OperationEnded) and event.complete and event.iterations <= begun:
            why = "ended with exit code 0, and has shown no epoch that it was to do"
            event = told.OperationFailed(event.t, event.operation, why)
        super()._see_end(event)

    def _see_progress(self, event: told.Progressed) -> None:
        running = self._state.operations.get(event.operation)
        if running is not None and event.iterations > self._state.jobs[running.operation.trial].iterations:
            self._note(told.EpochDone(event.t, event.operation, event.iterations, event.seconds))
        super()._see_progress(event)
