"""Kubernetes: an indexed Job for each segment, a JobSet where a member has several pods, Kueue's labels where asked.

Written for Job batch/v1 and JobSet v1alpha2. The launcher keeps time limits, which begin when a pod does: Kubernetes'
own deadlines of jobs count the wait for nodes, too. The Job's controller enforces retries; a budget in money is
enforced by nobody, and how many trials run at once by Jobs only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from optplan.execution.exports.commands import write_promotion
from optplan.execution.exports.folder import read_manifest, read_script, write_decide
from optplan.execution.exports.pods import (
    JOB_NAME,
    PART_OF,
    PodTemplate,
    describe_container,
    name_object,
    require_no_elastic,
    write_metadata,
    write_pod,
)
from optplan.execution.exports.request import ExportRequest, write_yaml
from optplan.execution.exports.steps import CannotExpressError, Kind, Outline, Step

#: A pod that was preempted, evicted or drained has not failed.
_PREEMPTED = [{"type": "DisruptionTarget", "status": "True"}]
#: Seconds between the launcher's own end of a command and Kubernetes' end of the pod.
_END_S = 10


class KubernetesTemplate(PodTemplate):
    """What is merged into Jobs and JobSets; what has ended is deleted after ``ttl_s`` seconds, by default never."""

    ttl_s: Annotated[int, Field(ge=3600)] | None = None


def write_files(outline: Outline, request: ExportRequest) -> Mapping[str, str]:
    """Return the manifests, and the script that applies them in turn; several pods a trial cannot take turns."""
    if outline.kind is Kind.FLEET:
        manifests = {"train": _write_object(outline, outline.steps, "train", request)}
    else:
        manifests = {step.name: _write_object(outline, [step], step.name, request) for step in outline.steps}
    return write_manifests(outline, request, manifests)


def write_manifests(
    outline: Outline, request: ExportRequest, manifests: Mapping[str, Mapping[str, Any]]
) -> dict[str, str]:
    """Return manifests as files, and the script that applies them."""
    files = {f"manifests/{name}.yaml": write_yaml(manifest) for name, manifest in manifests.items()}
    return {**files, "submit.sh": _write_submission(outline, request, manifests)}


def _write_object(outline: Outline, steps: Sequence[Step], name: str, request: ExportRequest) -> dict[str, Any]:
    step = steps[0]
    if len(steps) > 1 or step.shape.nodes > 1:
        return _write_jobset(outline, steps, name, request)
    container = describe_container(step, outline, request, "$((JOB_COMPLETION_INDEX + 1))")
    return read_manifest(
        "job.yaml",
        metadata=write_metadata(outline, name, request),
        members=step.segment.members,
        at_once=step.segment.at_once,
        pod=_write_pod(step, outline, request, container),
        retries=request.options.retries,
        preempted=_PREEMPTED,
        ttl_s=request.template_as(KubernetesTemplate).ttl_s,
    )


def _write_jobset(outline: Outline, steps: Sequence[Step], name: str, request: ExportRequest) -> dict[str, Any]:
    require_no_elastic(request, "a JobSet")
    called = name_object(outline, name, request)
    first = 0
    groups = []
    for number, step in enumerate(steps):
        segment, nodes = step.segment, step.shape.nodes
        if segment.at_once < segment.members:
            turns = f"{segment.at_once} of {segment.members} trials of {nodes} pods at a time"
            raise CannotExpressError(f"cannot express: {segment.id!r} runs {turns}, and a JobSet begins all at once")
        container = describe_container(step, outline, request, "$((JOB_INDEX + 1))")
        # The pod's own index is its place among the nodes, the Job's that of the member.
        source = {"fieldRef": {"fieldPath": "metadata.annotations['jobset.sigs.k8s.io/job-index']"}}
        # Of a fleet, all groups meet at the first one's first pod; of trials, each at its own.
        replica = "0" if outline.kind is Kind.FLEET else "$(JOB_INDEX)"
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
                pod=_write_pod(step, outline, request, container),
                preempted=_PREEMPTED,
            )
        )
        first += nodes
    return read_manifest(
        "jobset.yaml",
        metadata=write_metadata(outline, name, request),
        subdomain=called,
        retries=request.options.retries,
        groups=groups,
        ttl_s=request.template_as(KubernetesTemplate).ttl_s,
    )


def _write_pod(step: Step, outline: Outline, request: ExportRequest, container: Mapping[str, Any]) -> dict[str, Any]:
    labels = {**PART_OF, **request.template_as(PodTemplate).labels}
    grace_s = request.options.grace_s + _END_S
    return write_pod(step, outline, request, labels=labels, restart="Never", grace_s=grace_s, **container)


def _write_submission(outline: Outline, request: ExportRequest, manifests: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the script that applies manifests, waits for each, and has who goes on decided in between."""
    template = request.template_as(PodTemplate)
    space = "" if template.namespace is None else f" --namespace {template.namespace}"
    lock = "" if outline.kind is Kind.STREAM else read_script("lock.sh")
    head = read_script("kubernetes.sh", space=space, lock=lock)
    kinds = {name: str(manifest["kind"]).lower() for name, manifest in manifests.items()}
    if outline.kind is Kind.STREAM:
        cases = [f"  {way.name}) steps='{' '.join(step.name for step in way.steps)}' ;;" for way in outline.ways]
        blanks = {"job": JOB_NAME, "cases": "\n".join(cases), "kind": _same(kinds), "tag": request.tag}
        return head + read_script("kubernetes-stream.sh", **blanks)
    if outline.kind is Kind.FLEET:
        train = f"{kinds['train']} {name_object(outline, 'train', request)}"
        ended = f"trials/job/ended-{outline.steps[0].name}"
        run = f"begin train {train}\n  await {train}\n  require {ended}"
        return head + "\n".join([f"if [[ ! -e {ended} ]]; then\n  {run}\nfi", ""])
    lines = [write_decide(request)]
    for level in outline.levels():
        lines += [f"decide {step.name}" for step in level if step.is_promoted]
        called = {step.name: f"{kinds[step.name]} {name_object(outline, step.name, request)}" for step in level}
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
