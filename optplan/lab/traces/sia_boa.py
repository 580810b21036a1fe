"""BOA instances from the public Sia and AdaptDL traces and profiles: one job class per application.

With several types of GPU, sizes are times on one GPU of the first, and a speedup is goodput on a type and width over
goodput on that one GPU: the same progress is made everywhere, so that goodputs compare.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from optplan.errors import DataError, nearest_name_hint
from optplan.formulations.boa.data.gpu_types import GpuType
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.data.job_classes import JobClass
from optplan.instances.arrivals import learn_patterns, tell_patterns, warn_few_jobs
from optplan.instances.job_logs.columns import Jobs
from optplan.instances.job_logs.jobs_table import write_jobs
from optplan.instances.job_logs.records import Row
from optplan.lab.traces.sia import EpochProfile, Timing, derive_epochs
from optplan.lab.traces.sia_profiles import UNNAMED, CannotRunError, list_profiled_gpus
from optplan.lab.traces.sia_workloads import APPLICATIONS, GPU_NODES, Workload, list_gpus, read_workload
from optplan.quantities import round_shared
from optplan.speedup import TableSpeedup
from optplan.units import SECONDS_PER_HOUR

#: Widths that an import covers unless told otherwise.
MAX_WIDTH = 128

_TIMING_WORDS = {
    Timing.TABLES: "goodput by the measured tables, beyond them by the fitted AdaptDL model",
    Timing.MODEL: "goodput by the fitted AdaptDL model at every width",
    Timing.MODEL_BATCHES: "goodput by the measured tables at the batch sizes that the fitted AdaptDL model picks",
}


def build_sia_instance(
    workload: Path | str,
    profiles: Path | str,
    gpu: str | Sequence[str],
    *,
    max_width: int | Mapping[str, int] = MAX_WIDTH,
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
        Suffix of the profiled node type: ``aws``, ``azure``, ``dgx-ext``, ``rtx`` or ``quad``; or several of them.
        Sizes are times on one GPU of the first, and speedups on all of them are goodput over that: s^(h)(k) =
        gamma_h(k) / gamma_first(1). A type on which an application cannot run is absent from its class and named in
        ``source``. An application that cannot run on the first takes the next one as reference, and one that cannot run
        on one GPU its least width there.
    max_width
        Widths 1..max_width are allowed, of all types or by suffix (128 where a suffix is missing); those on which an
        application cannot run are left out and named in ``source``.
    timing
        ``tables``: measured step times, and the fitted goodput model beyond the profiled clusters; ``model``: the
        fitted model at every width, which is what AdaptDL's schedulers (Pollux, Sia, BOA Constrictor) see;
        ``model-batches``: the tables, at the batch sizes that this model picks, as jobs run in Sia's simulator.
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
        whether its speedup was measured or comes from the fitted goodput model. Classes have the pattern of their
        arrivals where the trace has a whole day.

    Raises
    ------
    DataError
        When a file is missing, cut short or not in order, a name is unknown or given twice, or an application can run
        on none of the types.
    """
    gpus = _check_gpus(gpu, max_width)
    jobs = read_workload(workload, span_h=span_h)
    kept = [a for a in jobs.applications if applications is None or a in applications]
    missing = sorted(set(applications or ()) - set(jobs.applications))
    if missing:
        raise DataError("applications", f"{missing[0]!r} has no job in {Path(workload).name}", "leave it out")
    has_suffixes = _check_profiled(profiles, kept, gpus)
    limits = {each: max_width.get(each, MAX_WIDTH) if isinstance(max_width, Mapping) else max_width for each in gpus}
    derived, absent = {}, []
    for application in kept:
        derived[application], why = _derive_on_all(profiles, application, limits, timing=timing, slowdown=slowdown)
        absent += why
    patterns = learn_patterns(
        {a: jobs.submission_s[jobs.application_index == jobs.applications.index(a)] / SECONDS_PER_HOUR for a in kept},
        0.0,
        jobs.span_s / SECONDS_PER_HOUR,
    )
    described = [_describe(each) for each in gpus]
    instance = BoaInstance(
        name=f"{Path(workload).stem}-{'-'.join(gpus)}",
        description=(
            f"{sum(jobs.jobs_per_application[a] for a in kept)} jobs of {len(kept)} applications on "
            f"{' and '.join(filter(None, [', '.join(described[:-1]), described[-1]]))}."
        ),
        source=_tell_source(jobs, Path(workload), limits, derived, timing=Timing(timing), slowdown=slowdown)
        | ({} if has_suffixes else {"type of GPU": f"{gpus[0]}, as given: the profiles do not say it"})
        | ({"cannot run": "; ".join(absent)} if absent else {})
        | tell_patterns(patterns, hours="the start of the trace"),
        classes={
            a: _make_class(jobs, list(profiles_of.values())).replace(arrivals=patterns.get(a))
            for a, profiles_of in derived.items()
        },
        gpu_types={
            name_gpu(each): GpuType(gpus_per_node=GPU_NODES[each].gpus_per_node if each in GPU_NODES else None)
            for each in gpus
        },
    )
    warn_few_jobs(instance, jobs.jobs_per_application)
    return instance


