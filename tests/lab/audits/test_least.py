"""Audits: no policy has less than the bounds say, and the best one has no more."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import optplan
from optplan.formulations.boa.data.gpu_types import GpuType
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.data.job_classes import JobClass, Widths
from optplan.instances.generators import random_boa
from optplan.lab.audits.least import Sizes, build_least_frontier, gather_sizes
from optplan.speedup import AmdahlSpeedup, TableSpeedup

#: An hour of one GPU, or 40 minutes of two.
TABLE = TableSpeedup(gpus=[1, 2], speedup=[1.0, 1.5])


def make(*, rescale_s: float = 0.0, sizes: list[float] | None = None, **fields: object) -> BoaInstance:
    """Make an instance of one class."""
    own = JobClass(
        arrival_rate_per_hour=1.0, epoch_size_gpu_hours=sizes or [1.0], speedup={"t4": TABLE}, rescale_s=rescale_s
    )
    return BoaInstance(classes={"a": own.replace(**fields)}, gpu_types={"t4": {}})


def test_the_bound_is_the_hull_of_the_two_widths() -> None:
    """Two jobs take 1 h on one GPU, or 2/3 h and 4/3 GPU-hours on two: with 2.5 GPU-hours 1.5 h together."""
    frontier = build_least_frontier(make(), {"a": Sizes(np.ones(1), np.array([2.0]))}, pauses=False)
    bound = frontier.bound_mean(2.5)
    assert bound is not None
    # 1 h less of both for each further GPU-hour: 2 h - 0.5 h; of the mean of two, 1800 s for each GPU-hour.
    assert bound.bound == pytest.approx(0.75 * 3600)
    assert bound.price == pytest.approx(1800)
    # At this price both widths cost as much: 1800 s of the mean and 1 GPU-hour a job, so 3600 s a job.
    assert bound.least == pytest.approx({"a": 7200.0})
    hours = frontier.bound_gpu_hours(0.75 * 3600)
    assert hours is not None
    assert hours.bound == pytest.approx(2.5)


def test_pauses_count_time_and_gpus() -> None:
    """With starts of 6 min a job takes 1.1 h and 1.1 GPU-hours on one GPU, 0.7667 h and 1.5333 GPU-hours on two."""
    frontier = build_least_frontier(make(rescale_s=360.0), {"a": Sizes(np.ones(1), np.array([1.0]))}, pauses=True)
    ends = frontier.line.consumption.tolist(), frontier.line.value.tolist()
    assert ends[0] == pytest.approx([1.1, 2 * (2 / 3 + 0.1)])
    assert ends[1] == pytest.approx([1.1 * 3600, (2 / 3 + 0.1) * 3600])


def test_beyond_either_end_nothing_is_bounded() -> None:
    """Of fewer GPU-hours than the least, and of less time than there is on most GPUs, there is no bound."""
    frontier = build_least_frontier(make(), {"a": Sizes(np.ones(1), np.array([2.0]))}, pauses=False)
    assert frontier.bound_mean(1.9) is None
    assert frontier.bound_gpu_hours(2300.0) is None
    least = frontier.find_least("gpu_hours")
    assert least.bound == pytest.approx(2.0)
    slack = frontier.bound_gpu_hours(4000.0)  # more time than one GPU takes
    assert slack is not None
    assert slack.price == 0.0
    assert slack.bound == pytest.approx(2.0)


@given(seed=st.integers(0, 200), budget=st.floats(1.05, 4.0))
def test_jobs_of_mean_size_have_the_bound_of_mixed_plans(seed: int, budget: float) -> None:
    """With sizes of 1 the bound is that of mixed plans of an instance in which the jobs arrive in one hour."""
    instance = random_boa(classes=3, epochs=3, widths=6, seed=seed)
    counts = {"class-1": 3, "class-2": 1, "class-3": 2}
    counts = dict(zip(instance.classes, counts.values(), strict=True))
    frontier = build_least_frontier(
        instance, {name: Sizes(np.ones(1), np.array([float(n)])) for name, n in counts.items()}, pauses=True
    )
    gpu_hours = float(frontier.line.consumption[0]) * budget
    classes = {name: each.replace(arrival_rate_per_hour=counts[name]) for name, each in instance.classes.items()}
    mixed = instance.replace(classes=classes, policy="mixed", budget=f"{gpu_hours}gpu")
    bound = frontier.bound_mean(gpu_hours)
    assert bound is not None
    assert bound.bound == pytest.approx(optplan.solve(mixed).objective, rel=1e-9)


def _list_points(instance: BoaInstance, name: str, parts: int) -> np.ndarray:
    """List hours and GPU-hours of every way to run a job that may change widths after each part of an epoch."""
    own, options = instance.classes[name], instance.options(name)
    speeds = np.broadcast_to(options.speeds, (own.num_epochs, options.widths.size))
    pieces = np.repeat(own.epoch_size_gpu_hours / parts, parts)
    points = []
    for held in product(range(options.widths.size), repeat=pieces.size):
        hours = gpu_hours = 0.0
        for place, (piece, k) in enumerate(zip(pieces.tolist(), held, strict=True)):
            paused = own.rescale_s / 3600 if place == 0 or held[place - 1] != k else 0.0
            took = paused + piece / float(speeds[place // parts, k])
            hours, gpu_hours = hours + took, gpu_hours + took * float(options.widths[k])
        points.append((hours, gpu_hours))
    return np.array(points)


@given(seed=st.integers(0, 1000), rescale_s=st.sampled_from([0.0, 60.0, 900.0]))
def test_no_way_to_run_a_job_costs_less_than_the_least_path(seed: int, rescale_s: float) -> None:
    """Of all ways to run a job, changes in the middle of epochs included, none is below the least at a price."""
    rng = np.random.default_rng(seed)
    speedup = np.column_stack([np.ones(2), rng.uniform(1.0, 2.0, 2), rng.uniform(1.0, 3.5, 2)])
    instance = make(
        rescale_s=rescale_s,
        sizes=rng.uniform(0.1, 1.0, 2).tolist(),
        speedup={"t4": TableSpeedup(gpus=[1, 2, 4], speedup=speedup)},
    )
    frontier = build_least_frontier(instance, {"a": Sizes(np.ones(1), np.array([3.0]))}, pauses=True)
    hours, gpu_hours = _list_points(instance, "a", parts=2).T
    for more in (1.0, 1.1, 1.5, 10.0):
        bound = frontier.bound_mean(float(frontier.line.consumption[0]) * more)
        assert bound is not None
        # Of the mean of three jobs, one job's hour is 1200 s. The best of all ways is a path, and none is better.
        assert bound.least["a"] == pytest.approx(3 * (1200 * hours + bound.price * gpu_hours).min(), rel=1e-9)
        least = frontier.bound_gpu_hours(bound.bound)
        assert least is not None
        assert least.least["a"] == pytest.approx(3 * (1200 * least.price * hours + gpu_hours).min(), rel=1e-9)


def test_sizes_between_those_told_apart_are_chords() -> None:
    """Of 500 sizes 64 are told apart: the bound is no more than of all of them, and less by under 0.1 %."""
    instance = make(rescale_s=600.0, sizes=[0.3, 0.7])
    drawn = np.random.default_rng(1).lognormal(-0.5, 1.0, 500)
    told = gather_sizes(instance, {"a": drawn})
    assert told["a"].sizes.size <= 64
    assert told["a"].weights.sum() == pytest.approx(500)
    assert told["a"].weights @ told["a"].sizes == pytest.approx(drawn.sum())
    every = {"a": Sizes(np.unique(drawn), np.ones(500))}
    for budget in (1.3, 1.5, 1.8):
        bounds = []
        for sizes in (told, every):
            frontier = build_least_frontier(instance, sizes, pauses=True)
            bounds.append(frontier.bound_mean(budget * drawn.sum()))
        assert bounds[0] is not None
        assert bounds[1] is not None
        assert 0.999 * bounds[1].bound <= bounds[0].bound <= bounds[1].bound * (1 + 1e-12)


def test_without_pauses_only_the_sum_of_sizes_counts() -> None:
    """A job of size 3 and one of size 1 take at least what two of size 2 take."""
    bounds = [
        build_least_frontier(make(), {"a": sizes}, pauses=False).bound_mean(5.0)
        for sizes in (Sizes(np.array([1.0, 3.0]), np.ones(2)), Sizes(np.array([2.0]), np.array([2.0])))
    ]
    assert bounds[0] == bounds[1]


def test_sizes_of_nothing_are_told_apart() -> None:
    """Jobs of size 0 only pause: among many sizes the least one stays 0."""
    sizes = np.append(0.0, np.random.default_rng(0).uniform(0.5, 1.5, 100))
    told = gather_sizes(make(rescale_s=60.0), {"a": sizes})["a"]
    assert told.sizes[0] == 0.0
    assert told.weights @ told.sizes == pytest.approx(sizes.sum())


def test_limits_of_the_instance_do_not_raise_the_bound() -> None:
    """Rules of widths, quotas, whole nodes, weights and due dates bind plans, and no other policy."""
    plain = make(rescale_s=60.0)
    bound = plain.replace(
        widths=Widths(only=[2]),
        gpu_types={"t4": GpuType(gpus_per_node=2, quota_gpus=1.0)},
        whole_nodes=True,
        classes={"a": plain.classes["a"].replace(weight=3.0, most_mean_jct_s=2500.0)},
        budget="5gpu",
    )
    sizes = {"a": Sizes(np.ones(1), np.array([4.0]))}
    found = [build_least_frontier(each, sizes, pauses=True).bound_mean(5.0) for each in (plain, bound)]
    assert found[0] == found[1]


def test_formulas_are_known_up_to_the_widest_allowed() -> None:
    """A formula on powers of two up to 4 is bounded on 3 GPUs, too."""
    instance = make(speedup={"t4": AmdahlSpeedup(serial_fraction=0.0)}, widths=Widths(max=4, steps="powers-of-two"))
    frontier = build_least_frontier(instance, {"a": Sizes(np.ones(1), np.ones(1))}, pauses=False)
    assert frontier.line.value[-1] == pytest.approx(900.0)
    assert frontier.graphs.columns.shape[1] == 4


def test_bounds_take_the_upper_end_of_bands() -> None:
    """A speedup of 1.5 that may be off by 20 % is bounded as one of 1.8."""
    sizes = {"a": Sizes(np.ones(1), np.ones(1))}
    unsure = TableSpeedup(gpus=[1, 2], speedup=[1.0, 1.5], error=[0.0, 0.2])
    sure = TableSpeedup(gpus=[1, 2], speedup=[1.0, 1.8])
    found = [
        build_least_frontier(make(speedup={"t4": curve}), sizes, pauses=False).bound_mean(1.05)
        for curve in (unsure, sure)
    ]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0].bound == pytest.approx(found[1].bound)


def test_a_policy_may_change_types_by_a_third() -> None:
    """From x to z takes 1000 s, by y 10 s and 10 s: what follows a slow epoch on x costs no more than the last 10 s."""
    slow, quick = TableSpeedup(gpus=[1], speedup=[[1.0], [0.01]]), TableSpeedup(gpus=[1], speedup=[[0.01], [1.0]])
    job = JobClass(
        arrival_rate_per_hour=1.0,
        epoch_size_gpu_hours=[1.0, 1.0],
        speedup={"x": slow, "y": TableSpeedup(gpus=[1], speedup=[0.01]), "z": quick},
        type_change_s=10.0,
        type_change_s_from={"x": {"z": 1000.0}},
    )
    instance = BoaInstance(classes={"a": job}, gpu_types={"x": {}, "y": {}, "z": {}})
    frontier = build_least_frontier(instance, {"a": Sizes(np.ones(1), np.ones(1))}, pauses=True)
    assert frontier.line.value[-1] == pytest.approx(7210.0)
