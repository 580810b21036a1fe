"""Kubernetes: what the manifests say, and the script that applies them, against a `kubectl` that runs their pods."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from optplan.contracts import Plan
from optplan.errors import DataError
from optplan.execution.exports.folder import export, write_folder

PlanOf = Callable[..., Plan]
HERE = Path(__file__).parent
PODS = {"image": "train:1", "claim": "shared"}
RATES = {"rate": {"choice": [0.9, 0.3, 0.5, 0.7]}}
OVERLAY: dict[str, Any] = {
    "metadata": {"annotations": {"sidecar.istio.io/inject": "false"}},
    "spec": {
        "priorityClassName": "research",
        "terminationGracePeriodSeconds": 120,
        "securityContext": {"runAsUser": 1000, "fsGroup": 1000},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "volumes": [
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}},
            {"name": "data", "persistentVolumeClaim": {"claimName": "data", "readOnly": True}},
        ],
        "containers": [
            {
                "name": "train",
                "env": [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}],
                "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}, {"name": "data", "mountPath": "/data"}],
                "securityContext": {"allowPrivilegeEscalation": False},
            },
            {"name": "log", "image": "log:1"},
        ],
    },
}


def manifests(plan: Plan, to: str = "kubernetes", **options: Any) -> dict[str, dict[str, Any]]:  # noqa: ANN401 - of export
    """Return the manifests of an export by name."""
    options = {"command": "t {gpus} {trial}", "template": PODS, **options}
    files = export(plan, to, **options)
    return {Path(name).stem: yaml.safe_load(text) for name, text in files.items() if name.startswith("manifests/")}


def pod(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the pod of a Job, or of the first Job of a JobSet."""
    spec = manifest["spec"]
    job = spec if manifest["kind"] == "Job" else spec["replicatedJobs"][0]["template"]["spec"]
    found: dict[str, Any] = job["template"]
    return found


def test_deadlines_leave_out_the_wait_for_nodes(plan_of: PlanOf) -> None:
    """Kubernetes' own of Jobs and TrainJobs begin when the object is made; the launcher's begin with the command."""
    for name, to in (
        ("rubberband-two-stages", "kubernetes"),
        ("srift-case3", "kubernetes"),
        ("boa-two-classes", "trainjob"),
    ):
        files = export(plan_of(name), to, command="t {gpus} {trial}", template=PODS)
        assert not [text for file, text in files.items() if "activeDeadlineSeconds" in text], name
        steps = [text for file, text in files.items() if file.startswith("steps/")]
        assert all("export OPTPLAN_LIMIT=" in text for text in steps)


def test_a_preempted_pod_has_not_failed(plan_of: PlanOf) -> None:
    """It is replaced, not counted; what has used up its time fails for good; a JobSet starts anew."""
    job = manifests(plan_of("rubberband-two-stages"))["b1-s1"]
    ignored, over = job["spec"]["podFailurePolicy"]["rules"]
    assert ignored == {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    assert (over["action"], over["onExitCodes"]["values"]) == ("FailIndex", [4, 124])
    fleet = manifests(plan_of("srift-case3"))["train"]["spec"]
    (rule,) = fleet["failurePolicy"]["rules"]
    assert (rule["action"], rule["onJobFailureReasons"]) == (
        "RestartJobSetAndIgnoreMaxRestarts",
        ["PodFailurePolicy"],
    )
    (inner,) = fleet["replicatedJobs"][0]["template"]["spec"]["podFailurePolicy"]["rules"]
    assert inner["action"] == "FailJob"


def test_extended_resources_are_limits(plan_of: PlanOf) -> None:
    """Kubernetes refuses requests of RDMA devices and huge pages without limits; CPUs and memory have none."""
    requests = {"cpu": "8", "memory": "32Gi", "rdma/hca": "1", "hugepages-2Mi": "1Gi"}
    job = manifests(plan_of("rubberband-two-stages"), template=PODS | {"requests": requests})["b1-s2"]
    resources = pod(job)["spec"]["containers"][0]["resources"]
    assert resources["limits"] == {"rdma/hca": "1", "hugepages-2Mi": "1Gi", "nvidia.com/gpu": "2"}
    assert resources["requests"] == {**requests, "nvidia.com/gpu": "2"}


@pytest.mark.parametrize("name", ["rubberband-two-stages", "srift-case3"])
def test_an_overlay_is_merged_into_pods(plan_of: PlanOf, name: str) -> None:
    """Volumes, secrets, priority, security, grace: lists of named objects by their names."""
    template = PODS | {"ttl_s": 86400}
    plain = manifests(plan_of(name), template=template)
    for step, manifest in manifests(plan_of(name), template=template, overlay=OVERLAY).items():
        before, after = pod(plain[step]), pod(manifest)
        assert manifest["spec"]["ttlSecondsAfterFinished"] == 86400
        assert after["metadata"]["annotations"] == OVERLAY["metadata"]["annotations"]
        spec = after["spec"]
        assert (spec["priorityClassName"], spec["terminationGracePeriodSeconds"]) == ("research", 120)
        assert [volume["name"] for volume in spec["volumes"]] == ["optplan", "shm", "data"]
        train, log = spec["containers"]
        assert log == {"name": "log", "image": "log:1"}
        for field in ("image", "command", "resources"):
            assert train[field] == before["spec"]["containers"][0][field]
        assert [mount["mountPath"] for mount in train["volumeMounts"]] == ["/optplan", "/dev/shm", "/data"]
        assert {"OPTPLAN_EXPECTED", "TOKEN"} <= {each["name"] for each in train["env"]}
        if manifest["kind"] == "Job":
            kubernetes_validate.validate(manifest, "1.37", strict=True)
        else:
            jsonschema.validate(manifest, json.loads((HERE / "jobset.json").read_text(encoding="utf-8")))
            job = manifest["spec"]["replicatedJobs"][0]["template"]["spec"]
            wrapped = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, "spec": job}
            kubernetes_validate.validate(wrapped, "1.37", strict=True)


