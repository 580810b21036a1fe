"""Train small networks with DistributedDataParallel on two processes, and predict what an iteration takes.

Needs the extra torch. Run it on an otherwise idle machine, because it measures::

    python benchmarks/srift_accuracy.py --date 2026-11-21
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import fmean, median

import torch
from ddp_accuracy import Accuracy, PredictedIteration, check_accuracy
from torch import Tensor, nn

from optplan.instances.files import format_json
from optplan.lab.benchmarks.sweeps import describe_machine

HERE = Path(__file__).resolve()
RESULTS = HERE.parent
#: Networks with much and with little to exchange for what they compute.
NETWORKS = ("convnet", "deep", "wide")
BATCHES = (4, 8, 16, 32, 64)
TIMES = ("measured_s", "predicted_s", "predicted_layerwise_s", "compute_s", "exchange_s")


def convnet() -> tuple[nn.Module, Callable[[int], Tensor]]:
    """Two convolutions and two linear layers: 4 MB of gradients."""
    network = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 8 * 8, 256),
        nn.ReLU(),
        nn.Linear(256, 10),
    )
    return network, lambda batch: torch.randn(batch, 3, 32, 32)


def deep() -> tuple[nn.Module, Callable[[int], Tensor]]:
    """Twelve convolutions: 0.4 MB of gradients, in many small layers."""
    layers: list[nn.Module] = [nn.Conv2d(3, 32, 3, padding=1, stride=2), nn.ReLU()]
    for _ in range(11):
        layers += [nn.Conv2d(32, 32, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*layers), lambda batch: torch.randn(batch, 3, 32, 32)


def wide() -> tuple[nn.Module, Callable[[int], Tensor]]:
    """Four linear layers of 1024 units: 17 MB of gradients, and little to compute."""
    layers: list[nn.Module] = []
    for _ in range(4):
        layers += [nn.Linear(1024, 1024), nn.ReLU()]
    return nn.Sequential(*layers), lambda batch: torch.randn(batch, 1024)


def main() -> None:
    """Write ``benchmarks/srift-accuracy-DATE.json``, of which the page of Srift's claims is made."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--date", required=True, help="when it runs, as in 2026-11-21")
    parser.add_argument("--runs", type=int, default=5, help="of everything; their medians count")
    parser.add_argument("--iterations", type=int, default=20, help="measured at each batch, in each run")
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=NETWORKS)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON")
    parser.add_argument("--machine", default=describe_machine(), help="where it runs; by default, this machine")
    arguments = parser.parse_args()
    before = os.getloadavg()[0]
    runs: dict[str, list[Accuracy]] = {network: [] for network in arguments.networks}
    for _ in range(arguments.runs):  # in turns, so that a busy moment of the machine meets all networks alike
        for network, found in runs.items():
            found.append(check_accuracy(f"{HERE}:{network}", BATCHES, iterations=arguments.iterations))
            print(f"{network}: {100 * found[-1].mape:.1f} %")
    combined = {network: combine(network, found) for network, found in runs.items()}
    where = f"{arguments.machine}; PyTorch {version('torch')}, gloo over loopback, 2 processes of 1 thread"
    record = {
        "date": arguments.date,
        "where": where,
        "load_before": before,
        "mape_of_runs": {network: [each.mape for each in found] for network, found in runs.items()},
        "networks": {network: each.to_json_data() for network, each in combined.items()},
    }
    path = arguments.results / f"srift-accuracy-{arguments.date}.json"
    path.write_text(format_json(record) + "\n", encoding="utf-8")
    print("wrote", path)


def combine(network: str, runs: Sequence[Accuracy]) -> Accuracy:
    """Take the median of each time over several runs, and the errors of those."""
    rows = [
        PredictedIteration(
            batch=same[0].batch, **{field: median(getattr(row, field) for row in same) for field in TIMES}
        )
        for same in zip(*(run.rows for run in runs), strict=True)
    ]
    return runs[0].replace(
        network=network,
        rows=tuple(rows),
        mape=fmean(abs(row.predicted_s / row.measured_s - 1) for row in rows),
        mape_layerwise=fmean(abs(row.predicted_layerwise_s / row.measured_s - 1) for row in rows),
    )


if __name__ == "__main__":
    main()
