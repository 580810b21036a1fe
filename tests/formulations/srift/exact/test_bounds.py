"""Bounds are below what they bound, for every fleet, and near it where nothing is left out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from optplan.formulations.srift.data.instance import SriftInstance, VmGroup
from optplan.formulations.srift.exact.bounds import Choice, ExchangeBound, StragglerBound, bound_training, list_choices
from optplan.formulations.srift.laws.iteration import IterationModel, expect_training, expected_maximum

DrawInstance = Callable[[int], SriftInstance]
JudgeAll = Callable[[SriftInstance], list[tuple[float, float, tuple[VmGroup, ...]]]]


def make_choices(stream: np.random.Generator) -> list[Choice]:
    """Draw up to four choices, the slowest last."""
    means = sorted(stream.uniform(0.2, 1.0, int(stream.integers(1, 5))).tolist())
    share = 10 ** stream.uniform(-2.5, -0.6)
    shares = [float(share * stream.choice([0.0, 0.1, 0.6, 1.0])) for _ in means]
    return [Choice("x", 1, 0, mean, mean / 3, each * mean) for mean, each in zip(means, shares, strict=True)]


def test_the_straggler_takes_no_less_than_its_bound() -> None:
    """E[max] is no less than the bound of all VMs, nor than that of some of them."""
    stream = np.random.default_rng(0)
    for _ in range(300):
        fleet = make_choices(stream)
        counts = stream.choice([1, 2, 8, 64, 900], len(fleet)).tolist()
        bound = StragglerBound(fleet[-1], fleet[:-1])
        logarithms = sum(bound.logarithms(each, np.array([n])) for each, n in zip(fleet, counts, strict=True))
        true = expected_maximum([c.raw_s for c in fleet], [c.deviation_s for c in fleet], counts)
        least = float(bound.seconds(np.asarray(logarithms))[0])
        assert least <= true * (1 + 1e-12)
        assert bound.seconds(bound.logarithms(fleet[-1], np.array([1])))[0] <= least * (1 + 1e-12)


def test_iterations_take_no_less_than_their_bound(draw_instance: DrawInstance, judge_all: JudgeAll) -> None:
    """For a fleet's own networks, ranks and pass; and with some networks, fewer ranks and a shorter pass undecided."""
    looked_at = 0
    for seed in range(80):
        instance = draw_instance(seed)
        model = IterationModel(instance)
        bound = ExchangeBound(instance, model)
        numbers = {name: number for number, name in enumerate(instance.types)}
        for _, _, groups in judge_all(instance)[:6]:
            found = model.predict(groups)
            gpu = instance.types[groups[found.slowest].type].gpu
            present = sum({1 << bound.network_of[numbers[group.type]] for group in groups})
            own = int(bound.stand_for(np.array([present]))[0])
            asked = [
                (own, True, 0, 1.0),
                (own, False, 0, 1.0),
                (own & -own, False, 2, 0.7),
                (own & -own, False, 7, 0.2),
            ]
            for networks, complete, fewer, share in asked:
                paces = bound.paces(gpu, networks, complete=complete)
                ranks, backward_s = np.array([max(1, found.ranks - fewer)]), np.array([found.backward_s * share])
                least_s = paces.iteration_s(ranks, backward_s, found.forward_s / found.backward_s)[0]
                assert least_s <= found.total_s * (1 + 1e-12)
                assert paces.floor_s(ranks)[0] <= found.exchange_s * (1 + 1e-12)
                looked_at += 1
            assert (
                bound.paces(gpu, own, complete=True).iteration_s(
                    np.array([found.ranks]), np.array([found.backward_s]), found.forward_s / found.backward_s
                )[0]
                >= 0.9 * found.total_s
            )
    assert looked_at > 200


def test_one_transfer_meets_its_bound(make_instance: Callable[..., SriftInstance]) -> None:
    """8 small VMs send 2 * 7 / 8 MB at 1 GB/s: 1.75 ms; one VM sends nothing."""
    instance = make_instance()
    bound = ExchangeBound(instance, IterationModel(instance))
    paces = bound.paces("slow", 1 << bound.network_of[1], complete=True)
    np.testing.assert_allclose(paces.floor_s(np.array([8, 1])), [0.00175, 0.0], rtol=1e-9)


def test_more_ranks_and_longer_passes_bound_no_less(draw_instance: DrawInstance) -> None:
    """Though equation 2 jumps: what is undecided could be either."""
    for seed in range(40):
        instance = draw_instance(seed)
        bound = ExchangeBound(instance, IterationModel(instance))
        paces = bound.paces(next(iter(instance.types.values())).gpu, 1, complete=False)
        ranks, backward_s = np.arange(1, 9), np.geomspace(0.001, 0.1, 30)
        table = np.array([paces.iteration_s(np.full(30, number), backward_s, 0.5) for number in ranks.tolist()])
        assert (np.diff(table, axis=0) >= -1e-12 * table[1:]).all()
        assert (np.diff(table, axis=1) >= -1e-12 * table[:, 1:]).all()


def test_expected_training_is_no_less_than_its_bound(draw_instance: DrawInstance) -> None:
    """At any work and rate, and up to rounding no less than half a millionth below it."""
    instance = next(i for i in map(draw_instance, range(100)) if i.interruptions is not None)
    assert instance.interruptions is not None
    stream = np.random.default_rng(0)
    work_s, per_hour = 3.0 * 10 ** stream.uniform(0, 1, 200), stream.uniform(0, 80, 200)
    total_s, billed_s = bound_training(instance, work_s, per_hour)
    for number in range(200):
        expected = expect_training(work_s[number], per_hour[number] / 3600, instance.interruptions)
        for bound, mean in zip((total_s[number], billed_s[number]), expected, strict=True):
            assert mean * (1 - 5e-7) <= bound <= mean


def test_the_last_choice_of_a_fleet_is_the_evaluators_slowest(draw_instance: DrawInstance, judge_all: JudgeAll) -> None:
    """Also among equally slow choices."""
    for seed in range(60):
        instance = draw_instance(seed)
        model = IterationModel(instance)
        place = {(choice.name, choice.batch): number for number, choice in enumerate(list_choices(instance, model))}
        for _, _, groups in judge_all(instance)[:10]:
            last = max(groups, key=lambda group: place[group.type, group.batch])
            assert groups[model.predict(groups).slowest] == last
