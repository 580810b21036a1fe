"""The virtual executor: a plan on a virtual clock, as it is expected to go or with seeded luck.

Without luck every segment takes exactly what the plan expects. With it, launches and the times of trials are drawn
around their means with the plan's standard deviations (normal, cut off at zero), each from a stream named by what it
is, so that a run that was interrupted goes on with the same luck.

Trials show nothing, unless there is something to train: here and at once, whatever the clock shows.
"""

from __future__ import annotations

import math
import zlib
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from optplan.contracts.conditions import Elapsed, IterationsDone, waits_for
from optplan.contracts.plan import Plan
from optplan.errors import DataError, UsageError
from optplan.execution.options import SearchOptions
from optplan.execution.progress import VirtualClock
from optplan.execution.protocol import Event, Executor, Metrics, Observation, Operation
from optplan.execution.records import Checkpoint, NodeChanged, NodeWanted, OperationEnded, Progressed, plain
from optplan.execution.state import Phase
from optplan.execution.trainables import Session, import_trainable, make_trainer
from optplan.execution.trial_files import store
from optplan.formulations import formulation_of
from optplan.instances.parsing import parse_instance

#: What a trial shows, and where its state is stored, once it has done so many iterations in an operation.
Training = Callable[[Operation, int], tuple[Metrics, Checkpoint | None]]


#: Where a clock ends, 30,000 years on: beyond it, what takes milliseconds would take no time, and not end.
LATEST_S = 1e12


class ClockExecutor(Executor):
    """What executors on a clock that jumps have in common: their heirs say what takes how long."""

    is_virtual = True

    def __init__(self, now_s: float) -> None:
        #: Holds what is heard, and what happens in operations: by their names, or what makes it happen.
        self._clock: VirtualClock[Any] = VirtualClock(now_s)
        #: By node, the tickets of what is to happen to it; and operations: what their heirs know, and the ticket.
        self._nodes: dict[str, list[int]] = {}
        self._running: dict[str, Any] = {}
        self._stopping: set[str] = set()

    def now_s(self) -> float:
        """Return what the clock shows."""
        return self._clock.now

    def observe(self, nodes: Sequence[NodeWanted], operations: Sequence[Operation]) -> Observation:
        """Go on with what an earlier driver asked for: everything takes what it would have taken."""
        self.ensure_nodes(nodes)
        for operation in operations:
            self.start(operation)
        return Observation(frozenset(self._nodes), frozenset(self._running))

    def release_nodes(self, nodes: Sequence[str]) -> None:
        """Give nodes back."""
        for node in nodes:
            for ticket in self._nodes.pop(node, ()):
                self._clock.cancel(ticket)

    def stop(self, operation: str, grace_s: float) -> None:  # noqa: ARG002 - nothing lingers on a virtual clock
        """Stop an operation where it is; that is reported at once."""
        if operation in self._running and operation not in self._stopping:
            *known, ticket = self._running[operation]
            self._clock.cancel(ticket)
            self._stopping.add(operation)
            self._running[operation] = *known, self._clock.schedule(self._clock.now, operation)

    def poll(self, until_s: float) -> list[Event]:
        """Move the clock to the next time at which something happens, and return all that happens then."""
        at, until_s = self._clock.next_at, max(until_s, self._clock.now)  # what is due happens, late or not
        if at > LATEST_S and len(self._clock):
            problem = f"leads to {at:g} s on the virtual clock, which cannot tell seconds apart there"
            raise DataError("plan", problem, "check the units of its times")
        if at > until_s:
            self._clock.now = until_s
            return []
        events: list[Event] = []
        while (item := self._clock.advance(at)) is not None:
            events += self._happen(item) if isinstance(item, str | partial) else [item]
        return events

    @abstractmethod
    def _happen(self, what: Any) -> list[Event]:  # noqa: ANN401 - as its heir has scheduled it
        """Let happen what is due in an operation."""


