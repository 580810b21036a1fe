"""What jobs hold from their start to their end, on a cluster where nobody waits for GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from optplan.errors import UsageError
from optplan.lab.cluster.jobs import Job
from optplan.lab.cluster.outcome import Outcome
from optplan.lab.cluster.policies.in_turn import InTurn
from optplan.lab.cluster.policy import SchedulingPolicy, Sight
from optplan.lab.starts.daily_prices import DailyPrices
from optplan.schema import FloatArray


@dataclass(frozen=True, eq=False)
class JobUse:
    """What a job holds from its start on: ``gpus`` (S,) between ``edges_s`` (S + 1,), seconds since its start."""

    name: str
    application: str
    submitted_s: float
    edges_s: FloatArray
    gpus: FloatArray

    @property
    def lasts_s(self) -> float:
        """Seconds from its start to its end."""
        return float(self.edges_s[-1])

    def cost(self, prices: DailyPrices, starts_s: FloatArray) -> FloatArray:
        """Return what the job costs from each of some starts (N,), in US dollars: GPUs as it holds them."""
        paid = prices.paid_until(np.asarray(starts_s)[:, None] + self.edges_s)
        cost: FloatArray = np.diff(paid, axis=1) @ self.gpus
        return cost


class Recorder:
    """A policy that remembers what it gave to whom, when and in which epoch; time and others must not matter to it."""

    interval_s = None

    def __init__(self, policy: SchedulingPolicy) -> None:
        if type(policy) is not InTurn:
            message = f"policy: {policy.name} has no fixed widths; choose a plan, one-gpu, one-width:N or reservation"
            raise UsageError(message)
        self.name = policy.name
        self._policy = policy
        self._given: dict[str, list[tuple[float, int, int]]] = {}

    def need(self, job: Job) -> int:
        """Return what the policy says."""
        return self._policy.need(job)

    def allocate(self, sight: Sight) -> Mapping[Job, int]:
        """Do what the policy does, and remember it."""
        wishes: dict[Job, int] = dict(self._policy.allocate(sight))
        for job, gpus in wishes.items():
            self._given.setdefault(job.name, []).append((sight.now_s, job.epochs_done, gpus))
        return wishes

    def repeat(self) -> InTurn:
        """Return the policy that gives each job in each epoch what it was given, whenever it arrives."""
        widths = {name: {epoch: gpus for _, epoch, gpus in given} for name, given in self._given.items()}
        return InTurn(self.name, lambda job: widths[job.name][job.epochs_done])

    def list_uses(self, outcome: Outcome) -> list[JobUse]:
        """Return what the jobs hold that were completed, in the order of arrival."""
        return [self._state(job) for job in outcome.jobs if job.completed_s is not None and job.name in self._given]

    def _state(self, job: Job) -> JobUse:
        given = self._given[job.name]
        gpus = np.array([count for _, _, count in given], dtype=np.float64)
        changes = np.append(True, np.diff(gpus) != 0.0)
        times_s = np.array([at_s for at_s, _, _ in given])[changes]
        assert job.completed_s is not None
        return JobUse(
            name=job.name,
            application=job.application,
            submitted_s=job.submitted_s,
            edges_s=np.append(times_s, job.completed_s) - times_s[0],
            gpus=gpus[changes],
        )


def delay(jobs: Sequence[Job], uses: Sequence[JobUse], starts_s: Sequence[float]) -> list[Job]:
    """Make those of the jobs anew that are used, to arrive when they are to start."""
    at_s = {use.name: start_s for use, start_s in zip(uses, starts_s, strict=True)}
    return [
        Job(
            name=job.name,
            application=job.application,
            submitted_s=at_s[job.name],
            truth=job.truth,
            requested_gpus=job.requested_gpus,
        )
        for job in jobs
        if job.name in at_s
    ]
