"""Made-up measurements of all-reduces, for those who have none: every row says that it is synthetic.

An all-reduce of s bytes among n ranks takes ``V / capacity + 2 (n - 1) latency`` seconds, ``V = 2 s (n - 1) / n``. The
capacity is drawn anew for each timing, with the mean and the standard deviation that the paper found between two VMs of
a type (table 2); sizes and ranks are those of its probe (4.2). The latency is our assumption. Nothing here knows which
algorithm NCCL chooses, how VMs are placed or how a network is shared: what is learned from this is a demonstration.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from optplan.errors import UsageError, nearest_name_hint
from optplan.formulations.srift.bandwidth import BYTES_PER_GBIT, LatencyBandwidth
from optplan.measurement.allreduce_data import AllreduceData, Measurement, Place

#: Buffers of the paper's probe: 4 B to 512 MiB in powers of two.
SIZES_BYTES = tuple(2**power for power in range(2, 30))
#: Numbers of ranks of the paper's probe, 2 to 64.
RANKS = (2, 4, 8, 16, 32, 64)
REGIONS = ("us-west-2", "us-east-1")


@dataclass(frozen=True)
class MadeUpNetwork:
    """The network of a type of VM, and its features.

    Parameters
    ----------
    capacity_gbit_per_s, deviation_gbit_per_s
        Mean and standard deviation of the bandwidth between two VMs.
    gpu, cpu, cpu_cores, memory_gib, rated_gbit_per_s
        As of :class:`~optplan.measurement.allreduce_data.Place`.
    """

    capacity_gbit_per_s: float
    deviation_gbit_per_s: float
    gpu: str
    cpu: str
    cpu_cores: float
    memory_gib: float
    rated_gbit_per_s: float


#: The types of table 2.
NETWORKS: dict[str, MadeUpNetwork] = {
    "p3.8xlarge": MadeUpNetwork(11.2, 0.98, "V100", "Xeon E5-2686 v4", 16, 244, 10),
    "g3.8xlarge": MadeUpNetwork(11.9, 0.31, "M60", "Xeon E5-2686 v4", 16, 244, 10),
    "g4dn.4xlarge": MadeUpNetwork(20.3, 0.74, "T4", "Xeon Platinum 8259CL", 8, 64, 25),
}


@dataclass(frozen=True)
class SyntheticSettings:
    """What is made up.

    Parameters
    ----------
    networks
        By type of VM.
    sizes_bytes, ranks, transfers, regions
        The grid; of several transfers at once each gets an equal share of the capacity.
    repeats
        Rows of each point.
    step_latency_s
        Mean latency of one of the 2 (n - 1) steps; our assumption, that of
        :class:`~optplan.formulations.srift.bandwidth.LatencyBandwidth`.
    latency_deviation
        Its standard deviation over its mean, from timing to timing; our assumption.
    seed
        Same seed, same rows.
    """

    networks: Mapping[str, MadeUpNetwork] = field(default_factory=lambda: dict(NETWORKS))
    sizes_bytes: Sequence[int] = SIZES_BYTES
    ranks: Sequence[int] = RANKS
    transfers: Sequence[int] = (1,)
    regions: Sequence[str] = REGIONS
    repeats: int = 3
    step_latency_s: float = LatencyBandwidth().step_latency_s
    latency_deviation: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what no table can be made of."""
        for name in ("networks", "sizes_bytes", "ranks", "transfers", "regions"):
            if not getattr(self, name):
                message = f"{name}: is empty; give at least one"
                raise UsageError(message)
        if min(self.ranks) < 2 or min(self.sizes_bytes) < 1 or min(self.transfers) < 1 or self.repeats < 1:
            message = (
                f"ranks {list(self.ranks)}, sizes_bytes from {min(self.sizes_bytes)}, transfers {list(self.transfers)}, "
                f"repeats {self.repeats}: two ranks or more, and at least 1 of the others, are needed"
            )
            raise UsageError(message)
        if not self.step_latency_s > 0 or not 0 <= self.latency_deviation < 1:
            message = (
                f"step_latency_s {self.step_latency_s}, latency_deviation {self.latency_deviation}: a latency above "
                "zero and a deviation from 0 to below 1 are needed"
            )
            raise UsageError(message)


def choose_networks(names: Sequence[str]) -> dict[str, MadeUpNetwork]:
    """Choose types of table 2; all of them where no name is given.

    Raises
    ------
    UsageError
        When there is no type of that name.
    """
    for name in names:
        if name not in NETWORKS:
            message = f"type of VM: table 2 has no {name!r}; {nearest_name_hint(name, NETWORKS)}"
            raise UsageError(message)
    return {name: NETWORKS[name] for name in names or NETWORKS}


def synthesize_measurements(settings: SyntheticSettings | None = None) -> AllreduceData:
    """Make up measurements.

    Parameters
    ----------
    settings
        What is made up; the paper's grid unless given.

    Returns
    -------
    AllreduceData
        Every row is marked as synthetic.
    """
    plan = settings or SyntheticSettings()
    generator = np.random.default_rng(plan.seed)
    rows = []
    for name, network in plan.networks.items():
        for region in plan.regions:
            place = _describe(name, network, region)
            for ranks in plan.ranks:
                for size in plan.sizes_bytes:
                    for transfers in plan.transfers:
                        figures = _time(generator, plan, network, ranks, size, transfers)
                        rows += [Measurement(place, size, ranks, each, transfers, synthetic=True) for each in figures]
    return AllreduceData(tuple(rows))


def expected_gbit_per_s(network: MadeUpNetwork, ranks: int, size_bytes: int, transfers: int = 1) -> float:
    """Return the bus bandwidth at the mean capacity and the mean latency: what a model could learn at best."""
    capacity = network.capacity_gbit_per_s * BYTES_PER_GBIT / transfers
    model = LatencyBandwidth()
    return float(model.bus_bytes_per_s([("", capacity)], ranks, np.array([size_bytes]))[0] / BYTES_PER_GBIT)


def _time(
    generator: np.random.Generator, plan: SyntheticSettings, network: MadeUpNetwork, ranks: int, size: int, at_once: int
) -> list[float]:
    """Draw the bus bandwidth of each repetition, in Gbit/s."""
    capacities = _draw(
        generator, network.capacity_gbit_per_s, network.deviation_gbit_per_s / network.capacity_gbit_per_s, plan.repeats
    )
    latencies = _draw(generator, plan.step_latency_s, plan.latency_deviation, plan.repeats)
    found = []
    for capacity, latency in zip(capacities, latencies, strict=True):
        model = LatencyBandwidth(step_latency_s=float(latency))
        bus = model.bus_bytes_per_s([("", float(capacity) * BYTES_PER_GBIT / at_once)], ranks, np.array([float(size)]))
        found.append(float(bus[0]) / BYTES_PER_GBIT)
    return found


def _draw(generator: np.random.Generator, mean: float, deviation: float, count: int) -> np.ndarray:
    """Draw log-normal numbers, which are above zero, with a mean and a relative standard deviation."""
    spread = math.log1p(deviation**2)
    return mean * np.exp(generator.normal(-spread / 2.0, math.sqrt(spread), count))


def _describe(name: str, network: MadeUpNetwork, region: str) -> Place:
    return Place(
        vm_type=name,
        cloud="ec2",
        region=region,
        gpu=network.gpu,
        cpu=network.cpu,
        cpu_cores=network.cpu_cores,
        memory_gib=network.memory_gib,
        rated_gbit_per_s=network.rated_gbit_per_s,
    )
