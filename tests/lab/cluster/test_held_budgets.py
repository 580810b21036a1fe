"""Budgets that hold in simulations: the plan where arrivals are as planned, its multiplier where they are not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from optplan.errors import DataError
from optplan.execution.online.fields import Hold
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.instances.files import write_json
from optplan.lab.cluster.jobs import Job, TabledApplication
from optplan.lab.cluster.outcome import Outcome
from optplan.lab.cluster.policies.boa import BudgetHeld
from optplan.lab.cluster.policies.naming import make_policy
from optplan.lab.cluster.profiled_jobs import make_jobs as make_sia_jobs
from optplan.lab.cluster.replaying import replay
from optplan.lab.traces.sia_boa import build_sia_instance
from optplan.lab.traces.sia_workloads import read_workload
from optplan.solving import frontier

#: An epoch of an hour on one GPU, and of half an hour on four: 1 or 2 GPU-hours.
HALVED = TabledApplication({1: np.array([3600.0]), 4: np.array([1800.0])}, num_epochs=1)


@pytest.fixture
def instance() -> BoaInstance:
    """State one job an hour and a budget of 2 GPUs: every job may have four."""
    curve = {"v100": {"form": "table", "gpus": [1, 4], "speedup": [1.0, 2.0]}}
    stated = {"arrival_rate_per_hour": 1.0, "epoch_size_gpu_hours": [1.0], "speedup": curve}
    return BoaInstance(name="halved", classes={"job": stated}, gpu_types={"v100": {}}, budget="2gpu", problem="whole")


def make_jobs(per_hour: float, hours: int) -> list[Job]:
    """Let jobs arrive evenly."""
    return [Job(f"j{n:04d}", "job", n * 3600.0 / per_hour, HALVED) for n in range(round(per_hour * hours))]


def _replay(policy: BudgetHeld, per_hour: float, hours: int, start_s: float = 0.0) -> Outcome:
    """Replay, and let the ledger stand at the end of the arrivals or after it."""
    outcome = replay(make_jobs(per_hour, hours), policy, gpus_per_node=4, start_s=start_s)
    policy.ledger.advance(hours * 3600.0)
    return outcome


def test_where_jobs_come_as_planned_the_plan_is_followed(instance: BoaInstance) -> None:
    """One an hour: all hold four GPUs, and 96 GPU-hours are what the budget gives in 48 h; nothing is owed."""
    policy = BudgetHeld(instance)
    outcome = _replay(policy, 1, 48)
    assert set(outcome.jct_s.tolist()) == {1800.0}
    assert policy.ledger.committed == pytest.approx(96.0)
    assert policy.ledger.debt_h == pytest.approx(0.0, abs=0.1)


def test_where_more_come_the_budget_holds_and_the_debt_is_as_it_is_said(instance: BoaInstance) -> None:
    """Three jobs in two hours take 1.5 to 3 GPUs, and 2 where a third holds four: lambda* is where both are as good.

    That is 1800 s for 1 GPU. The budget is the most that is of use, so that its multiplier is anywhere down to e^-3 of
    that, by the mean of the logarithms e^-1.5: the debt is 1.5 / 0.2 = 7.5 hours of 2 GPUs, 15 GPU-hours in all,
    however long it lasts; a job is up to one hour of it.
    """
    for hours in (200, 600):
        policy = BudgetHeld(instance)
        outcome = _replay(policy, 1.5, hours)
        assert policy.ledger.debt_h == pytest.approx(7.5, abs=1.0)
        assert outcome.gpu_hours == pytest.approx(2.0 * hours + 15.0, abs=2.0)
        assert (outcome.jct_s[-60:] == 1800.0).mean() == pytest.approx(1 / 3, abs=0.05)


def test_an_integral_repays_the_debt(instance: BoaInstance) -> None:
    """In the long run the same jobs take what the budget gives, to within a few hours of it."""
    policy = BudgetHeld(instance, Hold.REPAID)
    outcome = _replay(policy, 1.5, 1200)
    assert policy.name == "boa-repaid"
    assert policy.ledger.debt_h == pytest.approx(0.0, abs=3.0)
    assert outcome.gpu_hours == pytest.approx(2400.0, abs=6.0)


def test_the_same_jobs_are_served_the_same(instance: BoaInstance) -> None:
    """Nothing is drawn, and nothing depends on what was replayed before."""
    first, second = (_replay(BudgetHeld(instance), 1.7, 100) for _ in range(2))
    assert first.jct_s.tolist() == second.jct_s.tolist()


def test_starts_of_nodes_are_paid_by_the_budget(instance: BoaInstance) -> None:
    """A quarter of an hour for each node of four GPUs makes 3 GPU-hours of 2; so some jobs hold one and share nodes."""
    policy = BudgetHeld(instance)
    outcome = _replay(policy, 1, 400, start_s=900.0)
    starts = np.maximum(np.diff(outcome.nodes_rented, prepend=0), 0).sum()
    assert policy.ledger.committed == pytest.approx(outcome.gpu_hours + starts)
    assert policy.ledger.committed == pytest.approx(800.0 + 15.0, abs=4.0)


def test_a_budget_that_no_widths_keep_is_refused(instance: BoaInstance) -> None:
    """Jobs need a GPU each at least."""
    with pytest.raises(DataError, match=r"no widths keep 0\.5: these arrivals need 1 gpu"):
        BudgetHeld(instance.replace(budget="0.5gpu"))


@pytest.mark.parametrize("name", ["boa-held", "boa-repaid"])
def test_it_is_named_before_its_instance(instance: BoaInstance, tmp_path: Path, name: str) -> None:
    """As ``boa-held:instance.json`` or ``boa-repaid:instance.json``."""
    write_json(instance, tmp_path / "instance.json")
    assert make_policy(f"{name}:{tmp_path / 'instance.json'}").name == name


def test_the_plan_of_one_trace_holds_on_another(data_pack: Path) -> None:
    """Newtrace-1's plan of 160 GPUs on newtrace-4, which takes 175 of it: 160 to 5 %, as good as who knew to 3 %."""
    folder = data_pack / "sia"
    workloads = [folder / "workloads" / "newtrace" / f"workload-{number}.csv" for number in (1, 4)]
    planned, actual = (build_sia_instance(each, folder / "traces", "aws", slowdown=True) for each in workloads)
    jobs, gpus_per_node = make_sia_jobs(read_workload(workloads[1]), folder / "traces", "aws", slowdown=True)
    outcome = replay(jobs, BudgetHeld(planned.replace(budget="160gpu")), gpus_per_node=gpus_per_node)
    spent = outcome.gpu_hours / 48.0
    assert spent == pytest.approx(160.0, rel=0.05)
    assert outcome.jct_s.mean() <= 1.03 * frontier(actual).at(spent).objective
