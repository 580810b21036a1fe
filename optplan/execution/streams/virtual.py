"""Streams on a virtual clock: every epoch takes what an instance says of its class, on whatever the job holds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optplan.execution.online.estimates import interpolate
from optplan.execution.protocol import Capabilities, Event, NodeRequest, Operation
from optplan.execution.records import NodeChanged, OperationEnded, Progressed
from optplan.execution.state import Phase
from optplan.execution.virtual import ClockExecutor
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.units import SECONDS_PER_HOUR


class VirtualStreamExecutor(ClockExecutor):
    """Runs jobs of a stream on a virtual clock, as an instance says that has the classes of all of them."""

    capabilities = Capabilities("virtual", is_virtual=True)

    def __init__(self, truth: BoaInstance, *, now_s: float = 0.0) -> None:
        super().__init__(now_s)
        self._truth = truth
        self._types: dict[str, str] = {}
        # By operation: it, epochs done, the ticket of what comes next, and when its present epoch begins and ends.
        self._running: dict[str, tuple[Operation, int, int, float, float]] = {}
        self._stopping: set[str] = set()

    def ensure_nodes(self, requests: Sequence[NodeRequest]) -> None:
        """Ask for nodes, which are paid from then on."""
        for request in requests:
            if request.node not in self._nodes:
                known = self._truth.gpu_types.get(request.resource)
                launch_s, start_s = request.wanted_s, 0.0 if known is None else known.start_s or 0.0
                events: list[Event] = [NodeChanged(launch_s, request.node, Phase.LAUNCHING)] if start_s else []
                events.append(NodeChanged(max(launch_s + start_s, self._clock.now), request.node, Phase.READY))
                self._nodes[request.node] = [self._clock.schedule(event.t, event) for event in events]
                self._types[request.node] = request.resource

    def start(self, operation: Operation) -> None:
        """Start an operation, unless it runs already: first comes its pause, then its epochs.

        What an earlier driver had asked for has gone on since.
        """
        if operation.id not in self._running:
            self._go_on(operation, operation.from_iterations, operation.wanted_s + self._pause_s(operation))

    def stop(self, operation: str, grace_s: float) -> None:  # noqa: ARG002 - nothing lingers on a virtual clock
        """Stop an operation; what it has done of its present epoch is lost."""
        if operation in self._running and operation not in self._stopping:
            held, done, ticket, began_s, _ = self._running[operation]
            self._clock.cancel(ticket)
            self._stopping.add(operation)
            now_s = self._clock.now
            self._running[operation] = held, done, self._clock.schedule(now_s, operation), began_s, now_s

    def _happen(self, what: str) -> list[Event]:
        """End an epoch, and with it perhaps the operation."""
        name = what
        operation, done, _, began_s, now_s = self._running.pop(name)
        events = list[Event]()
        if name not in self._stopping:
            done += 1
            events.append(Progressed(now_s, name, done, {}, now_s - began_s))
            if done < (operation.to_iterations or done):
                self._go_on(operation, done, now_s)
                return events
        self._stopping.discard(name)
        busy_s, steps = now_s - operation.wanted_s, done - operation.from_iterations
        complete, timings = done == operation.to_iterations, dict[str, float]()
        if complete:
            start_s = self._pause_s(operation)
            timings = {"start_s": start_s, "steps": float(steps), "step_s": (busy_s - start_s) / steps}
        return [*events, OperationEnded(now_s, name, done, {}, None, busy_s, complete, timings)]

    def _pause_s(self, operation: Operation) -> float:
        """Return what the process of a job takes to start on the GPUs that it holds."""
        return self._truth.classes[operation.segment].rescale_s_of(self._types[next(iter(operation.place))])

    def _go_on(self, operation: Operation, done: int, begins_s: float) -> None:
        ends_s = begins_s + self._time_epoch(operation, done)
        ticket = self._clock.schedule(ends_s, operation.id)
        self._running[operation.id] = operation, done, ticket, begins_s, ends_s

    def _time_epoch(self, operation: Operation, epoch: int) -> float:
        known = self._truth.classes[operation.segment]
        sizes_h = np.asarray(known.epoch_size_gpu_hours)
        curve = known.speedup[self._types[next(iter(operation.place))]]
        widths = curve.known_widths()
        if widths is None or operation.workers in widths:
            rows = curve.at(np.array([operation.workers]))[:, 0]
            speed = float(rows[min(epoch, rows.size - 1)])
        else:
            speed = float(interpolate(curve, np.array([operation.workers]))[0])
        return float(sizes_h[min(epoch, sizes_h.size - 1)]) * SECONDS_PER_HOUR / speed