class VirtualExecutor(ClockExecutor):
    """Runs a plan on a virtual clock, where trials may be slower, and nodes dearer, than planned, as options say."""

    def __init__(
        self,
        plan: Plan,
        options: SearchOptions | None = None,
        *,
        training: Training | None = None,
        now_s: float = 0.0,
    ) -> None:
        self._options = options or SearchOptions()
        self._training, dearer = training, self._options.dearer
        self._usd_per_hour = {
            name: None if each.price_usd_per_hour is None or dearer == 1.0 else dearer * each.price_usd_per_hour
            for name, each in plan.resources.items()
        }
        self.adopt(plan)
        super().__init__(now_s)

    def adopt(self, plan: Plan) -> None:
        """Take times from another plan, for what is started from now on."""
        self._plan = plan
        if plan.supersedes:  # what it says itself may rest on what was measured here; its instance says what is so
            instance = parse_instance(plan.instance, path="plan.instance")
            self._plan = formulation_of(instance).retime(instance, plan)
        self._segments = {segment.id: segment for segment in self._plan.segments}

    def ensure_nodes(self, requests: Sequence[NodeWanted]) -> None:
        """Ask for nodes; they are there as soon as the plan expects."""
        for request in requests:
            if request.node not in self._nodes:
                launch_s, ready_s = self._time_launch(request)
                usd = self._usd_per_hour.get(request.resource)
                self._nodes[request.node] = [
                    self._clock.schedule(t, NodeChanged(t, request.node, phase, usd_per_hour=usd))
                    for t, phase in ((launch_s, Phase.LAUNCHING), (ready_s, Phase.READY))
                ]

    def start(self, operation: Operation) -> None:
        """Start an operation, unless it runs already."""
        if operation.id not in self._running:
            end_s = operation.wanted_s + self._time_operation(operation)
            self._running[operation.id] = operation, self._clock.schedule(end_s, operation.id)

    def _happen(self, what: str) -> list[Event]:
        """End an operation."""
        name, operation = what, self._running.pop(what)[0]
        now_s = self._clock.now
        took_s, planned_s = now_s - operation.wanted_s, self._time_operation(operation)
        share = 1.0 if planned_s <= 0 else min(1.0, took_s / planned_s)
        complete = share >= 1.0 - 1e-12
        if operation.to_iterations is None:
            iterations = operation.from_iterations + self._count_iterations(operation, took_s)
        else:
            left = operation.to_iterations - operation.from_iterations
            iterations = operation.from_iterations + (left if complete else math.floor(share * left))
        metrics, checkpoint = ({}, None) if self._training is None else self._training(operation, iterations)
        busy_s = min(took_s, self._time_operation(operation, waiting=False))
        timings = self._measure(operation, iterations, busy_s) if complete else {}
        ended = OperationEnded(now_s, name, iterations, metrics, checkpoint, busy_s, complete, timings)
        return [*(Progressed(now_s, name, *shown) for shown in getattr(self._training, "shown", ())), ended]

    def _measure(self, operation: Operation, iterations: int, busy_s: float) -> dict[str, float]:
        """Tell iterations from what starting took, in the proportion in which they are expected."""
        expected, steps = self._segments[operation.segment].expected, iterations - operation.from_iterations
        if operation.to_iterations is None or not expected.iteration_s or not expected.member_s or steps <= 0:
            return {}
        part = min(1.0, self._count_whole(operation) * expected.iteration_s / expected.member_s)
        return {"start_s": (1.0 - part) * busy_s, "steps": float(steps), "step_s": part * busy_s / steps}

    def _count_whole(self, operation: Operation) -> int:
        """Count the iterations that a trial does in the whole of a segment."""
        before = [self._segments[name].exit for name in waits_for(self._segments[operation.segment].enter)]
        begun = max((each.iterations for each in before if isinstance(each, IterationsDone)), default=0)
        return (operation.to_iterations or 0) - begun

    def _count_iterations(self, operation: Operation, took_s: float) -> int:
        """Count the iterations of a segment that ends by the clock: one, where it is not known how long they take."""
        iteration_s = self._segments[operation.segment].expected.iteration_s
        return 1 if not iteration_s else math.floor(took_s / (iteration_s * self._options.slower))

    def _time_launch(self, request: NodeWanted) -> tuple[float, float]:
        """Return when the launch of a node begins, and when it can train."""
        resource, expected = self._plan.resources[request.resource], self._segments[request.segment].expected
        request_s, launch_s = resource.request_s, resource.launch_s
        if self._options.lucky:
            request_s = self._draw(request_s, resource.request_sd_s, "request", request.segment)
            launch_s = self._draw(launch_s, resource.launch_sd_s, "launch", request.node)
        elif not request.replacement:  # a segment waits for the last of its new nodes
            request_s = min(request_s, expected.launch_s)
            launch_s = expected.launch_s - request_s
        return request.t + request_s, request.t + request_s + launch_s

    def _time_operation(self, operation: Operation, *, waiting: bool = True) -> float:
        """Return the seconds that an operation takes, or for which it is busy if not ``waiting`` for the others."""
        segment = self._segments[operation.segment]
        expected = segment.expected
        if operation.until_s is not None:
            return max(0.0, operation.until_s - operation.wanted_s)
        slower, whole = self._options.slower, self._count_whole(operation)
        drawn = expected.member_s, expected.member_sd_s, "member", operation.segment, operation.trial
        member_s = slower * (self._draw(*drawn) if self._options.lucky else expected.member_s)
        if whole > 0:
            member_s *= min(1.0, ((operation.to_iterations or 0) - operation.from_iterations) / whole)
        if self._options.lucky or not waiting or not operation.is_last:
            return member_s
        # The mean of the slowest of many is more than the slowest of their means: the last one waits for the plan's.
        waves = -(-segment.members // segment.at_once)
        return member_s + slower * max(0.0, expected.seconds - expected.pause_s - waves * expected.member_s)

    def _draw(self, mean_s: float, sd_s: float, *name: str) -> float:
        """Draw from the stream of random numbers that has a name."""
        key = [zlib.crc32(part.encode()) for part in name]
        stream = np.random.Generator(np.random.Philox(np.random.SeedSequence(self._options.seed, spawn_key=key)))
        return max(0.0, float(stream.normal(mean_s, sd_s))) if sd_s else mean_s


class Rehearsal:
    """Trains in this process what a virtual executor reports, and stores checkpoints below ``root``.

    Where segments end by the clock the plan has to know how many iterations that is.
    """

    def __init__(self, plan: Plan, train: str, folder: Path, root: Path) -> None:
        if any(isinstance(each.exit, Elapsed) and each.expected.iteration_s is None for each in plan.segments):
            raise UsageError(
                "train: segments end by the clock, and the plan does not know how long an iteration takes; leave it "
                "out on the virtual clock, or use --executor local"
            )
        self._trainable = import_trainable(train, folder)
        self._root = root
        #: What the last trial has shown after each iteration: these in all, and metrics.
        self.shown: list[tuple[int, Metrics]] = []

    def __call__(self, operation: Operation, iterations: int) -> tuple[Metrics, Checkpoint | None]:
        """Train a trial up to so many iterations, and store it."""
        checkpoint = None if operation.checkpoint is None else self._root / operation.checkpoint.path
        session = Session(checkpoint=checkpoint, iterations=operation.from_iterations, gpus=operation.workers)
        trainer = make_trainer(self._trainable, operation.configuration, session)
        metrics: Metrics = operation.metrics
        self.shown = []
        for done in range(operation.from_iterations, iterations):
            shown = trainer.step()
            if shown is None:
                break
            metrics = plain(dict(shown))
            self.shown.append((done + 1, metrics))
        stored = store(self._root, f"trials/{operation.trial}/checkpoint-{iterations:06d}-000", trainer.save)
        trainer.close()
        return metrics, stored
