"""What the judge knows of parts is below what any fleet in them takes, and near it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from optplan.formulations.srift.data.instance import SriftInstance, VmGroup
from optplan.formulations.srift.judge.bounds import Load, Offers, StragglerFloor
from optplan.formulations.srift.judge.exchanges import ExchangeFloor
from optplan.formulations.srift.laws.iteration import IterationModel, expected_maximum

DrawInstance = Callable[[int], SriftInstance]
JudgeAll = Callable[[SriftInstance], list[tuple[float, float, tuple[VmGroup, ...]]]]


def make_loads(stream: np.random.Generator, shares: list[float]) -> list[Load]:
    """Draw up to four loads, the slowest last, with deviations that are some shares of 3.6 % or so."""
    means = sorted(stream.uniform(0.2, 1.0, int(stream.integers(1, 5))).tolist())
    scale = 10 ** stream.uniform(-2.5, -0.6)
    return [Load(0, "x", 1, mean / 3, 2 * mean / 3, float(scale * stream.choice(shares)) * mean) for mean in means]


@pytest.mark.slow
def test_the_straggler_takes_no_less_than_its_floor() -> None:
    """Whatever deviates how much, in fleets of up to 4,000 VMs."""
    stream = np.random.default_rng(0)
    for _ in range(2000):
        loads = make_loads(stream, [0.0, 0.1, 0.41, 0.5, 0.7, 1.0])
        counts = stream.choice([1, 2, 8, 64, 1000, 4000], len(loads))
        floor = StragglerFloor(loads).seconds(counts[None])[0]
        true = expected_maximum([x.raw_s for x in loads], [x.deviation_s for x in loads], counts.tolist())
        assert floor <= true * (1 + 1e-12)


def test_the_straggler_takes_hardly_more_where_nothing_is_left_out() -> None:
    """With deviations that differ by a factor of two at most: two millionths of the largest."""
    stream = np.random.default_rng(1)
    for _ in range(400):
        loads = make_loads(stream, [1.0])
        if min(load.deviation_s for load in loads) < 0.41 * max(load.deviation_s for load in loads):
            continue
        counts = stream.choice([1, 2, 8, 64, 1000], len(loads))
        floor = StragglerFloor(loads).seconds(counts[None])[0]
        true = expected_maximum([x.raw_s for x in loads], [x.deviation_s for x in loads], counts.tolist())
        assert true - floor <= 2.2e-6 * max(load.deviation_s for load in loads) + 1e-9 * true


def test_fewer_vms_take_no_longer() -> None:
    """The floor of some VMs holds for any fleet that has them."""
    stream = np.random.default_rng(2)
    for _ in range(100):
        loads = make_loads(stream, [0.0, 0.3, 1.0])
        counts = stream.integers(1, 50, (1, len(loads)))
        more = counts + stream.integers(0, 50, counts.shape)
        floor = StragglerFloor(loads)
        assert floor.seconds(counts)[0] <= floor.seconds(more)[0] * (1 + 1e-12)


@pytest.mark.slow
@pytest.mark.slow
def test_iterations_take_no_less_than_their_floor(draw_instance: DrawInstance, judge_all: JudgeAll) -> None:
    """For a fleet's own networks, ranks and pass; and where some networks, ranks and seconds are still to come."""
    looked_at = 0
    for seed in range(80):
        instance = draw_instance(seed)
        model, offers = IterationModel(instance), Offers(instance)
        floor, every = ExchangeFloor(offers), sorted(set(offers.network_of))
        for _, _, groups in judge_all(instance)[:6]:
            found = model.predict(groups)
            gpu, forward = instance.types[groups[found.slowest].type].gpu, found.forward_s / found.backward_s
            there = sorted({offers.network_of[offers.names.index(group.type)] for group in groups})
            asked = [
                (there, True, 0, 1.0),
                (there, False, 0, 1.0),
                (there[:1], False, 2, 0.7),
                (there[:1], False, 7, 0.2),
            ]
            for networks, exactly, fewer, share in asked:
                group = floor.group(gpu, networks, there if exactly else every[there[0] :], exactly=exactly)
                ranks, backward_s = np.array([max(1, found.ranks - fewer)]), np.array([found.backward_s * share])
                assert group.iteration_s(ranks, backward_s, forward)[0] <= found.total_s * (1 + 1e-12)
                assert group.always_s(ranks)[0] <= found.exchange_s * (1 + 1e-12)
                looked_at += 1
            exact = floor.group(gpu, there, there, exactly=True)
            least_s = exact.iteration_s(np.array([found.ranks]), np.array([found.backward_s]), forward)[0]
            assert least_s >= 0.9 * found.total_s
    assert looked_at > 200


def test_one_transfer_meets_its_floor(make_instance: Callable[..., SriftInstance]) -> None:
    """8 small VMs send 2 * 7 / 8 MB at 1 GB/s: 1.75 ms; one VM sends nothing."""
    found = ExchangeFloor(Offers(make_instance())).group("slow", [0], [0], exactly=True).always_s(np.array([8, 1]))
    assert found.tolist() == [pytest.approx(0.00175, rel=1e-9), 0.0]


def test_every_fleet_is_of_a_kind(draw_instance: DrawInstance, judge_all: JudgeAll) -> None:
    """Its slowest load is the evaluator's, none of its loads is slower, and its least network is there."""
    for seed in range(80):
        instance = draw_instance(seed)
        offers = Offers(instance)
        kinds = {(kind.place, kind.network): kind for kind in offers.kinds()}
        place = {(load.name, load.batch): number for number, load in enumerate(offers.loads)}
        for _, _, groups in judge_all(instance)[:10]:
            slowest = max(place[group.type, group.batch] for group in groups)
            least = min(offers.network_of[offers.names.index(group.type)] for group in groups)
            kind = kinds[slowest, least]
            found = groups[offers.model.predict(groups).slowest]
            assert (found.type, found.batch) == (offers.loads[slowest].name, offers.loads[slowest].batch)
            listed = {(load.name, load.batch) for load in [*offers.others(kind), offers.loads[slowest]]}
            assert {(group.type, group.batch) for group in groups} <= listed
