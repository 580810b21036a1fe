"""What came of a simulation: each job, the cluster over time, and the sums that have to agree."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from optplan.errors import InternalError
from optplan.instances.job_traces import Level, Stays
from optplan.lab.cluster.jobs import Job
from optplan.schema import FloatArray, IntArray
from optplan.units import SECONDS_PER_HOUR

#: By how much sums that have to agree may differ, relative to the larger of them.
_TOLERANCE = 1e-9


#: Seconds of the stretches for which figures over time are given, and how many there are at most: longer ones then.
STRETCH_S = 600.0
_MOST_STRETCHES = 16_384


class Bins:
    """An amount that comes about over time, by stretches that double when there are too many."""

    def __init__(self) -> None:
        self.stretch_s = STRETCH_S
        self._totals: list[float] = []

    def add(self, from_s: float, to_s: float, amount: float) -> None:
        """Add what came about evenly between two times."""
        while to_s >= _MOST_STRETCHES * self.stretch_s:
            self._double()
        stretch_s = self.stretch_s
        first, last = int(from_s // stretch_s), int(to_s // stretch_s)
        if last >= len(self._totals):
            self._totals += [0.0] * (last + 1 - len(self._totals))
        if first == last:
            self._totals[first] += amount
            return
        for place in range(first, last + 1):
            part_s = min(to_s, (place + 1) * stretch_s) - max(from_s, place * stretch_s)
            self._totals[place] += amount * part_s / (to_s - from_s)

    def close(self, end_s: float) -> FloatArray:
        """Return what came about in each stretch, the last being that which ends at or after a time."""
        while end_s > _MOST_STRETCHES * self.stretch_s:
            self._double()
        totals = np.zeros(max(1, math.ceil(end_s / self.stretch_s)))
        totals[: len(self._totals)] = self._totals[: totals.size]
        totals[-1] += sum(self._totals[totals.size :])  # what came about at the very end of the last stretch
        return totals

    def _double(self) -> None:
        self.stretch_s *= 2.0
        self._totals = [sum(self._totals[place : place + 2]) for place in range(0, len(self._totals), 2)]


class Usage:
    """What is in use and rented from when on: a row for each change, and one for the end."""

    def __init__(self, num_rented: int) -> None:
        self._rows = [(0.0, 0, num_rented)]

    def note(self, at_s: float, num_used: int, num_rented: int, *, last: bool = False) -> None:
        """Remember what holds from now on; of several changes at one time, the last."""
        row = at_s, num_used, num_rented
        if self._rows[-1][0] == at_s:
            self._rows[-1] = row
        elif last or self._rows[-1][1:] != row[1:]:
            self._rows.append(row)

    def columns(self) -> tuple[FloatArray, IntArray, IntArray]:
        """Return times, GPUs in use and nodes rented, (T,) each."""
        times_s, used, rented = (np.array(column) for column in zip(*self._rows, strict=True))
        return times_s.astype(float), used, rented


@dataclass(frozen=True, eq=False)
class Outcome:
    """A simulated trace.

    Jobs are in the order of arrival. ``gpus_used`` and ``nodes_rented`` (T,) hold from each of ``times_s`` (T,) on, the
    last of which is the end. ``work_gpu_s`` is what jobs did in each stretch of ``stretch_s``, in GPU-seconds on the
    fewest GPUs on which they run; ``stays`` has who waited for GPUs and held them when, and ``holders`` (S,) which job
    that was; ``reclaimed_s`` is for how long nodes were paid after they were given back, in all.
    """

    policy: str
    gpus_per_node: int
    jobs: Sequence[Job]
    times_s: FloatArray
    gpus_used: IntArray
    nodes_rented: IntArray
    work_gpu_s: FloatArray
    stretch_s: float
    stays: Stays
    holders: IntArray
    reclaimed_s: float = 0.0

    @property
    def jct_s(self) -> FloatArray:
        """(J,) Seconds from arrival to completion; NaN for jobs that were not completed."""
        return np.array([math.nan if job.jct_s is None else job.jct_s for job in self.jobs])

    @property
    def weighted_mean_jct_s(self) -> float | None:
        """Seconds of the mean in which each job that was completed counts its weight; None where there is none."""
        done = [(job.weight, job.jct_s) for job in self.jobs if job.jct_s is not None]
        return _divide(sum(weight * jct_s for weight, jct_s in done), sum(weight for weight, _ in done))

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
    def billed_gpu_hours(self) -> float:
        """The same with the time until nodes were reclaimed."""
        return self.node_gpu_hours + self.reclaimed_s * self.gpus_per_node / SECONDS_PER_HOUR

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

    @property
    def efficiency(self) -> float | None:
        """What jobs did over the GPU-time that they held, pauses included; None where nobody held any.

        1 is the speed on the fewest GPUs on which a job runs, without loss to others.
        """
        return _divide(float(self.work_gpu_s.sum()), self.gpu_hours * SECONDS_PER_HOUR)

    def gpus_in_use_at(self, share: float) -> int:
        """Return the GPUs that are enough for a share of the time from zero to the end."""
        return int(Level(self.times_s, self.gpus_used.astype(np.float64)).enough(share, 0.0, self.span_s))

    def tell_over_time(self) -> dict[str, Any]:
        """Return GPUs in use and rented and the efficiency, on average over each stretch, as plain data.

        The last stretch may end after the last job: nothing is in use from then on.
        """
        ends_s: FloatArray = np.arange(self.work_gpu_s.size + 1, dtype=np.float64) * self.stretch_s
        counts = (self.gpus_used, self.nodes_rented * self.gpus_per_node)
        used, rented = (Level(self.times_s, count.astype(np.float64)).average(ends_s) for count in counts)
        return {
            "stretch_s": self.stretch_s,
            "gpus_used": used.tolist(),
            "gpus_rented": rented.tolist(),
            "efficiency": [
                _divide(*pair) for pair in zip(self.work_gpu_s.tolist(), (used * self.stretch_s).tolist(), strict=True)
            ],
        }

    def _integrate(self, counts: IntArray) -> float:
        return float(counts[:-1] @ np.diff(self.times_s)) / SECONDS_PER_HOUR

    def check(self) -> None:
        """Check that every GPU-second is accounted for and every job completed or reported."""
        for job in self.jobs:
            if (job.completed_s is None) is not bool(job.problem):
                raise InternalError(f"{job.name} was neither completed nor reported")
            _agree(f"seconds of {job.name} with GPUs", job.held_s, job.paused_s + job.trained_s)
        _agree("work of the jobs", float(self.work_gpu_s.sum()), sum(job.work_gpu_s for job in self.jobs))
        _agree("GPU-hours of the jobs", self.gpu_hours, sum(job.gpu_s for job in self.jobs) / SECONDS_PER_HOUR)
        _agree("GPU-hours of the classes", self.gpu_hours, float(self.stays.gpu_hours().sum()))
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
            "weighted_mean_jct_s": self.weighted_mean_jct_s,
            "p95_jct_s": p95,
            "p99_jct_s": p99,
            "mean_queued_s": _mean([queued_s for job in self.jobs if (queued_s := find_queued_s(job)) is not None]),
            "gpu_hours": self.gpu_hours,
            "node_gpu_hours": self.node_gpu_hours,
            "billed_gpu_hours": self.billed_gpu_hours,
            "mean_gpus": _divide(self.gpu_hours * SECONDS_PER_HOUR, self.span_s),
            "mean_rented_gpus": _divide(self.node_gpu_hours * SECONDS_PER_HOUR, self.span_s),
            "p50_gpus": self.gpus_in_use_at(0.50),
            "p95_gpus": self.gpus_in_use_at(0.95),
            "p99_gpus": self.gpus_in_use_at(0.99),
            "most_gpus": self.most_gpus,
            "most_nodes": self.most_nodes,
            "utilisation": _divide(self.gpu_hours, self.node_gpu_hours),
            "efficiency": self.efficiency,
            "rescales": sum(job.rescales for job in self.jobs),
            "rescales_per_job": _mean([job.rescales for job in self.jobs]),
            "interruptions": sum(job.interruptions for job in self.jobs),
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
            "over_time": self.tell_over_time(),
            "jobs": [_write_job(job) for job in self.jobs],
        }


def _agree(what: str, one: float, other: float) -> None:
    if not math.isclose(one, other, rel_tol=_TOLERANCE, abs_tol=1e-6):
        raise InternalError(f"{what}: counted as {one!r} and as {other!r}")


def _divide(one: float, other: float) -> float | None:
    return one / other if other else None


def _mean(values: Sequence[float]) -> float | None:
    return _divide(sum(values), len(values))


def find_queued_s(job: Job) -> float | None:
    """Return the seconds before a job's first start; None where it never started."""
    begun_s = job.started_s if job.started_s is not None else job.completed_s
    return None if begun_s is None else begun_s - job.submitted_s


def _summarise(jobs: Sequence[Job]) -> dict[str, Any]:
    return {
        "num_jobs": len(jobs),
        "mean_jct_s": _mean([job.jct_s for job in jobs if job.jct_s is not None]),
        "gpu_hours": sum(job.gpu_s for job in jobs) / SECONDS_PER_HOUR,
    }


def _write_job(job: Job) -> Mapping[str, Any]:
    return {
        "name": job.name,
        "application": job.application,
        "submitted_s": job.submitted_s,
        "completed_s": job.completed_s,
        "jct_s": job.jct_s,
        "queued_s": find_queued_s(job),
        "gpu_hours": job.gpu_s / SECONDS_PER_HOUR,
        "paused_s": job.paused_s,
        "waited_s": None if job.jct_s is None else job.jct_s - job.held_s,
        "rescales": job.rescales,
        "interruptions": job.interruptions,
        "problem": job.problem or None,
    }
