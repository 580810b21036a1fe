"""What plans predict, against replays of the trace that they were made for."""

from __future__ import annotations

from pathlib import Path

import pytest

from optplan.formulations.boa.data.instance import BoaInstance
from optplan.instances.files import read_instance
from optplan.lab.cluster.policies.boa import follow_plan
from optplan.lab.cluster.profiled_jobs import make_jobs
from optplan.lab.cluster.replaying import replay
from optplan.lab.traces.sia_workloads import read_workload
from optplan.solving import build_plan, solve


def test_a_plan_with_slowdowns_predicts_its_replay(data_pack: Path) -> None:
    """Mean completion time and GPU-hours of boa-newtrace-slowdown within 5 %: no start of nodes, GPUs as held."""
    instance = read_instance("boa-newtrace-slowdown")
    assert isinstance(instance, BoaInstance)
    plan = build_plan(instance, solve(instance, check=False))
    workload = read_workload(data_pack / "sia/workloads/newtrace/workload-1.csv")
    jobs, gpus_per_node = make_jobs(workload, data_pack / "sia/traces", "aws", slowdown=True)
    outcome = replay(jobs, follow_plan(plan), gpus_per_node=gpus_per_node)
    predicted = plan.totals()
    assert outcome.summarise()["mean_jct_s"] == pytest.approx(predicted["mean_jct_s"], rel=0.05)
    assert outcome.gpu_hours == pytest.approx(predicted["gpus"] * 48.0, rel=0.05)
