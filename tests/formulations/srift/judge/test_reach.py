"""Whether some fleet has the global batch, against every fleet."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from optplan.formulations.srift.data.instance import SriftInstance, VmGroup
from optplan.formulations.srift.judge.trees import has_batch
from optplan.progress import OutOfTime, Stopwatch

DrawInstance = Callable[[int], SriftInstance]
JudgeAll = Callable[[SriftInstance], list[tuple[float, float, tuple[VmGroup, ...]]]]


@pytest.mark.slow
@pytest.mark.slow
def test_a_batch_can_be_had_exactly_where_a_fleet_has_it(draw_instance: DrawInstance, judge_all: JudgeAll) -> None:
    """One or several batches per type, mixed or not, with VMs that run."""
    found = {True: 0, False: 0}
    for seed in range(300):
        instance = draw_instance(seed).replace(
            interruptions=None,
            types={name: vm.replace(interruptions_per_hour=0.0) for name, vm in draw_instance(seed).types.items()},
        )
        assert has_batch(instance, Stopwatch()) is bool(judge_all(instance)), seed
        found[has_batch(instance, Stopwatch())] += 1
    assert min(found.values()) > 50


def test_it_ends_in_time(make_instance: Callable[..., SriftInstance]) -> None:
    """A million VMs with a sample each are not gone through once time is over."""
    small = {"gpu": "slow", "batches": [1, 2]}
    instance = make_instance(types={"small": small}, global_batch=1_000_000, one_batch_per_type=False)
    with pytest.raises(OutOfTime):
        has_batch(instance, Stopwatch(0.0))
