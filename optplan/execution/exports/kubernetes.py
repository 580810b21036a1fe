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
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from optplan.errors import DataError
from optplan.execution.exports.request import CannotExpressError, Export, Step, Template, require_known, write_yaml
from optplan.schema import ByName, FrozenModel

#: Stands for the name of a stream's job until it is submitted; a name of Kubernetes itself, so that files are valid.
_JOB_NAME = "optplan-job"
#: The container that trains, in manifests and overlays.
_TRAIN = "train"
_PART_OF = {"app.kubernetes.io/part-of": "optplan"}
#: Seconds between the launcher's own end of a command and Kubernetes' end of the pod.
_END_S = 10
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


class KubernetesTemplate(PodTemplate):
    """What is merged into Jobs and JobSets; what has ended is deleted after ``ttl_s`` seconds, by default never."""

    ttl_s: Annotated[int, Field(ge=3600)] | None = None


class TrainJobTemplate(PodTemplate):
    """What is merged into TrainJobs."""

    runtime: Annotated[str, Field(min_length=1)] = "torch-distributed"
    runtime_kind: Annotated[str, Field(pattern="^(Cluster)?TrainingRuntime$")] = "ClusterTrainingRuntime"


class _PodExport(Export):
    """An export to objects of Kubernetes, of whatever kind."""

    NEEDS = "kubectl, and a volume that all pods mount"
    IN_PODS = True

    template: PodTemplate

    def write_files(self) -> Mapping[str, str]:
        """Return the manifests, and the script that applies them in turn."""
        steps = self.outline.steps
        named = {"train": steps} if self.outline.kind == "fleet" else {step.name: (step,) for step in steps}
        found = {}
        for name, together in named.items():
            manifest = self._write_object(together, name)
            if self.template.elastic and manifest["kind"] != "Job":
                what = f"template.elastic of a {manifest['kind']}"
                raise CannotExpressError(f"cannot express: {what}; Kueue resizes Jobs only: leave it out")
            found[f"manifests/{name}.yaml"] = write_yaml(manifest)
        return {**found, "submit.sh": self._write_submission()}

    @abstractmethod
    def _write_object(self, steps: Sequence[Step], name: str) -> dict[str, Any]:
        """Return the manifest of a step, or of all groups of a fleet; several pods a trial cannot take turns."""

    def _call(self, name: str) -> str:
        """Return what an object is called: the export's tag, the step, and for streams what stands for the job."""
        return f"{self.tag}-{name}" + (f"-{_JOB_NAME}" if self.outline.kind == "stream" else "")

    def _write_metadata(self, name: str) -> dict[str, Any]:
        template = self.template
        queue = {} if template.queue is None else {"kueue.x-k8s.io/queue-name": template.queue}
        labels = {**_PART_OF, **template.labels, **queue}
        elastic = "true" if template.elastic else None
        return self.write_manifest("metadata.yaml", name=self._call(name), labels=labels, elastic=elastic)

    def _write_pod(self, step: Step, **own: object) -> dict[str, Any]:
        """Return a pod of a step, the user's overlay merged in: where it may run and as whom, and what is its own."""
        template = self.template
        require_known("placement", template.placement, self.plan.resources)
        place = template.placement.get(step.segment.resource, Placement())
        pod = self.write_manifest(
            "pod.yaml",
            node_selector=dict(place.node_selector),
            tolerations=[dict(each) for each in place.tolerations],
            image_pull_secrets=[{"name": name} for name in template.image_pull_secrets],
            **own,
        )
        return _merge_overlay(pod, self.overlay, template.gpu_resource)

    def _describe_pod(self, step: Step, member: str, before: str = "", env: Sequence[object] = ()) -> dict[str, Any]:
        """Return what a pod is for one member of a step: its container, with the launcher for command, and its end."""
        template = self.template
        folder = shlex.quote(template.run_dir).replace("$", "$$")  # Kubernetes itself replaces $(NAME), not $$
        own = {"OPTPLAN_EXPECTED": self.export_id}
        own |= {"OPTPLAN_JOB": _JOB_NAME} if self.outline.kind == "stream" else {}
        gpus = {template.gpu_resource: str(step.gpus_per_node)}
        # Kubernetes wants extended resources among the limits.
        extended = {name: amount for name, amount in template.requests.items() if _is_extended(name)}
        return {
            "image": template.image,
            "command": ["bash", "-c", f"{before}exec bash {folder}/launch.sh {step.name} {member}"],
            "env": [*env, *({"name": name, "value": value} for name, value in own.items())],
            "resources": {"requests": {**template.requests, **gpus}, "limits": {**extended, **gpus}},
            "labels": {**_PART_OF, **template.labels},
            "restart": "Never",
            "grace_s": self.grace_s + _END_S,
        }

    def _write_submission(self) -> str:
        """Return the script that applies manifests, waits for each, and has who goes on decided in between."""
        namespace = self.template.namespace
        head = self.write_script("kubernetes.sh", space="" if namespace is None else f" --namespace {namespace}")
        if self.outline.kind == "stream":
            return head + self.write_script("kubernetes-stream.sh", job=_JOB_NAME)
        if self.outline.kind == "fleet":
            return head + self.write_script("kubernetes-fleet.sh", step=self.outline.steps[0].name)
        lines = [self.write_script("decide.sh").rstrip()]
        for level in self.outline.levels():
            lines += [f"decide {step.name}" for step in level if step.is_promoted]
            lines.append(f"run {' '.join(step.name for step in level)}")
        lines.append(f"{self.optplan} promote . --winner\n")
        return head + self.write_script("kubernetes-search.sh") + "\n".join(lines)


