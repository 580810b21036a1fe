"""What jobs are seen to do becomes events for the width calculator: arrivals, speeds, completions.

Streams and the cluster's simulation are told by the same piece, so that they learn the same from the same jobs.
"""

from __future__ import annotations

from optplan.execution.online.events import Arrival, Completion, NodeStart, OnlineEvent, Run, Speed


class Witness:
    """Follows jobs by name, and collects events until they are taken."""

    def __init__(self) -> None:
        self._events: list[OnlineEvent] = []
        # By job that is not over: its class, and by place what it ran there.
        self._classes: dict[str, str] = {}
        self._ran: dict[str, dict[tuple[int, str | None], float]] = {}

    def note_arrival(self, job: str, job_class: str, at_s: float, *, committed: float | None = None) -> None:
        """Note that a job was submitted, and what it was to take of the budget."""
        self._classes[job], self._ran[job] = job_class, {}
        known = {"kind": "arrival", "id": f"{job} arrived", "at_s": at_s, "job_class": job_class}
        self._events.append(Arrival.of_sound(**known, committed=committed))

    def note_run(self, job: str, gpus: int, seconds: float, gpu_type: str | None = None) -> None:
        """Note that a job trained on GPUs."""
        ran, place = self._ran[job], (gpus, gpu_type)
        ran[place] = ran.get(place, 0.0) + seconds

    def note_speed(
        self,
        job: str,
        gpus: int,
        speed: float,
        at_s: float,
        *,
        what: str,
        epoch: int | None,
        gpu_type: str | None = None,
    ) -> None:
        """Note how fast a job was, in the unit of its class; ``what`` tells its measurements apart."""
        self._events.append(Speed(f"{job} {what}", at_s, self._classes[job], gpus, gpu_type, speed, epoch))

    def note_end(self, job: str, at_s: float, *, whole: bool, held: tuple[Run, ...] = ()) -> None:
        """Note that a job is over, whether it did all of its work, and what it held where that is more than it ran."""
        ran = self._ran.pop(job)
        runs = tuple(Run.of_sound(gpus=gpus, gpu_type=kind, seconds=seconds) for (gpus, kind), seconds in ran.items())
        known = {"kind": "completion", "id": f"{job} ended", "at_s": at_s, "job_class": self._classes.pop(job)}
        self._events.append(Completion.of_sound(**known, ran=runs, whole=whole and bool(runs), held=held))

    def note_start(self, node: str, gpus: int, seconds: float, at_s: float, gpu_type: str | None = None) -> None:
        """Note how long a node took to start: nobody holds it meanwhile, and it is paid."""
        known = {"kind": "node-start", "id": node, "at_s": at_s, "gpus": gpus, "seconds": seconds}
        self._events.append(NodeStart.of_sound(**known, gpu_type=gpu_type))

    def take_events(self) -> list[OnlineEvent]:
        """Return what was noted since the last call."""
        events, self._events = self._events, []
        return events
