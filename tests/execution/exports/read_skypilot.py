"""Print the tasks of pipelines as SkyPilot reads them: run with its own Python, and a home that has a catalog.

With ENDPOINT in the environment, also the commands by which a node mounts the task's bucket from there, and the script
that it runs: SkyPilot's own.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from sky.backends.task_codegen import TaskCodeGen
from sky.data import mounting_utils
from sky.utils import dag_utils

PROFILE = "emulated"
CONFIG = f"""[{PROFILE}]
type = s3
provider = Other
endpoint = {os.environ.get("ENDPOINT")}
access_key_id = x
secret_access_key = x
force_path_style = true
"""


def mount(path: str, storage: Any) -> str:  # noqa: ANN401 - SkyPilot's
    """Return how a node mounts a bucket."""
    assert storage.mode.name == "MOUNT_CACHED", storage.mode
    bucket = storage.source.removeprefix("s3://")
    command: str = mounting_utils.get_mount_cached_cmd(CONFIG, PROFILE, bucket, path)
    return command.replace("--daemon-wait 10 ", "--daemon-wait 10s ")  # Debian's rclone, 1.60, wants the unit


def describe(task: Any) -> dict[str, Any]:  # noqa: ANN401 - SkyPilot's
    """Return what SkyPilot has read of a task."""
    found = {
        "name": task.name,
        "nodes": task.num_nodes,
        "resources": [str(each) for each in task.resources],
        "workdir": task.workdir,
        "setup": task.setup,
        "envs": dict(task.envs),
        "modes": {path: storage.mode.name for path, storage in task.storage_mounts.items()},
    }
    if "ENDPOINT" in os.environ:
        found["mounts"] = [mount(path, storage) for path, storage in task.storage_mounts.items()]
        found["script"] = TaskCodeGen.build_task_bash_script(task.run)
    return found


found = {path: [describe(task) for task in dag_utils.load_chain_dag_from_yaml(path).tasks] for path in sys.argv[1:]}
sys.stdout.write(json.dumps(found))
