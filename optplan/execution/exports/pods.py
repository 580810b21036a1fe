"""Pods of Kubernetes: what the template says of them, what a step needs, and the user's overlay merged in."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from optplan.errors import DataError
from optplan.execution.exports.folder import read_manifest
from optplan.execution.exports.request import ExportRequest, Template, require_known
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
    """What is merged into pods.

    ``image`` has the training code and Bash. ``run_dir``, the folder of the export in the containers, is on the volume
    of ``claim``, which all of them mount. ``requests`` are of other resources, such as ``cpu: "8"``; extended ones,
    such as ``rdma/hca``, are limits, too. ``queue`` is Kueue's local queue; ``elastic`` sets its annotation to resize
    jobs, a feature that it has to have switched on.
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


def name_object(name: str, request: ExportRequest) -> str:
    """Return what an object is called: the export's tag, the step, and for streams what stands for the job."""
    return f"{request.tag}-{name}" + (f"-{JOB_NAME}" if request.kind == "stream" else "")


def write_metadata(name: str, request: ExportRequest) -> dict[str, Any]:
    """Return an object's metadata."""
    template = request.template_as(PodTemplate)
    queue = {} if template.queue is None else {"kueue.x-k8s.io/queue-name": template.queue}
    return read_manifest(
        "metadata.yaml",
        name=name_object(name, request),
        namespace=template.namespace,
        labels={**PART_OF, **template.labels, **queue},
        plan_id=request.plan.plan_id,
        export_id=request.export_id,
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
        run_dir=template.run_dir,
        claim=template.claim,
        node_selector=dict(place.node_selector),
        tolerations=[dict(each) for each in place.tolerations],
        service_account=template.service_account,
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
