"""What SkyPilot itself reads of exported pipelines, without a network: the catalog is a file of ours."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from optplan.contracts import Plan
from optplan.runtime.exports.exporting import export, write_folder

pytestmark = pytest.mark.real

HERE = Path(__file__).parent
#: SkyPilot wants other versions of what optplan uses: `make test-real` gives it an environment of its own.
PYTHON = Path(os.environ.get("OPTPLAN_SKYPILOT_PYTHON", Path(__file__).parents[3] / ".venv/skypilot/bin/python"))
COLUMNS = (
    "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region,AvailabilityZone,Arch"
)
ROWS = ("p3.2xlarge,V100,1,8,61", "p3.8xlarge,V100,4,32,244", "p3.16xlarge,V100,8,64,488")


def test_pipelines_are_read_back(plan_of: Callable[..., Plan], tmp_path: Path) -> None:
    """A search of four stages, a fleet of two spot VMs, and the ways of two classes: nodes and prices as planned."""
    catalog = tmp_path / "home/.sky/catalogs/v8/aws/vms.csv"
    catalog.parent.mkdir(parents=True)
    rows = [f"{row},,9.0,3.0,us-east-1,us-east-1a,x86_64" for row in ROWS]
    catalog.write_text("\n".join([COLUMNS, *rows, ""]))
    template = {"bucket": "s3://runs", "infra": "aws/us-east-1"}
    for name in ("rubberband-resnet101-20min", "srift-interruption", "boa-two-classes"):
        files = export(plan_of(name), "skypilot", command="train {gpus} {trial}", template=template)
        write_folder(files, tmp_path / name)
    done = subprocess.run(
        [PYTHON, HERE / "read_skypilot.py", *sorted(map(str, tmp_path.glob("*/tasks/*.yaml")))],
        env=os.environ | {"HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=True,
    )
    tasks = {Path(path).stem: each for path, each in json.loads(done.stdout.splitlines()[-1]).items()}
    stages = plan_of("rubberband-resnet101-20min").segments
    assert [task["nodes"] for task in tasks["search"]] == [stage.nodes for stage in stages]
    assert "p3.8xlarge" in tasks["search"][0]["resources"][0]
    assert "max_cost=$13.464/hr" in tasks["search"][0]["resources"][0]  # a node's 12.24 and a tenth
    (train,) = tasks["train"]
    assert train["nodes"] == 2
    assert "[Spot]" in train["resources"][0]
    assert {"vision-1", "speech-1"} <= set(tasks)