class KubernetesExport(_PodExport):
    """An export to Jobs and JobSets."""

    SUMMARY = "a Job for each segment, a JobSet where a trial has several pods; Kueue's labels where asked"

    template: KubernetesTemplate

    def _write_object(self, steps: Sequence[Step], name: str) -> dict[str, Any]:
        step = steps[0]
        if len(steps) > 1 or step.nodes > 1:
            return self._write_jobset(steps, name)
        pod = self._write_pod(step, **self._describe_pod(step, "$((JOB_COMPLETION_INDEX + 1))"))
        return self.write_manifest("job.yaml", metadata=self._write_metadata(name), pod=pod, step=step)

    def _write_jobset(self, steps: Sequence[Step], name: str) -> dict[str, Any]:
        called = self._call(name)
        first = 0
        groups = []
        for number, step in enumerate(steps):
            segment = step.segment
            if segment.at_once < segment.members:
                turns = f"{segment.at_once} of {segment.members} trials of {step.nodes} pods at a time"
                raise CannotExpressError(
                    f"cannot express: {segment.id!r} runs {turns}, and a JobSet begins all at once"
                )
            # The pod's own index is its place among the nodes, the Job's that of the member.
            source = {"fieldRef": {"fieldPath": "metadata.annotations['jobset.sigs.k8s.io/job-index']"}}
            rank = f"export OPTPLAN_NODE_RANK=$(({first} + JOB_COMPLETION_INDEX)); "
            # Of a fleet, all groups meet at the first one's first pod; of trials, each at its own.
            replica = "0" if self.outline.kind == "fleet" else "$(JOB_INDEX)"
            env = [
                {"name": "JOB_INDEX", "valueFrom": source},
                {"name": "MASTER_ADDR", "value": f"{called}-g0-{replica}-0.{called}"},
            ]
            pod = self._write_pod(step, **self._describe_pod(step, "$((JOB_INDEX + 1))", rank, env))
            groups.append(self.write_manifest("jobset-group.yaml", name=f"g{number}", step=step, pod=pod))
            first += step.nodes
        return self.write_manifest("jobset.yaml", metadata=self._write_metadata(name), subdomain=called, groups=groups)


