"""Reservation: each job holds what its user asked for, first come, first served."""

from __future__ import annotations

from optplan.errors import DataError
from optplan.lab.cluster.jobs import Job
from optplan.lab.cluster.policies.in_turn import InTurn


def hold_reservations() -> InTurn:
    """Return the policy that gives each job the trace's own number of GPUs."""
    return InTurn("reservation", requested)


def requested(job: Job) -> int:
    """Return what a job's user asked for."""
    if job.requested_gpus is None:
        problem = "this policy gives what users asked for, and the workload does not say it"
        raise DataError(f"jobs.{job.name}.num_replicas", problem, "add the column num_replicas, or take another policy")
    return job.requested_gpus
