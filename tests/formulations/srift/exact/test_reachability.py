"""Which global batches can be had: as listing every fleet says, and what is next to those that cannot."""

from __future__ import annotations

from collections.abc import Callable

from optplan.formulations.srift.data.instance import SriftInstance, VmGroup
from optplan.formulations.srift.exact.reachability import count_missing, find_neighbours, reaches_batch
from optplan.progress import Stopwatch

DrawInstance = Callable[[int], SriftInstance]
JudgeAll = Callable[[SriftInstance], list[tuple[float, float, tuple[VmGroup, ...]]]]


def test_a_batch_is_reached_where_some_fleet_has_it(draw_instance: DrawInstance, judge_all: JudgeAll) -> None:
    """And the neighbours of one that is not are reached, with nothing between."""
    lacking = 0
    for seed in range(150):
        instance = draw_instance(seed).replace(interruptions=None, types=without_risk(draw_instance(seed)))
        reached = bool(judge_all(instance))
        assert reaches_batch(instance) == reached, seed
        if reached:
            continue
        below, above = find_neighbours(instance)
        batch, lacking = instance.global_batch, lacking + 1
        assert below is None or reaches_batch(instance.replace(global_batch=below))
        assert above is None or reaches_batch(instance.replace(global_batch=above))
        for between in range((below or 0) + 1, above or batch + 1):
            assert not reaches_batch(instance.replace(global_batch=between))
        for name, more in count_missing(instance, Stopwatch()).items():
            available = instance.types[name].available or 0
            for added, expected in ((more, True), (more - 1, False)):
                vm = instance.types[name].replace(available=available + added)
                assert reaches_batch(instance.replace(types={**instance.types, name: vm})) == expected
    assert lacking > 30


def without_risk(instance: SriftInstance) -> dict[str, object]:
    """Return the types without interruptions, so that every fleet ends."""
    return {name: vm.replace(interruptions_per_hour=0.0) for name, vm in instance.types.items()}


def test_missing_vms_by_hand(make_instance: Callable[..., SriftInstance]) -> None:
    """All small VMs get the same power of two, 64 at most: 400 = 25 * 16 takes 21 more than 4.

    With a big VM that takes 16, 384 = 6 * 64 are left for the small ones: 2 more.
    """
    small = {"gpu": "slow", "available": 4, "network_gbit_per_s": 8}
    alone = make_instance(types={"small": small}, global_batch=400)
    assert count_missing(alone, Stopwatch()) == {"small": 21}
    big = {"gpu": "fast", "gpus": 2, "available": 1, "network_gbit_per_s": 8}
    both = make_instance(types={"small": small, "big": big}, global_batch=400)
    assert count_missing(both, Stopwatch())["small"] == 2
