"""``optplan run --executor ray`` serves a stream on a cluster whose autoscaler launches nodes as they are wanted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from optplan.execution.runs import read_run
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.solving import build_plan, solve

pytestmark = pytest.mark.real
pytest.importorskip("ray", reason='Ray is not installed; pip install "optplan[ray]" brings it')

SLEEPER = f"{Path(__file__).parents[1] / 'streams' / 'sleeper.py'}:train"
RunAlone = Callable[..., str]


def test_a_stream_on_nodes_of_the_autoscaler(run_alone: RunAlone, folder: Path) -> None:
    """Three jobs of two CPUs each are completed, on nodes that were not there before and are given back."""
    curve = {"cpu": {"form": "table", "gpus": [1, 2], "speedup": [1.0, 1.9]}}
    stated = {"arrival_rate_per_hour": 900.0, "epoch_size_gpu_hours": [1.0 / 3600.0] * 3, "speedup": curve}
    fields = {"name": "small", "formulation": "boa", "gpu_types": {"cpu": {}}, "budget": "4gpu", "problem": "whole"}
    instance = BoaInstance.parse({**fields, "classes": {"a": stated}})
    plan = build_plan(instance, solve(instance))
    jobs = [
        {"name": f"job-{k}", "job_class": "a", "at_s": 1.0 * k, "configuration": {"epoch_s": 1.0}} for k in range(3)
    ]
    (folder / "plan.json").write_text(json.dumps(plan.to_json_data()), encoding="utf-8")
    (folder / "jobs.json").write_text(json.dumps(jobs), encoding="utf-8")
    (folder / "train").write_text(SLEEPER, encoding="utf-8")
    run_alone("ray_runs.py", folder, "streamed")
    outcome = read_run(folder / "stream").describe()
    assert (outcome.status, outcome.classes[0].completed, outcome.dropped) == ("ended", 3, {})
    assert outcome.classes[0].widths == (2,)
