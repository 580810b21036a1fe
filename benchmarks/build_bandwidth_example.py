"""Write made-up measurements of all-reduces, which say that they are, for the page on bandwidth and its tests.

An all-reduce of s bytes among n ranks takes ``V / capacity + 2 (n - 1) latency`` seconds, ``V = 2 s (n - 1) / n``. The
capacity is drawn anew for each timing, with the mean and the standard deviation that the Srift paper found between two
VMs of a type (table 2); the latency is that of ``latency-bandwidth``, with a spread of a tenth. Nothing knows which
algorithm NCCL chooses, how VMs are placed or how a network is shared: what is learned from it is a demonstration::

    python benchmarks/build_bandwidth_example.py
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

from optplan.formulations.srift.data.bandwidth import LatencyBandwidth
from optplan.profiling.allreduce_data import AllreduceData, Measurement, Place, bandwidth_of, format_csv
from optplan.quantities import round_shared

TARGET = Path(__file__).resolve().parents[1] / "docs" / "examples" / "all-reduces.csv"
#: Powers of four, 4 B to 256 MiB; the paper has powers of two up to 512 MiB, and all its numbers of ranks.
SIZES_BYTES, RANKS, REGIONS, REPEATS = [4**power for power in range(1, 15)], (2, 8, 64), ("us-west-2", "us-east-1"), 3
#: Of table 2: mean and standard deviation of Gbit/s, and what else is known of the type.
NETWORKS = (
    (11.2, 0.98, Place("p3.8xlarge", "ec2", "", "", "V100", "Xeon E5-2686 v4", 16, 244, 10)),
    (11.9, 0.31, Place("g3.8xlarge", "ec2", "", "", "M60", "Xeon E5-2686 v4", 16, 244, 10)),
    (20.3, 0.74, Place("g4dn.4xlarge", "ec2", "", "", "T4", "Xeon Platinum 8259CL", 8, 64, 25)),
)
LATENCY_S, LATENCY_DEVIATION = LatencyBandwidth().step_latency_s, 0.1


def main() -> None:
    """Write the table."""
    generator = np.random.default_rng(0)
    rows = []
    for (mean, deviation, place), region in product(NETWORKS, REGIONS):
        here = replace(place, region=region)
        for ranks, size, _ in product(RANKS, SIZES_BYTES, range(REPEATS)):
            capacity, latency = _draw(generator, mean, deviation / mean), _draw(generator, LATENCY_S, LATENCY_DEVIATION)
            time_s = 2.0 * (ranks - 1) * (size / ranks / (capacity * 1e9 / 8.0) + latency)
            found = float(round_shared(bandwidth_of(size, ranks, time_s)))
            rows.append(Measurement(here, size, ranks, found, synthetic=True))
    TARGET.write_text(format_csv(AllreduceData(tuple(rows))), encoding="utf-8")
    print(TARGET.name, TARGET.stat().st_size, "bytes")


def _draw(generator: np.random.Generator, mean: float, deviation: float) -> float:
    """Draw a log-normal number, which is above zero, with a mean and a relative standard deviation."""
    spread = math.log1p(deviation**2)
    return mean * math.exp(generator.normal(-spread / 2.0, math.sqrt(spread)))


if __name__ == "__main__":
    main()
