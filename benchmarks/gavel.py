"""BOA instances from the public throughput tables and traces of Gavel: one job class per model and batch size.

A table holds, for each type of worker (``v100``, ``p100``, ``k80``; ``v100_unconsolidated`` when the workers are spread
over servers), each job type and each scale factor k, the mini-batches per second that k workers do together, each with
mini-batches of the size in the job type's name. So a job of n steps takes ``n / throughput(k)`` seconds on k GPUs, and
the speedup on k GPUs of a type is their throughput over that of one GPU of the reference type. Throughputs are taken as
measured, with their noise; a throughput of zero says that the job does not run there.

References
----------
Narayanan et al., "Heterogeneity-aware cluster scheduling policies for deep learning workloads", OSDI 2020; repository
stanford-futuredata/gavel, commit c4fa40097339e9608ab71fd64c8bdea96a5e4a4c. The data pack's README, section 3, describes
the files.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from optplan.errors import DataError, nearest_name_hint
from optplan.formulations.boa.data.gpu_types import GpuType
from optplan.formulations.boa.data.instance import BoaInstance, Problem
from optplan.formulations.boa.data.job_classes import JobClass
from optplan.instances.arrivals import warn_few_jobs
from optplan.instances.csv_tables import parse_number, parse_whole, read_blocks
from optplan.instances.plain_data import read_data
from optplan.lab.traces.sia_workloads import choose_span, list_gpus
from optplan.speedup import TableSpeedup
from optplan.units import SECONDS_PER_HOUR

#: The types of GPU that the tables have, the quickest first: the reference unless told otherwise.
GPUS = ("v100", "p100", "k80")

_PAIR = re.compile(r"\('(?P<job_type>.*)', (?P<scale_factor>\d+)\)")
_BATCH_SIZE = re.compile(r"(?P<model>.*) \(batch size (?P<size>\d+)\)")
_UNCONSOLIDATED = "_unconsolidated"

#: By number of fields in a row: where job type, total steps, scale factor and arrival time stand.
_LAYOUTS = {7: (0, 4, 6, 5), 10: (0, 5, 6, 9)}

#: Mini-batches per second by job type, then by number of GPUs.
Throughputs = Mapping[str, Mapping[int, float]]


@dataclass(frozen=True)
class GavelJob:
    """One job of a trace.

    ``job_type`` is model and batch size, as the throughput tables name them; ``steps`` are mini-batches until it is
    complete; ``requested_gpus`` is what a rigid scheduler would give it.
    """

    job_type: str
    steps: int
    requested_gpus: int
    arrival_s: float


def read_throughputs(path: Path | str, gpu: str, *, consolidated: bool = True) -> dict[str, dict[int, float]]:
    """Read how fast jobs run alone on one type of GPU (``v100``, ``p100`` or ``k80``), all in one server or spread.

    Keys of Gavel's JSON that name no scale factor (the older tables) stand for one GPU. Returns mini-batches per second
    by job type and number of GPUs, without zeros, which mean that it does not run, so that a job type may have no
    entry.
    """
    path = Path(path)
    table = read_data(path)
    by_name = isinstance(table, dict) and all(
        isinstance(jobs, dict) and all(isinstance(name, str) for name in (worker, *jobs))  # YAML takes some for numbers
        for worker, jobs in table.items()
    )
    if not table or not by_name:
        raise DataError(str(path), "is not a table of throughputs by worker and job", "give a table in Gavel's format")
    worker = gpu if consolidated else f"{gpu}{_UNCONSOLIDATED}"
    if worker not in table:
        there = [name for name in table if name.endswith(_UNCONSOLIDATED) is not consolidated]
        raise DataError(str(path), f"has no throughputs of {worker!r}", nearest_name_hint(worker, there or table))
    found: dict[str, dict[int, float]] = {}
    for key, by_other in table[worker].items():
        pair = _PAIR.fullmatch(key)
        job_type, gpus = (pair["job_type"], int(pair["scale_factor"])) if pair else (key, 1)
        per_s = by_other.get("null") if isinstance(by_other, dict) else None
        if isinstance(per_s, bool) or not isinstance(per_s, int | float) or not (math.isfinite(per_s) and per_s >= 0):
            problem = f"{worker}, {key}: the throughput alone is {per_s!r}; a number of at least 0 is needed"
            raise DataError(str(path), problem, "correct the entry 'null' there")
        found.setdefault(job_type, {})
        if per_s > 0:
            found[job_type][gpus] = float(per_s)
    return {job_type: dict(sorted(by_gpus.items())) for job_type, by_gpus in found.items()}


def read_trace(path: Path | str) -> tuple[GavelJob, ...]:
    """Read a trace: tab-separated rows without a header, of 7 fields (simulations) or 10 (physical clusters)."""
    path = Path(path)
    jobs: list[GavelJob] = []
    for lines, rows in read_blocks(path, delimiter="\t", quoted=False):
        for line, row in zip(lines, rows, strict=True):
            jobs.append(_parse_job(path, line, row, latest_s=jobs[-1].arrival_s if jobs else 0.0))
    if not jobs:
        raise DataError(str(path), "the file holds no job", "give a trace with one row per job")
    return tuple(jobs)


def build_gavel_instance(
    trace: Path | str,
    throughputs: Path | str,
    gpus: Sequence[str] = GPUS,
    *,
    consolidated: bool = True,
    span_h: float | None = None,
    job_types: Collection[str] | None = None,
) -> BoaInstance:
    """Read a trace and a table of throughputs, and make a BOA instance.

    Parameters
    ----------
    trace
        File with one job per row; the GPUs that jobs ask for are not used.
    throughputs
        Table with the throughput of each job type on each type of GPU.
    gpus
        Types of GPU. Sizes are mean steps over the throughput of one GPU of the first, in hours, and speedups are
        relative to that. A class that cannot run on it takes the next type as reference, and one that cannot run on one
        GPU its least width there.
    consolidated
        Whether a job's GPUs are in one server.
    span_h
        Hours over which the arrivals are spread; None takes the last arrival, rounded up to a full hour.
    job_types
        Only these become classes; None keeps all.

    Returns
    -------
    BoaInstance
        One class with one epoch per job type, whole GPUs without rescaling (the data says nothing of pauses), without
        budget or prices. ``source`` names the types of GPU on which a class cannot run, and the widths left out.

    Raises
    ------
    DataError
        When a file is missing or wrong, a name is unknown or given twice, no time passes between the arrivals and no
        span is given, or a class can run on none of the types.
    """
    gpus = list_gpus("gpus", gpus, such_as=GPUS[0])
    tables = {gpu: read_throughputs(throughputs, gpu, consolidated=consolidated) for gpu in gpus}
    jobs = read_trace(trace)
    last_h = jobs[-1].arrival_s / SECONDS_PER_HOUR
    if span_h is None and last_h == 0.0:
        raise DataError(str(trace), "all jobs arrive at 0, so they have no rate", "give span_h, the hours they span")
    span_h, span_source = choose_span(Path(trace), last_h, span_h)
    steps = _group(Path(trace), jobs, tables, job_types)
    instance = BoaInstance(
        name=f"{Path(trace).stem}-{'-'.join(gpus)}",
        description=(
            f"{sum(map(len, steps.values()))} jobs of {len(steps)} types (model and batch size) on {', '.join(gpus)} "
            f"GPUs{' of one server' if consolidated else ' spread over servers'}."
        ),
        source={
            "trace": f"{Path(trace).parent.name}/{Path(trace).name}, {len(jobs)} jobs",
            "arrival rates": f"jobs over {span_h:g} h ({span_source})",
            "throughputs": f"Gavel, {Path(throughputs).name}, {'' if consolidated else 'un'}consolidated, as measured",
            "sizes and speedups": f"mean steps; relative to one GPU of {gpus[0]}",
        }
        | _tell_gaps(steps, tables),
        classes={name_class(each): _make_class(each, steps[each], tables, span_h) for each in steps},
        gpu_types={gpu: GpuType() for gpu in gpus},
        problem=Problem.WHOLE,
    )
    warn_few_jobs(instance, {name_class(each): len(of_type) for each, of_type in steps.items()})
    return instance


def name_class(job_type: str) -> str:
    """Return what the instance calls a job type: ``ResNet-18 (batch size 32)`` becomes ``resnet-18-b32``."""
    sized = _BATCH_SIZE.fullmatch(job_type)
    return (f"{sized['model']}-b{sized['size']}" if sized else job_type).lower().replace(" ", "-")


def _parse_job(path: Path, line: int, row: Sequence[str], *, latest_s: float) -> GavelJob:
    if len(row) not in _LAYOUTS:
        problem = f"{len(row)} fields; rows of {' or '.join(map(str, _LAYOUTS))} fields between tabs are understood"
        raise DataError(f"{path}:{line}", problem, "give a trace of Gavel's; the file may be cut off")
    job_type, steps, scale_factor, arrival = (row[field] for field in _LAYOUTS[len(row)])
    arrival_s = parse_number(path, line, "arrival time", arrival)
    if arrival_s < latest_s:
        problem = f"arrival time is {arrival}, after {latest_s:.12g} in the row before"
        raise DataError(f"{path}:{line}", problem, "sort the jobs by arrival time")
    return GavelJob(
        job_type=job_type,
        steps=parse_whole(path, line, "total steps", steps),
        requested_gpus=parse_whole(path, line, "scale factor", scale_factor),
        arrival_s=arrival_s,
    )


def _group(
    path: Path, jobs: Sequence[GavelJob], tables: Mapping[str, Throughputs], job_types: Collection[str] | None
) -> dict[str, list[int]]:
    """Return the steps of the jobs of each type, the types in alphabetical order."""
    known = sorted(set().union(*tables.values()))
    steps: dict[str, list[int]] = {}
    for job in jobs:
        steps.setdefault(job.job_type, []).append(job.steps)
    for job_type in steps:
        if job_type not in known:
            raise DataError(str(path), f"no throughput of {job_type!r} is known", nearest_name_hint(job_type, known))
    missing = sorted(set(job_types or ()) - set(steps))
    if missing:
        raise DataError("job_types", f"{missing[0]!r} has no job in {path.name}", nearest_name_hint(missing[0], steps))
    return {job_type: steps[job_type] for job_type in sorted(steps) if job_types is None or job_type in job_types}


def _make_class(job_type: str, steps: Sequence[int], tables: Mapping[str, Throughputs], span_h: float) -> JobClass:
    per_s = {gpu: table[job_type] for gpu, table in tables.items() if table.get(job_type)}
    if not per_s:
        problem = f"has no throughput above zero on {', '.join(tables)}"
        raise DataError(f"job_types: {job_type!r}", problem, "add a type of GPU on which it runs, or leave it out")
    reference_width, reference_per_s = next(iter(next(iter(per_s.values())).items()))
    return JobClass(
        arrival_rate_per_hour=len(steps) / span_h,
        epoch_size_gpu_hours=np.array([float(np.mean(steps)) / reference_per_s / SECONDS_PER_HOUR]),
        speedup={
            gpu: TableSpeedup(gpus=np.array(list(by_gpus)), speedup=np.array(list(by_gpus.values())) / reference_per_s)
            for gpu, by_gpus in per_s.items()
        },
        reference_width=reference_width,
    )


def _tell_gaps(steps: Mapping[str, object], tables: Mapping[str, Throughputs]) -> dict[str, str]:
    """Say on which types of GPU classes cannot run, which widths they have not there, and what else they refer to."""
    first = next(iter(tables))
    nowhere, without, others = [], [], []
    for job_type in steps:
        name = name_class(job_type)
        runs = {gpu: table.get(job_type, {}) for gpu, table in tables.items()}
        measured = sorted(set().union(*runs.values()))
        for gpu, by_gpus in runs.items():
            gaps = [str(k) for k in measured if k not in by_gpus]
            if not by_gpus:
                nowhere.append(f"{name} on {gpu}")
            elif gaps:
                without.append(f"{name} on {gpu}: {', '.join(gaps)}")
        reference = next((gpu for gpu in runs if runs[gpu]), first)
        least = min(runs[reference], default=1)
        if (reference, least) != (first, 1):
            others.append(f"{name} to {least} GPU{'s' if least > 1 else ''} of {reference}")
    told = {
        "cannot run": ", ".join(nowhere),
        "widths left out": "; ".join(without),
        "other references": ", ".join(others),
    }
    return {what: text for what, text in told.items() if text}