def write_workload(
    workload: Path | str, instance: BoaInstance, path: Path, *, span_h: float | None = None, overwrite: bool = False
) -> None:
    """Write the jobs of an instance's classes, at their mean size, as the jobs table of ``optplan import log``."""
    jobs, rows = read_workload(workload, span_h=span_h), dict[str, list[Row]]()
    asked = [0] * len(jobs.job_names) if jobs.requested_gpus is None else jobs.requested_gpus.tolist()
    for place, (name, which, at_s, gpus) in enumerate(
        zip(jobs.job_names, jobs.application_index.tolist(), jobs.submission_s.tolist(), asked, strict=True)
    ):
        row = Row(name, "", "", "", at_s, None, None, gpus, "", "", place, completed=False)
        rows.setdefault(jobs.applications[which], []).append(row)
    sizes = {name: np.full(len(rows[name]), each.size_gpu_hours) for name, each in instance.classes.items()}
    write_jobs({name: Jobs.of(rows[name]) for name in sizes}, sizes, path, overwrite=overwrite)


def name_gpu(suffix: str) -> str:
    """Return what the instance calls the GPUs behind a suffix; a suffix that is not known names itself."""
    return GPU_NODES[suffix].gpu_type if suffix in GPU_NODES else suffix


def _check_gpus(gpu: str | Sequence[str], max_width: int | Mapping[str, int]) -> tuple[str, ...]:
    gpus = list_gpus("gpu", gpu, such_as="aws")
    unused = sorted(set(max_width) - set(gpus)) if isinstance(max_width, Mapping) else []
    if unused:
        raise DataError("max_width", f"{unused[0]!r} is not imported", nearest_name_hint(unused[0], gpus))
    return gpus


def _check_profiled(profiles: Path | str, applications: Sequence[str], gpus: Sequence[str]) -> bool:
    """Refuse a suffix for which no application at all has a profile: its name is wrong; say whether files have any."""
    known = {application: list_profiled_gpus(profiles, application) for application in applications}
    unnamed = [application for application, suffixes in known.items() if suffixes == [UNNAMED]]
    if unnamed and len(gpus) > 1:
        problem = f"{unnamed[0]} has one profile, without a suffix, and there are {len(gpus)} types of GPU"
        raise DataError("gpu", problem, "name the type that the profile is of, alone, or give its files a suffix")
    for gpu in gpus:
        if not unnamed and not any(gpu in suffixes for suffixes in known.values()):
            there = sorted(set().union(*known.values()))
            problem = f"no application has a profile for GPU type {gpu!r}"
            raise DataError("gpu", problem, f"there are profiles for: {', '.join(there) or 'none'}")
    return not unnamed


