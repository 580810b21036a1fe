"""Kubernetes: an indexed Job for each segment, a JobSet where a member has several pods, Kueue's labels where asked.

Written for Job batch/v1 and JobSet v1alpha2. The Job's controller enforces time limits and retries; a budget in money
is enforced by nobody, and how many trials run at once by Jobs only.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from optplan.runtime.exports.commands import write_promotion
from optplan.runtime.exports.folder import LOCK
from optplan.runtime.exports.request import ExportRequest, Template, require_known
from optplan.runtime.exports.steps import CannotExpressError, Kind, Outline, Step
from optplan.schema import ByName, FrozenModel

#: Stands for the name of a stream's job until it is submitted; a name of Kubernetes itself, so that files are valid.
JOB_NAME = "optplan-job"
_PART_OF = {"app.kubernetes.io/part-of": "optplan"}
_Name = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]


class Placement(FrozenModel):
    """Where pods of a resource may run.

    Parameters
    ----------
    node_selector
        Labels of nodes.
    tolerations
        As in a pod's specification.
    """

    node_selector: ByName[str] = Field(default_factory=dict)
    tolerations: tuple[ByName[str], ...] = ()


class PodTemplate(Template):
    """What is merged into pods.

    Parameters
    ----------
    image
        With the training code and Bash.
    run_dir
        Where the folder of the export is in the containers: on a volume that all of them mount.
    claim
        The persistent volume claim of that volume; mounted at ``run_dir``.
    namespace, service_account, image_pull_secrets
        As in Kubernetes.
    gpu_resource
        What nodes call their GPUs.
    requests
        Of other resources, such as ``cpu: "8"`` and ``memory: 32Gi``.
    placement
        By resource of the plan, where its pods may run.
    labels
        Of everything that is made.
    queue
        Kueue's local queue, where it admits the jobs.
    elastic
        Whether Kueue may resize them: its annotation is set, and needs its feature there.
    """

    image: Annotated[str, Field(min_length=1)]
    run_dir: Annotated[str, Field(pattern=r"^/.*$")] = "/optplan"
    claim: _Name
    namespace: _Name | None = None
    service_account: _Name | None = None
    image_pull_secrets: tuple[_Name, ...] = ()
    gpu_resource: Annotated[str, Field(min_length=1)] = "nvidia.com/gpu"
    requests: ByName[str] = Field(default_factory=dict)
    placement: ByName[Placement] = Field(default_factory=dict)
    labels: ByName[str] = Field(default_factory=dict)
    queue: _Name | None = None
    elastic: bool = False


class KubernetesTemplate(PodTemplate):
    """What is merged into Jobs and JobSets."""


def write_files(outline: Outline, request: ExportRequest) -> Mapping[str, str]:
    """Return the manifests, and the script that applies them one after the other.

    Raises
    ------
    CannotExpressError
        When trials of several pods take turns: a JobSet begins all at once.
    """
    if outline.kind is Kind.FLEET:
        manifests = {"train": _write_fleet(outline, request)}
    else:
        manifests = {step.name: _write_step(outline, step, request) for step in outline.steps}
    return write_manifests(outline, request, manifests)


def write_manifests(
    outline: Outline, request: ExportRequest, manifests: Mapping[str, Mapping[str, Any]]
) -> dict[str, str]:
    """Return manifests as files, and the script that applies them."""
    files = {f"manifests/{name}.yaml": write_yaml(manifest) for name, manifest in manifests.items()}
    return {**files, "submit.sh": _write_submission(outline, request, manifests)}


def write_yaml(manifest: Mapping[str, Any]) -> str:
    """Write a manifest; whatever a text holds, it is read back as that text."""
    import yaml

    return yaml.safe_dump(manifest, sort_keys=False, width=10_000, allow_unicode=False)


def pods_of(request: ExportRequest) -> PodTemplate:
    """Return the request's template, which is one of pods."""
    template = request.template
    assert isinstance(template, PodTemplate)  # the exporters' entries name such
    return template


def name_object(outline: Outline, name: str) -> str:
    """Return what an object is called: the plan's tag, the step, and for streams what stands for the job."""
    return f"{outline.tag}-{name}" + (f"-{JOB_NAME}" if outline.kind is Kind.STREAM else "")


def write_metadata(outline: Outline, name: str, request: ExportRequest) -> dict[str, Any]:
    """Return an object's metadata."""
    template = pods_of(request)
    labels = {**_PART_OF, **template.labels}
    annotations = {"optplan/plan-id": outline.plan.plan_id}
    if template.queue is not None:
        labels["kueue.x-k8s.io/queue-name"] = template.queue
    if template.elastic:
        annotations["kueue.x-k8s.io/elastic-job"] = "true"
    space = {} if template.namespace is None else {"namespace": template.namespace}
    return {"name": name_object(outline, name), **space, "labels": labels, "annotations": annotations}


