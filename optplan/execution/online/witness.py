"""What jobs are seen to do is told as it happens: arrivals, speeds, completions.

Streams and the cluster's simulation are told by the same piece, so that they learn the same from the same jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from optplan.errors import DataError
from optplan.execution.online.events import Arrival, Completion, NodeStart, OnlineEvent, Run
from optplan.execution.online.knowledge import Knowledge

#: What takes events that have happened by a moment.
Taking: TypeAlias = Callable[[Sequence[OnlineEvent], float], object]


class Witness:
    """Follows jobs by name, and tells who takes events of what they do; speeds go to what is known straight away.

    ``classes`` has the class of every job that is not over.
    """

    def __init__(self, knowledge: Knowledge, take: Taking) -> None:
        self._knowledge, self._take = knowledge, take
        # By class that is stated: how large each epoch is beside the mean one.
        self._parts: dict[str, list[float]] = {
            name: (each.epoch_size_gpu_hours / each.epoch_size_gpu_hours.mean()).tolist()
            for name, each in knowledge.stated.classes.items()
        }
        # By job that is not over, too: by place what it ran there, and what it held until it left it.
        self.classes: dict[str, str] = {}
        self._ran: dict[str, dict[tuple[int, str | None], float]] = {}
        self._held: dict[str, list[Run]] = {}

    def note_arrival(self, job: str, job_class: str, at_s: float, committed: float | None) -> None:
        """Note that a job was submitted, and what it was to take of the budget."""
        self.classes[job], self._ran[job], self._held[job] = job_class, {}, []
        self._tell(Arrival, f"{job} arrived", at_s, job_class=job_class, committed=committed)

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
        parts = self._parts.get(name, ())
        part, known = (parts[epoch - 1], epoch) if epoch <= len(parts) else (1.0, None)
        with suppress(DataError):  # what is refused of others, too
            self._knowledge.see_speed(name, gpus, gpu_type, part / seconds, known, at_s)

    def note_held(self, job: str, gpus: int, seconds: float, gpu_type: str | None = None) -> None:
        """Note for how long a job held what it has left, starts and pauses included."""
        self._held[job].append(Run.of_sound(gpus=gpus, gpu_type=gpu_type, seconds=seconds))

    def note_end(self, job: str, at_s: float, *, whole: bool) -> None:
        """Note that a job is over, and whether it did all of its work."""
        ran, held = self._ran.pop(job), tuple(self._held.pop(job))
        runs = tuple(Run.of_sound(gpus=gpus, gpu_type=kind, seconds=seconds) for (gpus, kind), seconds in ran.items())
        known = {"job_class": self.classes.pop(job), "ran": runs, "whole": whole and bool(runs), "held": held}
        self._tell(Completion, f"{job} ended", at_s, **known)

    def note_start(self, node: str, gpus: int, seconds: float, at_s: float, gpu_type: str | None = None) -> None:
        """Note how long a node took to start: nobody holds it meanwhile, and it is paid."""
        self._tell(NodeStart, node, at_s, gpus=gpus, seconds=seconds, gpu_type=gpu_type)

    def _tell(self, kind: type[OnlineEvent], which: str, at_s: float, **known: Any) -> None:  # noqa: ANN401 - its fields
        """Tell of an event as of when it happened, or of now where that is told late."""
        event = kind.of_sound(kind=kind.model_fields["kind"].default, id=which, at_s=at_s, **known)
        self._take([event], max(at_s, self._knowledge.now_s))
