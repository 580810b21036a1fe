"""Bounds are below what they bound, for every fleet, and near it where nothing is left out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from optplan.formulations.srift.data.instance import SriftInstance, VmGroup
from optplan.formulations.srift.exact.bounds import Choice, ExchangeBound, StragglerBound, bound_training, list_choices
from optplan.formulations.srift.laws.interruptions import expect_training
from optplan.formulations.srift.laws.iteration import IterationModel
from optplan.formulations.srift.laws.stragglers import expected_maximum

DrawInstance = Callable[[int], SriftInstance]
JudgeAll = Callable[[SriftInstance], list[tuple[float, float, tuple[VmGroup, ...]]]]


def make_choices(stream: np.random.Generator) -> list[Choice]:
    """Draw up to four choices, the slowest last."""
    means = sorted(stream.uniform(0.2, 1.0, int(stream.integers(1, 5))).tolist())
    share = 10 ** stream.uniform(-2.5, -0.6)
    shares = [float(share * stream.choice([0.0, 0.1, 0.6, 1.0])) for _ in means]
    return [Choice("x", 1, 0, mean, mean / 3, each * mean) for mean, each in zip(means, shares, strict=True)]


def test_the_straggler_takes_no_less_than_its_bound_and_no_more_than_what_is_left_out() -> None:
    """E[max] lies between the bound and the bound with twice the margin and what left-out VMs can add."""
    stream = np.random.default_rng(0)
    near = 0
    for _ in range(300):
        *others, slowest = make_choices(stream)
        counts = stream.choice([1, 2, 8, 64, 900], len(others) + 1).tolist()
        bound = StragglerBound(slowest, others)
        fleet = [*others, slowest]
        logarithms = sum(bound.logarithms(each, np.array([n])) for each, n in zip(fleet, counts, strict=True))
        least = float(bound.seconds(np.asarray(logarithms))[0])
        true = expected_maximum([c.raw_s for c in fleet], [c.deviation_s for c in fleet], counts)
        assert least <= true * (1 + 1e-12)
        if bound.whole:
            added = sum(float(bound.left_out(each, np.array([n]))[0]) for each, n in zip(fleet, counts, strict=True))
            assert true <= (least + 2 * bound.margin_s + added) * (1 + 1e-12)
            near += 1
    assert near > 50


def test_the_exchange_takes_no_less_than_its_bound(draw_instance: DrawInstance, judge_all: JudgeAll) -> None:
    """For the fleet's own ranks, and for fewer where the fleet is not complete; by any of its networks."""
    looked_at = 0
    for seed in range(80):
        instance = draw_instance(seed)
        model = IterationModel(instance)
        bound = ExchangeBound(instance, model)
        numbers = {name: number for number, name in enumerate(instance.types)}
        for _, _, groups in judge_all(instance)[:6]:
            found = model.predict(groups)
            gpu = instance.types[groups[found.slowest].type].gpu
            for group in groups:
                network = bound.network_of[numbers[group.type]]
                for ranks, complete in ((found.ranks, True), (max(1, found.ranks - 2), False)):
                    backward = np.array([found.backward_s])
                    least = bound.seconds(gpu, network, np.array([ranks]), backward, complete=complete)
                    assert least[0] <= found.exchange_s * (1 + 1e-12)
                    looked_at += 1
    assert looked_at > 100


def test_one_transfer_meets_its_bound(make_instance: Callable[..., SriftInstance]) -> None:
    """8 small VMs send 2 * 7 / 8 MB at 1 GB/s from the beginning of the backward pass on: 1.75 ms."""
    instance = make_instance()
    bound = ExchangeBound(instance, IterationModel(instance))
    found = bound.seconds("slow", bound.network_of[1], np.array([8, 1]), np.array([0.02, 0.02]), complete=True)
    np.testing.assert_allclose(found, [0.00175, 0.0], rtol=1e-9)


def test_expected_training_is_no_less_than_its_bound(draw_instance: DrawInstance) -> None:
    """At any work and rate, and up to rounding no less than half a millionth below it."""
    instance = next(i for i in map(draw_instance, range(100)) if i.interruptions is not None)
    assert instance.interruptions is not None
    stream = np.random.default_rng(0)
    work_s, per_hour = 3.0 * 10 ** stream.uniform(0, 1, 200), stream.uniform(0, 80, 200)
    total_s, billed_s = bound_training(instance, work_s, per_hour)
    for number in range(200):
        expected = expect_training(work_s[number], per_hour[number] / 3600, instance.interruptions)
        assert expected.total_s * (1 - 5e-7) <= total_s[number] <= expected.total_s
        assert expected.billed_s * (1 - 5e-7) <= billed_s[number] <= expected.billed_s


def test_the_last_choice_of_a_fleet_is_the_evaluators_slowest(draw_instance: DrawInstance, judge_all: JudgeAll) -> None:
    """Also among equally slow choices."""
    for seed in range(60):
        instance = draw_instance(seed)
        model = IterationModel(instance)
        place = {(choice.name, choice.batch): number for number, choice in enumerate(list_choices(instance, model))}
        for _, _, groups in judge_all(instance)[:10]:
            last = max(groups, key=lambda group: place[group.type, group.batch])
            assert groups[model.predict(groups).slowest] == last
