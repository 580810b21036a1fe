"""Seeded generators of instances with the features of measured ones, the same for a seed on all processors."""

from __future__ import annotations

import numpy as np

from optplan.contracts.time_and_money import Objective
from optplan.errors import UsageError
from optplan.formulations.boa.data.gpu_types import GpuType
from optplan.formulations.boa.data.instance import BoaInstance, Policy, Problem
from optplan.formulations.boa.data.job_classes import JobClass
from optplan.formulations.srift.data.instance import SriftInstance, VmType
from optplan.formulations.srift.data.profiles import DeviceProfile, JobProfile, Layers
from optplan.quantities import round_shared
from optplan.schema import FloatArray, IntArray
from optplan.speedup import TableSpeedup
from optplan.units import Amount, BudgetUnit

#: GPUs per node of the generated clusters: the first GPU on a further node costs speed, as in measured tables.
_GPUS_PER_NODE = 4
#: Budget of a generated instance, as a multiple of its load on one GPU per job.
_BUDGET_PER_LOAD = 1.6
#: GPUs of the small and the large VMs with one kind of GPU, and what a large one's network carries in Gbit/s.
_SMALL_VMS, _LARGE_VMS = (1, 2), (4, 8)
_SMALL_NETWORKS, _LARGE_NETWORKS = (10.0, 12.0, 20.0), (10.0, 25.0, 50.0, 100.0)
#: Samples per GPU that fit at most, a power of two; a large VM takes that many on each of its GPUs.
_LARGEST_BATCH = 256
#: Bytes of all gradients of a generated network, about those of ResNet50.
_GRADIENT_BYTES = 1e8


def random_boa(
    *,
    classes: int = 4,
    epochs: int = 10,
    widths: int = 32,
    seed: int = 0,
    noise: float = 0.02,
    problem: Problem = Problem.RESCALING,
    policy: Policy = Policy.PURE,
) -> BoaInstance:
    """Generate a BOA instance.

    Speedups are power laws whose exponent grows over a job's epochs, with a loss where a job first spills over to
    another node and measurement noise on top: like measured tables they are neither monotone nor concave. Sizes are
    log-normal between classes and nearly constant within one; rescale times lie between 15 and 250 s.

    Parameters
    ----------
    classes, epochs, widths
        Job classes, epochs of each, and allowed widths 1..widths.
    seed
        Same seed, same instance.
    noise
        Relative standard deviation of the measurement noise; with zero there is no spill-over loss either, and every
        table is concave.
    problem, policy
        As in :class:`~optplan.formulations.boa.data.instance.BoaInstance`.

    Returns
    -------
    BoaInstance
        With a budget of 1.6 times its load.

    Raises
    ------
    UsageError
        When a count is below one or the noise is not in [0, 0.5).
    """
    _require_counts(classes=classes, epochs=epochs, widths=widths)
    if not 0 <= noise < 0.5:
        raise UsageError(f"noise: got {noise}; a number from 0 to below 0.5 is needed")
    rng = np.random.default_rng(seed)
    gpus = np.arange(1, widths + 1)
    made = {f"class-{number:04d}": _random_class(rng, gpus, epochs, noise) for number in range(1, classes + 1)}
    load = sum(c.arrival_rate_per_hour * c.size_gpu_hours for c in made.values())
    return BoaInstance(
        name=f"random-boa-{classes}x{epochs}x{widths}-seed{seed}",
        description="Generated: power-law speedups that improve over a job's life, with spill-over losses and noise.",
        source={"generator": f"random_boa, seed {seed}, noise {noise:g}"},
        classes=made,
        gpu_types={"gpu": GpuType()},
        budget=Amount(float(f"{_BUDGET_PER_LOAD * load:.6g}"), BudgetUnit.GPU),
        problem=problem,
        policy=policy,
    )


