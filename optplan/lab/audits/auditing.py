"""Audits: what jobs had of a cluster, beside the least that any scheduler could have given them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from optplan.errors import UsageError, show_value
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.lab.audits.courses import Course, has_pauses
from optplan.lab.audits.judge import MOST_STEPS, derive_bound
from optplan.lab.audits.least import (
    build_least_frontier,
    gather_sizes,
    list_favoured,
)
from optplan.lab.audits.prices import find_horizon_s, find_prices
from optplan.lab.audits.records import Audit, AuditBound, AuditedClass, CapacityBound
from optplan.lab.audits.verification import list_trace_courses, require_trace, verify_audit
from optplan.progress import Stopwatch
from optplan.schema import IntArray

if TYPE_CHECKING:
    from optplan.instances.job_traces import JobTrace


def audit(
    instance: BoaInstance,
    trace: JobTrace,
    *,
    gpu_hours: float | None = None,
    mean_jct_s: float | None = None,
    gpus: int | None = None,
) -> Audit:
    """Bound from below what any scheduler could have made of the GPU-hours that jobs held.

    Parameters
    ----------
    instance
        The jobs' classes: epochs, speedups and pauses. Its budget and other limits are not looked at.
    trace
        The jobs, as :func:`optplan.read_trace` or :func:`optplan.draw_trace` return them.
    gpu_hours
        Which they held together; None for what the trace says of each, and then only jobs count of which it says all.
    mean_jct_s
        Their mean completion time in seconds; None where the trace says it, or where only the other is known.

    gpus
        Of the cluster on which the jobs ran: then there is a bound for every scheduler on so many, too.

    Returns
    -------
    Audit
        With pauses and without any: the least mean completion time with as many GPU-hours, the fewest GPU-hours for
        that mean, and the prices that prove them; checked. Where no policy has so few GPU-hours, or so short a mean,
        the other bound says so: what was had is not what instance and trace say, then.

    Raises
    ------
    UsageError
        When the trace is of another instance, what was had is not known, or is not a number above zero.
    """
    require_trace(instance, trace)
    as_logged = gpu_hours is None and mean_jct_s is None
    which = _choose_jobs(trace) if as_logged else np.arange(len(trace))
    for name, given in (("gpu_hours", gpu_hours), ("mean_jct_s", mean_jct_s)):
        if given is not None and not 0.0 < given < np.inf:
            raise UsageError(f"{name}: got {show_value(given)}; a number above zero is needed")
    if as_logged:
        had = trace.tell_had(which)
        gpu_hours, mean_jct_s = had["gpu_hours"], had["mean_jct_s"]
    made = _bound(instance, trace, which, gpu_hours, mean_jct_s)
    if gpus is not None:
        made = made.replace(capacity=bound_by_capacity(instance, trace.take(which), gpus))
    if as_logged:
        of = trace.class_index[which]
        classes = {
            name: own.replace(**trace.tell_had(which[of == trace.classes.index(name)]))
            for name, own in made.classes.items()
        }
        lost = None if trace.completed is None else which[trace.completed[which] == 0.0]
        lost_h = None if lost is None else trace.tell_had(lost)["gpu_hours"] if lost.size else 0.0
        made = made.replace(as_logged=True, classes=classes, lost_gpu_hours=lost_h)
    verify_audit(instance, made, trace).require()
    return made


def _bound(
    instance: BoaInstance, trace: JobTrace, which: IntArray, gpu_hours: float | None, mean_jct_s: float | None
) -> Audit:
    """Bound what some jobs (n,) of a trace could have had at best."""
    of = trace.class_index[which]
    by_class = {name: trace.size[which[of == place]] for place, name in enumerate(trace.classes)}
    sizes = gather_sizes(instance, by_class)
    bounds: list[AuditBound | None] = []
    best_gpus: Mapping[str, float] = {}
    for pauses in (True, False) if has_pauses(instance) else (False,):
        frontier = build_least_frontier(instance, sizes, pauses=pauses)
        mean = None if gpu_hours is None else frontier.bound_mean(gpu_hours)
        hours = None if mean_jct_s is None else frontier.bound_gpu_hours(mean_jct_s)
        if gpu_hours is not None and mean is None and hours is None:
            hours = frontier.find_least("gpu_hours")
        if mean_jct_s is not None and hours is None and mean is None:
            mean = frontier.find_least("mean_jct_s")
        bounds += [mean, hours]
        if mean is not None and not best_gpus:
            best_gpus = frontier.best_gpus(mean.price)
    classes = {
        name: AuditedClass(jobs=round(float(weights.sum())), sizes=own, weights=weights, best_gpus=best_gpus.get(name))
        for name, (own, weights) in sizes.items()
    }
    return Audit(
        **instance.origin(),
        trace=trace.name,
        gpu_hours=gpu_hours,
        mean_jct_s=mean_jct_s,
        bounds=tuple(each for each in bounds if each is not None),
        classes=classes,
        favoured=list_favoured(instance, sizes),
        assumptions=_list_assumptions(instance, trace, which),
    )


def _choose_jobs(trace: JobTrace) -> IntArray:
    """Return the jobs of which the trace says GPUs, run and wait."""
    which = trace.list_logged()
    if not which.size:
        message = f"gpu_hours: the trace {trace.name!r} says of no job its GPUs, its run and its wait"
        raise UsageError(f"{message}; give the GPU-hours that all jobs held (--gpu-hours)")
    return which


def _list_assumptions(instance: BoaInstance, trace: JobTrace, which: IntArray) -> tuple[str, ...]:
    """Say for what the bounds hold."""
    widest = {name: int(instance.options(name).widths.max()) for name in instance.classes}
    least, most = min(widest.values()), max(widest.values())
    widths = f"{most} GPUs" if least == most else f"{least} to {most} GPUs, by class"
    others = len(trace) - which.size
    left_out = f"; {others:,} more are left out, of which it does not say all" if others else ""
    said = [
        f"the same {which.size:,} jobs, each of its size in {trace.name}, which is done whole{left_out}",
        "jobs run as fast as the instance says, at its batch sizes, whoever is beside them and wherever their GPUs are",
        f"they get no faster beyond the widest width that is known ({widths})",
        "policies may start, stop and change jobs at any moment; starts and changes pause them as the instance says, "
        "or, for the bound on all policies, not at all",
    ]
    if len(instance.gpu_types) > 1:
        said.append(f"a GPU-hour counts the same on {', '.join(instance.gpu_types)}")
    if trace.left_out:
        said.append(f"of the trace was left out: {trace.left_out}")
    return tuple(said)


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