class TrainJobExport(_PodExport):
    """An export to TrainJobs of Kubeflow Trainer."""

    SUMMARY = "a TrainJob of Kubeflow Trainer for each segment"
    NEEDS = "kubectl, a training runtime, and a volume that its pods mount"

    template: TrainJobTemplate

    def _write_object(self, steps: Sequence[Step], name: str) -> dict[str, Any]:
        self.require_one_group("and a TrainJob has one; use --to kubernetes")
        step = steps[0]
        if step.segment.members > 1:
            many = f"{step.segment.id!r} has {step.segment.members} trials, and a TrainJob is one job"
            raise CannotExpressError(f"cannot express: {many}; use --to kubernetes")
        pod = self._write_pod(step)
        for container in pod["spec"]["containers"]:
            container["name"] = "node" if container["name"] == _TRAIN else container["name"]
        container = self._describe_pod(step, "1")
        return self.write_manifest(
            "trainjob.yaml", metadata=self._write_metadata(name), step=step, pod=pod, **container
        )


def _is_extended(name: str) -> bool:
    """Whether a resource is none of Kubernetes' own, or huge pages: neither can be promised twice."""
    return name.startswith("hugepages-") or ("/" in name and not name.partition("/")[0].endswith("kubernetes.io"))


def _merge_overlay(pod: Mapping[str, Any], overlay: Mapping[str, Any], gpu_resource: str) -> dict[str, Any]:
    """Merge the user's overlay into a pod's metadata and specification.

    Mappings are merged, lists of objects with names by their names, other lists are joined; else the overlay's value
    takes the place of what was there. What the plan, or the launcher, says of a pod is refused.
    """
    for name, part in overlay.items():
        if name not in ("metadata", "spec"):
            raise DataError(f"overlay.{name}", "a pod's template has metadata and spec", "write it below one of them")
        if not isinstance(part, Mapping):
            raise DataError(f"overlay.{name}", f"got {part!r}", "give fields and their values")
    amounts = [f"resources.{kind}.{gpu_resource}" for kind in ("limits", "requests")]
    own = [f"containers.{_TRAIN}.{name}" for name in ("command", "args", "image", *amounts)]
    taken = {f"overlay.spec.{name}" for name in ("restartPolicy", "hostname", "volumes.optplan", *own)}
    merged = _merge(pod, overlay, "overlay", taken)
    assert isinstance(merged, dict)  # as both are
    return merged


def _merge(old: object, new: object, path: str, taken: set[str]) -> object:
    if path in taken:
        raise DataError(path, "the plan or the template says it", "leave it out")
    if isinstance(new, Mapping) and (old is None or isinstance(old, Mapping)):
        before = old or {}
        merged = {name: _merge(before.get(name), value, f"{path}.{name}", taken) for name, value in new.items()}
        return {**before, **merged}
    if isinstance(old, list) and any(map(_is_named, old)):
        if not isinstance(new, list) or not all(map(_is_named, new)):
            raise DataError(path, f"got {new!r}", "give a list of objects with names")
        return _join(old, new, path, taken)
    if isinstance(old, list) and isinstance(new, list):
        return [*old, *new]
    if old is not None and isinstance(old, Mapping | list) != isinstance(new, Mapping | list):
        raise DataError(path, f"got {new!r}", f"give one of the kind of {old!r}")
    return new


def _join(old: Sequence[Any], new: Sequence[Any], path: str, taken: set[str]) -> list[Any]:
    names = [each["name"] for each in old]
    joined = list(old)
    for each in new:
        name = each["name"]
        # Mounts have the name of their volume, which may be mounted twice.
        if name not in names or path.endswith("volumeMounts"):
            joined.append(each)
        else:
            place = names.index(name)
            joined[place] = _merge(old[place], each, f"{path}.{name}", taken)
    return joined


def _is_named(each: object) -> bool:
    return isinstance(each, Mapping) and isinstance(each.get("name"), str)
