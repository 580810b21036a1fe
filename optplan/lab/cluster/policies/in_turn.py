"""First come, first served: each job holds what it wants, or waits until those before it have got theirs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from optplan.errors import DataError, UsageError
from optplan.lab.cluster.jobs import Job
from optplan.lab.cluster.policy import Sight


class InTurn:
    """Give every job what it wants; on a cluster of fixed size, jobs wait in the order of their arrival.

    Nobody overtakes. A job that wants more after an epoch and cannot have it keeps what it holds until its next one.
    """

    interval_s = None

    def __init__(self, name: str, want: Callable[[Job], int]) -> None:
        self.name = name
        self._want = want
        self._waiting: deque[Job] = deque()

    def need(self, job: Job) -> int:
        """Return what it wants first."""
        return self._want(job)

    def allocate(self, sight: Sight) -> Mapping[Job, int]:
        """Serve those that run, then those that wait."""
        wishes: dict[Job, int] = {}
        free = sight.free_gpus
        for job in sight.changed:
            if not job.gpus:
                self._waiting.append(job)
                continue
            wanted = self._want(job)
            if wanted - job.gpus <= free:
                wishes[job] = wanted
                free -= wanted - job.gpus
        while self._waiting and (wanted := self._want(self._waiting[0])) <= free:
            wishes[self._waiting.popleft()] = wanted
            free -= wanted
        return wishes


def hold_one_width(gpus: int) -> InTurn:
    """Return the policy that gives each job the same number of GPUs; with 1, it is what those do who do not scale."""
    if gpus < 1:
        raise UsageError(f"one-width: got {gpus}; a job needs at least 1 GPU")
    return InTurn("one-gpu" if gpus == 1 else f"one-width:{gpus}", lambda _: gpus)


def hold_reservations() -> InTurn:
    """Return the policy of reservations: each job holds the trace's own number of GPUs."""
    return InTurn("reservation", requested)


def requested(job: Job) -> int:
    """Return what a job's user asked for."""
    if job.requested_gpus is None:
        problem = "this policy gives what users asked for, and the workload does not say it"
        raise DataError(f"jobs.{job.name}.num_replicas", problem, "add the column num_replicas, or take another policy")
    return job.requested_gpus
