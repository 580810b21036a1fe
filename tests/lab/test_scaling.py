"""Weak and strong scaling worked out by hand, and what cannot be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from optplan.errors import UsageError
from optplan.formulations.srift.data.instance import SriftInstance
from optplan.lab.scaling import (
    PAPER_SIZES,
    ScalingMode,
    ScalingStudy,
    average_efficiency,
    study_scaling,
)

MakeInstance = Callable[..., SriftInstance]


@pytest.fixture
def make_instance(make_srift: MakeInstance) -> MakeInstance:
    """Return the maker of Srift's instances."""
    return make_srift


def test_weak_scaling_by_hand(make_instance: MakeInstance) -> None:
    """64 samples on each fast GPU take 64 ms, whatever the size: no stragglers, and 2 MB / 1 GB/s hide behind 43 ms.

    1 VM of 2 GPUs: 128 / 0.064 = 2,000 samples a second for 7.2 usd/h, a million samples for a dollar. A slow VM:
    64 / 0.256 = 250 samples a second for 0.9 usd/h, a million, too.
    """
    study = study_scaling(make_instance(), ScalingMode.WEAK)
    big = study.points_of("big")
    assert [point.vms for point in big] == list(PAPER_SIZES)
    assert [point.world for point in big] == [2 * size for size in PAPER_SIZES]
    assert [point.global_batch for point in big] == [128 * size for size in PAPER_SIZES]
    assert [point.samples_per_s for point in big] == pytest.approx([2000.0 * size for size in PAPER_SIZES])
    assert {round(point.samples_per_usd) for point in study.points} == {1_000_000}
    assert [point.relative_efficiency for point in study.points] == pytest.approx([1.0] * len(study.points))
    assert study.left_out == ()


def test_strong_scaling_by_hand(make_instance: MakeInstance) -> None:
    """64 samples shared by 1, 2, 4 slow VMs: 256, 128, 64 ms; half the time at twice the price costs the same."""
    study = study_scaling(make_instance(), ScalingMode.STRONG, sizes=[1, 2, 4, 3, 128])
    slow = study.points_of("small")
    assert [point.iteration_s for point in slow] == pytest.approx([0.256, 0.128, 0.064])
    assert [point.batch_per_rank for point in slow] == [64, 32, 16]
    assert [point.usd_per_iteration for point in slow] == pytest.approx([0.9 * 0.256 / 3600] * 3)
    left = {(one.type, one.size): one.reason for one in study.left_out}
    assert left["small", 3] == "64 samples cannot be shared equally by so many GPUs"
    assert left["small", 128] == "64 samples cannot be shared equally by so many GPUs"


def test_the_exchange_ends_strong_scaling(make_instance: MakeInstance) -> None:
    """A gradient of 1 GB takes 2 (n - 1) / n s at 1 GB/s: a second for two VMs, 1.5 s for four, where one needs none.

    Forward 64 x 4 / 3 ms = 85.3 ms alone, 42.7 and 21.3 ms shared: 0.256, 1.0427 and 1.5213 s.
    """
    base = make_instance().to_json_data()
    base["job"]["layers"]["gradient_bytes"] = [1e9]
    study = study_scaling(SriftInstance.parse(base), ScalingMode.STRONG, sizes=[1, 2, 4])
    slow = study.points_of("small")
    assert [point.iteration_s for point in slow] == pytest.approx([0.256, 1.0 + 0.128 / 3, 1.5 + 0.064 / 3])


def test_sizes_may_be_ranks(make_instance: MakeInstance) -> None:
    """4 ranks are 2 large VMs or 4 small ones; 1 rank is half a large one."""
    study = study_scaling(make_instance(), ScalingMode.WEAK, sizes=[1, 4], in_gpus=True, batch=8)
    assert [(point.type, point.vms, point.batch_per_rank) for point in study.points] == [
        ("big", 2, 8),
        ("small", 1, 8),
        ("small", 4, 8),
    ]
    (left,) = study.left_out
    assert (left.type, left.size) == ("big", 1)
    assert left.reason == "so many ranks are no whole number of VMs with 2 GPUs"


def test_batches_outside_the_profile_are_left_out(make_instance: MakeInstance) -> None:
    """64 fit; 64 samples on 8 GPUs are 8 each, where the profile begins at 16."""
    study = study_scaling(make_instance(), ScalingMode.WEAK, sizes=[1], batch=65)
    assert [(one.type, one.reason) for one in study.left_out] == [
        ("big", "more samples on each GPU than the 64 that fit"),
        ("small", "more samples on each GPU than the 64 that fit"),
    ]
    data = make_instance().to_json_data()
    data["job"]["devices"]["slow"]["batches"] = [16, 64]
    late = study_scaling(SriftInstance.parse(data), ScalingMode.STRONG, sizes=[8])
    reasons = {one.type: one.reason for one in late.left_out}
    assert reasons["small"] == "fewer samples on each GPU than 16, where the profile begins"


def test_efficiency_is_averaged_over_jobs(make_instance: MakeInstance) -> None:
    """Over the fleets that all studies have, then relative to the best mean: (1 + 0.5) / 2 and (0.5 + 1) / 2 are even.

    The first job is twice as cost-efficient on a, the second on b; two VMs are in the second study only.
    """

    def study(a_usd: float, b_usd: float, vms: list[int]) -> ScalingStudy:
        types: dict[str, dict[str, Any]] = {"a": {"price_usd_per_hour": a_usd}, "b": {"price_usd_per_hour": b_usd}}
        return study_scaling(make_instance(types=types), ScalingMode.WEAK, sizes=vms)

    found = average_efficiency([study(1.0, 2.0, [1]), study(2.0, 1.0, [1, 2])])
    assert [(one.type, one.vms) for one in found] == [("a", 1), ("b", 1)]
    assert [one.relative_efficiency for one in found] == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sizes": [0, 1]}, r"sizes: got \[0, 1\]; whole numbers from 1 on are needed, at least one of them"),
        ({"sizes": []}, r"sizes: got \[\]; whole numbers from 1 on are needed"),
    ],
)
def test_wrong_settings_are_refused(make_instance: MakeInstance, settings: dict[str, Any], message: str) -> None:
    """Before anything is predicted."""
    with pytest.raises(UsageError, match=message):
        study_scaling(make_instance(), ScalingMode.WEAK, **settings)
    with pytest.raises(UsageError, match="batch: strong scaling shares the global batch"):
        study_scaling(make_instance(), ScalingMode.STRONG, batch=1)
