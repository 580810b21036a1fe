"""Kubernetes: an indexed Job for each segment, a JobSet where a member has several pods, Kueue's labels where asked.

Kubeflow Trainer has a TrainJob for each segment in their place, at a fixed number of nodes: elastic sizes are not in
its API, and a segment of many trials is not one job.

Written for Job batch/v1, JobSet v1alpha2 and TrainJob v1alpha1. The launcher keeps time limits, which begin when a pod
does: Kubernetes' own deadlines of jobs count the wait for nodes, too. The Job's controller enforces retries; a budget
in money is enforced by nobody, and how many trials run at once by Jobs only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from optplan.execution.exports.commands import write_promotion
from optplan.execution.exports.folder import read_manifest, read_script, write_decide
from optplan.execution.exports.pods import (
    JOB_NAME,
    PART_OF,
    TRAIN,
    PodTemplate,
    describe_container,
    name_object,
    require_no_elastic,
    write_metadata,
    write_pod,
)
from optplan.execution.exports.request import ExportRequest, write_yaml
from optplan.execution.exports.steps import CannotExpressError, Step

#: A pod that was preempted, evicted or drained has not failed.
_PREEMPTED = [{"type": "DisruptionTarget", "status": "True"}]
#: Seconds between the launcher's own end of a command and Kubernetes' end of the pod.
_END_S = 10


class KubernetesTemplate(PodTemplate):
    """What is merged into Jobs and JobSets; what has ended is deleted after ``ttl_s`` seconds, by default never."""

    ttl_s: Annotated[int, Field(ge=3600)] | None = None


class TrainJobTemplate(PodTemplate):
    """What is merged into TrainJobs."""

    runtime: Annotated[str, Field(min_length=1)] = "torch-distributed"
    runtime_kind: Annotated[str, Field(pattern="^(Cluster)?TrainingRuntime$")] = "ClusterTrainingRuntime"


def write_files(request: ExportRequest) -> Mapping[str, str]:
    """Return the manifests, and the script that applies them in turn; several pods a trial cannot take turns."""
    return _write_files(request, _write_object)


def write_train_jobs(request: ExportRequest) -> Mapping[str, str]:
    """Return the manifests of TrainJobs, and the script that applies them one after the other."""
    request.require_one_group("and a TrainJob has one; use --to kubernetes")
    return _write_files(request, _write_train_job)


def _write_files(
    request: ExportRequest, write: Callable[[Sequence[Step], str, ExportRequest], dict[str, Any]]
) -> dict[str, str]:
    steps = request.steps
    named = {"train": steps} if request.kind == "fleet" else {step.name: (step,) for step in steps}
    manifests = {name: write(together, name, request) for name, together in named.items()}
    files = {f"manifests/{name}.yaml": write_yaml(manifest) for name, manifest in manifests.items()}
    kinds = {name: str(manifest["kind"]).lower() for name, manifest in manifests.items()}
    return {**files, "submit.sh": _write_submission(request, kinds)}


def _write_object(steps: Sequence[Step], name: str, request: ExportRequest) -> dict[str, Any]:
    step = steps[0]
    if len(steps) > 1 or step.shape.nodes > 1:
        return _write_jobset(steps, name, request)
    container = describe_container(step, request, "$((JOB_COMPLETION_INDEX + 1))")
    return read_manifest(
        "job.yaml",
        metadata=write_metadata(name, request),
        members=step.segment.members,
        at_once=step.segment.at_once,
        pod=_write_pod(step, request, container),
        retries=request.options.retries,
        preempted=_PREEMPTED,
        ttl_s=request.template_as(KubernetesTemplate).ttl_s,
    )


def _write_jobset(steps: Sequence[Step], name: str, request: ExportRequest) -> dict[str, Any]:
    require_no_elastic(request, "a JobSet")
    called = name_object(name, request)
    first = 0
    groups = []
    for number, step in enumerate(steps):
        segment, nodes = step.segment, step.shape.nodes
        if segment.at_once < segment.members:
            turns = f"{segment.at_once} of {segment.members} trials of {nodes} pods at a time"
            raise CannotExpressError(f"cannot express: {segment.id!r} runs {turns}, and a JobSet begins all at once")
        container = describe_container(step, request, "$((JOB_INDEX + 1))")
        # The pod's own index is its place among the nodes, the Job's that of the member.
        source = {"fieldRef": {"fieldPath": "metadata.annotations['jobset.sigs.k8s.io/job-index']"}}
        # Of a fleet, all groups meet at the first one's first pod; of trials, each at its own.
        replica = "0" if request.kind == "fleet" else "$(JOB_INDEX)"
        container["env"][:0] = [
            {"name": "JOB_INDEX", "valueFrom": source},
            {"name": "MASTER_ADDR", "value": f"{called}-g0-{replica}-0.{called}"},
            {"name": "OPTPLAN_GROUP_FIRST", "value": str(first)},
        ]
        rank = "export OPTPLAN_NODE_RANK=$((OPTPLAN_GROUP_FIRST + JOB_COMPLETION_INDEX)); "
        container["command"][2] = rank + container["command"][2]
        groups.append(
            read_manifest(
                "jobset-group.yaml",
                name=f"g{number}",
                members=segment.members,
                nodes=nodes,
                pod=_write_pod(step, request, container),
                preempted=_PREEMPTED,
            )
        )
        first += nodes
    return read_manifest(
        "jobset.yaml",
        metadata=write_metadata(name, request),
        subdomain=called,
        retries=request.options.retries,
        groups=groups,
        ttl_s=request.template_as(KubernetesTemplate).ttl_s,
    )


def _write_pod(step: Step, request: ExportRequest, container: Mapping[str, Any]) -> dict[str, Any]:
    labels = {**PART_OF, **request.template_as(PodTemplate).labels}
    grace_s = request.options.grace_s + _END_S
    return write_pod(step, request, labels=labels, restart="Never", grace_s=grace_s, **container)


def _write_train_job(steps: Sequence[Step], name: str, request: ExportRequest) -> dict[str, Any]:
    step = steps[0]
    if step.segment.members > 1:
        many = f"{step.segment.id!r} has {step.segment.members} trials, and a TrainJob is one job"
        raise CannotExpressError(f"cannot express: {many}; use --to kubernetes")
    require_no_elastic(request, "a TrainJob")
    template = request.template_as(TrainJobTemplate)
    pod = write_pod(step, request)
    for container in pod["spec"]["containers"]:
        container["name"] = "node" if container["name"] == TRAIN else container["name"]
    return read_manifest(
        "trainjob.yaml",
        metadata=write_metadata(name, request),
        runtime=template.runtime,
        runtime_kind=template.runtime_kind,
        nodes=step.shape.nodes,
        workers=step.shape.workers_per_node,
        pod={name: part for name, part in pod.items() if part},
        **describe_container(step, request, "1"),
    )


def _write_submission(request: ExportRequest, kinds: Mapping[str, str]) -> str:
    """Return the script that applies manifests, waits for each, and has who goes on decided in between."""
    template = request.template_as(PodTemplate)
    space = "" if template.namespace is None else f" --namespace {template.namespace}"
    lock = "" if request.kind == "stream" else read_script("lock.sh")
    head = read_script("kubernetes.sh", space=space, lock=lock)
    if request.kind == "stream":
        cases = [f"  {way.name}) steps='{' '.join(step.name for step in way.steps)}' ;;" for way in request.ways]
        blanks = {"job": JOB_NAME, "cases": "\n".join(cases), "kind": _same(kinds), "tag": request.tag}
        return head + read_script("kubernetes-stream.sh", **blanks)
    if request.kind == "fleet":
        train = f"{kinds['train']} {name_object('train', request)}"
        ended = f"trials/job/ended-{request.steps[0].name}"
        run = f"begin train {train}\n  await {train}\n  require {ended}"
        return head + "\n".join([f"if [[ ! -e {ended} ]]; then\n  {run}\nfi", ""])
    lines = [write_decide(request)]
    for level in request.levels():
        lines += [f"decide {step.name}" for step in level if step.is_promoted]
        called = {step.name: f"{kinds[step.name]} {name_object(step.name, request)}" for step in level}
        lines += [f"! is_left {name} || begin {name} {each}" for name, each in called.items()]
        # Trials that failed are ranked behind the others: the search goes on without them.
        lines += [f"! is_left {name} || await {each} || true" for name, each in called.items()]
    return head + read_script("kubernetes-search.sh") + "\n".join([*lines, f"{write_promotion(request)} --winner", ""])


def _same(kinds: Mapping[str, str]) -> str:
    """Return a shell word for the kind of a step's object: a stream's steps may be of two kinds."""
    sets = [name for name, kind in kinds.items() if kind == "jobset"]
    if not sets:
        return next(iter(kinds.values()))
    if len(sets) == len(kinds):
        return "jobset"
    return f"$(case $step in {'|'.join(sets)}) echo jobset ;; *) echo job ;; esac)"
