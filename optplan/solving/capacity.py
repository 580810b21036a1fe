"""A bound for any scheduler on a cluster of fixed size: prices that the dual finds, and what the judge derives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from optplan.contracts.audits import CapacityBound
from optplan.errors import UsageError, show_value
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.exact.capacity_prices import find_horizon_s, find_prices
from optplan.formulations.boa.judge.capacity import MOST_STEPS, derive_bound
from optplan.formulations.boa.laws.courses import Course
from optplan.progress import Stopwatch
from optplan.verification.capacity import list_trace_courses

if TYPE_CHECKING:
    from optplan.instances.job_traces import JobTrace

#: Seconds of a bucket of which there are so many or more, and how many there are at most.
_BUCKET_S, _LEAST_BUCKETS, _MOST_BUCKETS = 900.0, 100, 2_000
#: Marks of a course that is run in a bucket, of one that takes longer so much more, to some buckets; the fewest; and
#: how many ways between marks the judge is given in all, for each job and at least and at most.
_MARKS, _LONGEST, _LEAST_MARKS = 1_000, 8.0, 40
_WAYS_A_JOB, _LEAST_WAYS, _MOST_WAYS = 4e5, 1e7, 4e8
#: What a coarse bound has of these ways; on 960 jobs it takes 70 % of the time, and is 0.2 to 0.3 % lower.
_COARSE = 0.3


def bound_by_capacity(
    instance: BoaInstance, trace: JobTrace, gpus: int, *, pauses: bool = True, coarse: bool = False
) -> CapacityBound:
    """Bound from below the mean completion time of jobs under any scheduler, on a cluster of so many GPUs.

    Parameters
    ----------
    instance
        The jobs' classes: epochs, speedups and pauses, on one type of GPU. Its budget and limits are not looked at.
    trace
        The jobs, as :func:`optplan.read_trace` or :func:`optplan.draw_trace` return them.
    gpus
        GPUs that jobs can hold together at any moment.
    pauses
        Whether for schedulers under which each job pauses when it starts, as the instance says; otherwise for all.
        Later pauses are left out.
    coarse
        Whether to take less time for a bound that is some thousandths lower.

    Returns
    -------
    CapacityBound
        With the prices of a GPU over time that prove it: :func:`optplan.verify` derives it from them.

    Raises
    ------
    UsageError
        When the trace is of another instance, there are several types of GPU, or no GPU.
    DataError
        When a class needs more GPUs than there are.
    """
    if gpus < 1:
        raise UsageError(f"gpus: got {show_value(gpus)}; a cluster has at least 1")
    courses = list_trace_courses(instance, trace, gpus, pauses=pauses)
    horizon_s = find_horizon_s(courses, trace.arrive_s, gpus) if courses else 1.0
    bucket_s = max(min(_BUCKET_S, horizon_s / _LEAST_BUCKETS), horizon_s / _MOST_BUCKETS)
    buckets = math.ceil(horizon_s / bucket_s)
    bound = CapacityBound(
        **instance.origin(),
        trace=trace.name,
        num_jobs=len(trace),
        gpus=gpus,
        pauses=pauses,
        mean_jct_s=0.0,
        bucket_s=bucket_s,
        prices=find_prices(courses, trace.arrive_s, gpus, bucket_s, buckets),
        marks=_choose_marks(courses, bucket_s, buckets, _COARSE if coarse else 1.0),
    )
    return bound.replace(mean_jct_s=derive_bound(courses, trace.arrive_s, bound, Stopwatch()) / len(trace))


def _choose_marks(courses: Sequence[Course], bucket_s: float, buckets: int, share: float) -> tuple[int, ...]:
    """Choose how finely each course is marked: the more buckets its jobs take, the more."""
    longest = [min(max(float(each.fastest_s.sum()) / bucket_s, 1.0), _LONGEST) for each in courses]
    ways = share * min(max(_WAYS_A_JOB * sum(each.jobs.size for each in courses), _LEAST_WAYS), _MOST_WAYS)
    finest = math.sqrt(ways / (sum(longest) * buckets)) if courses else 0.0
    finest = min(_MARKS, finest, 0.9 * math.sqrt(MOST_STEPS / _LONGEST))
    return tuple(max(_LEAST_MARKS, int(finest * each)) for each in longest)