def require_no_elastic(request: ExportRequest, what: str) -> None:
    """Refuse to ask Kueue for what it does for Jobs alone.

    Raises
    ------
    CannotExpressError
        When the template has ``elastic``.
    """
    if pods_of(request).elastic:
        raise CannotExpressError(f"cannot express: template.elastic of {what}; Kueue resizes Jobs only: leave it out")


def write_place(step: Step, outline: Outline, request: ExportRequest) -> dict[str, Any]:
    """Return where the pods of a step may run, and as whom, as fields of their specification."""
    template = pods_of(request)
    require_known("placement", template.placement, outline.plan.resources)
    place = template.placement.get(step.segment.resource, Placement())
    found: dict[str, Any] = {}
    if place.node_selector:
        found["nodeSelector"] = dict(place.node_selector)
    if place.tolerations:
        found["tolerations"] = [dict(each) for each in place.tolerations]
    if template.service_account is not None:
        found["serviceAccountName"] = template.service_account
    if template.image_pull_secrets:
        found["imagePullSecrets"] = [{"name": name} for name in template.image_pull_secrets]
    return found


def write_limits(step: Step, request: ExportRequest) -> dict[str, Any]:
    """Return the resources of a container of a step."""
    template = pods_of(request)
    gpus = {template.gpu_resource: str(step.shape.gpus_per_node)}
    return {"requests": {**template.requests, **gpus}, "limits": gpus}


def write_call(step: Step, request: ExportRequest, member: str) -> list[str]:
    """Return a container's command: the launcher, for one member of a step."""
    folder = shlex.quote(pods_of(request).run_dir).replace("$", "$$")  # Kubernetes itself replaces $(NAME), not $$
    return ["bash", "-c", f"exec bash {folder}/launch.sh {step.name} {member}"]


def write_volume(request: ExportRequest) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the volumes of a pod, and where its container mounts them."""
    template = pods_of(request)
    volume = {"name": "optplan", "persistentVolumeClaim": {"claimName": template.claim}}
    return [volume], [{"name": "optplan", "mountPath": template.run_dir}]


def deadline(step: Step) -> int:
    """Return the seconds after which all members of a step together are ended."""
    return step.limit_s * math.ceil(step.segment.members / step.segment.at_once)


def _write_step(outline: Outline, step: Step, request: ExportRequest) -> dict[str, Any]:
    if step.shape.nodes > 1:
        return _write_jobset(outline, [step], step.name, request)
    job = _write_job(outline, step, request, pods=step.segment.members, at_once=step.segment.at_once)
    job["backoffLimitPerIndex"] = request.options.retries
    job["maxFailedIndexes"] = step.segment.members
    job["activeDeadlineSeconds"] = deadline(step)
    metadata = write_metadata(outline, step.name, request)
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": job}


def _write_fleet(outline: Outline, request: ExportRequest) -> dict[str, Any]:
    if len(outline.steps) == 1 and outline.steps[0].shape.nodes == 1:
        manifest = _write_step(outline, outline.steps[0], request)
        return manifest | {"metadata": write_metadata(outline, "train", request)}
    return _write_jobset(outline, outline.steps, "train", request)


def _write_jobset(outline: Outline, steps: Sequence[Step], name: str, request: ExportRequest) -> dict[str, Any]:
    require_no_elastic(request, "a JobSet")
    called = name_object(outline, name)
    first = 0
    groups = []
    for number, step in enumerate(steps):
        segment, nodes = step.segment, step.shape.nodes
        if segment.at_once < segment.members:
            turns = f"{segment.at_once} of {segment.members} trials of {nodes} pods at a time"
            raise CannotExpressError(f"cannot express: {segment.id!r} runs {turns}, and a JobSet begins all at once")
        group = f"g{number}"
        # Of a fleet, all groups meet at the first one's first pod; of trials, each at its own.
        replica = "0" if outline.kind is Kind.FLEET else "$(JOB_INDEX)"
        variables = {"MASTER_ADDR": f"{called}-g0-{replica}-0.{called}", "OPTPLAN_GROUP_FIRST": str(first)}
        job = _write_job(outline, step, request, pods=nodes, at_once=nodes, variables=variables, indexed=True)
        job["backoffLimit"] = 0
        job["activeDeadlineSeconds"] = step.limit_s
        groups.append({"name": group, "replicas": segment.members, "template": {"spec": job}})
        first += nodes
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": write_metadata(outline, name, request),
        "spec": {
            "network": {"enableDNSHostnames": True, "subdomain": called},
            "failurePolicy": {"maxRestarts": request.options.retries},
            "replicatedJobs": groups,
        },
    }


def _write_job(
    outline: Outline,
    step: Step,
    request: ExportRequest,
    *,
    pods: int,
    at_once: int,
    variables: Mapping[str, str] | None = None,
    indexed: bool = False,
) -> dict[str, Any]:
    template = pods_of(request)
    volumes, mounts = write_volume(request)
    env: list[dict[str, Any]] = [{"name": name, "value": value} for name, value in (variables or {}).items()]
    index = "$((JOB_COMPLETION_INDEX + 1))"
    if indexed:  # the pod's own index is its place among the nodes, the Job's that of the member
        source = {"fieldRef": {"fieldPath": "metadata.annotations['jobset.sigs.k8s.io/job-index']"}}
        env = [{"name": "JOB_INDEX", "valueFrom": source}, *env]
        index = "$((JOB_INDEX + 1))"
    if outline.kind is Kind.STREAM:
        env.append({"name": "OPTPLAN_JOB", "value": JOB_NAME})
    command = write_call(step, request, index)
    if indexed:
        command[2] = "export OPTPLAN_NODE_RANK=$((OPTPLAN_GROUP_FIRST + JOB_COMPLETION_INDEX)); " + command[2]
    container = {
        "name": "train",
        "image": template.image,
        "command": command,
        **({"env": env} if env else {}),
        "resources": write_limits(step, request),
        "volumeMounts": mounts,
    }
    spec: dict[str, Any] = {"restartPolicy": "Never", "containers": [container], "volumes": volumes}
    spec |= write_place(step, outline, request)
    return {
        "completions": pods,
        "parallelism": at_once,
        "completionMode": "Indexed",
        "template": {"metadata": {"labels": {**_PART_OF, **template.labels}}, "spec": spec},
    }


def _write_submission(outline: Outline, request: ExportRequest, manifests: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the script that applies manifests, waits for each, and has who goes on decided in between."""
    template = pods_of(request)
    space = "" if template.namespace is None else f" --namespace {template.namespace}"
    lock = "" if outline.kind is Kind.STREAM else LOCK
    lines = [_HEAD.replace("@SPACE@", space).replace("@LOCK@", lock)]
    kinds = {name: str(manifest["kind"]).lower() for name, manifest in manifests.items()}
    if outline.kind is Kind.STREAM:
        end = _STREAM_END.replace("@KIND@", _same(kinds)).replace("@TAG@", outline.tag)
        cases = [f"  {way.name}) steps='{' '.join(step.name for step in way.steps)}' ;;" for way in outline.ways]
        return "\n".join([*lines, _STREAM, "case $way in", *cases, end, ""])
    if outline.kind is Kind.FLEET:
        return "\n".join([*lines, "begin train", f"await {kinds['train']} {name_object(outline, 'train')}", ""])
    promote = write_promotion(request)
    for level in outline.levels():
        lines += [f"{promote} {step.name}" for step in level if step.is_promoted]
        lines += [f"begin {step.name}" for step in level]
        # Trials that failed are ranked behind the others: the search goes on without them.
        lines += [f"await {kinds[step.name]} {name_object(outline, step.name)} || true" for step in level]
    return "\n".join([*lines, f"{promote} --winner", ""])


