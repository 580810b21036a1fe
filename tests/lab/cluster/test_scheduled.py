"""BOA's scheduler in the simulator: orders on a fixed cluster, and a cluster that grows in rounds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from optplan.errors import DataError, UsageError
from optplan.execution.online.jobs import Order
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.planning import BoaPlan, build_plan
from optplan.instances.files import write_json
from optplan.lab.cluster.jobs import Job, TabledApplication
from optplan.lab.cluster.policies.boa import Autoscaled, Scheduled
from optplan.lab.cluster.policies.naming import make_policy
from optplan.lab.cluster.replaying import replay
from optplan.solving import solve

#: An hour on one GPU, half an hour on two; the other kind of job takes a tenth of it.
LONG = TabledApplication({1: np.array([3600.0]), 2: np.array([1800.0])}, num_epochs=1)
QUICK = TabledApplication({1: np.array([360.0]), 2: np.array([180.0])}, num_epochs=1)


@pytest.fixture(scope="module")
def plan() -> BoaPlan:
    """Give two GPUs to every job of either class."""
    curve = {"v100": {"form": "table", "gpus": [1, 2], "speedup": [1.0, 2.0]}}
    classes = {
        name: {"arrival_rate_per_hour": 1.0, "epoch_size_gpu_hours": [size], "speedup": curve}
        for name, size in (("long", 1.0), ("quick", 0.1))
    }
    fields = {"name": "two", "formulation": "boa", "classes": classes, "gpu_types": {"v100": {}}, "budget": "4gpu"}
    instance = BoaInstance.parse({**fields, "problem": "whole"})
    return build_plan(instance, solve(instance))


@pytest.mark.parametrize(
    ("order", "completed_s"),
    [
        # One after the other: 1,800, then 3,600, then 3,780 s.
        (Order.FIRST_COME, [1800.0, 3600.0, 3780.0]),
        # The quick one arrives after 600 s, stops the first one, and the second waits for both.
        (Order.WEIGHTED_SHORTEST, [1980.0, 3780.0, 780.0]),
    ],
)
def test_on_a_fixed_cluster_jobs_queue_in_the_order_given(
    plan: BoaPlan, order: Order, completed_s: list[float]
) -> None:
    """Two long jobs and, after ten minutes, a quick one share a node of two GPUs."""
    jobs = [Job("a", "long", 0.0, LONG), Job("b", "long", 1.0, LONG), Job("c", "quick", 600.0, QUICK)]
    outcome = replay(jobs, Scheduled(plan, order), gpus_per_node=2, nodes=1)
    assert [job.completed_s for job in outcome.jobs] == pytest.approx(completed_s)


def test_a_job_that_cannot_run_on_one_gpu_is_served(plan: BoaPlan) -> None:
    """It holds two, as the plan says."""
    pair = TabledApplication({2: np.array([1800.0])}, num_epochs=1)
    outcome = replay([Job("a", "long", 0.0, pair)], Scheduled(plan), gpus_per_node=2, nodes=1)
    assert outcome.jobs[0].completed_s == 1800.0


def test_autoscaled_nodes_come_after_their_start_and_go_when_they_are_empty(plan: BoaPlan) -> None:
    """Beside a job on the first node, a second one waits from 0 s for a node that is ready after 120 s.

    It is asked for at once and used in the round of 120 s; the second job ends after 1,920 s.
    """
    jobs = [Job("a", "long", 0.0, LONG), Job("b", "long", 0.0, LONG)]
    outcome = replay(jobs, Autoscaled(plan), gpus_per_node=2, nodes=1, start_s=120.0)
    assert [job.completed_s for job in outcome.jobs] == [1800.0, 1920.0]
    assert outcome.most_nodes == 2


def test_policies_are_named_after_an_order_and_a_plan(plan: BoaPlan, tmp_path: Path) -> None:
    """``weighted-shortest:plan.json`` is one; without a number of nodes it is refused."""
    path = tmp_path / "plan.json"
    write_json(plan, path)
    policy = make_policy(f"weighted-shortest:{path}")
    assert policy.name.startswith("weighted-shortest:")
    with pytest.raises(UsageError, match="give its number of nodes"):
        replay([Job("a", "long", 0.0, LONG)], policy, gpus_per_node=2)
    assert isinstance(make_policy(f"autoscaled:{path}"), Autoscaled)
    with pytest.raises(DataError, match=r"^typo: no such file"):
        make_policy("autoscaled:typo")
    with pytest.raises(
        UsageError,
        match=r"^policy: got 'autoscaled:'; give the file of a BOA plan or the name of a policy; did you mean",
    ):
        make_policy("autoscaled:")
