from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optplan.formulations.srift.data.instance import SriftInstance, VmGroup
from optplan.formulations.srift.laws.iteration import (
    IterationModel,
    standard_maximum,
)

MakeInstance = Callable[..., SriftInstance]

SMALL: dict[str, dict[str, Any]] = {"small": {}}


def _fleet(*groups: tuple[str, int, int]) -> tuple[VmGroup, ...]:
    return tuple(VmGroup(type=name, count=count, batch=batch) for name, count, batch in groups)


def _job(gradient_bytes: list[float], ready: list[float], **layers: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a job on one kind of GPU: 1 ms a sample, a third of it forward, up to 64 samples, no deviation."""
    device = {"batches": [1, 64], "forward_s": [0.001 / 3, 0.064 / 3], "backward_s": [0.002 / 3, 0.128 / 3]}
    return {
        "layers": {"gradient_bytes": gradient_bytes, "ready": ready, **layers},
        "devices": {"slow": device | {"deviation": 0.0}},
    }


def test_one_rank_exchanges_nothing(make_instance: MakeInstance) -> None:
    """One VM with one GPU takes its forward and its backward pass: 64 samples at 4 ms, 256 ms."""
    found = IterationModel(make_instance()).predict(_fleet(("small", 1, 64)))
    assert (found.ranks, found.exchange_s) == (1, 0.0)
    assert found.total_s == pytest.approx(0.256, rel=1e-12)


def test_exchange_overlaps_with_the_backward_pass(make_instance: MakeInstance) -> None:
    """2 VMs with 8 samples: passes of 32/3 and 64/3 ms; 1 MB at 1 GB/s between 2 ranks takes 1 ms.

    A gradient that is ready at once is exchanged within the backward pass; one that is ready at its end adds 1 ms.
    """
    groups = _fleet(("small", 2, 8))
    assert IterationModel(make_instance()).predict(groups).total_s == pytest.approx(0.032, rel=1e-12)
    late = make_instance(job=_job([1e6], [1.0]), types=SMALL)
    found = IterationModel(late).predict(groups)
    # 8 samples at 1 ms there: 8/3 ms forward, 16/3 ms backward, and the exchange after it.
    assert found.exchange_s == pytest.approx(0.016 / 3 + 0.001, rel=1e-12)
    assert found.total_s == pytest.approx(0.008 + 0.001, rel=1e-12)


def test_slowest_vm_sets_both_passes(make_instance: MakeInstance) -> None:
    """The big VM's 2 GPUs take 16 ms for 32 samples, a small one 32 ms for 8: the small one's passes count."""
    found = IterationModel(make_instance()).predict(_fleet(("big", 1, 32), ("small", 4, 8)))
    assert found.forward_s == pytest.approx(0.032 / 3, rel=1e-12)
    assert found.backward_s == pytest.approx(0.064 / 3, rel=1e-12)
    assert (found.slowest, found.ranks) == (1, 6)


def test_straggler_stretches_both_passes(make_instance: MakeInstance) -> None:
    """With a deviation of 5 % the slowest of 8 VMs takes 1 + 0.05 E[max of 8] of the mean."""
    job = _job([1.0], [0.0])
    job["devices"]["slow"]["deviation"] = 0.05
    found = IterationModel(make_instance(job=job, types=SMALL)).predict(_fleet(("small", 8, 8)))
    stretch = 1.0 + 0.05 * standard_maximum(8)
    assert found.forward_s == pytest.approx(stretch * 0.008 / 3, rel=1e-9)
    assert found.backward_s == pytest.approx(stretch * 0.016 / 3, rel=1e-9)


def test_mixed_fleet_has_the_least_capacity(make_instance: MakeInstance) -> None:
    """A VM with a network of 4 Gbit/s halves the pace of one with 8: 1 MB between 2 ranks takes 2 ms."""
    types = {"wide": {"network_gbit_per_s": 8}, "narrow": {"network_gbit_per_s": 4}}
    instance = make_instance(job=_job([1e6], [1.0]), types=types)
    both = IterationModel(instance).predict(_fleet(("wide", 1, 8), ("narrow", 1, 8)))
    alone = IterationModel(instance).predict(_fleet(("wide", 2, 8)))
    assert both.exchange_s - both.backward_s == pytest.approx(0.002, rel=1e-9)
    assert alone.exchange_s - alone.backward_s == pytest.approx(0.001, rel=1e-9)


def test_bandwidth_is_asked_for_sizes_rounded_up(make_instance: MakeInstance) -> None:
    """A gradient of 3 bytes has the bandwidth of 4: with 2 ranks V(4) = 4, 4 / (4/1e9 + 2 * 1 us)."""
    latency = {"form": "latency-bandwidth", "step_latency_s": 1e-6}
    instance = make_instance(job=_job([3.0], [1.0]), types=SMALL, bandwidth=latency)
    found = IterationModel(instance).predict(_fleet(("small", 2, 8)))
    pace = 4.0 / (4.0 / 1e9 + 2.0 * 1e-6)
    assert found.exchange_s - found.backward_s == pytest.approx(3.0 / pace, rel=1e-6)


def test_layers_that_run_sometimes_count_with_their_mean(make_instance: MakeInstance) -> None:
    """A layer of 1 MB that runs every other time is exchanged as 0.5 MB: 0.5 ms."""
    found = IterationModel(make_instance(job=_job([1e6], [1.0], probability=[0.5]), types=SMALL)).predict(
        _fleet(("small", 2, 8))
    )
    assert found.exchange_s - found.backward_s == pytest.approx(0.0005, rel=1e-9)


def test_buckets_wait_for_their_last_layer(make_instance: MakeInstance) -> None:
    """Layers of 1, 1 and 1 MB ready at 0, 50 and 100 % in buckets of 2 MB: two transfers, at 50 and 100 %."""
    job = _job([1e6, 1e6, 1e6], [0.0, 0.5, 1.0], names=["c", "b", "a"])
    instance = make_instance(job=job, types=SMALL, bucket_bytes=2e6)
    found, transfers = IterationModel(instance).trace(_fleet(("small", 2, 8)))
    assert [each.label for each in transfers] == ["c to b", "a"]
    assert [each.gradient_bytes for each in transfers] == [2e6, 1e6]
    # From the beginning of the iteration: 8/3 ms forward, half of 16/3 ms, 2 ms for 2 MB; then 1 ms after the pass.
    assert transfers[0].start_s == pytest.approx(0.016 / 3, rel=1e-9)
    assert transfers[0].end_s == pytest.approx(0.016 / 3 + 0.002, rel=1e-9)
    assert transfers[1].end_s == pytest.approx(found.total_s, rel=1e-12)


def test_trace_lists_every_layer(make_instance: MakeInstance) -> None:
    """Without buckets each layer is a transfer, numbered where it has no name; one rank has none."""
    instance = make_instance(job=_job([1e6, 1e6], [0.5, 1.0]), types=SMALL)
    _, transfers = IterationModel(instance).trace(_fleet(("small", 2, 8)))
    assert [each.label for each in transfers] == ["layer 1", "layer 2"]
    assert IterationModel(instance).trace(_fleet(("small", 1, 8)))[1] == ()


@given(
    counts=st.tuples(st.integers(0, 4), st.integers(0, 8)).filter(any),
    batches=st.tuples(st.sampled_from([2, 8, 64]), st.sampled_from([1, 8, 64])),
)
def test_order_and_memory_do_not_matter(
    make_instance: MakeInstance, counts: tuple[int, int], batches: tuple[int, int]
) -> None:
    """A model that has seen other fleets, and groups in another order, give the same iteration."""
    instance = make_instance(types={"big": {"gpu": "fast", "gpus": 2}, "small": {}})
    groups = [(name, n, b) for name, n, b in zip(("big", "small"), counts, batches, strict=True) if n]
    model = IterationModel(instance)
    model.predict(_fleet(("big", 1, 2), ("small", 3, 8)))
    found = model.predict(_fleet(*groups))
    fresh = IterationModel(instance).predict(_fleet(*reversed(groups)))
    assert math.isclose(found.total_s, fresh.total_s, rel_tol=1e-12)
    assert found.ranks == fresh.ranks
