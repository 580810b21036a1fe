"""The price that fits: by hand on one node, and against all ways through a job."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from optplan.errors import UsageError
from optplan.execution.progress import Course
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.instances.files import write_json
from optplan.lab.cluster.jobs import Job, Sight, TabledApplication
from optplan.lab.cluster.outcome import Outcome
from optplan.lab.cluster.policies.naming import make_policy
from optplan.lab.cluster.policies.price_that_fits import PriceThatFits
from optplan.lab.cluster.replaying import replay
from optplan.lab.cluster.traced_jobs import simulate_trace

if TYPE_CHECKING:
    from tests.lab.conftest import ReadNewtrace


def make_instance(
    speedups: Mapping[str, list[float]], rescale_s: float = 0.0, epochs: int = 1, weight: float = 1.0
) -> BoaInstance:
    """Make classes whose epochs take an hour on one GPU, with speedups on 1, 2, ... GPUs; the first has a weight."""
    classes = {
        name: {
            "arrival_rate_per_hour": 1.0,
            "epoch_size_gpu_hours": [1.0] * epochs,
            "speedup": {"v100": {"form": "table", "gpus": [*range(1, len(each) + 1)], "speedup": each}},
            "rescale_s": rescale_s,
            "weight": weight if place == 0 else 1.0,
        }
        for place, (name, each) in enumerate(speedups.items())
    }
    return BoaInstance.parse({"name": "n", "formulation": "boa", "classes": classes, "gpu_types": {"v100": {}}})


def make_truth(speedup: list[float], rescale_s: float = 0.0, epochs: int = 1) -> TabledApplication:
    """Make what is true of a class of such an instance."""
    epoch_s = {k: np.full(epochs, 3600.0 / speed) for k, speed in enumerate(speedup, 1)}
    return TabledApplication(epoch_s, epochs, rescale_s)


def run(instance: BoaInstance, jobs: list[Job], gpus: int) -> Outcome:
    """Replay jobs on one node."""
    return replay(jobs, PriceThatFits(instance), gpus_per_node=gpus, nodes=1)


def test_all_jobs_that_are_there_run_where_they_fit() -> None:
    """Alone a job holds both GPUs, at a speed of 1.5; beside another it holds one.

    a does 0.25 of its hour in 600 s; both hold one GPU until it ends, 2,700 s later. b has 900 s of work left then,
    which take 600 s at 1.5.
    """
    curve = [1.0, 1.5]
    jobs = [Job("a", "x", 0.0, make_truth(curve)), Job("b", "x", 600.0, make_truth(curve))]
    outcome = run(make_instance({"x": curve}), jobs, 2)
    assert [job.completed_s for job in outcome.jobs] == pytest.approx([3300.0, 3900.0])
    assert outcome.policy == "price-that-fits"


def test_where_they_do_not_fit_those_with_least_left_go_first() -> None:
    """At linear speedups two GPUs take no more GPU-hours than one: a goes on to 1,800 s, and b follows.

    With weight 4 b has less left per weight, 0.25 h against 2/3 h, and goes first.
    """
    curve = [1.0, 2.0]
    for weight, completed_s in ((1.0, [1800.0, 3600.0]), (4.0, [3600.0, 2400.0])):
        jobs = [Job("a", "x", 0.0, make_truth(curve)), Job("b", "y", 600.0, make_truth(curve))]
        outcome = run(make_instance({"y": curve, "x": curve}, weight=weight), jobs, 2)
        assert [job.completed_s for job in outcome.jobs] == pytest.approx(completed_s)


def test_what_is_left_over_goes_to_those_who_came_first() -> None:
    """Of three GPUs for two jobs that are alike, the first one holds two."""
    curve = [1.0, 1.5]
    jobs = [Job(name, "x", 0.0, make_truth(curve)) for name in "ab"]
    outcome = run(make_instance({"x": curve}), jobs, 3)
    assert outcome.jobs[0].completed_s == pytest.approx(2400.0)
    assert int(outcome.gpus_used[0]) == 3


def test_a_change_has_to_be_worth_three_pauses() -> None:
    """When b ends, a third of a's hour is left: 1,200 s, or 800 s on two GPUs, worth a pause of up to 133 s.

    Both hold one GPU until b's 2,400 s are over; pauses are 120 and 150 s, at the start too.
    """
    curve = [1.0, 1.5]
    for pause_s, rescales in ((120.0, 1), (150.0, 0)):
        jobs = [
            Job("a", "x", 0.0, make_truth(curve, pause_s)),
            Job("b", "x", 0.0, make_truth(curve, pause_s), size=2.0 / 3.0),
        ]
        outcome = run(make_instance({"x": curve}, pause_s), jobs, 2)
        assert outcome.jobs[0].rescales == rescales


def test_a_job_is_looked_at_again_after_five_minutes() -> None:
    """In between, nothing is decided where nobody comes or goes."""
    curve = [1.0, 1.5]
    policy, job = PriceThatFits(make_instance({"x": curve})), Job("a", "x", 0.0, make_truth(curve))

    def ask(now_s: float, *changed: Job) -> Mapping[Job, int]:
        return policy.allocate(Sight(now_s, {job: None}, changed, 2.0, 2.0, (0,), 2))

    assert ask(0.0, job) == {job: 2}
    job.hold(2, Course.of([2400.0]), 0.0)
    job.target = 1
    assert ask(299.0) == {}
    assert ask(300.0) == {job: 2}
    assert ask(301.0) == {}


def test_ends_of_epochs_are_looked_at_after_five_minutes_only() -> None:
    """Of epochs of 100 s on one GPU, begun at 0 s, the third one ends then; of a job twice as large the second."""
    instance = make_instance({"x": [1.0]}, epochs=36).replace(name="short")
    fields = instance.classes["x"].replace(epoch_size_gpu_hours=[1.0 / 36.0] * 36)
    policy = PriceThatFits(instance.replace(classes={"x": fields}))
    truth = TabledApplication({1: np.full(36, 100.0)}, 36)
    for size, until in ((1.0, 3), (2.0, 2)):
        job = Job(f"a{until}", "x", 0.0, truth, size=size)
        assert policy.allocate(Sight(0.0, {job: None}, [job], 1.0, 1.0, (0,), 1)) == {job: 1}
        job.gpus = 1
        assert policy.keeps_until(job) == until
    job = Job("other", "z", 0.0, truth)
    assert policy.keeps_until(job) == 36


def test_jobs_of_other_classes_hold_one_gpu() -> None:
    """A class that the instance does not have is nobody's to price."""
    curve = [1.0, 1.5]
    jobs = [Job("a", "z", 0.0, make_truth(curve)), Job("b", "x", 0.0, make_truth(curve))]
    outcome = run(make_instance({"x": curve}), jobs, 3)
    assert [job.completed_s for job in outcome.jobs] == [3600.0, 2400.0]


