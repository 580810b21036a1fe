"""Table 1 of RubberBand in the small: a trial's ranks on one node, and spread over two.

A node is a network namespace of this machine, whose sending is limited. Ranks are processes of one thread that train
with DistributedDataParallel over gloo. On a busy machine the fastest iteration of each set-up is the one that was least
disturbed; the median is kept beside it.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import time
from statistics import median
from typing import Any

from claims.namespaces import can_make_nodes, made_nodes, run_ranks
from claims.record import Scope

#: Ranks on the first node and on the second.
SETUPS = {"one rank": (1, 0), "two ranks, one node": (2, 0), "two ranks, two nodes": (1, 1)}
RATE = "1gbit"
#: With little and with much to exchange for what they compute.
NETWORKS = ("convnet", "wide")
_BATCH, _ITERATIONS, _WARM_UP, _ROUNDS = 64, 20, 4, 2
_TIMEOUT_S = 500.0


def measure_placement(scope: Scope) -> dict[str, Any] | None:
    """Return samples a second by set-up, and the load meanwhile; None without PyTorch or the right to make nodes."""
    if not can_make_nodes():
        return None
    taken: dict[str, dict[str, list[float]]] = {network: {name: [] for name in SETUPS} for network in NETWORKS}
    loads = []
    with made_nodes(2, RATE) as nodes:
        for _ in range(1 if scope.quick else _ROUNDS):  # in turns, so that a busy moment meets all alike
            for network, by_setup in taken.items():
                for name, times in by_setup.items():
                    loads.append(os.getloadavg()[0])
                    where = [node for node, ranks in zip(nodes, SETUPS[name], strict=True) for _ in range(ranks)]
                    times.extend(json.loads(run_ranks(where, "claims.placement", [network], _TIMEOUT_S)))
    return {
        "link": RATE,
        "batch_of_a_rank": _BATCH,
        "load": [round(min(loads), 1), round(max(loads), 1)],
        "samples_per_s": {
            network: {
                name: {
                    "fastest": round(sum(SETUPS[name]) * _BATCH / min(times), 1),
                    "median": round(sum(SETUPS[name]) * _BATCH / median(times), 1),
                    "iterations": len(times),
                }
                for name, times in by_setup.items()
            }
            for network, by_setup in taken.items()
        },
    }


def main() -> None:
    """Train as one rank; rank 0 prints its seconds."""
    parser = argparse.ArgumentParser(description="One rank; the others are told by the environment.")
    parser.add_argument("rank", type=int)
    parser.add_argument("network", choices=NETWORKS)
    asked = parser.parse_args()
    rank = asked.rank
    import srift_accuracy
    import torch
    import torch.distributed as group
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    torch.manual_seed(rank + 1)
    limit = dt.timedelta(seconds=_TIMEOUT_S)
    group.init_process_group("gloo", rank=rank, world_size=int(os.environ["WORLD_SIZE"]), timeout=limit)
    network, make_batch = getattr(srift_accuracy, asked.network)()
    network, inputs = DistributedDataParallel(network), make_batch(_BATCH)
    taken = []
    for turn in range(_WARM_UP + _ITERATIONS):
        group.barrier()
        network.zero_grad(set_to_none=True)
        start = time.perf_counter()
        network(inputs).sum().backward()
        if turn >= _WARM_UP:
            taken.append(time.perf_counter() - start)
    group.destroy_process_group()
    if rank == 0:
        print(json.dumps(taken))


if __name__ == "__main__":
    main()
