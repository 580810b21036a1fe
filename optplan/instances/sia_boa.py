"""BOA instances from the public Sia and AdaptDL traces and profiles: one job class per application."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np

from optplan.errors import DataError
from optplan.formulations.boa.data import BoaInstance, GpuType, JobClass
from optplan.instances.sia import (
    APPLICATIONS,
    GPU_NODES,
    EpochProfile,
    Infeasible,
    Timing,
    derive_epochs,
    read_workload,
)
from optplan.instances.sia_workloads import Workload
from optplan.speedup import TableSpeedup
from optplan.units import SECONDS_PER_HOUR

#: Widths that an import covers unless told otherwise.
MAX_WIDTH = 128

#: What the instance calls the GPUs behind each suffix.
GPU_TYPES = {"aws": "t4", "azure": "v100", "dgx-ext": "a100", "rtx": "rtx-2080-ti", "quad": "rtx-6000"}

_TIMING_WORDS = {
    Timing.TABLES: "goodput by the measured tables, beyond them by the fitted AdaptDL model",
    Timing.MODEL: "goodput by the fitted AdaptDL model at every width",
}


def build_sia_instance(
    workload: Path | str,
    profiles: Path | str,
    gpu: str,
    *,
    max_width: int = MAX_WIDTH,
    timing: Timing | str = Timing.TABLES,
    slowdown: bool = False,
    span_h: float | None = None,
    applications: Collection[str] | None = None,
) -> BoaInstance:
    """Read a workload and the profiles of its applications, and make a BOA instance.

    Parameters
    ----------
    workload
        CSV of submissions.
    profiles
        Folder with one folder of tables per application.
    gpu
        Suffix of the profiled node type: ``aws``, ``azure``, ``dgx-ext``, ``rtx`` or ``quad``.
    max_width
        Widths 1..max_width are allowed; those on which an application cannot run are left out and named in ``source``.
    timing
        ``tables``: measured step times, and the fitted goodput model beyond the profiled clusters; ``model``: the
        fitted model at every width, which is what AdaptDL's schedulers (Pollux, Sia, BOA Constrictor) see.
    slowdown
        Whether sizes are multiplied by the factor that Sia fitted to its physical cluster.
    span_h
        Hours over which the arrivals are spread; None takes the nominal span of the known families.
    applications
        Only these become classes (the paper's filterTrace); None keeps all.

    Returns
    -------
    BoaInstance
        Problem rescaling, named after the file, without budget or price. ``speedup.*.provenance`` says of each width
        whether its speedup was measured or comes from the fitted goodput model.

    Raises
    ------
    DataError
        When a file is missing, cut short or not in order, or a name is unknown.
    """
    jobs = read_workload(workload, span_h=span_h)
    kept = [a for a in jobs.applications if applications is None or a in applications]
    missing = sorted(set(applications or ()) - set(jobs.applications))
    if missing:
        raise DataError("applications", f"{missing[0]!r} has no job in {Path(workload).name}", "leave it out")
    widths = np.arange(1, max_width + 1)
    derived = {
        application: derive_epochs(
            profiles, application, gpu, widths, slowdown=slowdown, timing=timing, infeasible=Infeasible.LEAVE_OUT
        )
        for application in kept
    }
    classes = {application: _make_class(jobs, profile) for application, profile in derived.items()}
    return BoaInstance(
        name=f"{Path(workload).stem}-{gpu}",
        description=f"{sum(_count_jobs(jobs, a) for a in kept)} jobs of {len(kept)} applications on {_describe(gpu)}.",
        source=_tell_source(jobs, Path(workload), gpu, derived, timing=Timing(timing), slowdown=slowdown),
        classes=classes,
        gpu_types={GPU_TYPES[gpu]: GpuType()},
    )


def _make_class(jobs: Workload, profile: EpochProfile) -> JobClass:
    return JobClass(
        arrival_rate_per_hour=_count_jobs(jobs, profile.application) / (jobs.span_s / SECONDS_PER_HOUR),
        epoch_size_gpu_hours=profile.sizes_s / SECONDS_PER_HOUR,
        speedup={
            GPU_TYPES[profile.gpu]: TableSpeedup(
                gpus=profile.widths, speedup=profile.speedup, provenance=profile.provenance
            )
        },
        rescale_s=APPLICATIONS[profile.application].rescale_s,
    )


def _count_jobs(jobs: Workload, application: str) -> int:
    return int(np.count_nonzero(jobs.application_index == jobs.applications.index(application)))


def _describe(gpu: str) -> str:
    node = GPU_NODES[gpu]
    return f"{node.gpus_per_node} x {node.gpu} nodes ({node.machine})"


def _tell_source(
    jobs: Workload, workload: Path, gpu: str, derived: dict[str, EpochProfile], *, timing: Timing, slowdown: bool
) -> dict[str, str]:
    """Say where every figure comes from, by what it is."""
    source = {
        "trace": f"{workload.parent.name}/{workload.name}, {len(jobs.job_names)} jobs",
        "arrival rates": f"jobs over {jobs.span_s / SECONDS_PER_HOUR:g} h ({jobs.span_source})",
        "profiles": f"Sia artifact, suffix {gpu}; {_TIMING_WORDS[timing]}",
        "slowdown": "Sia's factors applied to sizes" if slowdown else "not applied",
    }
    left_out = [f"{a}: {len(p.left_out)} from {min(p.left_out)} GPUs on" for a, p in derived.items() if p.left_out]
    if left_out:
        source["widths left out"] = "no feasible batch size for " + ", ".join(left_out)
    return source
