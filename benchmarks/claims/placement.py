"""Table 1 of RubberBand in the small: a trial's ranks on one node, and spread over two.

A node is a network namespace of this machine; between the two there is a pair of virtual devices whose sending is
limited. Ranks are processes of one thread that train with DistributedDataParallel over gloo. On a busy machine the
fastest iteration of each set-up is the one that was least disturbed; the median is kept beside it.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from claims.record import Scope

#: Ranks on the first node and on the second.
SETUPS = {"one rank": (1, 0), "two ranks, one node": (2, 0), "two ranks, two nodes": (1, 1)}
RATE = "1gbit"
#: With little and with much to exchange for what they compute.
NETWORKS = ("convnet", "wide")
_BATCH, _ITERATIONS, _WARM_UP, _ROUNDS = 64, 20, 4, 2
_TIMEOUT_S = 120.0
_PORT = 29771
_LOCAL = "127.0.0.1"
_ADDRESSES = ("10.77.0.1", "10.77.0.2")
_BURST = "256kb"


def measure_placement(scope: Scope) -> dict[str, Any] | None:
    """Return samples a second by set-up, and the load meanwhile; None without PyTorch or the right to make nodes."""
    if find_spec("torch") is None or shutil.which("ip") is None or os.geteuid() != 0:
        return None
    taken: dict[str, dict[str, list[float]]] = {network: {name: [] for name in SETUPS} for network in NETWORKS}
    loads = []
    with _two_nodes() as nodes:
        for _ in range(1 if scope.quick else _ROUNDS):  # in turns, so that a busy moment meets all alike
            for network, by_setup in taken.items():
                for name, times in by_setup.items():
                    loads.append(os.getloadavg()[0])
                    times.extend(_train(nodes, SETUPS[name], network))
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


@contextmanager
def _two_nodes() -> Iterator[tuple[str, str]]:
    """Make two namespaces with a link of limited rate; they are gone afterwards."""
    nodes = (f"claims-{os.getpid()}-a", f"claims-{os.getpid()}-b")
    made = []
    try:
        for node in nodes:
            _ip("netns", "add", node)
            made.append(node)
            _ip("-n", node, "link", "set", "lo", "up")
        _ip("link", "add", "va", "netns", nodes[0], "type", "veth", "peer", "name", "vb", "netns", nodes[1])
        for node, device, address in zip(nodes, ("va", "vb"), _ADDRESSES, strict=True):
            _ip("-n", node, "addr", "add", f"{address}/30", "dev", device)
            _ip("-n", node, "link", "set", device, "up")
            limit = ("root", "tbf", "rate", RATE, "burst", _BURST, "latency", "50ms")
            _ip("netns", "exec", node, "tc", "qdisc", "add", "dev", device, *limit)
        yield nodes
    finally:
        for node in made:
            _ip("netns", "del", node)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def _train(nodes: Sequence[str], counts: Sequence[int], network: str) -> list[float]:
    """Start the ranks; return the seconds of rank 0's iterations."""
    apart = counts[1] > 0
    where = [node for node, count in zip(nodes, counts, strict=True) for _ in range(count)]
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).resolve().parents[1]),
        "OMP_NUM_THREADS": "1",
        "MASTER_ADDR": _ADDRESSES[0] if apart else _LOCAL,
        "MASTER_PORT": str(_PORT),
        "WORLD_SIZE": str(len(where)),
    }
    ranks = []
    for number, node in enumerate(where):
        device = "lo" if not apart else ("va", "vb")[nodes.index(node)]
        command = ["ip", "netns", "exec", node, sys.executable, "-P", "-m", "claims.placement", str(number), network]
        own = {**environment, "GLOO_SOCKET_IFNAME": device}
        ranks.append(subprocess.Popen(command, env=own, stdout=subprocess.PIPE, text=True))
    try:
        told, *_ = [rank.communicate(timeout=_TIMEOUT_S)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    found: list[float] = json.loads(told)
    return found


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
