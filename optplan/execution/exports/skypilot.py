"""SkyPilot: managed jobs, one task a segment, chained in pipelines; each task rents its own nodes.

SkyPilot enforces a price by the hour (``max_hourly_cost``), recovers spot VMs, and stops what is idle. A total budget
is enforced by nobody, time limits by the launcher.

The bucket is mounted with a cache on the node (``MOUNT_CACHED``): mounted plainly it takes whole objects only, and
neither appends nor writes in their midst. What is written arrives after seconds, before a task ends in any case. So
nobody is ranked by what may still be on its way: a trial's mark of its end has its metrics, and is one object.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import Field

from optplan.execution.exports.folder import read_manifest, read_script
from optplan.execution.exports.request import ExportRequest, Template, require_known, split, write_promotion, write_yaml
from optplan.execution.exports.steps import CannotExpressError, Step
from optplan.schema import ByName


class SkyPilotTemplate(Template):
    """What is merged into tasks; ``accelerators`` has SkyPilot's names for the plan's GPU types."""

    SETS_UP: ClassVar[bool] = False
    bucket: Annotated[str, Field(pattern=r"^[a-z0-9]+://.+$")]
    run_dir: Annotated[str, Field(pattern=r"^/[A-Za-z0-9_./-]*$")] = "/optplan"
    infra: str | None = None
    image_id: str | None = None
    accelerators: ByName[str] = Field(default_factory=dict)
    hourly_margin: Annotated[float, Field(ge=0)] = 0.1
    idle_minutes: Annotated[int, Field(ge=1)] = 10


def write_files(request: ExportRequest) -> Mapping[str, str]:
    """Return the pipelines, whose tasks follow one another, and the script that launches them."""
    template = request.template_as(SkyPilotTemplate)
    types = [resource.gpu_type for resource in request.plan.resources.values()]
    require_known("accelerators", template.accelerators, types)
    pipelines = _list_pipelines(request)
    files = {f"tasks/{name}.yaml": _write_pipeline(name, steps, request) for name, steps in pipelines.items()}
    if request.kind == "stream":
        return {**files, "submit.sh": read_script("skypilot-stream.sh")}
    if request.kind == "search":
        promote = write_promotion(request, '"$here"')
        files["stage.sh"] = read_script("skypilot-stage.sh", retries=request.options.retries, promote=promote)
    return {**files, "submit.sh": read_script("skypilot.sh", name=next(iter(pipelines)))}


def _list_pipelines(request: ExportRequest) -> dict[str, Sequence[Step]]:
    """Return steps that follow one another, by what their pipeline is called."""
    if request.kind == "stream":
        return {way.name: way.steps for way in request.ways}
    request.require_one_group("and a task's nodes are alike; use --to slurm or kubernetes")
    for level in request.levels() if request.kind == "search" else ():
        if len(level) > 1:
            names = " and ".join(repr(step.segment.id) for step in level[:2])
            many = f"{names} run side by side, and tasks of a pipeline follow one another"
            raise CannotExpressError(f"cannot express: {many}; use --to slurm or kubernetes")
    return {"train" if request.kind == "fleet" else "search": request.steps}


def _write_pipeline(name: str, steps: Sequence[Step], request: ExportRequest) -> str:
    following = [step.name for step in steps[1:]] + ["--winner"]
    tasks: list[Mapping[str, Any]] = [{"name": f"{request.tag}-{name}"}]
    tasks += [_write_task(step, after, request) for step, after in zip(steps, following, strict=True)]
    return "---\n".join(write_yaml(task) for task in tasks)


def _write_task(step: Step, after: str, request: ExportRequest) -> dict[str, Any]:
    template = request.template_as(SkyPilotTemplate)
    resource = request.plan.resources[step.segment.resource]
    search = request.kind == "search"
    folder = template.run_dir
    run = f"bash {folder}/launch.sh {step.name}"
    setup = template.setup.splitlines()
    if search:
        shape, size = step.shape, request.options.gpus_per_node or resource.gpus_per_node
        run = f"bash {folder}/stage.sh {step.name} {shape.nodes} {shape.gpus_per_node} {size} {after}"
        setup.append(f"{shlex.join(split(template.optplan))} --version  # decides who goes on")
    size = request.options.gpus_per_node or (resource.gpus_per_node if search else step.shape.gpus_per_node)
    kind = template.accelerators.get(resource.gpu_type, resource.gpu_type.upper())
    price = resource.price_usd_per_hour
    hourly = None if price is None else price * size / resource.gpus_per_node
    return read_manifest(
        "skypilot-task.yaml",
        name=f"{request.tag}-{step.name}",
        request=request,
        resource=resource,
        nodes=step.segment.nodes if search else step.shape.nodes,
        infra=template.infra or "/".join(each for each in (resource.provider, resource.region) if each) or None,
        instance_type=resource.instance_type or None,
        accelerators=None if resource.instance_type else {kind: size},
        max_hourly_cost=None if hourly is None else round(hourly * (1 + template.hourly_margin), 4),
        # Trials of a search are started again one by one; a stage that fails has nobody who could go on.
        restarts=0 if search else request.options.retries,
        mounts={folder: {"source": template.bucket, "mode": "MOUNT_CACHED"}},
        job="optplan-job" if request.kind == "stream" else None,
        run=f"{run}\n",
        setup="".join(f"{line}\n" for line in ["set -e", *setup]) if setup else None,
    )
