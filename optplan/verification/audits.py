"""Audits judged: each bound is derived again from its price, and with the trace what was had and the jobs' sizes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from optplan.contracts import Instance, Verification
from optplan.contracts.audits import Audit, AuditBound, CapacityBound
from optplan.contracts.judgement import RefutedError
from optplan.errors import UsageError
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.judge.auditing import derive_least, list_favoured, share_out
from optplan.progress import OutOfTime, Stopwatch
from optplan.units import SECONDS_PER_HOUR
from optplan.verification.findings import TOLERANCE, Checks

if TYPE_CHECKING:
    from optplan.instances.job_traces import JobTrace

_SAME = "the figure must equal the one that the jobs of the trace give"


def verify_audit(
    instance: Instance, audit: Audit, trace: JobTrace | None = None, *, time_limit_s: float | None = None
) -> Verification:
    """Check every bound of an audit, and with the jobs that it is of their sizes and what they had."""
    start = time.perf_counter()
    if not isinstance(instance, BoaInstance):
        raise UsageError(f"audits are of BOA instances, and {instance.name!r} is of another formulation")
    require_made_for(instance, audit, "audit")
    if trace is not None:
        require_trace(instance, trace)
    found = Checks()
    stopwatch = Stopwatch(time_limit_s, clock=time.thread_time)
    if _check_classes(found, instance, audit):
        if trace is None:
            found.on_trust.append("sizes: how many jobs of which size there were, and what was had; give the jobs")
        else:
            _check_jobs(found, audit, trace)
        for number, bound in enumerate(audit.bounds, start=1):
            try:
                _check_bound(found, instance, audit, bound, f"{number}", stopwatch)
            except OutOfTime:
                found.on_trust.append(f"bound: {number} and later not checked within {stopwatch.limit_s:g} s")
                break
    found.never_checked.append("assumptions: whether speeds, sizes and pauses are those of the cluster")
    return Verification(
        checks=tuple(found.list_checks()),
        on_trust=tuple(found.on_trust),
        never_checked=tuple(found.never_checked),
        seconds=time.perf_counter() - start,
    )


def require_trace(instance: BoaInstance, trace: JobTrace) -> None:
    """Raise a UsageError unless the classes of a trace are those of an instance."""
    if trace.classes != tuple(instance.classes):
        message = f"the trace {trace.name!r} is not of the instance {instance.name!r}, which has other classes"
        raise UsageError(f"{message} ({', '.join(instance.classes)}); give the trace that was made with it")


def require_made_for(instance: Instance, made: Audit | CapacityBound, what: str) -> None:
    """Raise a UsageError unless something was made for an instance."""
    if made.instance_hash != instance.content_hash():
        known, own = made.instance_hash[:12], instance.content_hash()[:12]
        message = f"the {what} was made for {made.instance_name!r} with hash {known}, this one has {own}"
        raise UsageError(f"{message}; give the instance it was made for")


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


def _check_jobs(found: Checks, audit: Audit, trace: JobTrace) -> None:
    """Compare counts, sizes and what was had with the jobs themselves."""
    counted = np.isfinite(trace.gpus * trace.run_s + trace.wait_s) if audit.as_logged else np.ones(len(trace), bool)
    held_h = trace.gpus * trace.run_s / SECONDS_PER_HOUR
    for name in sorted(audit.classes.keys() | {c for c, count in trace.counts().items() if count}):
        which = np.flatnonzero(counted & (trace.class_index == trace.classes.index(name)))
        own = audit.classes.get(name)
        if (own.jobs if own else 0) != which.size or own is None:
            if which.size or own:
                found.fail("jobs", name, f"the trace has {which.size:,} jobs of the class")
            continue
        try:
            shares = share_out(trace.size[which], own)
        except RefutedError as error:
            found.fail("sizes", name, f"{error}")
            continue
        message = "as many jobs as the trace has must stand for each size"
        worst = int(np.argmax(np.abs(shares - own.weights)))
        found.compare("sizes", name, float(own.weights[worst]), float(shares[worst]), TOLERANCE * own.jobs, message)
        if audit.as_logged:
            had = {
                "mean_jct_s": (own.mean_jct_s, float((trace.wait_s + trace.run_s)[which].mean())),
                "gpu_hours": (own.gpu_hours, float(held_h[which].sum())),
                "wait_s": (own.wait_s, float(trace.wait_s[which].mean())),
            }
            for what, (claimed, known) in had.items():
                told = np.nan if claimed is None else claimed
                found.compare(what, name, told, known, TOLERANCE * abs(known), _SAME)
    if audit.as_logged:
        total = {"mean_jct_s": (trace.wait_s + trace.run_s)[counted].mean(), "gpu_hours": held_h[counted].sum()}
        if audit.lost_gpu_hours is not None and trace.completed is not None:
            total["lost_gpu_hours"] = held_h[counted & (trace.completed == 0.0)].sum()
        for what, known in total.items():
            claimed = getattr(audit, what)
            told = np.nan if claimed is None else claimed
            found.compare(what, "", told, float(known), TOLERANCE * float(known), _SAME)
