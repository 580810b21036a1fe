"""Seeded generators of instances of any size, with the features of measured ones."""

from __future__ import annotations

import numpy as np

from optplan.errors import UsageError
from optplan.formulations.boa.data import BoaInstance, Policy, Problem
from optplan.formulations.boa.gpu_types import GpuType
from optplan.formulations.boa.job_classes import JobClass
from optplan.schema import FloatArray, IntArray
from optplan.speedup import TableSpeedup
from optplan.units import Amount, BudgetUnit

#: GPUs per node of the generated clusters: the first GPU on a further node costs speed, as in measured tables.
_GPUS_PER_NODE = 4
#: Budget of a generated instance, as a multiple of its load on one GPU per job.
_BUDGET_PER_LOAD = 1.6


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
        As in :class:`~optplan.formulations.boa.data.BoaInstance`.

    Returns
    -------
    BoaInstance
        With a budget of 1.6 times its load.

    Raises
    ------
    UsageError
        When a count is below one or the noise is not in [0, 0.5).
    """
    for name, count in (("classes", classes), ("epochs", epochs), ("widths", widths)):
        if count < 1:
            message = f"{name}: got {count}; at least 1 is needed"
            raise UsageError(message)
    if not 0 <= noise < 0.5:
        message = f"noise: got {noise}; a number from 0 to below 0.5 is needed"
        raise UsageError(message)
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


def _random_class(rng: np.random.Generator, gpus: IntArray, epochs: int, noise: float) -> JobClass:
    first = rng.uniform(0.5, 0.75)
    exponents = np.linspace(first, rng.uniform(first, 0.97), epochs)
    speedup = _random_table(rng, gpus, exponents, noise)
    size_gpu_hours = float(np.exp(rng.normal(1.0, 1.2)))
    shares = rng.uniform(0.9, 1.1, epochs)
    return JobClass(
        arrival_rate_per_hour=float(rng.uniform(0.5, 8.0)) / size_gpu_hours,
        epoch_size_gpu_hours=size_gpu_hours * shares / shares.sum(),
        speedup={"gpu": TableSpeedup(gpus=gpus, speedup=speedup)},
        rescale_s=float(rng.uniform(15.0, 250.0)),
    )


def _random_table(rng: np.random.Generator, gpus: IntArray, exponents: FloatArray, noise: float) -> FloatArray:
    """Draw speedups (epochs, widths), one at one GPU."""
    table = gpus[None, :].astype(float) ** exponents[:, None]
    if noise == 0:
        return table
    spill = np.where(gpus % _GPUS_PER_NODE == 0, 1.0, 1.0 - 0.1 / np.ceil(gpus / _GPUS_PER_NODE))
    spill[: min(_GPUS_PER_NODE, gpus.size)] = 1.0
    table = table * spill * np.exp(noise * rng.standard_normal(table.shape))
    table[:, 0] = 1.0
    return table
