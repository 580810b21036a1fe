"""SkyPilot: managed jobs, one task a segment, chained in pipelines; each task rents its own nodes.

SkyPilot enforces a price by the hour (``max_hourly_cost``), recovers spot VMs, and stops what is idle. A total budget
is enforced by nobody, time limits by the launcher.

The bucket is mounted with a cache on the node (``MOUNT_CACHED``): mounted plainly it takes whole objects only, and
neither appends nor writes in their midst. What is written arrives after seconds, before a task ends in any case. So
nobody is ranked by what may still be on its way: a trial's mark of its end has its metrics, and is one object.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from optplan.execution.exports.request import Export, Template, require_known, write_yaml
from optplan.execution.exports.steps import CannotExpressError, Step
from optplan.schema import ByName


class SkyPilotTemplate(Template):
    """What is merged into tasks; ``accelerators`` has SkyPilot's names for the plan's GPU types."""

    bucket: Annotated[str, Field(pattern=r"^[a-z0-9]+://.+$")]
    run_dir: Annotated[str, Field(pattern=r"^/[A-Za-z0-9_./-]*$")] = "/optplan"
    infra: str | None = None
    image_id: str | None = None
    accelerators: ByName[str] = Field(default_factory=dict)
    hourly_margin: Annotated[float, Field(ge=0)] = 0.1
    idle_minutes: Annotated[int, Field(ge=1)] = 10


class SkyPilotExport(Export):
    """An export to managed jobs of SkyPilot."""

    SUMMARY = "managed jobs, one task a segment, chained in pipelines"
    NEEDS = "sky, and a bucket that its nodes mount"
    PREPARES = True

    template: SkyPilotTemplate

    def write_files(self) -> Mapping[str, str]:
        """Return the pipelines, whose tasks follow one another, and the script that launches them."""
        types = [resource.gpu_type for resource in self.plan.resources.values()]
        require_known("accelerators", self.template.accelerators, types)
        pipelines = self._list_pipelines()
        files = {f"tasks/{name}.yaml": self._write_pipeline(name, steps) for name, steps in pipelines.items()}
        if self.outline.kind == "stream":
            return {**files, "submit.sh": self.write_script("skypilot-stream.sh")}
        if self.outline.kind == "search":
            files["stage.sh"] = self.write_script("skypilot-stage.sh")
        return {**files, "submit.sh": self.write_script("skypilot.sh", name=next(iter(pipelines)))}

    def _list_pipelines(self) -> dict[str, Sequence[Step]]:
        """Return steps that follow one another, by what their pipeline is called."""
        taken = self.outline
        if taken.kind == "stream":
            return {way.name: way.steps for way in taken.ways}
        self.require_one_group("and a task's nodes are alike; use --to slurm or kubernetes")
        for level in taken.levels() if taken.kind == "search" else ():
            if len(level) > 1:
                names = " and ".join(repr(step.segment.id) for step in level[:2])
                many = f"{names} run side by side, and tasks of a pipeline follow one another"
                raise CannotExpressError(f"cannot express: {many}; use --to slurm or kubernetes")
        return {"train" if taken.kind == "fleet" else "search": taken.steps}

    def _write_pipeline(self, name: str, steps: Sequence[Step]) -> str:
        following = [step.name for step in steps[1:]] + ["--winner"]
        tasks: list[Mapping[str, Any]] = [{"name": f"{self.tag}-{name}"}]
        tasks += [self._write_task(step, after) for step, after in zip(steps, following, strict=True)]
        return "---\n".join(write_yaml(task) for task in tasks)

    def _write_task(self, step: Step, after: str) -> dict[str, Any]:
        template, resource = self.template, self.plan.resources[step.segment.resource]
        kind = template.accelerators.get(resource.gpu_type, resource.gpu_type.upper())
        setup = template.setup.splitlines()
        if self.outline.kind == "search":
            size = self.gpus_per_node or resource.gpus_per_node
            nodes, restarts = step.segment.nodes, 0  # trials are started again one by one
            run = f"stage.sh {step.name} {step.nodes} {step.gpus_per_node} {size} {after}"
            setup.append(f"{self.optplan} --version  # decides who goes on")
        else:
            size = self.gpus_per_node or step.gpus_per_node
            nodes, restarts = step.nodes, self.retries
            run = f"launch.sh {step.name}"
        price = resource.price_usd_per_hour
        most = None if price is None else price * size / resource.gpus_per_node * (1 + template.hourly_margin)
        return self.write_manifest(
            "skypilot-task.yaml",
            name=f"{self.tag}-{step.name}",
            resource=resource,
            nodes=nodes,
            infra=template.infra or "/".join(each for each in (resource.provider, resource.region) if each) or None,
            instance_type=resource.instance_type or None,
            accelerators=None if resource.instance_type else {kind: size},
            max_hourly_cost=None if most is None else round(most, 4),
            restarts=restarts,
            mounts={template.run_dir: {"source": template.bucket, "mode": "MOUNT_CACHED"}},
            job="optplan-job" if self.outline.kind == "stream" else None,
            run=f"bash {template.run_dir}/{run}\n",
            setup="".join(f"{line}\n" for line in ["set -e", *setup]) if setup else None,
        )
