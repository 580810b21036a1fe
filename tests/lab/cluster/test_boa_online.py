"""BOA online: a table that was planned on other rates comes to fit those that are seen."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from optplan.errors import DataError
from optplan.execution.online.events import OnlineEvent, Speed
from optplan.execution.online.terms import Terms
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.planning import build_plan
from optplan.instances.files import write_json
from optplan.lab.cluster.jobs import Job, TabledApplication
from optplan.lab.cluster.policies.boa import BoaOnline, follow_plan
from optplan.lab.cluster.policies.naming import make_policy
from optplan.lab.cluster.replaying import replay
from optplan.solving import solve

#: An epoch of an hour on one GPU, and of half an hour on four: 1 or 2 GPU-hours.
HALVED = TabledApplication({1: np.array([3600.0]), 4: np.array([1800.0])}, num_epochs=1)


@pytest.fixture(scope="module")
def instance() -> BoaInstance:
    """State one job an hour and a budget of 2 GPUs: every job may have four."""
    curve = {"v100": {"form": "table", "gpus": [1, 4], "speedup": [1.0, 2.0]}}
    stated = {"arrival_rate_per_hour": 1.0, "epoch_size_gpu_hours": [1.0], "speedup": curve}
    fields = {"name": "halved", "formulation": "boa", "gpu_types": {"v100": {}}, "budget": "2gpu", "problem": "whole"}
    return BoaInstance.parse({**fields, "classes": {"job": stated}})


def make_jobs(per_hour: int, hours: int) -> list[Job]:
    """Let jobs arrive evenly."""
    return [Job(f"j{number}", "job", number * 3600.0 / per_hour, HALVED) for number in range(per_hour * hours)]


def test_widths_follow_the_rate_that_is_seen(instance: BoaInstance) -> None:
    """Two jobs an hour come: on four GPUs each they would use 4, twice the budget; soon each has one, which uses 2."""
    terms = Terms(window_h=2.0, every_s=900.0, settle_s=900.0)
    online = replay(make_jobs(2, 24), BoaOnline(instance, terms), gpus_per_node=4)
    jct_s = online.jct_s.tolist()
    assert jct_s[0] == 1800.0
    assert set(jct_s[-12:]) == {3600.0}
    stale = replay(make_jobs(2, 24), follow_plan(build_plan(instance, solve(instance))), gpus_per_node=4)
    assert stale.gpu_hours == pytest.approx(96.0)
    assert 48.0 <= online.gpu_hours < 60.0


def test_where_nothing_drifts_the_table_stays(instance: BoaInstance, tmp_path: Path) -> None:
    """At the stated rate all jobs hold four GPUs; the policy is named after the file of the instance."""
    path = tmp_path / "instance.json"
    write_json(instance.replace(budget="2.2gpu"), path)
    outcome = replay(make_jobs(1, 12), make_policy(f"boa-online:{path}"), gpus_per_node=4)
    assert outcome.policy == "boa-online"
    assert set(outcome.jct_s.tolist()) == {1800.0}


def test_a_class_that_nobody_stated_is_probed(instance: BoaInstance) -> None:
    """Its jobs run on widths on which they can, and are completed."""
    jobs = [Job(f"j{number}", "new", 3600.0 * number, HALVED) for number in range(6)]
    outcome = replay(jobs, BoaOnline(instance), gpus_per_node=4)
    assert not outcome.problems


def test_speeds_of_a_class_that_nobody_stated_are_learned(instance: BoaInstance) -> None:
    """Four GPUs make it 6 % faster and take 3.8 GPU-hours a job: of 2.2 GPUs, one job an hour gets one each."""
    barely = TabledApplication({1: np.array([3600.0]), 4: np.array([3400.0])}, num_epochs=1)
    jobs = [Job(f"j{number}", "new", 3600.0 * number, barely) for number in range(36)]
    outcome = replay(jobs, BoaOnline(instance.replace(budget="2.2gpu"), Terms(window_h=12.0)), gpus_per_node=4)
    assert 3400.0 in set(outcome.jct_s.tolist())  # it was tried
    assert set(outcome.jct_s.tolist()[-12:]) == {3600.0}


def test_a_speed_is_told_of_a_quarter_of_an_hour_or_of_a_whole_job(instance: BoaInstance) -> None:
    """Three epochs of 10 minutes on one GPU: the first two are told of together, and the third as the job ends."""
    short = TabledApplication({1: np.array([600.0, 300.0, 600.0])}, num_epochs=3)
    policy = BoaOnline(instance)
    told = list[Speed]()
    take = policy._calculator.take

    def listen(events: Iterable[OnlineEvent], now_s: float) -> list[DataError | None]:
        listed = list(events)
        told.extend(event for event in listed if isinstance(event, Speed))
        return take(listed, now_s)

    policy._calculator.take = listen  # type: ignore[method-assign]
    replay([Job("j", "new", 0.0, short)], policy, gpus_per_node=4)
    assert [(each.at_s, each.gpus, each.speed) for each in told] == [(900.0, 1, 1.0), (1500.0, 1, 1.0)]
