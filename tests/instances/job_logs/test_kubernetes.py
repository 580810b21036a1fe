"""Jobs and pods as kubectl prints them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from optplan.errors import DataError

if TYPE_CHECKING:
    from tests.instances.job_logs.conftest import Read

GPUS = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "4", "cpu": "8"}}}]}


def _job(name: str, status: dict[str, Any], **spec: Any) -> dict[str, Any]:  # noqa: ANN401 - fields of Kubernetes
    metadata = {"name": name, "uid": name, "creationTimestamp": "2026-03-02T00:00:00Z", "labels": {"app": "vision"}}
    pod = {"spec": {**GPUS, "nodeSelector": {"nvidia.com/gpu.product": "A100"}}}
    return {"kind": "Job", "metadata": metadata, "spec": {"template": pod, **spec}, "status": status}


def _pod(name: str, owner: str, started: str, finished: str) -> dict[str, Any]:
    labels = {"job-name": owner} if owner else {}
    metadata = {"name": name, "namespace": "ml", "creationTimestamp": "2026-03-02T00:00:00Z", "labels": labels}
    state = {"terminated": {"startedAt": f"2026-03-02T{started}:00Z", "finishedAt": f"2026-03-02T{finished}:00Z"}}
    status = {"phase": "Succeeded", "startTime": "2026-03-02T00:30:00Z", "containerStatuses": [{"state": state}]}
    return {"kind": "Pod", "metadata": metadata, "spec": GPUS, "status": status}


def _list(*items: dict[str, Any]) -> str:
    return json.dumps({"kind": "List", "items": items})


def test_a_job(read: Read) -> None:
    """Two pods of four GPUs for an hour, half an hour after it was made; a label names its class."""
    status = {"startTime": "2026-03-02T00:30:00Z", "completionTime": "2026-03-02T01:30:00Z"}
    (job,), _ = read(_list(_job("bert", status, parallelism=2)), "kubernetes", class_column="app")
    assert (job.name, job.label, job.gpus, job.gpu_type) == ("bert", "vision", 8, "A100")
    assert (job.wait_s, job.run_s) == (1800.0, 3600.0)


@pytest.mark.parametrize(
    ("status", "run_s", "told"),
    [
        ({}, None, "1 sizes of pending jobs (first: item 1)"),
        ({"startTime": "2026-03-02T00:30:00Z", "active": 1}, None, "1 sizes of running jobs (first: item 1)"),
        (
            {
                "startTime": "2026-03-02T00:30:00Z",
                "conditions": [{"type": "Failed", "status": "True", "lastTransitionTime": "2026-03-02T00:40:00Z"}],
            },
            600.0,
            "",
        ),
    ],
)
def test_how_a_job_ended(read: Read, status: dict[str, Any], run_s: float | None, told: str) -> None:
    """Failed ones say when; those that wait or run are arrivals only."""
    (job,), left_out = read(_list(_job("bert", status)), "kubernetes")
    assert job.run_s == run_s
    assert str(left_out) == told


def test_pods_of_one_job_belong_together(read: Read) -> None:
    """Two at once are eight GPUs for an hour; a third that comes for half an hour later is four GPUs, and so less."""
    pods = (_pod("a-1", "a", "01:00", "02:00"), _pod("a-2", "a", "01:00", "02:00"), _pod("a-3", "a", "03:00", "03:30"))
    (job,), _ = read(_list(*pods), "kubernetes")
    assert (job.name, job.gpus, job.run_s, job.wait_s) == ("a", 8, 5400.0, 3600.0)
    jobs, _ = read(_list(_pod("b-1", "", "01:00", "02:00"), _pod("b-2", "", "01:00", "02:00")), "kubernetes")
    assert [job.gpus for job in jobs] == [4, 4]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"items": [{"kind": "Job", "meta', r"log\.json:1: is not JSON .*is the file cut short"),
        ('{"items": 7}', r"is not what kubectl prints; kubectl get jobs --all-namespaces -o json"),
        ('{"items": [{"kind": "Node"}]}', r"has neither Jobs nor Pods; kubectl get jobs"),
        (_list({"kind": "Job", "status": "x"}), r"item 1, its fields are not of the kinds that kubectl prints\)"),
        (_list(_job("a", {"startTime": "gestern"})), r"1 of 1 rows cannot be used: .*'gestern' is no time"),
        (
            _list(_job("a", {"startTime": "2026-03-02T02:00:00Z", "completionTime": "2026-03-02T01:00:00Z"})),
            r"1 jobs that end before they start",
        ),
    ],
)
def test_files_that_are_refused(read: Read, text: str, message: str) -> None:
    """Cut off, something else, or with times that are none."""
    with pytest.raises(DataError, match=message):
        read(text, "kubernetes")
