"""Streams on a virtual clock: every epoch takes what an instance says of its class, on whatever the job holds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optplan.execution.online.estimates import interpolate
from optplan.execution.progress import Course, Progress
from optplan.execution.protocol import Event, Operation
from optplan.execution.records import NodeChanged, NodeWanted, OperationEnded, Progressed
from optplan.execution.state import Phase
from optplan.execution.virtual import ClockExecutor
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.units import SECONDS_PER_HOUR


class VirtualStreamExecutor(ClockExecutor):
    """Runs jobs of a stream on a virtual clock, as an instance says that has the classes of all of them."""

    def __init__(self, truth: BoaInstance, *, now_s: float = 0.0) -> None:
        super().__init__(now_s)
        self._truth = truth
        has_starts = any(known.start_s for known in truth.gpu_types.values())
        self.at_once = not has_starts
        self._types: dict[str, str] = {}
        # By operation: it, how it gets on, and the ticket of what comes next.
        self._running: dict[str, tuple[Operation, Progress, int]] = {}
        # By class, type and GPUs: what the epochs take.
        self._courses: dict[tuple[str, str, int], Course] = {}

    def ensure_nodes(self, requests: Sequence[NodeWanted]) -> None:
        """Ask for nodes, which are paid from then on."""
        for request in requests:
            if request.node not in self._nodes:
                known = self._truth.gpu_types.get(request.resource)
                launch_s, start_s = request.t, 0.0 if known is None else known.start_s or 0.0
                events: list[Event] = [NodeChanged(launch_s, request.node, Phase.LAUNCHING)] if start_s else []
                events.append(NodeChanged(max(launch_s + start_s, self._clock.now), request.node, Phase.READY))
                self._nodes[request.node] = [self._clock.schedule(event.t, event) for event in events]
                self._types[request.node] = request.resource

    def start(self, operation: Operation) -> None:
        """Start an operation, unless it runs already: first comes its pause, then its epochs.

        What an earlier driver had asked for has gone on since.
        """
        if operation.id not in self._running:
            wanted_s = operation.wanted_s
            job = Progress(epochs_done=operation.from_iterations, settled_s=wanted_s)
            pause_s = self._truth.classes[operation.segment].rescale_s_of(self._types[next(iter(operation.place))])
            job.hold(operation.workers, self._find_course(operation), wanted_s + pause_s)
            self._go_on(operation, job)

    def _happen(self, what: str) -> list[Event]:
        """End an epoch, and with it perhaps the operation; who is stopped loses what it has done of its epoch."""
        name = what
        operation, job, _ = self._running.pop(name)
        events = list[Event]()
        if name in self._stopping:
            self._stopping.discard(name)
            now_s = self._clock.now
            job.settle(now_s)
        else:
            began_s, now_s = job.trains_from_s, job.ends_s
            job.settle(now_s)
            job.finish()
            events.append(Progressed(now_s, name, job.epochs_done, {}, now_s - began_s))
            if job.epochs_done < (operation.to_iterations or job.epochs_done):
                self._go_on(operation, job)
                return events
        complete, timings = job.epochs_done == operation.to_iterations, dict[str, float]()
        steps = job.epochs_done - operation.from_iterations
        if steps and job.left == 1.0:  # it ends with an epoch
            timings = {"start_s": job.paused_s, "steps": float(steps), "step_s": job.trained_s / steps}
        return [*events, OperationEnded(now_s, name, job.epochs_done, {}, None, job.held_s, complete, timings)]

    def _go_on(self, operation: Operation, job: Progress) -> None:
        job.target = job.epochs_done + 1
        self._running[operation.id] = operation, job, self._clock.schedule(job.ends_s, operation.id)

    def _find_course(self, operation: Operation) -> Course:
        """Return what the epochs of a job take on what it holds; after the last that is known all are as that one."""
        key = operation.segment, self._types[next(iter(operation.place))], operation.workers
        epochs = max(operation.to_iterations or 0, operation.from_iterations + 1)
        if key not in self._courses or len(self._courses[key].each) < epochs:
            known, (_, gpu_type, gpus) = self._truth.classes[operation.segment], key
            curve = known.speedup[gpu_type]
            widths = curve.known_widths()
            is_known = widths is None or gpus in widths
            speeds = curve.at(np.array([gpus]))[:, 0] if is_known else interpolate(curve, np.array([gpus]))
            hours = known.epoch_size_gpu_hours / speeds
            hours = np.append(hours, np.full(max(0, epochs - hours.size), hours[-1]))
            self._courses[key] = Course.of((hours * SECONDS_PER_HOUR).tolist())
        return self._courses[key]