def _derive_on_all(
    profiles: Path | str, application: str, limits: Mapping[str, int], *, timing: Timing | str, slowdown: bool
) -> tuple[dict[str, EpochProfile], list[str]]:
    """Return the profiles of an application by suffix, in their order, and on which types it cannot run and why."""
    found: dict[str, EpochProfile] = {}
    refusals: dict[str, CannotRunError] = {}
    for gpu, limit in limits.items():
        try:
            found[gpu] = derive_epochs(
                profiles,
                application,
                gpu,
                np.arange(1, limit + 1),
                slowdown=slowdown,
                timing=timing,
            )
        except CannotRunError as error:
            refusals[gpu] = error
    if not found:
        raise next(iter(refusals.values()))
    return found, [f"{application} on {name_gpu(gpu)}: {error.problem}" for gpu, error in refusals.items()]


def _make_class(jobs: Workload, profiles: Sequence[EpochProfile]) -> JobClass:
    first = profiles[0]
    return JobClass(
        arrival_rate_per_hour=jobs.jobs_per_application[first.application] / (jobs.span_s / SECONDS_PER_HOUR),
        epoch_size_gpu_hours=round_shared(first.sizes_s / SECONDS_PER_HOUR),
        speedup={name_gpu(profile.gpu): _make_table(profile, first) for profile in profiles},
        rescale_s=APPLICATIONS[first.application].rescale_s,
        reference_width=first.reference_width,
    )


def _make_table(profile: EpochProfile, first: EpochProfile) -> TableSpeedup:
    speedup = profile.speedup if profile is first else profile.goodput_per_s / first.reference_goodput_per_s[:, None]
    return TableSpeedup(gpus=profile.widths, speedup=round_shared(speedup), provenance=profile.provenance)


def _describe(gpu: str) -> str:
    if gpu not in GPU_NODES:
        return f"GPUs of type {gpu}"
    node = GPU_NODES[gpu]
    return f"{node.gpus_per_node} x {node.gpu} nodes ({node.machine})"


def _tell_source(
    jobs: Workload,
    workload: Path,
    limits: Mapping[str, int],
    derived: Mapping[str, Mapping[str, EpochProfile]],
    *,
    timing: Timing,
    slowdown: bool,
) -> dict[str, str]:
    several = len(limits) > 1
    source = {
        "trace": f"{workload.parent.name}/{workload.name}, {len(jobs.job_names)} jobs",
        "arrival rates": f"jobs over {jobs.span_s / SECONDS_PER_HOUR:g} h ({jobs.span_source})",
        "profiles": f"Sia artifact, suffix{'es' if several else ''} {', '.join(limits)}; {_TIMING_WORDS[timing]}",
    }
    if several:
        source["sizes and speedups"] = _tell_reference(next(iter(limits)), derived)
        source["widths"] = ", ".join(f"{name_gpu(gpu)} to {limit}" for gpu, limit in limits.items())
    source["slowdown"] = "Sia's factors applied to sizes" if slowdown else "not applied"
    left_out = [
        f"{application}{f' on {name_gpu(gpu)}' if several else ''}: {part}"
        for application, profiles in derived.items()
        for gpu, profile in profiles.items()
        for part in _tell_left_out(profile)
    ]
    if left_out:
        source["widths left out"] = "no feasible batch size for " + ", ".join(left_out)
    return source


def _tell_left_out(profile: EpochProfile) -> Iterator[str]:
    """Say how many widths are left out, those below the least feasible one apart."""
    least = profile.widths[0]
    below, others = [k for k in profile.left_out if k < least], [k for k in profile.left_out if k > least]
    if below:
        yield f"{len(below)} below {least} GPUs"
    if others:
        yield f"{len(others)} from {min(others)} GPUs on"


def _tell_reference(first: str, derived: Mapping[str, Mapping[str, EpochProfile]]) -> str:
    told = f"relative to one GPU of {name_gpu(first)} (suffix {first})"
    references = {application: next(iter(profiles.values())) for application, profiles in derived.items()}
    others = [
        f"{application} to {p.reference_width} GPU{'s' if p.reference_width > 1 else ''} of {name_gpu(p.gpu)}"
        for application, p in references.items()
        if (p.gpu, p.reference_width) != (first, 1)
    ]
    return f"{told}; {', '.join(others)}" if others else told
