"""Made-up measurements of all-reduces, for those who have none: every row says that it is synthetic.

An all-reduce of s bytes among n ranks takes ``V / capacity + 2 (n - 1) latency`` seconds, ``V = 2 s (n - 1) / n``. The
capacity is drawn anew for each timing, with the mean and the standard deviation that the paper found between two VMs of
a type (table 2); sizes and ranks are those of its probe (4.2). The latency is our assumption. Nothing here knows which
algorithm NCCL chooses, how VMs are placed or how a network is shared: what is learned from this is a demonstration.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np

from optplan.errors import UsageError, nearest_name_hint
from optplan.formulations.srift.data.bandwidth import BYTES_PER_GBIT, LatencyBandwidth
from optplan.profiling.allreduce_data import AllreduceData, Measurement, Place
from optplan.quantities import round_shared
from optplan.schema import FloatArray

#: Buffers of the paper's probe: 4 B to 512 MiB in powers of two.
SIZES_BYTES = tuple(2**power for power in range(2, 30))
#: Numbers of ranks of the paper's probe, 2 to 64.
RANKS = (2, 4, 8, 16, 32, 64)
REGIONS = ("us-west-2", "us-east-1")


@dataclass(frozen=True)
class MadeUpNetwork:
    """The network of a type of VM: mean and standard deviation of bandwidth between two VMs, and what is known."""

    capacity_gbit_per_s: float
    deviation_gbit_per_s: float
    place: Place


#: The types of table 2.
NETWORKS = {
    network.place.vm_type: network
    for network in (
        MadeUpNetwork(11.2, 0.98, Place("p3.8xlarge", "ec2", "", "", "V100", "Xeon E5-2686 v4", 16, 244, 10)),
        MadeUpNetwork(11.9, 0.31, Place("g3.8xlarge", "ec2", "", "", "M60", "Xeon E5-2686 v4", 16, 244, 10)),
        MadeUpNetwork(20.3, 0.74, Place("g4dn.4xlarge", "ec2", "", "", "T4", "Xeon Platinum 8259CL", 8, 64, 25)),
    )
}


@dataclass(frozen=True)
class SyntheticSettings:
    """What is made up."""

    networks: Mapping[str, MadeUpNetwork] = field(default_factory=lambda: dict(NETWORKS))  #: By type of VM.
    #: sizes_bytes, ranks, transfers, regions: The grid; of several transfers at once each gets an equal share of the
    #: capacity.
    sizes_bytes: Sequence[int] = SIZES_BYTES
    ranks: Sequence[int] = RANKS
    transfers: Sequence[int] = (1,)
    regions: Sequence[str] = REGIONS
    repeats: int = 3  #: Rows of each point.
    #: Mean latency of one of the 2 (n - 1) steps; our assumption, that of
    #: :class:`~optplan.formulations.srift.data.bandwidth.LatencyBandwidth`.
    step_latency_s: float = LatencyBandwidth().step_latency_s
    latency_deviation: float = 0.1  #: Its standard deviation over its mean, from timing to timing; our assumption.
    seed: int = 0  #: Same seed, same rows.

    def __post_init__(self) -> None:
        """Refuse what no table can be made of."""
        for name in ("networks", "sizes_bytes", "ranks", "transfers", "regions"):
            if not getattr(self, name):
                raise UsageError(f"{name}: is empty; give at least one")
        if min(self.ranks) < 2 or min(self.sizes_bytes) < 1 or min(self.transfers) < 1 or self.repeats < 1:
            given = (
                f"ranks {list(self.ranks)}, sizes_bytes from {min(self.sizes_bytes)}, transfers {list(self.transfers)}"
            )
            message = f"{given}, repeats {self.repeats}: two ranks or more, and at least 1 of the others, are needed"
            raise UsageError(message)
        if not self.step_latency_s > 0 or not 0 <= self.latency_deviation < 1:
            raise UsageError(
                f"step_latency_s {self.step_latency_s}, latency_deviation {self.latency_deviation}: a latency above "
                "zero and a deviation from 0 to below 1 are needed"
            )

    def expected_gbit_per_s(self, measurement: Measurement) -> float:
        """Return the bus bandwidth at mean capacity and mean latency: about what a model can learn of a row."""
        network = self.networks[measurement.place.vm_type]
        capacity = network.capacity_gbit_per_s / measurement.transfers
        return _bus_gbit_per_s(capacity, self.step_latency_s, measurement.ranks, measurement.size_bytes)


def choose_networks(names: Sequence[str]) -> dict[str, MadeUpNetwork]:
    """Choose types of table 2; all of them where no name is given."""
    for name in names:
        if name not in NETWORKS:
            raise UsageError(f"type of VM: table 2 has no {name!r}; {nearest_name_hint(name, NETWORKS)}")
    return {name: NETWORKS[name] for name in names or NETWORKS}


def synthesize_measurements(settings: SyntheticSettings | None = None) -> AllreduceData:
    """Make up measurements, by the paper's grid unless given another; every row is marked as synthetic."""
    plan = settings or SyntheticSettings()
    generator = np.random.default_rng(plan.seed)
    rows = []
    for name, network in plan.networks.items():
        deviation = network.deviation_gbit_per_s / network.capacity_gbit_per_s
        places = [replace(network.place, vm_type=name, region=region) for region in plan.regions]
        for place, ranks, size, transfers in product(places, plan.ranks, plan.sizes_bytes, plan.transfers):
            capacities = _draw(generator, network.capacity_gbit_per_s, deviation, plan.repeats)
            latencies = _draw(generator, plan.step_latency_s, plan.latency_deviation, plan.repeats)
            for capacity, latency in zip(capacities.tolist(), latencies.tolist(), strict=True):
                bandwidth = float(round_shared(_bus_gbit_per_s(capacity / transfers, latency, ranks, size)))
                rows.append(Measurement(place, size, ranks, bandwidth, transfers, synthetic=True))
    return AllreduceData(tuple(rows))


def _bus_gbit_per_s(capacity_gbit_per_s: float, step_latency_s: float, ranks: int, size_bytes: int) -> float:
    model = LatencyBandwidth(step_latency_s=step_latency_s)
    bus = model.bus_bytes_per_s([("", capacity_gbit_per_s * BYTES_PER_GBIT)], ranks, np.array([float(size_bytes)]))
    return float(bus[0]) / BYTES_PER_GBIT


def _draw(generator: np.random.Generator, mean: float, deviation: float, count: int) -> FloatArray:
    """Draw log-normal numbers, which are above zero, with a mean and a relative standard deviation."""
    spread = math.log1p(deviation**2)
    logarithms = generator.normal(-spread / 2.0, math.sqrt(spread), count)
    return round_shared(mean * np.exp(logarithms))
