"""What the judge of trees sorts fleets by: types with their batches by slowness, networks by capacity, kinds of fleets.

Every fleet is of exactly one kind: it has one slowest pair of a type and a batch, and one least network.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

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
        self.loads = sorted(self._list_loads(), key=self._slowness)

    def _list_loads(self) -> Iterator[Load]:
        for number, name in enumerate(self.names):
            share = self.instance.job.devices[self.gpus[number]].deviation
            for batch in self.instance.batches_of[name] if self.most[number] else ():
                forward, backward = self.model.passes_s(name, batch)
                yield Load(number, name, batch, forward, backward, share * (forward + backward))

    def _slowness(self, load: Load) -> tuple[float, float, str, int, int]:
        """Return what tells the slowest: raw time, then the backward pass, then the GPU's name; the rest is a rule."""
        return load.raw_s, -load.forward_s, self.gpus[load.type], -load.type, load.batch

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