def test_widths_on_which_a_job_cannot_run_are_left_out() -> None:
    """The instance has two GPUs at twice the speed, the job's own table only one."""
    outcome = run(make_instance({"x": [1.0, 2.0]}), [Job("a", "x", 0.0, make_truth([1.0]))], 2)
    assert outcome.jobs[0].completed_s == 3600.0
    outcome = run(
        make_instance({"x": [1.0, 2.0]}).replace(widths={"only": [2]}), [Job("a", "x", 0.0, make_truth([1.0, 2.0]))], 1
    )
    assert outcome.problems == {"a": "price-that-fits needs 2 GPUs for it, and the cluster has 1"}


@pytest.mark.parametrize("rescale_s", [0.0, 90.0])
def test_widths_are_those_of_the_best_way_through_what_is_left(rescale_s: float) -> None:
    """At each price, in each epoch and from each width, no way through all epochs left costs less."""
    speedup = {"x": [1.0, 1.7, 2.1]}
    instance = make_instance(speedup, rescale_s, epochs=3)
    policy = PriceThatFits(instance)
    jobs = [Job(f"a{place}", "x", 0.0, make_truth(speedup["x"], rescale_s, epochs=3)) for place in range(3)]
    policy.allocate(Sight(0.0, dict.fromkeys(jobs), jobs, 3.0, 3.0, (0,), 3))
    table, prices = policy._tables["x"], policy._prices
    pause_h = 3.0 * rescale_s / 3600.0

    def cost(price: float, held: int, ways: tuple[int, ...]) -> float:
        before = (held, *ways)
        return sum(
            (1.0 / speedup["x"][to - 1] + (pause_h if to != of else 0.0)) * (1.0 + price * to)
            for of, to in pairwise(before)
        )

    for epoch, held in product(range(3), range(4)):
        wanted = table.demand(epoch * table.parts, held)
        for place in range(0, prices.size, 7):
            price = float(prices[place])
            ways = list(product((1, 2, 3), repeat=3 - epoch))
            least = min(cost(price, held, way) for way in ways)
            of_it = min(cost(price, held, way) for way in ways if way[0] == wanted[place])
            assert of_it == pytest.approx(least, rel=1e-9)


def test_it_is_named_with_an_instance_and_needs_a_number_of_nodes(tmp_path: Path) -> None:
    """``price-that-fits:instance.json``, of an instance without a budget."""
    path = tmp_path / "instance.json"
    write_json(make_instance({"x": [1.0, 1.5]}), path)
    policy = make_policy(f"price-that-fits:{path}")
    with pytest.raises(UsageError, match="price-that-fits: divides a cluster of fixed size"):
        replay([Job("a", "x", 0.0, make_truth([1.0, 1.5]))], policy, gpus_per_node=2)
    with pytest.raises(UsageError, match=r"^policy: got 'price-that-fits'"):
        make_policy("price-that-fits")


def test_it_needs_one_type_of_gpu() -> None:
    """Two types are refused, by their names."""
    instance = make_instance({"x": [1.0, 1.5]}).replace(gpu_types={"v100": {}, "t4": {}})
    with pytest.raises(UsageError, match="needs one GPU type"):
        PriceThatFits(instance)


@pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")
def test_newtrace_is_served_as_well_as_is_written_down(read_newtrace: ReadNewtrace) -> None:
    """960 jobs with Sia's slowdowns, by the instance's tables: 3,581 s at 136 GPUs and 2,357 s at 192."""
    instance, trace = read_newtrace(max_width=64)
    for nodes, mean_s in ((34, 3581.0), (48, 2357.0)):
        outcome = simulate_trace(instance, trace, PriceThatFits(instance), gpus_per_node=4, nodes=nodes)
        assert float(outcome.jct_s.mean()) == pytest.approx(mean_s, rel=0.02)