def random_srift(
    *,
    types: int = 4,
    most: int = 16,
    global_batch: int = 1024,
    batches: int = 6,
    layers: int = 160,
    seed: int = 0,
    objective: Objective = Objective.COST,
) -> SriftInstance:
    """Generate an instance of Srift: pairs of a small and a large VM with GPUs up to ten times as fast, and as dear."""
    # At least one type reaches the global batch alone; 1000 iterations, no limits.
    _require_counts(types=types, most=most, global_batch=global_batch, batches=batches, layers=layers)
    if batches > _LARGEST_BATCH.bit_length():
        message = f"batches: got {batches}; at most {_LARGEST_BATCH.bit_length()}, 1 to {_LARGEST_BATCH}, are possible"
        raise UsageError(message)
    rng = np.random.default_rng(seed)
    devices, offered = {}, {}
    per_gpu = [_LARGEST_BATCH >> number for number in range(batches)][::-1]
    for number in range(types):
        gpu = f"gpu-{number // 2 + 1:02d}"
        if gpu not in devices:
            speed = float(round_shared(10 ** rng.uniform(-0.5, 0.5)))
            devices[gpu] = _random_device(rng, speed)
        offered[f"vm-{number + 1:02d}"] = _random_vm(rng, gpu, speed, per_gpu, most, large=number % 2 == 1)
    if not any(_reaches_alone(vm, global_batch) for vm in offered.values()):
        message = f"global_batch: no type reaches {global_batch} alone; take a power of two, or more than {most} VMs"
        raise UsageError(message)
    return SriftInstance(
        name=f"random-srift-{types}x{most}x{batches}-batch{global_batch}-seed{seed}",
        description="Generated: pairs of small and large VMs, whose GPUs differ in speed and in price.",
        source={"generator": f"random_srift, seed {seed}, {layers} layers"},
        job=JobProfile(network="generated", layers=_random_layers(rng, layers), devices=devices, source="generated"),
        global_batch=global_batch,
        iterations=1000,
        types=offered,
        objective=objective,
    )


def _require_counts(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise UsageError(f"{name}: got {count}; at least 1 is needed")


def _random_device(rng: np.random.Generator, speed: float) -> DeviceProfile:
    """Draw the profile of a GPU so many times as fast as one that takes 2 ms a sample, measured as the paper does."""
    measured = np.array([1, _LARGEST_BATCH // 3, 2 * _LARGEST_BATCH // 3, _LARGEST_BATCH])
    least_s, sample_s = rng.uniform(0.01, 0.04), 0.002 / speed
    total_s = np.hypot(least_s, sample_s * measured)
    forward = rng.uniform(0.28, 0.38)
    return DeviceProfile(
        batches=measured,
        forward_s=round_shared(forward * total_s),
        backward_s=round_shared((1.0 - forward) * total_s),
        deviation=round(float(rng.uniform(0.02, 0.06)), 4),
    )


def _random_vm(
    rng: np.random.Generator, gpu: str, speed: float, per_gpu: list[int], most: int, *, large: bool
) -> VmType:
    gpus = int(rng.choice(_LARGE_VMS if large else _SMALL_VMS))
    return VmType(
        gpu=gpu,
        gpus=gpus,
        price_usd_per_hour=round(float(gpus * speed * rng.uniform(0.6, 1.2)), 3),
        network_gbit_per_s=float(rng.choice(_LARGE_NETWORKS if large else _SMALL_NETWORKS)),
        available=most,
        batches=np.array([gpus * samples for samples in per_gpu]),
    )


def _random_layers(rng: np.random.Generator, layers: int) -> Layers:
    sizes, steps = rng.lognormal(0.0, 1.5, layers), rng.lognormal(0.0, 0.5, layers)
    ready = np.cumsum(steps) / steps.sum()
    return Layers(
        gradient_bytes=round_shared(_GRADIENT_BYTES * sizes / sizes.sum()), ready=round_shared(np.minimum(ready, 1.0))
    )


def _reaches_alone(vm: VmType, samples: int) -> bool:
    choices = [] if vm.batches is None else vm.batches.tolist()
    return any(samples % batch == 0 and samples // batch <= (vm.available or 0) for batch in choices)


def _random_class(rng: np.random.Generator, gpus: IntArray, epochs: int, noise: float) -> JobClass:
    first = rng.uniform(0.5, 0.75)
    exponents = np.linspace(first, rng.uniform(first, 0.97), epochs)
    speedup = _random_table(rng, gpus, exponents, noise)
    size_gpu_hours = float(np.exp(rng.normal(1.0, 1.2)))
    shares = rng.uniform(0.9, 1.1, epochs)
    return JobClass(
        arrival_rate_per_hour=float(round_shared(rng.uniform(0.5, 8.0) / size_gpu_hours)),
        epoch_size_gpu_hours=round_shared(size_gpu_hours * shares / shares.sum()),
        speedup={"gpu": TableSpeedup(gpus=gpus, speedup=speedup)},
        rescale_s=float(rng.uniform(15.0, 250.0)),
    )


def _random_table(rng: np.random.Generator, gpus: IntArray, exponents: FloatArray, noise: float) -> FloatArray:
    """Draw speedups (epochs, widths), one at one GPU."""
    table = gpus[None, :].astype(float) ** exponents[:, None]
    if noise == 0:
        return round_shared(table)
    spill = np.where(gpus % _GPUS_PER_NODE == 0, 1.0, 1.0 - 0.1 / np.ceil(gpus / _GPUS_PER_NODE))
    spill[: min(_GPUS_PER_NODE, gpus.size)] = 1.0
    table = table * spill * np.exp(noise * rng.standard_normal(table.shape))
    table[:, 0] = 1.0
    return round_shared(table)