def _same(kinds: Mapping[str, str]) -> str:
    """Return a shell word for the kind of a step's object: a stream's steps may be of two kinds."""
    sets = [name for name, kind in kinds.items() if kind == "jobset"]
    if not sets:
        return next(iter(kinds.values()))
    if len(sets) == len(kinds):
        return "jobset"
    return f"$(case $step in {'|'.join(sets)}) echo jobset ;; *) echo job ;; esac)"


_HEAD = """#!/usr/bin/env bash
# Applies the manifests in the plan's order. This folder has to be the one that the pods mount.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"
@LOCK@begin() { kubectl apply@SPACE@ -f "manifests/$1.yaml"; }
# await KIND NAME: until it has completed; fails when it has failed
await() {
  local conditions
  while :; do
    conditions=$(kubectl get@SPACE@ "$1" "$2" -o 'jsonpath={.status.conditions[?(@.status=="True")].type}')
    case " $conditions " in
      *" Complete "* | *" Completed "*) return 0 ;;
      *" Failed "*) echo "submit.sh: $1 $2 failed" >&2; return 1 ;;
    esac
    sleep 5
  done
}"""

_STREAM = f"""# A job of a class: submit.sh NAME WAY. `optplan submit` chooses the way.
name=$1 way=$2
[[ $name =~ ^[a-z0-9]([a-z0-9-]{{0,13}}[a-z0-9])?$ ]] || {{
  echo "submit.sh: $name is no name for a job of Kubernetes: lower-case letters, digits and hyphens, up to 15" >&2
  exit 2
}}
begin() {{ sed "s/{JOB_NAME}/$name/g" "manifests/$1.yaml" | kubectl apply -f -; }}"""

_STREAM_END = """  *) echo "submit.sh: there is no way $way" >&2; exit 2 ;;
esac
for step in $steps; do
  begin "$step"
  await @KIND@ "@TAG@-$step-$name"
done"""
