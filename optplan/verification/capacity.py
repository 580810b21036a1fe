"""Bounds for clusters of fixed size judged: each is derived again from its prices and the jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optplan.contracts.audits import CapacityBound
from optplan.contracts.judgement import RefutedError
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.judge.capacity import derive_bound
from optplan.formulations.boa.laws.courses import Course, list_courses
from optplan.progress import Stopwatch
from optplan.verification.belonging import require_trace
from optplan.verification.findings import TOLERANCE, UNCHECKED, Checks

if TYPE_CHECKING:
    from optplan.instances.job_traces import JobTrace

_MESSAGE = "the prices must prove the bound"


def list_trace_courses(instance: BoaInstance, trace: JobTrace, gpus: int, *, pauses: bool) -> list[Course]:
    """List the courses of the jobs of a trace; those of no size have none, and take no time."""
    require_trace(instance, trace)
    jobs = {}
    for name in trace.classes:
        places = trace.of_class(name)
        places = places[trace.size[places] > 0.0]
        if places.size:
            jobs[name] = (places, trace.size[places])
    return list_courses(instance, jobs, gpus, pauses=pauses)


def check_capacity(
    found: Checks, instance: BoaInstance, bound: CapacityBound, trace: JobTrace | None, stopwatch: Stopwatch
) -> None:
    """Derive a bound of the jobs again from its prices."""
    if trace is None:
        found.on_trust.append("bound: it is of jobs that arrive at some times; give the jobs")
        return
    found.compare("jobs", "", bound.num_jobs, len(trace), 0.0, "the bound must be of the jobs that there are")
    try:
        mean_jct_s, scale_s = _derive(instance, bound, trace, stopwatch)
        found.at_most("bound", f"{bound.gpus} GPUs", bound.mean_jct_s, mean_jct_s, TOLERANCE * scale_s, _MESSAGE)
    except RefutedError as error:
        found.fail("bound", f"{bound.gpus} GPUs", f"{_MESSAGE}: {error}")
    except UNCHECKED as error:
        within = "the memory there is" if isinstance(error, MemoryError) else f"{stopwatch.limit_s:g} s"
        found.on_trust.append(f"bound: not checked within {within}")


def _derive(instance: BoaInstance, bound: CapacityBound, trace: JobTrace, stopwatch: Stopwatch) -> tuple[float, float]:
    """Derive the bound on the mean completion time, and the size of what it is the difference of, in seconds."""
    courses = list_trace_courses(instance, trace, bound.gpus, pauses=bound.pauses)
    if len(courses) != len(bound.marks):
        raise RefutedError(f"it has marks of {len(bound.marks)} courses, and the jobs have {len(courses)}")
    if not (np.isfinite(bound.prices) & (bound.prices >= 0.0)).all():
        raise RefutedError("prices must be numbers of at least 0")
    total_s = derive_bound(courses, trace.arrive_s, bound, stopwatch)
    paid_s = bound.gpus * bound.bucket_s * float(bound.prices.sum())
    return total_s / len(trace), (abs(total_s) + paid_s) / len(trace)
