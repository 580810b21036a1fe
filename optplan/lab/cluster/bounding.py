"""What no policy could have beaten in a simulation: the audit of its jobs, by what is true of them."""

from __future__ import annotations

import numpy as np

from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.data.job_classes import JobClass
from optplan.instances.job_traces import JobTrace
from optplan.lab.audits.auditing import audit
from optplan.lab.audits.records import Audit
from optplan.lab.cluster.jobs import Application, Spread, consolidate
from optplan.lab.cluster.outcome import Outcome
from optplan.lab.cluster.profiled_jobs import ProfiledApplication
from optplan.lab.cluster.world import World
from optplan.speedup import TableSpeedup
from optplan.units import SECONDS_PER_HOUR

#: Widths up to this are known to the bound, and all on which a job ran.
_WIDEST = 128
_GPU = "simulated"


def audit_outcome(outcome: Outcome) -> Audit | None:
    """Audit a simulation, every width at its fastest known placement; None where not all jobs were completed."""
    if outcome.problems or not outcome.jobs:
        return None
    truths = list(dict.fromkeys(job.truth for job in outcome.jobs))
    names = tuple(f"{number}" for number in range(len(truths)))
    instance = BoaInstance(
        name=outcome.policy,
        classes={name: _state_class(truth, outcome) for name, truth in zip(names, truths, strict=True)},
        gpu_types={_GPU: {}},
    )
    jobs = sorted(outcome.jobs, key=lambda job: job.submitted_s)
    held_s = np.array([job.held_s for job in jobs])
    gpu_s = np.array([job.gpu_s for job in jobs])
    trace = JobTrace(
        name=outcome.policy,
        classes=names,
        class_index=np.array([truths.index(job.truth) for job in jobs]),
        arrive_s=np.array([job.submitted_s for job in jobs]),
        size=np.array([job.size for job in jobs]),
        ids=np.array([job.name for job in jobs]),
        gpus=np.divide(gpu_s, held_s, out=np.zeros_like(gpu_s), where=held_s > 0.0),
        run_s=held_s,
        wait_s=np.array([max(0.0, (job.jct_s or 0.0) - job.held_s) for job in jobs]),
        span_s=jobs[-1].submitted_s,
    )
    return audit(instance, trace)


def tell_least(outcome: Outcome, world: World) -> dict[str, float | None]:
    """Return the least mean of any policy with as many GPU-hours; None with stragglers, whose jobs may be faster."""
    found = None if world.straggling else audit_outcome(outcome)
    bounds = {} if found is None else {each.pauses: each.bound for each in found.bounds if each.of == "mean_jct_s"}
    without = bounds.get(False)
    return {"least_mean_jct_s": bounds.get(True, without), "least_mean_jct_s_without_pauses": without}


def _state_class(truth: Application, outcome: Outcome) -> JobClass:
    """State what is true of an application, each width at its fastest placement."""
    profiled = truth if isinstance(truth, ProfiledApplication) else None
    ran = list(profiled.provenance) if profiled else [(outcome.most_gpus,)]
    widest = truth.largest_width(max([_WIDEST, *(sum(spread) for spread in ran)]))
    truth.epoch_times_s(consolidate(widest, outcome.gpus_per_node))  # profiles derive all widths up to one at once
    spreads: list[Spread] = [consolidate(width, outcome.gpus_per_node) for width in range(1, widest + 1)]
    spreads += [*ran, *profiled.list_measured()] if profiled else []
    fastest: dict[int, np.ndarray] = {}
    for spread in spreads:
        times_s = truth.epoch_times_s(spread)
        if times_s is not None:
            width = sum(spread)
            fastest[width] = np.minimum(fastest.get(width, times_s), times_s)
    widths = sorted(fastest)
    times = np.array([fastest[width] for width in widths]).T
    return JobClass(
        arrival_rate_per_hour=1.0,
        epoch_size_gpu_hours=times[:, 0] / SECONDS_PER_HOUR,
        speedup={_GPU: TableSpeedup(gpus=widths, speedup=times[:, :1] / times)},
        rescale_s=truth.rescale_s,
        reference_width=widths[0],
    )
