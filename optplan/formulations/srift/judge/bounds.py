"""What the judge of trees knows of fleets of which only some VMs are decided: kinds, lower bounds, why they hold.

Fleets are sorted by types with their batches by slowness, and by networks by capacity: every fleet is of exactly one
kind, with one slowest pair of a type and a batch, and one least network. Written apart from the solvers' bounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from scipy.special import log_ndtr

from optplan.contracts.judgement import JUDGE_ROUNDING
from optplan.formulations.srift.data.bandwidth import MeasuredBandwidth
from optplan.formulations.srift.data.instance import SriftInstance
from optplan.formulations.srift.laws.iteration import IterationModel
from optplan.schema import FloatArray, IntArray


@dataclass(frozen=True)
class Load:
    """A type of VM with one of its batches."""

    type: int  # number of the type in the instance
    name: str
    batch: int
    #: Passes without deviation.
    forward_s: float
    backward_s: float
    deviation_s: float  # standard deviation of their sum

    @property
    def raw_s(self) -> float:
        """Both passes."""
        return self.forward_s + self.backward_s


@dataclass(frozen=True)
class Kind:
    """What some fleets have in common."""

    place: int  # of the slowest, in :attr:`Offers.loads`
    slowest: Load
    network: int  # the least

    @property
    def key(self) -> tuple[str, int, int]:
        """What tells it from all others: type, batch, network."""
        return self.slowest.name, self.slowest.batch, self.network


class Offers:
    """What an instance offers, in arrays over its types (M)."""

    def __init__(self, instance: SriftInstance) -> None:
        self.instance = instance
        self.model = IterationModel(instance)
        self.names = list(instance.types)
        vms = list(instance.types.values())
        self.price_usd_per_s: FloatArray = np.array([vm.price_usd_per_s for vm in vms])
        self.ranks: IntArray = np.array([vm.gpus for vm in vms], dtype=np.int64)
        self.per_hour: FloatArray = np.array([vm.interruptions_per_hour for vm in vms])
        self.running: IntArray = np.array([vm.running for vm in vms], dtype=np.int64)
        self.most: IntArray = np.array([instance.most_of(name) for name in self.names], dtype=np.int64)
        self.gpus = [vm.gpu for vm in vms]
        #: Whether the networks of a fleet are as fast as the least of them.
        self.plain = not isinstance(instance.bandwidth, MeasuredBandwidth)
        keys = [(capacity, "" if self.plain else label) for label, capacity in instance.networks_of(self.names)]
        ordered = sorted(set(keys))
        #: By type, the number of its network, the least capacity first.
        self.network_of: list[int] = [ordered.index(key) for key in keys]
        self.capacities = [capacity for capacity, _ in ordered]
        #: By network, a type that has it.
        self.type_with = [self.names[keys.index(key)] for key in ordered]
        #: The slowest last: by raw time, then the backward pass, then the GPU's name; the rest is a rule.
        self.loads = sorted(
            self._list_loads(),
            key=lambda load: (load.raw_s, -load.forward_s, self.gpus[load.type], -load.type, load.batch),
        )

    def _list_loads(self) -> Iterator[Load]:
        for number, name in enumerate(self.names):
            share = self.instance.job.devices[self.gpus[number]].deviation
            for batch in self.instance.batches_of[name] if self.most[number] else ():
                forward, backward = self.model.passes_s(name, batch)
                yield Load(number, name, batch, forward, backward, share * (forward + backward))

    def kinds(self) -> Iterator[Kind]:
        """List all kinds of fleets, the quickest slowest VM first."""
        seen: set[int] = set()
        for place, load in enumerate(self.loads):
            own = self.network_of[load.type]
            seen.add(own)
            for network in sorted(seen) if self.instance.mixed else [own]:
                if network <= own:
                    yield Kind(place, load, network)

    def others(self, kind: Kind) -> list[Load]:
        """List what fleets of a kind can have besides the slowest, the quickest first."""
        own = kind.slowest.type
        found = [load for load in self.loads[: kind.place] if self.network_of[load.type] >= kind.network]
        if self.instance.one_batch_per_type:
            found = [load for load in found if load.type != own]
        return found if self.instance.mixed else [load for load in found if load.type == own]


#: What is taken off sums and products for their rounding, relatively.
ROUNDING = JUDGE_ROUNDING
#: The quadrature: from so many deviations below the slowest VM's mean to so many above, in panels with so many nodes.
_LOWEST, _HIGHEST, _PANEL, _NODES = -6.5, 8.0, 0.5, 8
_AT, _WEIGHTS = np.polynomial.legendre.leggauss(_NODES)
#: Deviations up to this share of the largest are left out: they would be too sharp for those nodes.
_SHARP = 0.4
#: Error of the quadrature in the largest deviation, with up to so many VMs (measured: 5e-8).
_ERROR, _MOST_VMS = 1e-6, 1000


class StragglerFloor:
    """The least mean time of the straggler of fleets with certain VMs at least; of loads (C,) the slowest is last.

    ``E[max] = a + integral from a of (1 - F)``, where F(a) is as good as zero; the logarithm of F adds up over VMs.
    Leaving VMs out makes E[max] no larger; nor does taking a VM's mean for what it takes (Jensen's inequality): so a
    slowest VM that hardly deviates is taken for its mean, where the integral then starts.
    """

    def __init__(self, loads: Sequence[Load]) -> None:
        slowest, largest = loads[-1], max(load.deviation_s for load in loads)
        sharp = [load.deviation_s <= _SHARP * largest for load in loads]
        lowest = 0.0 if sharp[-1] else _LOWEST
        ends = np.arange(lowest, _HIGHEST + _PANEL / 2.0, _PANEL)
        points = (ends[:-1, None] + _PANEL / 2.0 * (_AT + 1.0)).ravel()
        self._weights = largest * _PANEL / 2.0 * np.tile(_WEIGHTS, ends.size - 1)
        self._floor_s = slowest.raw_s + lowest * largest - _ERROR * largest
        seconds = slowest.raw_s + largest * points
        #: (C, Q) Logarithm of the distribution of one VM at each node.
        self._single = np.array(
            [
                np.zeros(points.size) if left_out else log_ndtr((seconds - load.raw_s) / load.deviation_s)
                for load, left_out in zip(loads, sharp, strict=True)
            ]
        )

    def seconds(self, counts: IntArray) -> FloatArray:
        """Return (N,) the least means of fleets with (N, C) VMs of each load, one of the slowest at least."""
        logarithms = np.minimum(counts, _MOST_VMS).astype(np.float64) @ self._single
        integral = -(np.expm1(logarithms) @ self._weights)
        return np.asarray((self._floor_s + integral) * (1.0 - ROUNDING), dtype=np.float64)


#: Up to so many units of samples there is a table.
_MOST_UNITS = 65_536


@dataclass(frozen=True)
class Supply:
    """VMs of one type that are decided together."""

    type: int
    batches: tuple[int, ...]  # samples per VM to choose from
    #: VMs with one of those batches; none at all where the least is zero.
    least: int
    most: int
    each: FloatArray  # (2,) price in US dollars per second, and ranks, of a VM


class Needs:
    """By number of samples, the least price and ranks with which supplies can have so many.

    A table by dynamic programming (supplies choose independently of each other, which relaxes what those of one type
    share), and what divisible VMs would need: each type fully loaded, the cheapest samples first. The larger of both
    where supplies share a type; the second alone where samples have too many units for a table.
    """

    def __init__(self, supplies: Sequence[Supply], samples: int) -> None:
        self._supplies = list(supplies)
        self._unit = math.gcd(samples, *(batch for supply in supplies for batch in supply.batches))
        units = samples // self._unit
        self._tables: list[FloatArray] = []
        if units <= _MOST_UNITS:
            table = np.full((2, units + 1), np.inf)
            table[:, 0] = 0.0
            self._tables.append(table)
            for supply in reversed(supplies):
                self._tables.append(self._add(self._tables[-1], supply))
            self._tables.reverse()

    def least(self, start: int, samples: IntArray) -> FloatArray:
        """Return (2, N) the least price and ranks of the supplies from one on; infinite where they cannot."""
        rest, found = self._supplies[start:], np.zeros((2, samples.size))
        if self._tables:
            whole = samples % self._unit == 0
            found = np.where(whole, self._tables[start][:, np.where(whole, samples // self._unit, 0)], np.inf)
        largest = {one.type: one for one in sorted(rest, key=lambda one: max(one.batches))}
        if not self._tables or len(largest) < len(rest):
            found = np.maximum(found, divide(list(largest.values()), samples))
        return found

    def _add(self, after: FloatArray, supply: Supply) -> FloatArray:
        """Return the table with one supply more: of counts, the digits of binary numbers, each taken or not."""
        best = after.copy() if supply.least == 0 else np.full_like(after, np.inf)
        for batch in supply.batches:
            step, first = batch // self._unit, max(1, supply.least)
            extra = min(supply.most, (after.shape[1] - 1) // step) - first
            if extra < 0:
                continue
            table, bundle = _shift(after, first, step, supply.each), 1
            while extra > 0:
                taken = min(bundle, extra)
                np.minimum(table, _shift(table, taken, step, supply.each), out=table)
                extra, bundle = extra - taken, 2 * bundle
            np.minimum(best, table, out=best)
        return best


def _shift(table: FloatArray, count: int, step: int, each: FloatArray) -> FloatArray:
    """Return what so many VMs more of so many units make of a table."""
    moved = np.full_like(table, np.inf)
    moved[:, count * step :] = table[:, : table.shape[1] - count * step] + count * each[:, None]
    return moved


def divide(supplies: Sequence[Supply], samples: IntArray) -> FloatArray:
    """Return (2, N) the least price and ranks if VMs could be divided; infinite where there are too few of them."""
    found = np.empty((2, samples.size))
    for quantity in range(2):
        per_sample = [float(one.each[quantity]) / max(one.batches) for one in supplies]
        ordered = [supplies[place] for place in sorted(range(len(supplies)), key=per_sample.__getitem__)]
        reach = list(accumulate((one.most * max(one.batches) for one in ordered), initial=0.0))
        amount = list(accumulate((one.most * float(one.each[quantity]) for one in ordered), initial=0.0))
        found[quantity] = np.interp(samples, reach, amount, right=np.inf)
    return found * (1.0 - JUDGE_ROUNDING)
