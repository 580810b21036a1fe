"""SkyPilot: what it reads of exported pipelines, and pipelines run on nodes that mount a bucket as it does.

There is no cloud: nodes are namespaces of this machine, and the bucket is moto's. The mount is the one of SkyPilot's
`MOUNT_CACHED`, by its own command: rclone through FUSE, with its script that waits for the upload.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from optplan.contracts import Plan
from optplan.execution.exports.folder import export, write_folder

pytestmark = pytest.mark.real

HERE = Path(__file__).parent
#: SkyPilot wants other versions of what optplan uses: `make test-real` gives it an environment of its own.
PYTHON = Path(os.environ.get("OPTPLAN_SKYPILOT_PYTHON", Path(__file__).parents[3] / ".venv/skypilot/bin/python"))
COLUMNS = (
    "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region,AvailabilityZone,Arch"
)
ROWS = ("p3.2xlarge,V100,1,8,61", "p3.8xlarge,V100,4,32,244", "p3.16xlarge,V100,8,64,488")
RATES = {"rate": {"choice": [0.9, 0.3, 0.5, 0.7]}}
OPTPLAN = f"{sys.executable} -m optplan.cli"
#: Looks at something that another process does, and seconds between two of them.
_LOOKS, _LOOK_S = 300, 0.2


def read_tasks(home: Path, *files: Path, **variables: str) -> dict[str, list[dict[str, Any]]]:
    """Return the tasks of pipelines as SkyPilot reads them, by their file."""
    catalog = home / ".sky/catalogs/v8/aws/vms.csv"
    catalog.parent.mkdir(parents=True, exist_ok=True)
    rows = [f"{row},,9.0,3.0,us-east-1,us-east-1a,x86_64" for row in ROWS]
    catalog.write_text("\n".join([COLUMNS, *rows, ""]))
    done = subprocess.run(
        [PYTHON, HERE / "read_skypilot.py", *map(str, files)],
        env=os.environ | {"HOME": str(home)} | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    return {Path(path).stem: tasks for path, tasks in found.items()}


def test_pipelines_are_read_back(plan_of: Callable[..., Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search of four stages, a fleet of two spot VMs, and the ways of two classes: nodes and prices as planned."""
    monkeypatch.chdir(tmp_path)
    template = {"bucket": "s3://runs", "infra": "aws/us-east-1", "setup": "pip install optplan"}
    for name in ("rubberband-resnet101-20min", "srift-interruption", "boa-two-classes"):
        files = export(plan_of(name), "skypilot", command="train {gpus} {trial}", template=template)
        write_folder(files, tmp_path / name)
    tasks = read_tasks(tmp_path / "home", *sorted(tmp_path.glob("*/tasks/*.yaml")))
    stages = plan_of("rubberband-resnet101-20min").segments
    assert [task["nodes"] for task in tasks["search"]] == [stage.nodes for stage in stages]
    assert "p3.8xlarge" in tasks["search"][0]["resources"][0]
    assert "max_cost=$13.464/hr" in tasks["search"][0]["resources"][0]  # a node's 12.24 and a tenth
    (train,) = tasks["train"]
    assert train["nodes"] == 2
    assert "[Spot]" in train["resources"][0]
    assert {"vision-1", "speech-1"} <= set(tasks)
    for task in (each for pipeline in tasks.values() for each in pipeline):
        assert task["modes"] == {"/optplan": "MOUNT_CACHED"}
        assert task["workdir"] == str(tmp_path.resolve())
        assert task["setup"].startswith("set -e\npip install optplan\n")


