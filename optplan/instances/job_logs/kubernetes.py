"""Reader of what ``kubectl get jobs -o json`` (or pods) prints; pods of one Job belong together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from optplan.errors import DataError
from optplan.instances.job_logs.columns import Jobs
from optplan.instances.job_logs.records import BACKWARDS, BROKEN, Clock, LeftOut, LogReading, Row, read_count
from optplan.instances.plain_data import read_data

#: Labels with which controllers mark the pods of one job.
_JOB_LABELS = ("batch.kubernetes.io/job-name", "job-name", "training.kubeflow.org/job-name")
#: Labels of nodes that say which GPUs they have.
_TYPE_LABELS = ("nvidia.com/gpu.product", "cloud.google.com/gke-accelerator")
_FAILED_OTHERWISE = {"DeadlineExceeded": "timeout", "Evicted": "preempted", "Preempting": "preempted"}
_COMMAND = "kubectl get jobs --all-namespaces -o json > jobs.json"
_PHASES = {"Succeeded": "completed", "Failed": "failed", "Running": "running", "Pending": "pending"}


def read_kubernetes(path: Path, reading: LogReading, left_out: LeftOut) -> Jobs:
    """Return the rows of a log's Jobs, or pods where it has none; a label, or ``namespace``, names their classes."""
    items = _read_items(path)
    jobs = [(place, item) for place, item in enumerate(items, start=1) if item.get("kind") == "Job"]
    read = _read_job if jobs else _read_pod
    pods = [(place, item) for place, item in enumerate(items, start=1) if item.get("kind") == "Pod"]
    if not jobs and not pods:
        raise DataError(str(path), "has neither Jobs nor Pods", _COMMAND)
    rows = []
    for where, item in jobs or pods:
        try:
            row = read(item, reading.clock, reading.class_column, where)
        except ValueError as error:
            left_out.add(BROKEN, where, str(error))
            continue
        except (TypeError, AttributeError, KeyError, OverflowError):
            left_out.add(BROKEN, where, "its fields are not of the kinds that kubectl prints")
            continue
        if row.run_s is not None and row.run_s < 0:
            left_out.add(BACKWARDS, where)
        else:
            rows.append(row)
    left_out.require_readable(str(path), len(jobs or pods))
    return Jobs.of(rows)


def _read_items(path: Path) -> list[dict[str, Any]]:
    data = read_data(path)
    items = data.get("items", [data]) if isinstance(data, dict) else data
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise DataError(str(path), "is not what kubectl prints", _COMMAND)
    return items


def _read_job(item: Mapping[str, Any], clock: Clock, class_column: str | None, where: int) -> Row:
    spec, status = item.get("spec", {}), item.get("status", {})
    start_s = clock.read(status.get("startTime") or "")
    conditions = {each.get("type"): each for each in status.get("conditions") or [] if each.get("status") == "True"}
    end = status.get("completionTime") or ""
    ending = "pending" if start_s is None else "running"
    if "Complete" in conditions or end:
        ending = "completed"
    elif "Failed" in conditions:
        ending = _FAILED_OTHERWISE.get(conditions["Failed"].get("reason", ""), "failed")
        end = conditions["Failed"].get("lastTransitionTime") or ""
    elif "Suspended" in conditions:
        ending = "pending"
    pod = spec.get("template", {}).get("spec", {})
    parallel = spec.get("parallelism")
    return _make_row(item, clock, class_column, where)._replace(
        start_s=start_s,
        run_s=_subtract(clock.read(end), start_s) if ending not in ("running", "pending") else None,
        gpus=(1 if parallel is None else read_count(parallel, "spec.parallelism")) * _count_gpus(pod),
        gpu_type=_find_type(pod),
        ending=ending,
    )


def _read_pod(item: Mapping[str, Any], clock: Clock, class_column: str | None, where: int) -> Row:
    spec, status = item.get("spec", {}), item.get("status", {})
    states = [(each.get("state") or {}).get("terminated") or {} for each in status.get("containerStatuses") or []]
    starts = [clock.read(state.get("startedAt") or "") for state in states]
    ends = [clock.read(state.get("finishedAt") or "") for state in states]
    start_s = min((each for each in starts if each is not None), default=clock.read(status.get("startTime") or ""))
    end_s = max((each for each in ends if each is not None), default=None)
    ending = _FAILED_OTHERWISE.get(status.get("reason", ""), _PHASES.get(status.get("phase", ""), "running"))
    metadata = item.get("metadata", {})
    labels = metadata.get("labels") or {}
    owner = next((labels[label] for label in _JOB_LABELS if label in labels), "")
    row = _make_row(item, clock, class_column, where)
    return row._replace(
        id=f"{metadata.get('namespace', '')}/{owner}" if owner else row.id,
        part=row.name,
        name=str(owner) or row.name,
        start_s=start_s,
        run_s=_subtract(end_s, start_s) if ending not in ("running", "pending") else None,
        gpus=_count_gpus(spec),
        gpu_type=_find_type(spec),
        ending=ending,
    )


def _make_row(item: Mapping[str, Any], clock: Clock, class_column: str | None, where: int) -> Row:
    """Make what Jobs and pods have in common."""
    metadata = item.get("metadata", {})
    labels = {**(metadata.get("labels") or {}), "namespace": metadata.get("namespace", "")}
    return Row(
        id=str(metadata.get("uid") or f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"),
        part="",
        name=str(metadata.get("name", "")),
        label=str(labels.get(class_column, "")) if class_column else "",
        submit_s=clock.read(metadata.get("creationTimestamp") or ""),
        start_s=None,
        run_s=None,
        gpus=0,
        gpu_type="",
        ending="",
        where=where,
    )


def _count_gpus(pod: Mapping[str, Any]) -> int:
    """Count the GPUs that the containers of a pod ask for, of any maker (``nvidia.com/gpu``, ``amd.com/gpu``)."""
    count = 0
    for container in pod.get("containers") or []:
        resources = container.get("resources") or {}
        asked = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
        count += sum(read_count(number, name) for name, number in asked.items() if name.endswith("/gpu"))
    return count


def _find_type(pod: Mapping[str, Any]) -> str:
    selector = pod.get("nodeSelector") or {}
    return next((str(selector[label]) for label in _TYPE_LABELS if label in selector), "")


def _subtract(end_s: float | None, start_s: float | None) -> float | None:
    return None if end_s is None or start_s is None else end_s - start_s
