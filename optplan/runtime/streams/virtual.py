"""Streams on a virtual clock: every epoch takes what an instance says of its class, on whatever the job holds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optplan.clock import VirtualClock
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.online.estimates import interpolate
from optplan.runtime.protocol import (
    Capabilities,
    Checkpoint,
    Event,
    Finished,
    NodeReady,
    NodeRequest,
    Observation,
    Operation,
    Progressed,
)
from optplan.units import SECONDS_PER_HOUR


class VirtualStreamExecutor:
    """Runs jobs of a stream on a virtual clock.

    Parameters
    ----------
    truth
        How large epochs really are and how fast they run; has the classes of all jobs.
    node_start_s
        Seconds until a node can be used.
    now_s
        What the clock shows at first.
    """

    capabilities = Capabilities("virtual", is_virtual=True)

    def __init__(self, truth: BoaInstance, *, node_start_s: float = 0.0, now_s: float = 0.0) -> None:
        self._truth, self._start_s = truth, node_start_s
        self._clock: VirtualClock[NodeReady | str] = VirtualClock(now_s)
        self._nodes: dict[str, tuple[str, int]] = {}
        # By operation: it, epochs done, the ticket of what comes next, and when its present epoch began.
        self._running: dict[str, tuple[Operation, int, int, float]] = {}
        self._stopping: set[str] = set()

    def now_s(self) -> float:
        """Return what the clock shows."""
        return self._clock.now

    def observe(self, nodes: Sequence[NodeRequest], operations: Sequence[Operation]) -> Observation:
        """Go on with what an earlier driver asked for, each from the beginning of its operation."""
        self.ensure_nodes(nodes)
        for operation in operations:
            self.start(operation)
        return Observation(frozenset(self._nodes), frozenset(self._running))

    def ensure_nodes(self, requests: Sequence[NodeRequest]) -> None:
        """Ask for nodes."""
        for request in requests:
            if request.node not in self._nodes:
                ready_s = request.wanted_s + self._start_s
                ticket = self._clock.schedule(ready_s, NodeReady(request.node, max(ready_s, self._clock.now)))
                self._nodes[request.node] = request.resource, ticket

    def release_nodes(self, nodes: Sequence[str]) -> None:
        """Give nodes back."""
        for node in nodes:
            if node in self._nodes:
                self._clock.cancel(self._nodes.pop(node)[1])

    def start(self, operation: Operation) -> None:
        """Start an operation, unless it runs already: first comes its pause, then its epochs."""
        if operation.id not in self._running:
            self._go_on(operation, operation.from_iterations, self._truth.classes[operation.segment].rescale_s)

    def stop(self, operation: str, grace_s: float) -> None:  # noqa: ARG002 - nothing lingers on a virtual clock
        """Stop an operation; what it has done of its present epoch is lost."""
        if operation in self._running and operation not in self._stopping:
            held, done, ticket, began_s = self._running[operation]
            self._clock.cancel(ticket)
            self._stopping.add(operation)
            self._running[operation] = held, done, self._clock.schedule(self._clock.now, operation), began_s

    def poll(self, until_s: float) -> list[Event]:
        """Move the clock to the next time at which something happens, and return all that happens then."""
        at = self._clock.next_at
        if at > until_s:
            self._clock.now = max(self._clock.now, until_s)
            return []
        events: list[Event] = []
        while (item := self._clock.advance(at)) is not None:
            events += self._happen(item) if isinstance(item, str) else [item]
        return events

    def prune(self, keep: Sequence[Checkpoint], droppable: Sequence[Checkpoint]) -> None:
        """Delete nothing: nothing is stored."""

    def close(self) -> None:
        """Hold nothing."""

    def _happen(self, name: str) -> list[Event]:
        """End an epoch, and with it perhaps the operation."""
        operation, done, _, began_s = self._running.pop(name)
        now_s, events = self._clock.now, list[Event]()
        if name not in self._stopping:
            done += 1
            events.append(Progressed(name, now_s, done, {}, now_s - began_s))
            if done < (operation.to_iterations or done):
                self._go_on(operation, done, 0.0)
                return events
        self._stopping.discard(name)
        busy_s = now_s - operation.wanted_s
        return [*events, Finished(name, now_s, done, {}, None, busy_s, complete=done == operation.to_iterations)]

    def _go_on(self, operation: Operation, done: int, pause_s: float) -> None:
        begins_s = self._clock.now + pause_s
        ticket = self._clock.schedule(begins_s + self._time_epoch(operation, done), operation.id)
        self._running[operation.id] = operation, done, ticket, begins_s

    def _time_epoch(self, operation: Operation, epoch: int) -> float:
        known = self._truth.classes[operation.segment]
        sizes_h = np.asarray(known.epoch_size_gpu_hours)
        gpu_type = self._nodes[next(iter(operation.place))][0]
        curve = known.speedup[gpu_type]
        widths = curve.known_widths()
        if widths is None or operation.workers in widths:
            rows = curve.at(np.array([operation.workers]))[:, 0]
            speed = float(rows[min(epoch, rows.size - 1)])
        else:
            speed = float(interpolate(curve, np.array([operation.workers]))[0])
        return float(sizes_h[min(epoch, sizes_h.size - 1)]) * SECONDS_PER_HOUR / speed
