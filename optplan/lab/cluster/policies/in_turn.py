"""Policies that look at no speeds: fixed widths, first come, first served; equal shares; least attained service."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from optplan.errors import DataError, UsageError
from optplan.lab.cluster.jobs import ROUND_S, Job, Sight
from optplan.units import SECONDS_PER_HOUR


class InTurn:
    """Give every job what it wants, in the order of arrival; who cannot have more keeps what it holds for an epoch."""

    interval_s = None

    def __init__(self, name: str, want: Callable[[Job], int], until: Callable[[Job], int] | None = None) -> None:
        # ``until`` says after how many epochs in all it may first want something else.
        self.name = name
        self._want, self._until = want, until
        self._waiting: deque[Job] = deque()

    def need(self, job: Job) -> int:
        """Return what it wants first."""
        return self._want(job)

    def keeps_until(self, job: Job) -> int:
        """Return when it may want something else; one that wants more tries again after every epoch."""
        if self._until is None or self._want(job) != job.gpus:
            return job.epochs_done + 1
        return self._until(job)

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
    return InTurn("one-gpu" if gpus == 1 else f"one-width:{gpus}", lambda _: gpus, _never)


def hold_reservations() -> InTurn:
    """Return the policy of reservations: each job holds the trace's own number of GPUs."""
    return InTurn("reservation", requested, _never)


def _never(job: Job) -> int:
    return job.truth.num_epochs


def requested(job: Job) -> int:
    """Return what a job's user asked for."""
    if job.requested_gpus is None:
        problem = "this policy gives what users asked for, and the workload does not say it"
        raise DataError(f"jobs.{job.name}.num_replicas", problem, "add the column num_replicas, or take another policy")
    return job.requested_gpus


class EqualShare:
    """Divide all GPUs of a cluster of fixed size evenly, round by round; the first to come get what is left over."""

    # A job that cannot run on its share holds the most below it on which it can, or else the least, or waits.

    name, interval_s = "equal-share", ROUND_S

    def need(self, job: Job) -> int:
        """Return the least on which it runs: where the share is less, it gets that."""
        return job.truth.least_width

    def allocate(self, sight: Sight) -> Mapping[Job, int]:
        """Divide what is left among those who are left."""
        left = sight.require_fixed(self.name, "divides")
        held = {}
        for place, job in enumerate(sight.jobs):
            share = -(-left // (len(sight.jobs) - place))
            gpus = job.truth.largest_width(share)
            if not gpus and job.truth.least_width <= left:
                gpus = job.truth.least_width
            held[job] = gpus
            left -= max(share, gpus)
        return held


class LeastAttained:
    """Tiresias' two queues (Gu et al., NSDI 2019), as simulated with Pollux: who has had the threshold comes second."""

    # First queue first, jobs get what they asked for while GPUs are left; smaller ones may overtake, the others stop.

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
