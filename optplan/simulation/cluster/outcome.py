"""What came of a simulation: each job, the cluster over time, and the sums that have to agree."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from optplan.errors import InternalError
from optplan.schema import FloatArray, IntArray
from optplan.simulation.cluster.jobs import Job
from optplan.units import SECONDS_PER_HOUR

#: By how much sums that have to agree may differ, relative to the larger of them.
_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Outcome:
    """A simulated trace.

    Parameters
    ----------
    policy
        Name of the policy.
    gpus_per_node
        GPUs of one node.
    jobs
        All of them, in the order of arrival.
    times_s
        (T,) When the GPUs in use or the nodes changed, ascending; the last is the end.
    gpus_used, nodes_rented
        (T,) From each of these times on.
    """

    policy: str
    gpus_per_node: int
    jobs: Sequence[Job]
    times_s: FloatArray
    gpus_used: IntArray
    nodes_rented: IntArray

    @property
    def jct_s(self) -> FloatArray:
        """(J,) Seconds from arrival to completion; NaN for jobs that were not completed."""
        return np.array(
            [math.nan if job.completed_s is None else job.completed_s - job.submitted_s for job in self.jobs]
        )

    @property
    def problems(self) -> dict[str, str]:
        """By job that cannot be completed: why."""
        return {job.name: job.problem for job in self.jobs if job.problem}

    @property
    def gpu_hours(self) -> float:
        """GPU-hours that jobs held."""
        return self._integrate(self.gpus_used)

    @property
    def node_gpu_hours(self) -> float:
        """GPU-hours of the nodes that were rented: what is billed by node-second."""
        return self._integrate(self.nodes_rented) * self.gpus_per_node

    @property
    def most_gpus(self) -> int:
        """The most GPUs in use at once."""
        return int(self.gpus_used.max(initial=0))

    @property
    def most_nodes(self) -> int:
        """The most nodes rented at once."""
        return int(self.nodes_rented.max(initial=0))

    @property
    def span_s(self) -> float:
        """Seconds from zero to the end of the last job."""
        return float(self.times_s[-1])

    def _integrate(self, counts: IntArray) -> float:
        return float(counts[:-1] @ np.diff(self.times_s)) / SECONDS_PER_HOUR

    def check(self) -> None:
        """Check that every GPU-second is accounted for and every job completed or reported.

        Raises
        ------
        InternalError
            When two sums that have to agree do not; the message has both.
        """
        for job in self.jobs:
            if (job.completed_s is None) is not bool(job.problem):
                raise InternalError(f"{job.name} was neither completed nor reported")
            _agree(f"seconds of {job.name} with GPUs", job.held_s, job.paused_s + job.trained_s)
        _agree("GPU-hours of the jobs", self.gpu_hours, sum(job.gpu_s for job in self.jobs) / SECONDS_PER_HOUR)
        if (self.gpus_used > self.nodes_rented * self.gpus_per_node).any() or self.gpus_used[-1] != 0:
            raise InternalError("more GPUs were in use than were rented, or some were never given back")

    def summarise(self) -> dict[str, Any]:
        """Return the main figures as plain data; what no job gives is None."""
        done = self.jct_s[~np.isnan(self.jct_s)]
        p95, p99 = np.percentile(done, (95, 99)).tolist() if done.size else (None, None)
        return {
            "policy": self.policy,
            "num_jobs": len(self.jobs),
            "completed": int(done.size),
            "mean_jct_s": float(done.mean()) if done.size else None,
            "p95_jct_s": p95,
            "p99_jct_s": p99,
            "gpu_hours": self.gpu_hours,
            "node_gpu_hours": self.node_gpu_hours,
            "most_gpus": self.most_gpus,
            "most_nodes": self.most_nodes,
            "rescales": sum(job.rescales for job in self.jobs),
            "span_s": self.span_s,
        }

    def summarise_classes(self) -> dict[str, dict[str, Any]]:
        """Return jobs, mean completion time and GPU-hours of each application, by its name."""
        return {name: _summarise([job for job in self.jobs if job.application == name]) for name in self.applications}

    @property
    def applications(self) -> list[str]:
        """Applications of the jobs, by the alphabet."""
        return sorted({job.application for job in self.jobs})

    def to_json_data(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        return {
            **self.summarise(),
            "applications": self.summarise_classes(),
            "problems": self.problems,
            "jobs": [_write_job(job) for job in self.jobs],
        }


def _agree(what: str, one: float, other: float) -> None:
    if not math.isclose(one, other, rel_tol=_TOLERANCE, abs_tol=1e-6):
        raise InternalError(f"{what}: counted as {one!r} and as {other!r}")


def _summarise(jobs: Sequence[Job]) -> dict[str, Any]:
    done = [job.completed_s - job.submitted_s for job in jobs if job.completed_s is not None]
    return {
        "num_jobs": len(jobs),
        "mean_jct_s": sum(done) / len(done) if done else None,
        "gpu_hours": sum(job.gpu_s for job in jobs) / SECONDS_PER_HOUR,
    }


def _write_job(job: Job) -> Mapping[str, Any]:
    begun = job.started_s if job.started_s is not None else job.completed_s
    return {
        "name": job.name,
        "application": job.application,
        "submitted_s": job.submitted_s,
        "completed_s": job.completed_s,
        "jct_s": None if job.completed_s is None else job.completed_s - job.submitted_s,
        "queued_s": None if begun is None else begun - job.submitted_s,
        "gpu_hours": job.gpu_s / SECONDS_PER_HOUR,
        "paused_s": job.paused_s,
        "rescales": job.rescales,
        "problem": job.problem or None,
    }
