"""How long an iteration of a fleet takes: t_iter = t_fw + max(t_bw, t_pe) (Srift, section 4.3).

The passes are those of the VM with the most to compute, stretched to the mean of the fleet's straggler; gradients are
exchanged while the backward pass goes on. A synchronous iteration waits for its straggler: the paper samples a compute
time for each VM and takes the mean of the largest; here that mean, of a maximum of independent normals, is computed by
quadrature, and the sampling is the check.

What the loss of spot VMs does to a training run: its expected time, in closed form.

The paper reacts to interruptions, but does not foresee them; this is optplan's addition. The process:

* The VMs of a fleet are interrupted independently of each other, so the fleet is interrupted at the points of a Poisson
  process whose rate is the sum of its VMs' rates.
* Training writes a checkpoint after every ``checkpoint_every_s`` of work, which takes ``checkpoint_s``; there is none
  at the end. An interruption undoes what was done since the last complete checkpoint.
* ``restart_s`` later the fleet, with a VM of the same type in place of the lost one, goes on from that checkpoint.
* While it restarts, a fleet that is held and paid (``restart_billed``) can be interrupted again, and the restart then
  begins anew; a fleet that is not paid was handed back, and nothing of it can be lost. BOA takes it the same way.

A stretch of L seconds up to its checkpoint is repeated until no interruption falls into it. With the rate ``r`` there
are ``e^(r L) - 1`` failed attempts on average, all attempts together take ``(e^(r L) - 1) / r``, and each failed one is
followed by a restart of ``(e^(r R) - 1) / r`` seconds on average where it can be interrupted, else of R. So, held
through its restarts, a stretch takes ``e^(r R) (e^(r L) - 1) / r`` (Daly, *A higher order estimate of the optimum
checkpoint interval for restart dumps*, 2006, equation 13). Stretches are independent: their times add up.

For short stretches and restarts this is BOA's ``t0 / (1 - r (restart + lost))`` with L / 2 for the work lost; BOA's
form takes the lost work as given, this one derives it from the checkpoints.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from scipy.special import log_ndtr, ndtri

from optplan.errors import UsageError
from optplan.formulations.srift.data.bandwidth import BYTES_PER_GBIT, volume_factor
from optplan.formulations.srift.data.instance import Interruptions, SriftInstance, VmGroup
from optplan.formulations.srift.laws.exchange import Exchange
from optplan.schema import FloatArray
from optplan.units import SECONDS_PER_HOUR

#: Nodes of the Gauss-Legendre rule on each panel.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
#: Log-probabilities of the maximum of a group at which panels end: below the first it is as good as never.
_LEVELS = (-46.0, -12.0, -2.0, -0.4, -0.02)
#: Upper tail of a group beyond which nothing is integrated.
_TAIL = 1e-17
#: Deviation over mean up to which a variable is as good as constant.
_CONSTANT = 1e-12


def expected_maximum(means: Sequence[float], deviations: Sequence[float], counts: Sequence[int]) -> float:
    """Return the mean largest of independent normals, in groups (G,) of equal ones, to a relative 1e-9."""
    groups = [group for group in zip(means, deviations, counts, strict=True) if group[2]]
    if not groups:
        raise UsageError("the largest of no variables is not defined; give at least one")
    if len(groups) == 1:
        (mean, deviation, count) = groups[0]
        return mean + deviation * standard_maximum(count)
    return _integrate(groups)


@lru_cache(maxsize=4096)
def standard_maximum(count: int) -> float:
    """Return the mean of the largest of so many independent standard normal variables."""
    return 0.0 if count == 1 else _integrate([(0.0, 1.0, count)])


def _integrate(groups: Sequence[tuple[float, float, int]]) -> float:
    """Integrate the distribution: E[max] = a + integral from a of (1 - F), where F(a) is as good as zero."""
    moving = [group for group in groups if group[1] > _CONSTANT * abs(group[0])]
    floor = max((group[0] for group in groups if group not in moving), default=-np.inf)
    if not moving:
        return floor
    points = np.concatenate([_quantiles(*group) for group in moving])
    lowest = max(floor, *(float(_quantiles(*group)[0]) for group in moving))
    highest = float(points.max())
    if highest <= lowest:
        return lowest
    inner = np.unique(points[(points > lowest) & (points < highest)])
    ends = np.concatenate(([lowest], inner, [highest]))
    half = np.diff(ends) / 2.0
    at = (ends[:-1] + half)[:, None] + half[:, None] * _NODES
    logarithm = np.zeros(at.shape)
    for mean, deviation, count in moving:
        logarithm += count * log_ndtr((at - mean) / deviation)
    return lowest + float(((-np.expm1(logarithm)) @ _WEIGHTS) @ half)


def _quantiles(mean: float, deviation: float, count: int) -> FloatArray:
    """Return points between which the distribution of a group's maximum is smooth, from never to surely."""
    return mean + deviation * _standard_quantiles(count)


