"""Audits and bounds for clusters judged: each is derived again from its prices, and with the trace what was had."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from optplan.contracts import Instance, Verification
from optplan.contracts.judgement import RefutedError
from optplan.errors import UsageError
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.lab.audits.courses import Course, list_courses
from optplan.lab.audits.judge import derive_bound, derive_least, list_favoured, share_out
from optplan.lab.audits.records import Audit, AuditBound, AuditedClass, CapacityBound
from optplan.progress import Stopwatch
from optplan.schema import FloatArray
from optplan.verification.findings import TOLERANCE, UNCHECKED, Checks, require_made_for

if TYPE_CHECKING:
    from optplan.instances.job_traces import JobTrace


def require_trace(instance: BoaInstance, trace: JobTrace) -> None:
    """Raise a UsageError unless the classes of a trace are those of an instance."""
    if trace.classes != tuple(instance.classes):
        message = f"the trace {trace.name!r} is not of the instance {instance.name!r}, which has other classes"
        raise UsageError(f"{message} ({', '.join(instance.classes)}); give the trace that was made with it")


def verify_audit(
    instance: Instance, told: Audit | CapacityBound, trace: JobTrace | None = None, *, time_limit_s: float | None = None
) -> Verification:
    """Check every bound of an audit, or the one for a cluster, and with the jobs that it is of what is said of them."""
    found = Checks()
    what = "audit" if isinstance(told, Audit) else "bound"
    if not isinstance(instance, BoaInstance):
        raise UsageError(f"such {what}s are of BOA instances, and {instance.name!r} is of another formulation")
    require_made_for(instance, told, what)
    stopwatch = Stopwatch(time_limit_s, clock=time.thread_time)
    if isinstance(told, Audit):
        _check_audit(found, instance, told, trace, stopwatch)
    else:
        check_capacity(found, instance, told, trace, stopwatch)
    found.never_checked.append("assumptions: whether speeds, sizes and pauses are those of the cluster")
    return found.conclude()


def _check_audit(
    found: Checks, instance: BoaInstance, audit: Audit, trace: JobTrace | None, stopwatch: Stopwatch
) -> None:
    if trace is not None:
        require_trace(instance, trace)
    if not _check_classes(found, instance, audit):
        return
    if trace is None:
        found.on_trust.append("sizes: how many jobs of which size there were, and what was had; give the jobs")
    else:
        _check_jobs(found, audit, trace)
    if audit.capacity is not None:
        require_made_for(instance, audit.capacity, "bound")
        check_capacity(found, instance, audit.capacity, _audited(audit, trace), stopwatch)
    for number, bound in enumerate(audit.bounds, start=1):
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # absurd prices overflow, and fail by that
                _check_bound(found, instance, audit, bound, f"{number}", stopwatch)
        except UNCHECKED as error:
            within = "the memory there is" if isinstance(error, MemoryError) else f"{stopwatch.limit_s:g} s"
            found.on_trust.append(f"bound: {number} and later not checked within {within}")
            break


def _check_classes(found: Checks, instance: BoaInstance, audit: Audit) -> bool:
    """Whether every bound names the audited classes, which the instance has, and weights are of all their jobs."""
    wrong = sorted(audit.classes.keys() - instance.classes.keys())
    if wrong or not audit.classes:
        found.fail("class", ", ".join(wrong), "classes of the instance are needed, at least one")
        return False
    for name, own in audit.classes.items():
        message = "the weights must be of as many jobs as there are"
        found.compare("jobs", name, float(own.weights.sum()), own.jobs, TOLERANCE * own.jobs, message)
    for number, bound in enumerate(audit.bounds, start=1):
        if bound.least.keys() != audit.classes.keys():
            found.fail("class", f"{number}", "a bound must have the least of every audited class, and of no other")
            return False
    message = "the classes of which speeds are favoured must be those whose speedups are not exact"
    same = audit.favoured == list_favoured(instance, audit.classes)
    found.hold("favoured", "", message) if same else found.fail("favoured", "", message)
    return True


def _check_bound(
    found: Checks, instance: BoaInstance, audit: Audit, bound: AuditBound, index: str, stopwatch: Stopwatch
) -> None:
    """Derive the least of every class at the price anew, and the bound from these."""
    least = derive_least(instance, audit.classes, bound, stopwatch)
    for name, own in least.items():
        message = "what the jobs of a class take at least at the price must be what their least paths take"
        found.compare("least", f"{index} {name}", bound.least[name], own, TOLERANCE * abs(own), message)
    paid, total = bound.price * bound.given, sum(least.values())
    message = "the price must prove the bound"
    found.at_most("bound", index, bound.bound, total - paid, TOLERANCE * (total + paid), message)
    if bound.price == 0.0:  # it holds whatever was had of the other
        return
    had = audit.gpu_hours if bound.of == "mean_jct_s" else audit.mean_jct_s
    message = "a bound must be for what was had of the other"
    found.compare("given", index, bound.given, np.nan if had is None else had, 0.0, message)


def _audited(audit: Audit, trace: JobTrace | None) -> JobTrace | None:
    return trace if trace is None or not audit.as_logged else trace.take(trace.list_logged())


def _check_jobs(found: Checks, audit: Audit, trace: JobTrace) -> None:
    known = np.ones(len(trace), dtype=bool)
    if audit.as_logged:
        known[:] = False
        known[trace.list_logged()] = True
    for place, name in enumerate(trace.classes):
        which, own = np.flatnonzero(known & (trace.class_index == place)), audit.classes.get(name)
        if which.size != (0 if own is None else own.jobs):
            found.fail("jobs", name, f"the trace has {which.size:,} jobs of the class")
        elif own is not None:
            _check_sizes(found, name, own, trace.size[which])
            _check_had(found, name, own, trace.tell_had(which) if audit.as_logged else {})
    if audit.as_logged:
        _check_had(found, "", audit, trace.tell_had(np.flatnonzero(known)))
        lost = np.flatnonzero(known & (trace.completed == 0.0)) if trace.completed is not None else None
        if audit.lost_gpu_hours is not None and lost is not None:
            hours = trace.tell_had(lost)["gpu_hours"] if lost.size else 0.0
            _check_had(found, "", audit, {"lost_gpu_hours": hours})


def _check_sizes(found: Checks, name: str, own: AuditedClass, sizes: FloatArray) -> None:
    """Share the jobs of a class out to the sizes that are told apart."""
    try:
        shares = share_out(sizes, own)
    except RefutedError as error:
        found.fail("sizes", name, f"{error}")
        return
    message = "as many jobs as the trace has must stand for each size"
    worst = int(np.argmax(np.abs(shares - own.weights)))
    found.compare("sizes", name, float(own.weights[worst]), float(shares[worst]), TOLERANCE * own.jobs, message)


def _check_had(found: Checks, name: str, told: Audit | AuditedClass, had: Mapping[str, float]) -> None:
    message = "the figure must equal the one that the jobs of the trace give"
    for what in sorted(had.keys() & type(told).model_fields.keys()):
        claimed = getattr(told, what)
        sides = np.nan if claimed is None else claimed, had[what]
        found.compare(what, name, *sides, TOLERANCE * abs(had[what]), message)


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