def test_a_pod_has_longer_to_end_than_its_command(plan_of: PlanOf) -> None:
    """Kubernetes' 30 s would kill a command that may take as long to store its state."""
    job = manifests(plan_of("rubberband-two-stages"), grace_s=300)["b1-s1"]
    assert pod(job)["spec"]["terminationGracePeriodSeconds"] == 310


def test_a_trainjob_takes_what_its_patch_may_hold(plan_of: PlanOf) -> None:
    """Volumes and variables."""
    spec = {name: OVERLAY["spec"][name] for name in ("volumes", "securityContext", "tolerations")}
    train = OVERLAY["spec"]["containers"][0]
    overlay = {"spec": {**spec, "containers": [train]}}
    found = manifests(plan_of("boa-two-classes"), "trainjob", overlay=overlay)
    for manifest in found.values():
        jsonschema.validate(manifest, json.loads((HERE / "trainjob.json").read_text(encoding="utf-8")))
        (group,) = manifest["spec"]["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
        (container,) = group["template"]["spec"]["template"]["spec"]["containers"]
        assert (container["name"], container["env"]) == ("node", train["env"])


@pytest.mark.parametrize(
    ("overlay", "message"),
    [
        ({"priorityClassName": "x"}, "overlay.priorityClassName: a pod's template has metadata and spec"),
        ({"spec": []}, r"overlay.spec: got \[\], give fields and their values"),
        ({"spec": {"restartPolicy": "Always"}}, "overlay.spec.restartPolicy: the plan or the template says it"),
        ({"spec": {"containers": [{"name": "train", "image": "x"}]}}, "containers.train.image: the plan or the"),
        (
            {"spec": {"containers": [{"name": "train", "resources": {"limits": {"nvidia.com/gpu": 8}}}]}},
            r"containers.train.resources.limits.nvidia.com/gpu: the plan",
        ),
        ({"spec": {"volumes": [{"name": "optplan"}]}}, "volumes.optplan: the plan or the template says it"),
        ({"spec": {"containers": {"train": {}}}}, "overlay.spec.containers: got .*, give a list of objects with names"),
        ({"metadata": {"labels": "x"}}, "overlay.metadata.labels: got 'x', give one of the kind of"),
    ],
)
def test_overlays_that_cannot_be_are_refused(plan_of: PlanOf, overlay: dict[str, Any], message: str) -> None:
    """By the path of the field: what is no pod, and what would undo the plan."""
    with pytest.raises(DataError, match=message.replace(", give", ".*give")):
        manifests(plan_of("rubberband-two-stages"), overlay=overlay)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the state of a cluster that `kubectl` and `optplan` are on the search path of."""
    programs, state = tmp_path / "bin", tmp_path / "state"
    for folder in (programs, state):
        folder.mkdir()
    for name, command in (
        ("kubectl", [sys.executable, str(HERE / "kubectl.py"), str(state)]),
        ("optplan", [sys.executable, "-m", "optplan.cli"]),
    ):
        (programs / name).write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return state


def submit(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the script of an export, whatever it ends with."""
    return subprocess.run(
        ["bash", "submit.sh", *words], cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )


def pods(cluster: Path) -> list[tuple[str, int]]:
    """Return the step and the exit code of every pod that has run, in order."""
    lines = [line.split() for line in (cluster / "pods").read_text().splitlines()]
    return [(name.split("-", 2)[2], int(code)) for name, _, code in lines]


def write(plan: Plan, folder: Path, **options: Any) -> Path:  # noqa: ANN401 - what export takes
    """Export a plan into the folder that its pods see."""
    options = {"template": PODS | {"run_dir": str(folder)}, "folder": str(folder), **options}
    write_folder(export(plan, "kubernetes", **options), folder)
    return folder


def test_failed_jobs_run_again(plan_of: PlanOf, tmp_path: Path, cluster: Path) -> None:
    """All four trials fail, nobody goes on, stage 2 is not applied; mended and submitted again, the search ends."""
    command = "bash run.sh {gpus} {rate}"
    (tmp_path / "run.sh").write_text("exit 7\n")
    folder = write(
        plan_of("rubberband-two-stages"), tmp_path / "jobs", command=command, space=RATES, workdir=str(tmp_path)
    )
    done = submit(folder)
    assert done.returncode == 1, done.stderr
    assert pods(cluster) == [("b1-s1", 7)] * 12  # three tries of each
    assert not list(cluster.glob("*b1-s2.json"))
    assert json.loads((folder / "winner.json").read_text())["trial"] is None
    (tmp_path / "run.sh").write_text('echo "{\\"loss\\": $2}" >>"$OPTPLAN_METRICS"\n')
    done = submit(folder)
    assert done.returncode == 0, done.stderr
    assert pods(cluster)[12:] == [("b1-s1", 0)] * 4 + [("b1-s2", 0)]
    assert json.loads((folder / "winner.json").read_text())["configuration"] == {"rate": 0.3}
    assert submit(folder).returncode == 0
    assert len(pods(cluster)) == 17  # what has ended is not run again


def test_a_trial_that_fails_is_out_and_the_search_goes_on(plan_of: PlanOf, tmp_path: Path, cluster: Path) -> None:
    """The best configuration fails for good: the next best wins, in a Job whose other trials have ended."""
    shell = '[ $0 != 0.3 ] || exit 7; echo "{{\\"loss\\": $0}}" >>$OPTPLAN_METRICS'
    command = f"bash -c {shlex.quote(shell)} {{rate}} {{gpus}}"
    folder = write(plan_of("rubberband-two-stages"), tmp_path / "jobs", command=command, space=RATES)
    done = submit(folder)
    assert (done.returncode, " b1-s1 failed" in done.stderr.replace("job op-", " ")) == (0, False), done.stderr
    assert sorted(pods(cluster)) == [("b1-s1", 0)] * 3 + [("b1-s1", 7)] * 3 + [("b1-s2", 0)]
    assert json.loads((folder / "winner.json").read_text())["configuration"] == {"rate": 0.5}


def test_two_exports_of_a_plan_do_not_meet(plan_of: PlanOf, tmp_path: Path, cluster: Path) -> None:
    """In two folders, with other commands: both run to their end, and neither takes the other's Jobs for its own."""
    for name, sign in (("one", ""), ("two", "-")):
        shell = f'echo "{{{{\\"loss\\": {sign}$0}}}}" >>$OPTPLAN_METRICS'
        command = f"bash -c {shlex.quote(shell)} {{rate}} {{gpus}}"
        folder = write(plan_of("rubberband-two-stages"), tmp_path / name, command=command, space=RATES)
        done = submit(folder)
        assert done.returncode == 0, done.stderr
    best = [json.loads((tmp_path / name / "winner.json").read_text())["configuration"] for name in ("one", "two")]
    assert best == [{"rate": 0.3}, {"rate": 0.9}]
    assert len(list(cluster.glob("job-*.json"))) == 4


def test_a_fleet_that_fails_fails(plan_of: PlanOf, tmp_path: Path, cluster: Path) -> None:
    """The exit code of its script is not that of a success; a folder that is not the pods' own is told apart."""
    plan = plan_of("srift-interruption")
    folder = write(plan, tmp_path / "jobs", command="false {gpus}", gpus_per_node=8)
    done = submit(folder)
    assert (done.returncode, "train failed" in done.stderr) == (1, True), done.stderr
    assert [code for _, code in pods(cluster)] == [1, 1, 1]


def test_a_job_of_a_stream_runs_step_after_step(plan_of: PlanOf, tmp_path: Path, cluster: Path) -> None:
    """Its objects have its name; a step that fails is not followed by the next one, and runs again."""
    (tmp_path / "run.sh").write_text("exit 7\n")
    plan = plan_of("boa-two-classes")
    folder = write(plan, tmp_path / "jobs", command="bash run.sh {gpus}", workdir=str(tmp_path), gpus_per_node=8)
    assert submit(folder, "v1", "vision-1").returncode == 1
    assert {code for _, code in pods(cluster)} == {7}
    (tmp_path / "run.sh").write_text("exit 0\n")
    done = submit(folder, "v1", "vision-1")
    assert done.returncode == 0, done.stderr
    steps = [segment for segment in plan.segments if segment.unit == "vision"]
    assert len(list((folder / "trials/v1").glob("ended-*"))) == len(steps)