@lru_cache(maxsize=4096)
def _standard_quantiles(count: int) -> FloatArray:
    inner = ndtri(np.exp(np.array(_LEVELS) / count))
    last = -ndtri(_TAIL / count)
    return np.asarray(np.append(inner, last), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Iteration:
    """One iteration of a fleet, in the mean."""

    forward_s: float  # passes of the straggler, t_fw and t_bw
    backward_s: float
    exchange_s: float  # from the start of the backward pass until the last gradient is exchanged, t_pe; 0 for one rank
    ranks: int  # GPUs that take part
    slowest: int  # number of the group with the largest raw time

    @property
    def total_s(self) -> float:
        """Of the iteration, t_iter."""
        return self.forward_s + max(self.backward_s, self.exchange_s)


@dataclass(frozen=True)
class Transfer:
    """The exchange of one gradient, or of one bucket of them, in seconds from the beginning of the iteration."""

    label: str  # name of the layer, or first and last of the bucket's
    start_s: float  # when it is ready
    end_s: float  # when every rank has it
    gradient_bytes: float


@dataclass(frozen=True)
class _Buckets:
    """What is exchanged at once: layers, or buckets of them."""

    last_layer: tuple[int, ...]
    gradient_bytes: FloatArray
    query_bytes: FloatArray
    labels: tuple[str, ...]


class IterationModel:
    """Predicts the iterations of an instance's fleets; what does not depend on the fleet is computed once."""

    def __init__(self, instance: SriftInstance) -> None:
        self.instance = instance
        #: Raw forward and backward seconds of a type's VM with so many samples.
        self.passes_s = cache(instance.passes_s)
        self._alone, self._exchange = cache(self._find_alone), cache(self._make_exchange)
        self._buckets = _fill_buckets(instance)
        instance.require_profiles()
        gpus = {vm.gpu for vm in instance.types.values()}
        last = list(self._buckets.last_layer)
        self._ready = {gpu: instance.job.ready_on(gpu)[last] for gpu in gpus}

    def transfers(self, gpu: str) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return (T,) shares of the backward pass when transfers are ready, bytes, and bytes up to a power of two."""
        return self._ready[gpu], self._buckets.gradient_bytes, self._buckets.query_bytes

    def predict(self, groups: Sequence[VmGroup]) -> Iteration:
        """Predict the iteration of a fleet."""
        forward, backward, slowest = self._compute(groups)
        names = tuple(sorted({group.type for group in groups}))
        ranks = sum(group.count * self.instance.types[group.type].gpus for group in groups)
        gpu = self.instance.types[groups[slowest].type].gpu
        exchange_s = 0.0 if ranks == 1 else self._exchange(names, ranks, gpu).seconds(backward)
        return Iteration(forward, backward, exchange_s, ranks, slowest)

    def _make_exchange(self, names: tuple[str, ...], ranks: int, gpu: str) -> Exchange:
        volumes = self._buckets.gradient_bytes * volume_factor(ranks)
        return Exchange(self._ready[gpu], volumes, *self.bus_of(names, ranks))

    def bus_of(self, names: tuple[str, ...], ranks: int) -> tuple[FloatArray, float]:
        """Return (T,) bandwidth of each transfer, were it alone, and of all, in bytes per second, by sorted types."""
        capacity = min(self.instance.types[name].network_gbit_per_s for name in names) * BYTES_PER_GBIT
        return self._alone(names, ranks), capacity

    def _find_alone(self, names: tuple[str, ...], ranks: int) -> FloatArray:
        networks = self.instance.networks_of(list(names))
        return self.instance.bandwidth.bus_bytes_per_s(networks, ranks, self._buckets.query_bytes)

    def trace(self, groups: Sequence[VmGroup]) -> tuple[Iteration, tuple[Transfer, ...]]:
        """Predict the iteration of a fleet and list its transfers, in the order in which they start."""
        found = self.predict(groups)
        names = tuple(sorted({group.type for group in groups}))
        if found.ranks == 1:
            return found, ()
        gpu = self.instance.types[groups[found.slowest].type].gpu
        ready = self._ready[gpu] * found.backward_s
        ends = self._exchange(names, found.ranks, gpu).times(found.backward_s)
        rows = zip(self._buckets.labels, ready, ends, self._buckets.gradient_bytes, strict=True)
        return found, tuple(
            Transfer(label, found.forward_s + float(start), found.forward_s + float(end), float(size))
            for label, start, end, size in rows
        )

    def compute_times(self, groups: Sequence[VmGroup]) -> tuple[FloatArray, FloatArray, list[int]]:
        """Return (G,) means and standard deviations of the compute seconds of each group's VMs, and their numbers."""
        means = np.array([sum(self.passes_s(group.type, group.batch)) for group in groups])
        types, devices = self.instance.types, self.instance.job.devices
        shares = np.array([devices[types[group.type].gpu].deviation for group in groups])
        return means, shares * means, [group.count for group in groups]

    def _compute(self, groups: Sequence[VmGroup]) -> tuple[float, float, int]:
        """Return the straggler's mean seconds and the slowest group, of equals by backward pass, then GPU's name."""
        means, deviations, counts = self.compute_times(groups)
        ranks = [(-self.passes_s(group.type, group.batch)[0], self.instance.types[group.type].gpu) for group in groups]
        slowest = max(range(len(groups)), key=lambda index: (means[index], *ranks[index], -index))
        stretch = expected_maximum(means.tolist(), deviations.tolist(), counts) / float(means[slowest])
        forward, backward = self.passes_s(groups[slowest].type, groups[slowest].batch)
        return stretch * forward, stretch * backward, slowest


def _fill_buckets(instance: SriftInstance) -> _Buckets:
    """Join consecutive layers until a bucket holds the bytes asked for; one that runs at times counts in the mean."""
    layers = instance.job.layers
    sizes = layers.gradient_bytes
    mean = sizes if layers.probability is None else sizes * layers.probability
    names = layers.names or tuple(f"layer {number}" for number in range(1, sizes.size + 1))
    least = instance.bucket_bytes
    last, held = [], 0.0
    for layer, size in enumerate(sizes.tolist()):
        held += size
        if least is None or held >= least or layer == sizes.size - 1:
            last.append(layer)
            held = 0.0
    first = [0, *(layer + 1 for layer in last[:-1])]
    queries = 2.0 ** np.ceil(np.log2(np.add.reduceat(sizes, first)))
    labels = tuple(
        names[start] if start == end else f"{names[start]} to {names[end]}"
        for start, end in zip(first, last, strict=True)
    )
    return _Buckets(tuple(last), np.add.reduceat(mean, first), queries, labels)


#: A run that ends at a checkpoint to within this share of itself has none there.
_SAME = 1e-12
#: Beyond this power of e, floats end.
_LARGEST_POWER = 700.0
#: Up to here the next term of a power series is below a float's rounding of the whole stretch.
_SHORT = 1e-5


def interruption_rate_per_s(instance: SriftInstance, groups: Iterable[VmGroup]) -> float:
    """Return how often a fleet is interrupted, per second: the sum of its VMs' rates."""
    per_hour = math.fsum(group.count * instance.types[group.type].interruptions_per_hour for group in groups)
    return per_hour / SECONDS_PER_HOUR


def expect_training(
    work_s: FloatArray | float, rate_per_s: FloatArray | float, interruptions: Interruptions | None
) -> tuple[FloatArray, FloatArray]:
    """Return (N,) the mean seconds that runs take, and those billed; infinite where no interval is ever survived."""
    work_s, rate_per_s = np.asarray(work_s, dtype=np.float64), np.asarray(rate_per_s, dtype=np.float64)
    if interruptions is None:
        return work_s, work_s
    every_s, restart_s = interruptions.checkpoint_every_s, interruptions.restart_s
    checkpoints, exposed = count_checkpoints(work_s, interruptions), interruptions.restart_billed
    trained_s, failures = np.zeros(work_s.shape), np.zeros(work_s.shape)
    one_restart_s = restart_s * (1.0 + (_excess(rate_per_s * restart_s) if exposed else np.zeros(work_s.shape)))
    with np.errstate(over="ignore", invalid="ignore"):  # none of something infinite is none
        last_s = work_s - checkpoints * every_s
        for number, stretch_s in ((checkpoints, every_s + interruptions.checkpoint_s), (np.float64(1.0), last_s)):
            power = rate_per_s * stretch_s
            trained_s += np.where(number > 0.0, number * stretch_s * (1.0 + _excess(power)), 0.0)
            failures += np.where(number > 0.0, number * _expm1(power), 0.0)
        restarts_s = np.where((failures > 0.0) & (one_restart_s > 0.0), failures * one_restart_s, 0.0)
    total_s = trained_s + restarts_s
    return total_s, total_s if exposed else trained_s


def count_checkpoints(work_s: FloatArray | float, interruptions: Interruptions) -> FloatArray:
    """Return (N,) how many checkpoints runs write: one after each full interval, none at the end."""
    return np.maximum(0.0, np.ceil(work_s / interruptions.checkpoint_every_s * (1.0 - _SAME)) - 1.0)


def _expm1(power: FloatArray) -> FloatArray:
    """Return e to each power, less one; infinite where floats end."""
    return np.where(power < _LARGEST_POWER, np.expm1(np.minimum(power, _LARGEST_POWER)), np.inf)


def _excess(power: FloatArray) -> FloatArray:
    """Return (e^x - 1) / x - 1 of each power, by which repeating stretches a duration; zero for no power."""
    short = power < _SHORT
    long = _expm1(power) / np.where(short, 1.0, power) - 1.0
    return np.where(short, power / 2.0 + power * power / 6.0, long)  # the difference would be rounding
