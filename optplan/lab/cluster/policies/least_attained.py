"""Tiresias' least attained service: whoever has had little comes before whoever has had much.

Two queues, as in the simulator published with Pollux (``simulator/tiresias.py`` of petuum/adaptdl, branch
osdi21-artifact): a job is in the first until it has attained 16 GPU-hours, and in the second from then on. Each is in
the order of arrival in it. In every round, jobs get the GPUs that they asked for, first queue first, as long as GPUs
are left; smaller ones may overtake those that do not fit, and whoever gets none is stopped.

Gu et al., "Tiresias: A GPU cluster manager for distributed deep learning", NSDI 2019.
"""

from __future__ import annotations

from collections.abc import Mapping

from optplan.lab.cluster.jobs import Job
from optplan.lab.cluster.policies.in_turn import requested
from optplan.lab.cluster.policy import ROUND_S, Sight
from optplan.units import SECONDS_PER_HOUR


class LeastAttained:
    """Serve those first who have attained least; above the threshold a job is in the second queue."""

    name, interval_s = "least-attained", ROUND_S

    def __init__(self, threshold_gpu_hours: float = 16.0) -> None:
        self._threshold_gpu_s = threshold_gpu_hours * SECONDS_PER_HOUR
        self._second: dict[Job, None] = {}

    def need(self, job: Job) -> int:
        """Return what its user asked for."""
        return requested(job)

    def allocate(self, sight: Sight) -> Mapping[Job, int]:
        """Serve both queues."""
        free = sight.require_fixed(self.name, "shares")
        for job in sight.jobs:
            if job not in self._second and job.attained_gpu_s(sight.now_s) >= self._threshold_gpu_s:
                self._second[job] = None
        self._second = {job: None for job in self._second if job in sight.jobs}
        first = [job for job in sight.jobs if job not in self._second]
        held = {}
        for job in (*first, *self._second):
            held[job] = requested(job) if requested(job) <= free else 0
            free -= held[job]
        return held
