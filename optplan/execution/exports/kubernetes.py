"""Kubernetes: an indexed Job for each segment, a JobSet where a member has several pods, Kueue's labels where asked.

Kubeflow Trainer has a TrainJob for each segment in their place, at a fixed number of nodes: elastic sizes are not in
its API, and a segment of many trials is not one job.

Written for Job batch/v1, JobSet v1alpha2 and TrainJob v1alpha1. The launcher keeps time limits, which begin when a pod
does: Kubernetes' own deadlines of jobs count the wait for nodes, too. The Job's controller enforces retries; a budget
in money is enforced by nobody, and how many trials run at once by Jobs only.

A pod is what the template says of all and a step needs, with the user's overlay merged in.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from optplan.errors import DataError
from optplan.execution.exports.folder import read_manifest, read_script, write_decide
from optplan.execution.exports.request import ExportRequest, Template, require_known, write_promotion, write_yaml
from optplan.execution.exports.steps import CannotExpressError, Step
from optplan.schema import ByName, FrozenModel

#: Stands for the name of a stream's job until it is submitted; a name of Kubernetes itself, so that files are valid.
JOB_NAME = "optplan-job"
#: The container that trains, in manifests and overlays.
TRAIN = "train"
PART_OF = {"app.kubernetes.io/part-of": "optplan"}
_VOLUME = "optplan"
_Name = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]


class Placement(FrozenModel):
    """Where pods of a resource may run."""

    node_selector: ByName[str] = Field(default_factory=dict)
    tolerations: tuple[ByName[str], ...] = ()


class PodTemplate(Template):
    """What is merged into pods; ``run_dir``, the folder of the export there, is on the volume of ``claim``."""

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


def name_object(name: str, request: ExportRequest) -> str:
    """Return what an object is called: the export's tag, the step, and for streams what stands for the job."""
    return f"{request.tag}-{name}" + (f"-{JOB_NAME}" if request.kind == "stream" else "")


def write_metadata(name: str, request: ExportRequest) -> dict[str, Any]:
    """Return an object's metadata."""
    template = request.template_as(PodTemplate)
    queue = {} if template.queue is None else {"kueue.x-k8s.io/queue-name": template.queue}
    return read_manifest(
        "metadata.yaml",
        request=request,
        name=name_object(name, request),
        labels={**PART_OF, **template.labels, **queue},
        elastic="true" if template.elastic else None,
    )


def require_no_elastic(request: ExportRequest, what: str) -> None:
    """Refuse to ask Kueue for what it does for Jobs alone."""
    if request.template_as(PodTemplate).elastic:
        raise CannotExpressError(f"cannot express: template.elastic of {what}; Kueue resizes Jobs only: leave it out")


def write_pod(step: Step, request: ExportRequest, **container: object) -> dict[str, Any]:
    """Return a pod of a step, the user's overlay merged in: where it may run and as whom, and more of its container."""
    template = request.template_as(PodTemplate)
    require_known("placement", template.placement, request.plan.resources)
    place = template.placement.get(step.segment.resource, Placement())
    pod = read_manifest(
        "pod.yaml",
        request=request,
        node_selector=dict(place.node_selector),
        tolerations=[dict(each) for each in place.tolerations],
        image_pull_secrets=[{"name": name} for name in template.image_pull_secrets],
        **container,
    )
    return overlay(pod, request)


def describe_container(step: Step, request: ExportRequest, member: str) -> dict[str, Any]:
    """Return image, command (the launcher, for one member of a step), variables and resources of a container."""
    template = request.template_as(PodTemplate)
    folder = shlex.quote(template.run_dir).replace("$", "$$")  # Kubernetes itself replaces $(NAME), not $$
    env = [{"name": "OPTPLAN_EXPECTED", "value": request.export_id}]
    gpus = {template.gpu_resource: str(step.shape.gpus_per_node)}
    # Kubernetes wants extended resources among the limits.
    extended = {name: amount for name, amount in template.requests.items() if _is_extended(name)}
    return {
        "image": template.image,
        "command": ["bash", "-c", f"exec bash {folder}/launch.sh {step.name} {member}"],
        "env": env + ([{"name": "OPTPLAN_JOB", "value": JOB_NAME}] if request.kind == "stream" else []),
        "resources": {"requests": {**template.requests, **gpus}, "limits": {**extended, **gpus}},
    }


