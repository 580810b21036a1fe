"""An exported driver script on a Ray made in this machine: ``exported_driver.py FOLDER``.

``test_ray_export.py`` runs it in a network of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ray.cluster_utils import Cluster

MEMORY = 80_000_000

folder = Path(sys.argv[1])
node = {"num_cpus": 4, "object_store_memory": MEMORY, "include_dashboard": False}
cluster = Cluster(initialize_head=True, head_node_args=node)
programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
try:
    done = subprocess.run(
        ["bash", folder / "jobs" / "submit.sh"],
        env=os.environ | {"RAY_ADDRESS": cluster.address, "PATH": programs},
        cwd="/",
        check=False,
    )
finally:
    cluster.shutdown()
sys.exit(done.returncode)
