"""BOA online: a table that was planned on other rates comes to fit those that are seen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest

from optplan.execution.online.messages import Completion, OnlineEvent, Terms
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
    """Two jobs an hour come: on four GPUs each they would use 4, twice the budget; soon each has one, which uses 2.

    By the first look, the first one has done half of its work; on one GPU the rest takes it half an hour.
    """
    terms = Terms(window_h=2.0, every_s=900.0, settle_s=900.0)
    online = replay(make_jobs(2, 24), BoaOnline(instance, terms), gpus_per_node=4)
    jct_s = online.jct_s.tolist()
    assert jct_s[0] == pytest.approx(900.0 + 1800.0, rel=1e-12)
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


#: When which speed was seen on how many GPUs, and in which epoch.
Speed: TypeAlias = tuple[float, int, float, int | None]


def listen(policy: BoaOnline) -> tuple[list[Speed], list[OnlineEvent]]:
    """Return what the policy's calculator will have been told: speeds, and all else."""
    speeds, told = list[Speed](), list[OnlineEvent]()
    witness = policy._witness
    take, see_speed = witness._take, witness._knowledge.see_speed

    def take_note(events: Sequence[OnlineEvent], now_s: float) -> object:
        told.extend(events)
        return take(events, now_s)

    def see(name: str, gpus: int, gpu_type: str | None, speed: float, epoch: int | None, at_s: float) -> None:
        speeds.append((at_s, gpus, speed, epoch))
        see_speed(name, gpus, gpu_type, speed, epoch, at_s)

    witness._take, witness._knowledge.see_speed = take_note, see  # type: ignore[method-assign]
    return speeds, told


def test_a_speed_is_told_of_each_epoch(instance: BoaInstance) -> None:
    """Of a class that nobody stated, each epoch is taken to be as large as the others; nobody knows which is which."""
    short = TabledApplication({1: np.array([600.0, 300.0, 600.0])}, num_epochs=3, rescale_s=7.0)
    speeds, told = listen(policy := BoaOnline(instance))
    replay([Job("j", "new", 0.0, short)], policy, gpus_per_node=4)
    assert speeds == [
        (607.0, 1, 1 / 600.0, None),
        (907.0, 1, 1 / 300.0, None),
        (1507.0, 1, 1 / 600.0, None),
    ]
    ended = told[-1]
    assert isinstance(ended, Completion)
    assert [(run.gpus, run.seconds) for run in (*ended.ran, *ended.held)] == [(1, 1500.0), (1, 1507.0)]


def test_speeds_do_not_depend_on_how_large_epochs_are(instance: BoaInstance) -> None:
    """Of 4 GPU-hours a job does 1 in its first epoch, half of the mean one, and 3 in its second: both are as fast.

    A unit of speed is the mean epoch of 2 hours on one GPU.
    """
    uneven = instance.classes["job"].replace(epoch_size_gpu_hours=[1.0, 3.0])
    job = Job("j", "job", 0.0, TabledApplication({1: np.array([3600.0, 10800.0])}, num_epochs=2))
    speeds, _ = listen(policy := BoaOnline(instance.replace(classes={"job": uneven})))
    replay([job], policy, gpus_per_node=4)
    assert speeds == [(3600.0, 1, 1 / 7200.0, 1), (14400.0, 1, 1 / 7200.0, 2)]


def test_an_epoch_in_two_places_says_nothing_of_speeds(instance: BoaInstance) -> None:
    """It was on 4 GPUs for a quarter of an hour, then on 1 for half an hour: that is what it ran and held."""
    speeds, told = listen(policy := BoaOnline(instance, Terms(window_h=2.0, every_s=900.0, settle_s=900.0)))
    replay(make_jobs(2, 1), policy, gpus_per_node=4)
    first, second = (each for each in told if isinstance(each, Completion))
    assert (first.id, second.id) == ("j0 ended", "j1 ended")
    for runs in (first.ran, first.held):
        assert [(run.gpus, run.seconds) for run in runs] == [(4, 900.0), (1, pytest.approx(1800.0))]
    assert speeds == [(5400.0, 1, 1 / 3600.0, 1)]  # of the second
