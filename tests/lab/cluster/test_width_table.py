"""A plan as a policy: ways are dealt out by share, and what the plan does not know holds one GPU."""

from __future__ import annotations

import numpy as np
import pytest

from optplan.errors import UsageError
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.planning import BoaPlan, build_plan
from optplan.instances.files import read_instance
from optplan.lab.cluster.jobs import Job, TabledApplication
from optplan.lab.cluster.policies.boa import follow_plan
from optplan.lab.cluster.replaying import replay
from optplan.solving import solve

#: An epoch of an hour on one GPU, and of half an hour on four.
HALVED = TabledApplication({1: np.array([3600.0]), 4: np.array([1800.0])}, num_epochs=1)


def make_plan(**fields: object) -> BoaPlan:
    """Plan for a job an hour whose GPU-hours are 1 or 2: a budget of 1.5 gives either to half of the jobs."""
    instance = BoaInstance.parse(
        {
            "name": "halved",
            "formulation": "boa",
            "classes": {
                "job": {
                    "arrival_rate_per_hour": 1.0,
                    "epoch_size_gpu_hours": [1.0],
                    "speedup": {"v100": {"form": "table", "gpus": [1, 4], "speedup": [1.0, 2.0]}},
                }
            },
            "gpu_types": {"v100": {}},
            "budget": "1.5gpu",
            "problem": "whole",
            "policy": "mixed",
            **fields,
        }
    )
    return build_plan(instance, solve(instance))


def test_ways_are_dealt_out_by_share() -> None:
    """Of ten jobs five hold one GPU and five hold four, whatever their order in the list, as the plan expects."""
    plan = make_plan()
    jobs = [Job(f"j{number}", "job", 60.0 * number, HALVED) for number in reversed(range(10))]
    outcome = replay(jobs, follow_plan(plan), gpus_per_node=4)
    assert sorted(outcome.jct_s.tolist()) == [1800.0] * 5 + [3600.0] * 5
    assert outcome.gpu_hours == pytest.approx(10 * plan.totals()["gpus"])
    assert outcome.summarise()["mean_jct_s"] == pytest.approx(plan.totals()["mean_jct_s"])


def test_a_class_that_the_plan_does_not_have() -> None:
    """It holds one GPU, as plans of streams say."""
    outcome = replay([Job("a", "other", 0.0, HALVED)], follow_plan(make_plan()), gpus_per_node=4)
    assert outcome.jct_s.tolist() == [3600.0]


def test_several_types_are_refused() -> None:
    """A replay has nodes of one type; the message names those of the plan."""
    instance = read_instance("boa-newtrace-types", BoaInstance)
    plan = build_plan(instance, solve(instance, solver="layered-paths", certify=False))
    with pytest.raises(UsageError, match="nodes of one type"):
        follow_plan(plan)