def overlay(pod: Mapping[str, Any], request: ExportRequest) -> dict[str, Any]:
    """Merge the user's overlay into a pod's metadata and specification.

    Mappings are merged, lists of objects with names by their names, other lists are joined; else the overlay's value
    takes the place of what was there.
    """
    given = request.options.overlay
    for name, part in given.items():
        if name not in ("metadata", "spec"):
            raise DataError(f"overlay.{name}", "a pod's template has metadata and spec", "write it below one of them")
        if not isinstance(part, Mapping):
            raise DataError(f"overlay.{name}", f"got {part!r}", "give fields and their values")
    spec = given.get("spec", {})
    _require_free(spec, request.template_as(PodTemplate))
    merged = _merge(pod, given, "overlay")
    assert isinstance(merged, dict)  # as both are
    return merged


def _is_extended(name: str) -> bool:
    """Whether a resource is none of Kubernetes' own, or huge pages: neither can be promised twice."""
    return name.startswith("hugepages-") or ("/" in name and not name.partition("/")[0].endswith("kubernetes.io"))


def _require_free(spec: Mapping[str, Any], template: PodTemplate) -> None:
    """Refuse what the plan, or the launcher, says of a pod."""
    taken = [("restartPolicy", "restartPolicy" in spec), ("hostname", "hostname" in spec)]
    taken += [(f"volumes.{_VOLUME}", any(_name_of(each) == _VOLUME for each in _list(spec, "volumes")))]
    for container in _list(spec, "containers"):
        if _name_of(container) != TRAIN:
            continue
        taken += [(f"containers.{TRAIN}.{name}", name in container) for name in ("command", "args", "image")]
        amounts = container.get("resources") or {}
        for kind in ("limits", "requests"):
            held = isinstance(amounts, Mapping) and template.gpu_resource in (amounts.get(kind) or {})
            taken += [(f"containers.{TRAIN}.resources.{kind}.{template.gpu_resource}", held)]
    for path, found in taken:
        if found:
            raise DataError(f"overlay.spec.{path}", "the plan or the template says it", "leave it out")


def _list(spec: Mapping[str, Any], name: str) -> Sequence[Any]:
    found = spec.get(name) or []
    if not isinstance(found, list) or any(_name_of(each) is None for each in found):
        raise DataError(f"overlay.spec.{name}", f"got {found!r}", "give a list of objects with names")
    return found


def _name_of(each: object) -> str | None:
    name = each.get("name") if isinstance(each, Mapping) else None
    return name if isinstance(name, str) else None


def _merge(old: object, new: object, path: str) -> object:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return {**old, **{name: _merge(old.get(name), value, f"{path}.{name}") for name, value in new.items()}}
    if old is not None and isinstance(old, Mapping | list) != isinstance(new, Mapping | list):
        raise DataError(path, f"got {new!r}", f"give one of the kind of {old!r}")
    if not isinstance(old, list) or not isinstance(new, list):
        return new
    names = [_name_of(each) for each in old]
    merged = list(old)
    for each in new:
        name = _name_of(each)
        # Mounts have the name of their volume, which may be mounted twice.
        if name is None or name not in names or path.endswith("volumeMounts"):
            merged.append(each)
        else:
            place = names.index(name)
            merged[place] = _merge(old[place], each, f"{path}.{name}")
    return merged


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
    steps, write = request.steps, _write_object
    if isinstance(request.template, TrainJobTemplate):
        request.require_one_group("and a TrainJob has one; use --to kubernetes")
        write = _write_train_job
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
        pod=_write_pod(step, request, container),
        step=step,
        request=request,
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
        pod = _write_pod(step, request, container)
        groups.append(read_manifest("jobset-group.yaml", name=f"g{number}", step=step, pod=pod))
        first += nodes
    metadata = write_metadata(name, request)
    return read_manifest("jobset.yaml", metadata=metadata, subdomain=called, groups=groups, request=request)


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
    pod = write_pod(step, request)
    for container in pod["spec"]["containers"]:
        container["name"] = "node" if container["name"] == TRAIN else container["name"]
    return read_manifest(
        "trainjob.yaml",
        metadata=write_metadata(name, request),
        request=request,
        step=step,
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
