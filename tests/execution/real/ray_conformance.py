"""The contract of executors on a Ray cluster made in this machine: ``ray_conformance.py FOLDER``.

``test_ray_conformance.py`` starts it in a network of its own.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import ray
from ray.cluster_utils import Cluster

#: Bytes that Ray sets aside for objects on a node.
MEMORY = 80_000_000


def main(folder: Path) -> int:
    """Make a cluster of two nodes of two CPUs, and run on it what every executor has to pass."""
    head = {"num_cpus": 0, "object_store_memory": MEMORY, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(2):
            cluster.add_node(num_cpus=2, object_store_memory=MEMORY)
        os.environ["OPTPLAN_TEST_RAY"] = cluster.address
        module = Path(__file__).parents[1] / "test_conformance.py"
        given = [
            "-q",
            "-n",
            "0",
            "-m",
            "real",
            "-k",
            "[ray]",
            f"--basetemp={folder / 'tests'}",
            "-p",
            "no:cacheprovider",
        ]
        code = int(pytest.main([*given, str(module)]))
    finally:
        ray.shutdown()
        cluster.shutdown()
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
