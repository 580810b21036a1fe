"""Kubeflow Trainer: a TrainJob (trainer.kubeflow.org/v1alpha1) for each segment, at a fixed number of nodes.

Elastic sizes are not in its API. Trials are jobs of one node each only where a segment has a single member: many
members are what Jobs of Kubernetes are for. The launcher keeps time limits; a budget is enforced by nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from optplan.errors import DataError
from optplan.execution.exports.folder import read_manifest
from optplan.execution.exports.kubernetes import write_manifests
from optplan.execution.exports.pods import (
    TRAIN,
    PodTemplate,
    describe_container,
    require_no_elastic,
    write_metadata,
    write_pod,
)
from optplan.execution.exports.request import ExportRequest
from optplan.execution.exports.steps import CannotExpressError, Kind, Outline, Step

#: What a TrainJob's patch may hold of a pod's specification, and of a container's.
_PATCHED = (
    "serviceAccountName volumes initContainers containers imagePullSecrets securityContext nodeSelector affinity "
    "tolerations schedulingGates"
)
_PATCHED_CONTAINER = ("name", "env", "volumeMounts", "securityContext")


class TrainJobTemplate(PodTemplate):
    """What is merged into TrainJobs."""

    runtime: Annotated[str, Field(min_length=1)] = "torch-distributed"
    runtime_kind: Annotated[str, Field(pattern="^(Cluster)?TrainingRuntime$")] = "ClusterTrainingRuntime"


def write_files(outline: Outline, request: ExportRequest) -> Mapping[str, str]:
    """Return the manifests, and the script that applies them one after the other."""
    if outline.kind is Kind.FLEET and len(outline.steps) > 1:
        many = f"the fleet has {len(outline.steps)} groups of nodes, and a TrainJob has one"
        raise CannotExpressError(f"cannot express: {many}; use --to kubernetes")
    manifests = {}
    for step in outline.steps:
        name = "train" if outline.kind is Kind.FLEET else step.name
        manifests[name] = _write_step(outline, step, name, request)
    return write_manifests(outline, request, manifests)


def _write_step(outline: Outline, step: Step, name: str, request: ExportRequest) -> dict[str, Any]:
    if step.segment.members > 1:
        many = f"{step.segment.id!r} has {step.segment.members} trials, and a TrainJob is one job"
        raise CannotExpressError(f"cannot express: {many}; use --to kubernetes")
    require_no_elastic(request, "a TrainJob")
    template = request.template_as(TrainJobTemplate)
    pod = write_pod(step, outline, request)
    _require_patch(pod)
    for container in pod["spec"]["containers"]:
        container["name"] = "node" if container["name"] == TRAIN else container["name"]
    return read_manifest(
        "trainjob.yaml",
        metadata=write_metadata(outline, name, request),
        runtime=template.runtime,
        runtime_kind=template.runtime_kind,
        nodes=step.shape.nodes,
        workers=step.shape.workers_per_node,
        pod={name: part for name, part in pod.items() if part},
        **describe_container(step, outline, request, "1"),
    )


def _require_patch(pod: dict[str, Any]) -> None:
    """Refuse fields of an overlay that a TrainJob cannot change in its runtime's pods."""
    for name in pod["spec"]:
        if name not in _PATCHED.split():
            raise DataError(f"overlay.spec.{name}", "a TrainJob cannot change it", "say it in the training runtime")
    for container in pod["spec"]["containers"]:
        for name in container:
            if name not in _PATCHED_CONTAINER:
                path = f"overlay.spec.containers.{container['name']}.{name}"
                raise DataError(path, "a TrainJob cannot change it", "say it in the training runtime")
