"""A small application and a trace of it, as files; and newtrace-1, as an instance and its jobs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

from optplan.formulations.boa.data.instance import BoaInstance
from optplan.instances.job_traces import JobTrace
from optplan.lab.traces.sia_boa import build_sia_instance
from optplan.lab.traces.sia_workloads import read_workload

ReadNewtrace: TypeAlias = Callable[..., tuple[BoaInstance, JobTrace]]


@pytest.fixture
def read_newtrace(data_pack: Path) -> ReadNewtrace:
    """Return what reads newtrace-1 with Sia's slowdowns; options are those of the instance."""

    def read(**options: Any) -> tuple[BoaInstance, JobTrace]:  # noqa: ANN401 - options of several types
        workload = data_pack / "sia" / "workloads" / "newtrace" / "workload-1.csv"
        instance = build_sia_instance(workload, data_pack / "sia" / "traces", "aws", slowdown=True, **options)
        jobs, places = read_workload(workload), [*instance.classes]
        unknown = np.full(len(jobs.job_names), np.nan)
        return instance, JobTrace(
            name="newtrace-1",
            classes=tuple(places),
            class_index=np.array([places.index(jobs.applications[which]) for which in jobs.application_index]),
            arrive_s=jobs.submission_s,
            size=np.ones(unknown.size),
            ids=np.array(jobs.job_names),
            gpus=unknown,
            run_s=unknown,
            wait_s=unknown,
            span_s=jobs.span_s,
        )

    return read


@pytest.fixture
def toy_profiles(tmp_path: Path) -> Path:
    """Write profiles of cifar10 on a type of GPU of their own: passes of 1 s, and batches that gain nothing.

    128 samples are the least batch, and the gradient has no noise: so an epoch is 10 iterations of 128 samples, of 1 s
    on one GPU and on two, since nothing is gained by larger ones.
    """
    folder = tmp_path / "profiles" / "cifar10"
    folder.mkdir(parents=True)
    rows = [f"{placement},{batch},1.0,0.0" for placement in ("1", "2") for batch in (32, 4096)]
    (folder / "placements-toy.csv").write_text("\n".join(["placement,local_bsz,step_time,sync_time", *rows]))
    (folder / "scalability-toy.csv").write_text("num_nodes,num_replicas,local_bsz,step_time,sync_time\n")
    for size in (128, 4096):
        rows = [f"{10 * (epoch + 1)},{10 * (epoch + 1)},0.5,1.0,0.0" for epoch in range(100)]
        lines = ["progress,iteration,metric,grad_sqr,grad_var", *rows]
        (folder / f"validation-{size}.csv").write_text("\n".join(lines))
    return folder.parent


@pytest.fixture
def toy_trace(tmp_path: Path) -> Path:
    """Write a trace of two jobs of it, an hour apart."""
    path = tmp_path / "trace.csv"
    path.write_text("name,time,application,num_replicas,batch_size\na,0,cifar10,1,128\nb,3600,cifar10,2,256\n")
    return path
