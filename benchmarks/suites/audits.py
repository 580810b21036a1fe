"""The suite of audits: the least mean of any policy, beside the one width for all to which many would hold it.

A row's ``bound`` is the least mean of the jobs with as many GPU-hours as the one width takes, ``objective`` what that
comes to, and ``gap`` what its user would take for unavoidable.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from optplan.formulations.boa.data.instance import BoaInstance
from optplan.instances.files import read_instance
from optplan.instances.job_traces import draw_trace
from optplan.lab.audits.auditing import audit
from optplan.lab.benchmarks.best_known import Row, reset_peak
from optplan.units import SECONDS_PER_HOUR
from suites.rows import make_goal_row

_TRACE, _SEED, _JOBS = "boa-newtrace", 1, 960
#: Jobs of many sizes, and processor time that they should take at most.
_MANY, _GOAL_S = 100_000, 5.0


def run(*, quick: bool, full: bool) -> Iterator[Row]:
    """Measure every row of the suite; quick takes one width and fewer jobs, full makes no difference."""
    del full
    instance = read_instance(_TRACE, BoaInstance)
    trace = draw_trace(instance, jobs=_JOBS, seed=_SEED)
    for width in (4,) if quick else (1, 2, 4, 8, 16):
        hours, gpu_hours = _hold(instance, trace.counts(), width)
        reset_peak()
        start = time.process_time()
        bound = audit(instance, trace, gpu_hours=gpu_hours).bounds[0].bound
        seconds, mean_jct_s = time.process_time() - start, hours * SECONDS_PER_HOUR / _JOBS
        told = {"objective": mean_jct_s, "bound": bound, "gap": 1.0 - bound / mean_jct_s, "bound_proof": "lagrangian"}
        what, extra = f"{_TRACE}, {_JOBS} jobs", {"gpu_hours": gpu_hours}
        yield make_goal_row(what, f"one-width:{width}", seconds, None, extra, **told)
    many = draw_trace(instance, jobs=_MANY // 10 if quick else _MANY, seed=_SEED)
    size = np.random.default_rng(_SEED).lognormal(-0.5, 1.0, len(many))
    reset_peak()
    start = time.process_time()
    audit(instance, replace(many, size=size), gpu_hours=5.0 * len(many))
    name = f"{len(many):,} jobs of as many sizes"
    yield make_goal_row(name, "audit", time.process_time() - start, _GOAL_S, {})


def _hold(instance: BoaInstance, counts: dict[str, int], width: int) -> tuple[float, float]:
    """Return the hours, and GPU-hours, of jobs that hold one width, on GPUs that are rented when they are needed."""
    hours = gpu_hours = 0.0
    for name, count in counts.items():
        own, options = instance.classes[name], instance.options(name)
        place = int(np.searchsorted(options.widths, width, side="right")) - 1
        each = own.rescale_s / SECONDS_PER_HOUR + float((own.epoch_size_gpu_hours / options.speeds[:, place]).sum())
        hours, gpu_hours = hours + count * each, gpu_hours + count * each * float(options.widths[place])
    return hours, gpu_hours
