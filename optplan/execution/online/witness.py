"""What jobs are seen to do becomes events for the width calculator: arrivals, speeds, completions.

Streams and the cluster's simulation are told by the same piece, so that they learn the same from the same jobs.
"""

from __future__ import annotations

from optplan.execution.online.calculations import Calculation
from optplan.execution.online.calculator import WidthCalculator
from optplan.execution.online.events import Arrival, Completion, Measurement, NodeStart, OnlineEvent, Run
from optplan.formulations.boa.data.instance import BoaInstance


class Witness:
    """Follows jobs by name, and collects events until a calculator is told of them.

    ``classes`` has the class of every job that is not over.
    """

    def __init__(self, instance: BoaInstance) -> None:
        self._events: list[OnlineEvent] = []
        # By class that is stated: how large each epoch is beside the mean one.
        self._parts: dict[str, list[float]] = {
            name: (each.epoch_size_gpu_hours / each.epoch_size_gpu_hours.mean()).tolist()
            for name, each in instance.classes.items()
        }
        # By job that is not over, too: by place what it ran there, and what it held until it left it.
        self.classes: dict[str, str] = {}
        self._ran: dict[str, dict[tuple[int, str | None], float]] = {}
        self._held: dict[str, list[Run]] = {}

    def note_arrival(self, job: str, job_class: str, at_s: float, committed: float | None) -> None:
        """Note that a job was submitted, and what it was to take of the budget."""
        self.classes[job], self._ran[job], self._held[job] = job_class, {}, []
        known = {"kind": "arrival", "id": f"{job} arrived", "at_s": at_s, "job_class": job_class}
        self._events.append(Arrival.of_sound(**known, committed=committed))

    def note_run(self, job: str, gpus: int, seconds: float, gpu_type: str | None = None) -> None:
        """Note that a job trained on GPUs, and that what it did is kept."""
        ran, place = self._ran[job], (gpus, gpu_type)
        ran[place] = ran.get(place, 0.0) + seconds

    def note_epoch(
        self, job: str, epoch: int, gpus: int, seconds: float, at_s: float, gpu_type: str | None = None
    ) -> None:
        """Note how long a whole epoch took, from 1; where nobody states how large it is, it is as large as others."""
        self.note_run(job, gpus, seconds, gpu_type)
        name = self.classes[job]
        parts, which = self._parts.get(name, ()), f"{job} epoch {epoch}"
        part, known = (parts[epoch - 1], epoch) if epoch <= len(parts) else (1.0, None)
        seen = {"kind": "measurement", "id": which, "at_s": at_s, "job_class": name, "gpus": gpus, "gpu_type": gpu_type}
        self._events.append(Measurement.of_sound(**seen, speed=part / seconds, epoch=known))

    def note_held(self, job: str, gpus: int, seconds: float, gpu_type: str | None = None) -> None:
        """Note for how long a job held what it has left, starts and pauses included."""
        self._held[job].append(Run.of_sound(gpus=gpus, gpu_type=gpu_type, seconds=seconds))

    def note_end(self, job: str, at_s: float, *, whole: bool) -> None:
        """Note that a job is over, and whether it did all of its work."""
        ran, held = self._ran.pop(job), tuple(self._held.pop(job))
        runs = tuple(Run.of_sound(gpus=gpus, gpu_type=kind, seconds=seconds) for (gpus, kind), seconds in ran.items())
        known = {"kind": "completion", "id": f"{job} ended", "at_s": at_s, "job_class": self.classes.pop(job)}
        self._events.append(Completion.of_sound(**known, ran=runs, whole=whole and bool(runs), held=held))

    def note_start(self, node: str, gpus: int, seconds: float, at_s: float, gpu_type: str | None = None) -> None:
        """Note how long a node took to start: nobody holds it meanwhile, and it is paid."""
        known = {"kind": "node-start", "id": node, "at_s": at_s, "gpus": gpus, "seconds": seconds}
        self._events.append(NodeStart.of_sound(**known, gpu_type=gpu_type))

    def take_events(self) -> list[OnlineEvent]:
        """Return what was noted since the last call."""
        events, self._events = self._events, []
        return events

    def tell(self, calculator: WidthCalculator, now_s: float, *, waiting: bool = False) -> Calculation | None:
        """Tell a calculator what was noted, and let it calculate; speeds alone wait until it would look at them."""
        if calculator.rests(now_s) and all(isinstance(event, Measurement) for event in self._events):
            return None
        if events := self.take_events():
            calculator.take(events, now_s)
        return calculator.consider(now_s, waiting=waiting)
