"""Srift's table 5 in the small: 2, 4 and 8 ranks, each a node with a link of limited rate, measured and predicted.

A node is a network namespace of this machine, so that the links are those of a cluster and the processors are not: all
ranks share them, in the profile and in the probe as in the training that is predicted.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
from pathlib import Path
from typing import Any

from claims.namespaces import can_make_nodes, made_nodes, run_ranks
from claims.record import Scope

RATE = "100mbit"
RANKS = (2, 4, 8)
NETWORKS = ("convnet", "wide")
BATCHES = (4, 16)
_ITERATIONS, _BUCKET_MIB, _TIMEOUT_S = 8, 1, 500.0


def measure_shaped(scope: Scope) -> dict[str, Any] | None:
    """Return by ranks and network what each batch took and what was predicted; None without the right to make nodes."""
    if not can_make_nodes():
        return None
    from ddp_accuracy import predict_all

    found: dict[str, dict[str, Any]] = {}
    loads = []
    for ranks in RANKS[: 1 if scope.quick else None]:
        with made_nodes(ranks, RATE) as nodes:
            for network in NETWORKS[: 1 if scope.quick else None]:
                loads.append(os.getloadavg()[0])
                told = json.loads(run_ranks(nodes, "claims.shaped_ranks", [network], _TIMEOUT_S))
                rows = predict_all(told, ranks, BATCHES, _BUCKET_MIB).rows
                fields = ("batch", "measured_s", "predicted_s", "compute_s", "exchange_s")
                kept = [{name: round(getattr(row, name), 6) for name in fields} for row in rows]
                found.setdefault(str(ranks), {})[network] = kept
    return {"link": RATE, "load": [round(min(loads), 1), round(max(loads), 1)], "ranks": found}


def main() -> None:
    """Profile, probe and train as one rank; rank 0 prints what it measured."""
    parser = argparse.ArgumentParser(description="One rank; the others are told by the environment.")
    parser.add_argument("rank", type=int)
    parser.add_argument("network", choices=NETWORKS)
    asked = parser.parse_args()
    import ddp_accuracy
    import srift_accuracy
    import torch
    import torch.distributed as group

    torch.set_num_threads(1)
    limit = dt.timedelta(seconds=_TIMEOUT_S)
    group.init_process_group("gloo", rank=asked.rank, world_size=int(os.environ["WORLD_SIZE"]), timeout=limit)
    target = f"{Path(srift_accuracy.__file__).resolve()}:{asked.network}"
    found = ddp_accuracy.measure_here(target, list(BATCHES), _ITERATIONS, _BUCKET_MIB, on_gpu=False)
    group.destroy_process_group()
    if asked.rank == 0:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