class Cloud:
    """Nodes and a bucket of this machine, and how managed jobs of SkyPilot use them."""

    def __init__(self, folder: Path, endpoint: str) -> None:
        self.folder, self.endpoint = folder, endpoint
        self.run_dir = folder / "run"
        self.run_dir.mkdir()
        self.rented: list[str] = []
        #: rclone refuses to talk where this variable is set.
        self.environment = {name: value for name, value in os.environ.items() if name != "AWS_CA_BUNDLE"}

    def rclone(self, *words: str) -> str:
        """Run rclone on the bucket."""
        flags = [f"--s3-endpoint={self.endpoint}", "--s3-access-key-id=x", "--s3-secret-access-key=x"]
        command = ["rclone", "--config=/dev/null", "--quiet", "--s3-provider=Other", *flags, *words]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def bring_back(self) -> Path:
        """Return a copy of the bucket."""
        shutil.rmtree(self.folder / "copy", ignore_errors=True)
        self.rclone("copy", ":s3:runs/first", str(self.folder / "copy"))
        return self.folder / "copy"

    def launch(self, folder: Path, job: str) -> list[int]:
        """Run the tasks of a pipeline one after the other, until one fails; return their exit codes."""
        pipeline = read_tasks(self.folder / "home", folder / "tasks/search.yaml", ENDPOINT=self.endpoint)["search"]
        codes = []
        for task in pipeline:
            codes.append(max(node.wait(timeout=300) for node in self.start(task, job)))
            if codes[-1]:
                break
        return codes

    def start(self, task: dict[str, Any], job: str, **files: str) -> list[subprocess.Popen[bytes]]:
        """Rent the nodes of a task, each with a home and a mount of its own, with these files, and let it run there."""
        self.rented.append(task["name"])
        return [self._start_node(task, job, rank, files) for rank in range(task["nodes"])]

    def _start_node(self, task: dict[str, Any], job: str, rank: int, files: dict[str, str]) -> subprocess.Popen[bytes]:
        home = self.folder / f"node-{len(self.rented)}-{rank}"
        shutil.copytree(task["workdir"], home / "sky_workdir", ignore=shutil.ignore_patterns("jobs"))
        for name, text in files.items():
            (home / name).write_text(text)
        variables = {
            "HOME": str(home),
            "SKYPILOT_NUM_NODES": str(task["nodes"]),
            "SKYPILOT_NODE_RANK": str(rank),
            "SKYPILOT_NODE_IPS": "\n".join(["127.0.0.1"] * task["nodes"]),
            "SKYPILOT_TASK_ID": f"sky-managed-{job}-{task['name']}",
            **task["envs"],
        }
        lines = ["set -e", *task["mounts"], "cd ~/sky_workdir", f"bash -c {_quote(task['setup'])}"]
        lines += ["set +e", f"bash -c {_quote(task['script'])}", "code=$?", f"umount {self.run_dir}", "exit $code"]
        # Whatever a node has started ends with it, as a machine's does.
        alone = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child=SIGKILL"]
        with (home / "log").open("wb") as log:
            return subprocess.Popen(
                [*alone, "bash", "-c", "\n".join(lines)], env=self.environment | variables, stdout=log, stderr=log
            )

    def logs(self) -> str:
        """Return what all nodes wrote."""
        return "".join(f"{log.parent.name}: {log.read_text()}" for log in sorted(self.folder.glob("node-*/log")))


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    """Return nodes and an empty bucket."""
    missing = [name for name in ("rclone", "fusermount3", "unshare") if shutil.which(name) is None]
    assert not missing, f"not installed: {missing}"
    probe = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "true"]
    if not os.access("/dev/fuse", os.R_OK | os.W_OK) or subprocess.run(probe, check=False).returncode:
        pytest.skip("this machine lets nobody mount through FUSE")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(PYTHON.parent / "moto_server"), "-H", "127.0.0.1", "-p", str(port)]
    with (tmp_path / "moto.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        found = Cloud(tmp_path, f"http://127.0.0.1:{port}")
        _await(lambda: _answers(found.endpoint), (tmp_path / "moto.log").read_text)
        found.rclone("mkdir", ":s3:runs")
        yield found
    finally:
        server.terminate()
        server.wait()


def write_search(plan: Plan, cloud: Cloud, command: str, retries: int = 1) -> Path:
    """Export a search, and copy it into the bucket."""
    folder = cloud.folder / "jobs"
    template = {"bucket": "s3://runs/first", "infra": "aws/us-east-1", "run_dir": str(cloud.run_dir)}
    options: dict[str, Any] = {"workdir": str(cloud.folder / "code"), "space": RATES, "retries": retries}
    files = export(plan, "skypilot", command=command, template={**template, "optplan": OPTPLAN}, **options)
    write_folder(files, folder)
    cloud.rclone("copy", str(folder), ":s3:runs/first")
    return folder


def test_a_search_runs_to_its_end_on_cached_mounts(
    plan_of: Callable[..., Plan], cloud: Cloud, write_code: Callable[[Path], None]
) -> None:
    """Trials append to their metrics on two nodes, one fails once, and a node is lost: the best goes on on another."""
    write_code(cloud.folder / "code")
    # Trial 3 hangs at iteration 5 where its node has a file that says so; trial 2 fails once.
    folder = write_search(plan_of("rubberband-two-stages"), cloud, "bash code.sh {gpus} {rate}")
    first, second = read_tasks(cloud.folder / "home", folder / "tasks/search.yaml", ENDPOINT=cloud.endpoint)["search"]
    assert (first["nodes"], second["nodes"]) == (2, 1)
    nodes = cloud.start(first, "1", hang="0003")
    try:
        _await(lambda: "trials/0003/checkpoint/count" in cloud.rclone("lsf", "-R", ":s3:runs/first"), cloud.logs)
    finally:
        for node in nodes:
            node.send_signal(signal.SIGKILL)
            node.wait()
    # It is recovered: other nodes, the same job, and then the rest of the pipeline.
    codes = cloud.launch(folder, "1")
    assert codes == [0, 0], cloud.logs()
    found = cloud.bring_back()
    winner = json.loads((found / "winner.json").read_text())
    assert winner["configuration"] == {"rate": 0.3}, cloud.logs()
    assert winner["metric"] == pytest.approx(0.3 + 1 / 40)
    best = found / "trials" / winner["trial"]
    assert [len((best / f"ended-{step}").read_text().splitlines()) for step in ("b1-s1", "b1-s2")] == [10, 30]
    assert (best / "history").read_text().splitlines()[-1].startswith(f"{winner['trial']} b1-s2 from 10 on 2 GPUs")
    hung = (found / "trials/0003/history").read_text().splitlines()
    assert hung[0].startswith("0003 b1-s1 from 0 ")
    assert not hung[1].startswith("0003 b1-s1 from 0 "), hung


def test_a_stage_that_fails_fails(
    plan_of: Callable[..., Plan], cloud: Cloud, write_code: Callable[[Path], None]
) -> None:
    """Every trial fails, or shows no metric: the task fails, and no nodes are rented for the next stage."""
    write_code(cloud.folder / "code")
    folder = write_search(plan_of("rubberband-two-stages"), cloud, "bash code.sh {gpus} {rate}", retries=0)
    pipeline = read_tasks(cloud.folder / "home", folder / "tasks/search.yaml", ENDPOINT=cloud.endpoint)["search"]
    for name, said in (("fail", "failed in b1-s1"), ("silent", "nobody who ended b1-s1 showed a number")):
        codes = [node.wait(timeout=300) for node in cloud.start(pipeline[0], name, **{name: ""})]
        assert (max(codes), said in cloud.logs()) == (1, True), cloud.logs()
        found = cloud.bring_back()
        assert json.loads((found / "winner.json").read_text())["trial"] is None
        assert not list(found.glob("trials/*/ended-b1-s2"))


@pytest.fixture
def write_code() -> Callable[[Path], None]:
    """Return what writes a folder of code: the training run of shell, and how its node makes it go wrong."""
    code = (
        "if [[ -e ~/fail ]]; then exit 7; elif [[ -e ~/silent ]]; then exit 0; fi\n"
        "export PACE=0.2\n"
        "[[ $OPTPLAN_TRIAL != 0002 ]] || export FAIL_ONCE=0002\n"
        'if [[ $(cat ~/hang 2>/dev/null) == "$OPTPLAN_TRIAL" ]]; then export OPTPLAN_ITERATIONS=5; fi\n'
        'bash train.sh "$1"\n'
        '[[ ! -e ~/hang || $(cat ~/hang) != "$OPTPLAN_TRIAL" ]] || exec sleep 1000\n'
    )

    def write(folder: Path) -> None:
        folder.mkdir()
        shutil.copy(HERE / "train.sh", folder)
        (folder / "code.sh").write_text(code)

    return write


def _answers(endpoint: str) -> bool:
    try:
        with urllib.request.urlopen(endpoint, timeout=5):
            return True
    except OSError:
        return False


def _await(ready: Callable[[], bool], said: Callable[[], str]) -> None:
    for _ in range(_LOOKS):
        if ready():
            return
        time.sleep(_LOOK_S)
    raise AssertionError(said())


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
