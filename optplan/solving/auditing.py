"""Audits: what jobs had of a cluster, beside the least that any scheduler could have given them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from optplan.contracts.audits import Audit, AuditBound, AuditedClass
from optplan.errors import UsageError, show_value
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.data.relaxing import has_pauses
from optplan.formulations.boa.study.auditing import (
    build_least_frontier,
    gather_sizes,
    list_favoured,
)
from optplan.schema import IntArray
from optplan.solving.capacity import bound_by_capacity
from optplan.verification.audits import verify_audit
from optplan.verification.belonging import require_trace

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
