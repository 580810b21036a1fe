"""Print the tasks of pipelines as SkyPilot reads them: run with its own Python, and a home that has a catalog."""

from __future__ import annotations

import json
import sys

from sky.utils import dag_utils

found = {
    path: [
        {"name": task.name, "nodes": task.num_nodes, "resources": [str(each) for each in task.resources]}
        for task in dag_utils.load_chain_dag_from_yaml(path).tasks
    ]
    for path in sys.argv[1:]
}
sys.stdout.write(json.dumps(found))
