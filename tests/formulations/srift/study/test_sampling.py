from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from optplan.formulations.srift.data.bandwidth import volume_factor
from optplan.formulations.srift.data.instance import SriftInstance, VmGroup
from optplan.formulations.srift.laws.exchange import Exchange
from optplan.formulations.srift.laws.iteration import IterationModel
from optplan.schema import FloatArray

MakeInstance = Callable[..., SriftInstance]
Sample = Callable[..., FloatArray]

FLEET = (VmGroup(type="big", count=1, batch=32), VmGroup(type="small", count=4, batch=8))


@pytest.fixture
def sample_iterations(sample_maximum: Sample) -> Sample:
    """Return what draws iterations one by one, as the paper's simulator does (4.3), and exchanges gradients in each.

    Every VM draws its compute time, the largest is the straggler's, and its passes are stretched to it. Beyond the
    paper, layers that run only sometimes are drawn too.
    """

    def draw(
        instance: SriftInstance, groups: Sequence[VmGroup], *, iterations: int = 1000, seed: int = 0
    ) -> FloatArray:
        model = IterationModel(instance)
        mean = model.predict(groups)
        compute_s = sample_maximum(*model.compute_times(groups), samples=iterations, seed=seed)
        if mean.ranks == 1:
            return compute_s
        backward_s = compute_s * mean.backward_s / (mean.forward_s + mean.backward_s)
        gpu = instance.types[groups[mean.slowest].type].gpu
        own, capacity = model.bus_of(tuple(sorted({group.type for group in groups})), mean.ranks)
        ready = model.transfers(gpu)[0]
        volumes = volume_factor(mean.ranks) * _draw_bytes(model, iterations, seed)
        exchange_s = np.zeros(iterations)
        for number, (backward, volume) in enumerate(zip(backward_s.tolist(), volumes, strict=True)):
            sent = volume > 0.0
            exchange_s[number] = Exchange(ready[sent], volume[sent], own[sent], capacity).seconds(backward)
        drawn: FloatArray = compute_s - backward_s + np.maximum(backward_s, exchange_s)
        return drawn

    return draw


def _draw_bytes(model: IterationModel, iterations: int, seed: int) -> FloatArray:
    """Draw the layers that run in each iteration, and return (iterations, T) bytes of the transfers."""
    layers = model.instance.job.layers
    sizes = np.broadcast_to(layers.gradient_bytes, (iterations, layers.gradient_bytes.size))
    if layers.probability is not None:  # another stream than that of the stragglers
        stream = np.random.default_rng((seed, 1))
        sizes = np.where(stream.random(sizes.shape) < layers.probability, sizes, 0.0)
    return np.asarray(
        np.add.reduceat(sizes, [0, *(layer + 1 for layer in model._buckets.last_layer[:-1])], axis=1), dtype=np.float64
    )


def _job(deviation: float, gradient_bytes: list[float], **layers: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a job whose gradients are all ready at the end; 1 ms a sample, a third of it forward."""
    device = {"batches": [1, 64], "forward_s": [0.001 / 3, 0.064 / 3], "backward_s": [0.002 / 3, 0.128 / 3]}
    return {
        "layers": {"gradient_bytes": gradient_bytes, "ready": [1.0] * len(gradient_bytes), **layers},
        "devices": dict.fromkeys(("fast", "slow"), device | {"deviation": deviation}),
    }


def _assert_mean(drawn: FloatArray, expected: float) -> None:
    """Hold the mean of independent samples to five standard errors."""
    assert abs(float(drawn.mean()) - expected) <= 5 * float(drawn.std()) / math.sqrt(drawn.size)


def test_without_chance_every_iteration_is_the_predicted_one(
    make_instance: MakeInstance, sample_iterations: Sample
) -> None:
    """No deviation and no layer that is left out: the same seconds each time."""
    instance = make_instance()
    drawn = sample_iterations(instance, FLEET, iterations=5)
    assert drawn == pytest.approx(np.full(5, IterationModel(instance).predict(FLEET).total_s), rel=1e-12)


def test_straggler_of_the_quadrature_is_the_mean_of_the_samples(
    make_instance: MakeInstance, sample_iterations: Sample
) -> None:
    """Gradients of one byte cost nothing, so only the straggler of 1 and 4 VMs counts."""
    instance = make_instance(job=_job(0.1, [1.0]))
    drawn = sample_iterations(instance, FLEET, iterations=4000, seed=3)
    _assert_mean(drawn, IterationModel(instance).predict(FLEET).total_s)


def test_mean_bytes_give_the_mean_time_of_what_is_moved(make_instance: MakeInstance, sample_iterations: Sample) -> None:
    """Layers of 1, 2 and 4 MB that run in half, a quarter and all iterations are as 5 MB that always run.

    All are ready at the end of the pass, and the bus is full until all is moved: the time is linear in the bytes.
    """
    job = _job(0.0, [1e6, 2e6, 4e6], probability=[0.5, 0.25, 1.0])
    instance = make_instance(job=job)
    drawn = sample_iterations(instance, FLEET, iterations=2000, seed=5)
    predicted = IterationModel(instance).predict(FLEET)
    # On average 0.5 + 0.5 + 4 MB, twice 5/6 of it at 1 GB/s, after passes of 32 ms / 2 (two GPUs share 32 samples).
    assert predicted.total_s == pytest.approx(0.016 + 0.005 * 2 * 5 / 6, rel=1e-9)
    _assert_mean(drawn, predicted.total_s)
    assert len(set(np.round(drawn, 9).tolist())) == 4


def test_layers_of_a_bucket_are_drawn_one_by_one(make_instance: MakeInstance, sample_iterations: Sample) -> None:
    """Two layers of 1 MB in one bucket, each in half of the iterations: 0, 1 or 2 MB are moved."""
    job = _job(0.0, [1e6, 1e6], probability=[0.5, 0.5])
    instance = make_instance(job=job, bucket_bytes=2e6)
    drawn = sample_iterations(instance, FLEET, iterations=200)
    step = 0.001 * 2 * 5 / 6
    assert sorted(set(np.round((drawn - 0.016) / step, 6).tolist())) == [0.0, 1.0, 2.0]


def test_one_rank_only_computes(make_instance: MakeInstance, sample_iterations: Sample) -> None:
    """Nothing is exchanged; the compute time varies all the same."""
    alone = (VmGroup(type="small", count=1, batch=64),)
    drawn = sample_iterations(make_instance(job=_job(0.1, [1e9])), alone, iterations=2000, seed=1)
    _assert_mean(drawn, 0.064)
    assert float(drawn.std()) == pytest.approx(0.0064, rel=0.1)
