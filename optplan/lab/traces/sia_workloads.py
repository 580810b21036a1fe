"""The experiments of Sia and Pollux: their applications and GPU nodes, and workloads, which jobs arrive when.

Batch sizes, epochs, rescaling times and slowdown factors are those of the simulators published with the papers:
``sia-simulator`` (Sia), which extends the simulator of AdaptDL's branch ``osdi21-artifact`` (Pollux).

One row of a workload is one job: ``name``, ``time`` (seconds after the start of the trace, ascending), ``application``,
and, where the file has them, what a user of a rigid scheduler would ask for, ``num_replicas`` and ``batch_size`` (data
README, sections 1.1 and 2).

References
----------
Jayaram Subramanya et al., "Sia: Heterogeneity-aware, goodput-optimized ML-cluster scheduling", SOSP 2023, table 2;
artifact siasosp23/artifacts, commit aaf7a0de7b6cb5eab06ea020467ede5d2fd18e70. The data pack's README, sections 1.2
and 1.4, has the same figures.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

from optplan.errors import DataError, nearest_name_hint
from optplan.instances.csv_tables import parse_number, parse_whole, read_header, read_rows
from optplan.schema import FloatArray, IntArray, freeze
from optplan.units import SECONDS_PER_HOUR


@dataclass(frozen=True)
class Application:
    """One training task; ``rescale_s`` is as Sia has it, ``slowdown`` that of its cluster beside its profiles."""

    name: str
    model: str
    dataset: str
    epochs: int
    init_batch_size: int
    max_batch_size: int
    rescale_s: float
    slowdown: float
    pipeline: bool = False


@dataclass(frozen=True)
class GpuNode:
    """One type of machine; ``name`` is the suffix of its profile files, ``profiled_nodes`` the most machines there."""

    name: str
    gpu_type: str  #: What instances call its GPUs.
    machine: str
    gpu: str
    gpus_per_node: int
    profiled_nodes: int


#: The applications by name (data README, section 1.4).
APPLICATIONS: Mapping[str, Application] = MappingProxyType(
    {
        facts.name: facts
        for facts in (
            Application("cifar10", "ResNet-18", "CIFAR-10", 100, 128, 4096, 50.0, 1.8),
            Application("bert", "BERT fine-tuning", "SQuAD", 2, 12, 384, 120.0, 1.2),
            Application("deepspeech2", "DeepSpeech2", "CMU-ARCTIC", 80, 20, 640, 25.0, 1.2),
            Application("yolov3", "YOLOv3", "PASCAL-VOC", 50, 8, 512, 80.0, 1.2),
            Application("imagenet", "ResNet-50", "ImageNet-1k", 90, 200, 12800, 250.0, 1.2),
            Application("ncf", "neural collaborative filtering", "", 10, 256, 32768, 15.0, 1.5),
            Application("gpt_pmp", "GPT 2.8B", "", 2, 48, 384, 30.0, 1.0, pipeline=True),
        )
    }
)

#: The profiled machines by suffix (data README, section 1.2).
GPU_NODES: Mapping[str, GpuNode] = MappingProxyType(
    {
        node.name: node
        for node in (
            GpuNode("aws", "t4", "g4dn.12xlarge", "T4 16 GB", 4, 16),
            GpuNode("azure", "v100", "ND40rs_v2", "V100 32 GB", 8, 5),
            GpuNode("dgx-ext", "a100", "DGX-A100", "A100 40 GB", 8, 2),
            GpuNode("rtx", "rtx-2080-ti", "8x RTX 2080 Ti", "RTX 2080 Ti 11 GB", 8, 3),
            GpuNode("quad", "rtx-6000", "4x Quadro RTX 6000", "Quadro RTX 6000 24 GB", 4, 1),
        )
    }
)


def application_named(name: str) -> Application:
    """Return what is known about an application."""
    if name not in APPLICATIONS:
        raise DataError("application", f"unknown application {name!r}", nearest_name_hint(name, APPLICATIONS))
    return APPLICATIONS[name]


_COLUMNS = ("name", "time", "application")
_REQUESTS = ("num_replicas", "batch_size")

#: Hours that a family of workloads spans, by the name of its folder: Sia's families, and Pollux's load levels.
NOMINAL_SPANS_H: Mapping[str, float] = MappingProxyType(
    {
        "newtrace": 48.0,
        "philly": 8.0,
        "physical": 1.8,
        "workloads": 8.0,
        "workloads-0.5": 8.0,
        "workloads-1.5": 8.0,
        "workloads-2.0": 8.0,
        "workloads-realistic": 8.0,
    }
)


@dataclass(frozen=True, eq=False)
class Workload:
    """The jobs of one trace, by their arrival; requests (jobs,) are None where the file does not say them."""

    applications: tuple[str, ...]
    application_index: IntArray
    submission_s: FloatArray
    job_names: tuple[str, ...]
    requested_gpus: IntArray | None
    requested_batch_sizes: IntArray | None
    span_s: float
    span_source: str

    @property
    def jobs_per_application(self) -> dict[str, int]:
        """Number of jobs of each application."""
        counts = np.bincount(self.application_index, minlength=len(self.applications))
        return dict(zip(self.applications, counts.tolist(), strict=True))


def read_workload(path: Path | str, *, span_h: float | None = None) -> Workload:
    """Read a workload from CSV; its span is given, that of its folder's family, or up to the last arrival's hour."""
    path = Path(path)
    names: list[str] = []
    first_lines: dict[str, int] = {}
    times, which = array("d"), array("q")
    requests = {column: array("q") for column in _REQUESTS if column in read_header(path)}
    seen: dict[str, int] = {}
    latest = 0.0
    for line, (name, time, application, *asked) in read_rows(path, (*_COLUMNS, *requests)):
        time_s = parse_number(path, line, "time", time)
        if time_s < latest:
            problem = f"time is {time}, after {latest:.12g} in the row before"
            raise DataError(f"{path}:{line}", problem, "sort the jobs by time")
        latest = time_s
        if application not in APPLICATIONS:
            problem = f"unknown application {application!r}"
            raise DataError(f"{path}:{line}", problem, nearest_name_hint(application, APPLICATIONS))
        if first_lines.setdefault(name, line) != line:
            problem = f"a second job is named {name!r}; the first is in line {first_lines[name]}"
            raise DataError(f"{path}:{line}", problem, "give each job a name of its own")
        names.append(name)
        times.append(time_s)
        which.append(seen.setdefault(application, len(seen)))
        for (column, values), text in zip(requests.items(), asked, strict=True):
            values.append(parse_whole(path, line, column, text))
    if not names:
        raise DataError(str(path), "the file names its columns and holds no job", "add one row per job")
    nominal_h = NOMINAL_SPANS_H.get(path.resolve().parent.name)
    hours, span_source = choose_span(path, latest / SECONDS_PER_HOUR, span_h, nominal_h)
    by_name = sorted(seen)
    rank = np.array([by_name.index(application) for application in seen])
    gpus, batches = (freeze(np.array(requests[each])) if each in requests else None for each in _REQUESTS)
    return Workload(
        applications=tuple(by_name),
        application_index=freeze(rank[np.array(which)]),
        submission_s=freeze(np.array(times)),
        job_names=tuple(names),
        requested_gpus=gpus,
        requested_batch_sizes=batches,
        span_s=hours * SECONDS_PER_HOUR,
        span_source=span_source,
    )


def repeat_workload(workload: Workload, times: int, *, seed: int = 0) -> Workload:
    """Repeat a workload so many ``times``, each turned within its span by a random offset; names end in ``/2``, ..."""
    offsets_s = np.random.default_rng(seed).uniform(0.0, workload.span_s, times)
    offsets_s[0] = 0.0
    numbers = np.arange(times)[:, None]
    turned_s = (workload.submission_s + offsets_s[:, None]) % workload.span_s + numbers * workload.span_s
    turned_s[0] = workload.submission_s  # an arrival at the very end of the span stays there
    order = np.argsort(turned_s, axis=None, kind="stable")
    which = order % len(workload.job_names)
    names = [
        workload.job_names[job] + (f"/{number + 1}" if number else "")
        for number, job in zip((order // len(workload.job_names)).tolist(), which.tolist(), strict=True)
    ]

    def again(values: IntArray | None) -> IntArray | None:
        return None if values is None else freeze(values[which])

    return replace(
        workload,
        application_index=freeze(workload.application_index[which]),
        submission_s=freeze(turned_s.ravel()[order]),
        job_names=tuple(names),
        requested_gpus=again(workload.requested_gpus),
        requested_batch_sizes=again(workload.requested_batch_sizes),
        span_s=times * workload.span_s,
        span_source=f"{workload.span_source}, {times} times",
    )


def choose_span(path: Path, last_h: float, span_h: float | None, nominal_h: float | None = None) -> tuple[float, str]:
    """Return the hours that a trace spans, given, nominal or up to the last arrival, and where they come from."""
    if span_h is not None:
        if not (math.isfinite(span_h) and span_h > 0.0):
            raise DataError("span_h", f"got {span_h!r}; hours above zero are allowed", "give the length of the trace")
        hours, source = span_h, "given by the caller"
    elif nominal_h is not None:
        hours, source = nominal_h, f"nominal span of {path.resolve().parent.name}"
    else:
        hours, source = max(1.0, float(math.ceil(last_h))), "last arrival, rounded up to a full hour"
    if last_h > hours:
        problem = f"the last job arrives at {last_h:.6g} h, after the span of {hours:g} h ({source})"
        raise DataError(str(path), problem, "give a longer span_h")
    return hours, source


def list_gpus(field: str, gpus: str | Sequence[str], *, such_as: str) -> tuple[str, ...]:
    """Return types of GPU, at least one and each once."""
    listed = (gpus,) if isinstance(gpus, str) else tuple(gpus)
    if not listed:
        raise DataError(field, "is empty", f"name at least one type of GPU, such as {such_as}")
    twice = [gpu for gpu in listed if listed.count(gpu) > 1]
    if twice:
        raise DataError(field, f"{twice[0]!r} is given twice", "name each type once")
    return listed
