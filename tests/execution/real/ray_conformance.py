"""The contract of executors on a Ray cluster made in this machine: ``ray_conformance.py FOLDER MOTO_SERVER``.

Once with a folder that all share, and once with checkpoints in a bucket of moto's S3.

``test_ray_conformance.py`` starts it in a network of its own.
"""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import ray
from ray.cluster_utils import Cluster

from optplan.execution.fleets.running import watch
from optplan.execution.running import run
from optplan.execution.runs import read_run
from optplan.execution.trial_files import Checkpoints, Storage
from optplan.formulations.srift.data.instance import SriftInstance
from optplan.instances.files import read_instance
from optplan.solving import build_plan, solve

#: Bytes that Ray sets aside for objects on a node.
MEMORY = 80_000_000
#: Seconds for which the server is waited for.
PATIENCE_S = 300.0


@contextmanager
def serve_bucket(program: str, log: Path) -> Iterator[str]:
    """Serve a bucket, and yield its URL."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with log.open("wb") as output:
        server = subprocess.Popen([program, "-H", "127.0.0.1", "-p", str(port)], stdout=output, stderr=output)
    try:
        until = time.monotonic() + PATIENCE_S
        while True:
            with suppress(OSError):
                request = urllib.request.Request(f"http://127.0.0.1:{port}/bucket", method="PUT")
                urllib.request.urlopen(request).close()
                break
            if time.monotonic() > until:
                raise TimeoutError(log.read_text(encoding="utf-8"))
            time.sleep(0.1)
        yield f"s3://bucket?scheme=http&endpoint_override=127.0.0.1:{port}&region=us-east-1"
    finally:
        server.kill()
        server.wait()


def search(out: Path, address: str, url: str) -> None:
    """Run a search without a folder that machines share: its winner goes on from the bucket, where its state is."""
    instance = read_instance("rubberband-two-stages")
    plan = build_plan(instance, solve(instance))
    target = f"{Path(__file__).parents[1] / 'trainables' / 'quadratic.py'}:Quadratic"
    space = [{"rate": rate} for rate in (0.01, 0.3, 0.1, 0.02)]
    outcome = run(plan, target, space=space, executor="ray", address=address, storage=url, out=out, replan_above=None)
    assert outcome.winner is not None
    assert (outcome.code, outcome.winner.trial, outcome.winner.iterations) == (0, "b1-s1-trials-0002", 40)
    assert outcome.winner.checkpoint is not None
    assert not list(out.glob("trials/*/checkpoint-*"))
    state = read_run(out).state
    stored = state.trials[outcome.winner.trial].checkpoint
    assert stored is not None
    storage = Storage(url)
    assert storage.is_whole(stored)
    storage.fetch(stored, out / "fetched")
    assert Checkpoints(out / "fetched").is_whole(stored)


def follow_fleet(out: Path, address: str) -> None:
    """Follow a fleet of two VMs, which are the two machines: all of 60 iterations are done, and no actor is left."""
    vm = {"gpu": "cpu", "price_usd_per_hour": 1.0, "network_gbit_per_s": 1.0, "available": 2, "batches": [32]}
    seconds = {"batches": [1, 64], "forward_s": [0.02, 0.02], "backward_s": [0.04, 0.04], "deviation": 0.0}
    instance = SriftInstance.parse(
        {
            "name": "small",
            "formulation": "srift",
            "job": {"layers": {"gradient_bytes": [20.0], "ready": [0.0]}, "devices": {"cpu": seconds}},
            "global_batch": 64,
            "iterations": 60,
            "types": {"spot": {**vm, "spot": True}},
            "bandwidth": {"form": "latency-bandwidth", "step_latency_s": 0},
            "deadline_s": 600,
        }
    )
    plan = build_plan(instance, solve(instance))
    command = shlex.join([sys.executable, str(Path(__file__).parents[1] / "fleets" / "count.py")])
    # Nothing is to be missed here, however busy the machine is.
    outcome = watch(plan, out=out, executor="ray", address=address, command=command, heartbeat_s=60.0)
    assert (outcome.status, outcome.code, outcome.iterations, outcome.fleets) == ("ended", 0, 60, ("2 spot@32",))
    ray.init(address=address, log_to_driver=False)
    assert ray.util.list_named_actors(all_namespaces=True) == []


def main(folder: Path, program: str) -> int:
    """Make a cluster of two nodes of two CPUs, and run on it what every executor has to pass."""
    os.environ |= {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}  # which actors inherit
    head = {"num_cpus": 0, "object_store_memory": MEMORY, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(2):
            cluster.add_node(num_cpus=2, object_store_memory=MEMORY, resources={"spot": 1})
        os.environ["OPTPLAN_TEST_RAY"] = cluster.address
        module = Path(__file__).parents[1] / "test_conformance.py"
        given = ["-q", "-n", "0", "-m", "real", "-k", "ray", f"--basetemp={folder / 'tests'}"]
        with serve_bucket(program, folder / "moto.log") as url:
            os.environ["OPTPLAN_TEST_S3"] = url
            code = int(pytest.main([*given, "-p", "no:cacheprovider", str(module)]))
            search(folder / "search", cluster.address, url.replace("bucket?", "bucket/search?"))
            follow_fleet(folder / "fleet", cluster.address)
            assert not list(folder.glob("optplan-*")), "nothing is left of what machines had for themselves"
    finally:
        ray.shutdown()
        cluster.shutdown()
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
