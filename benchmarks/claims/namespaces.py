"""Nodes as network namespaces of this machine, each with a link of limited rate to one switch, and ranks on them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from optplan.errors import MeasurementError

_LOCAL, _PORT = "127.0.0.1", 29771
_DEVICE, _SUBNET = "cable", "10.77.0"
_BURST = "256kb"


def can_make_nodes() -> bool:
    """Whether there are PyTorch, ``ip`` and the right to make namespaces."""
    return find_spec("torch") is not None and shutil.which("ip") is not None and os.geteuid() == 0


@contextmanager
def made_nodes(count: int, rate: str) -> Iterator[list[str]]:
    """Make namespaces that send through links of a rate, such as ``1gbit``; they are gone afterwards."""
    switch, *nodes = (f"claims-{os.getpid()}-{number}" for number in range(count + 1))
    made = []
    try:
        for each in (switch, *nodes):
            _ip("netns", "add", each)
            made.append(each)
            _ip("-n", each, "link", "set", "lo", "up")
        _ip("-n", switch, "link", "add", "switch", "type", "bridge")
        _ip("-n", switch, "link", "set", "switch", "up")
        for number, node in enumerate(nodes):
            port = f"port{number}"
            _ip("link", "add", _DEVICE, "netns", node, "type", "veth", "peer", "name", port, "netns", switch)
            _ip("-n", switch, "link", "set", port, "master", "switch", "up")
            _ip("-n", node, "addr", "add", f"{_SUBNET}.{number + 1}/24", "dev", _DEVICE)
            _ip("-n", node, "link", "set", _DEVICE, "up")
            limit = ("root", "tbf", "rate", rate, "burst", _BURST, "latency", "50ms")
            _ip("netns", "exec", node, "tc", "qdisc", "add", "dev", _DEVICE, *limit)
        yield nodes
    finally:
        for each in made:
            _ip("netns", "del", each)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def run_ranks(where: Sequence[str], module: str, words: Sequence[str], timeout_s: float) -> str:
    """Run ``python -m MODULE RANK WORDS...`` of one thread on a node for each rank; return what rank 0 prints.

    Raises
    ------
    MeasurementError
        When a rank fails, or time is up.
    """
    apart = len(set(where)) > 1
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).resolve().parents[1]),
        "OMP_NUM_THREADS": "1",
        "MASTER_ADDR": f"{_SUBNET}.1" if apart else _LOCAL,
        "MASTER_PORT": str(_PORT),
        "WORLD_SIZE": str(len(where)),
        "GLOO_SOCKET_IFNAME": _DEVICE if apart else "lo",
    }
    ranks = []
    for number, node in enumerate(where):
        command = ["ip", "netns", "exec", node, sys.executable, "-P", "-m", module, str(number), *words]
        ranks.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
    try:
        told, *_ = [rank.communicate(timeout=timeout_s)[0] for rank in ranks]
    except subprocess.TimeoutExpired:
        message = f"{len(ranks)} ranks of {module} took more than {timeout_s:g} s; run it on a machine that does less"
        raise MeasurementError(message) from None
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    failed = [number for number, rank in enumerate(ranks) if rank.returncode]
    if failed:
        message = f"rank {failed[0]} of {module} ended with {ranks[failed[0]].returncode}; it says above why"
        raise MeasurementError(message)
    return told
