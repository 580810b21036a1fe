"""SkyPilot: managed jobs, one task a segment, chained in pipelines; each task rents its own nodes.

SkyPilot enforces a price by the hour (``max_hourly_cost``), recovers spot VMs, and stops what is idle. A total budget
is enforced by nobody, time limits by ``timeout`` on the nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from optplan.contracts.resources import Resource
from optplan.runtime.exports.commands import write_promotion
from optplan.runtime.exports.kubernetes import write_yaml
from optplan.runtime.exports.request import ExportRequest, Template, require_known
from optplan.runtime.exports.steps import CannotExpressError, Kind, Outline, Step
from optplan.schema import ByName


class SkyPilotTemplate(Template):
    """What is merged into tasks.

    Parameters
    ----------
    bucket
        Where checkpoints, metrics and the files of the export are: mounted on every node at ``run_dir``.
    run_dir
        That folder.
    infra
        Cloud, or cloud and region, as in ``aws/us-east-1``; the plan's provider and region by default.
    image_id
        Of the nodes.
    accelerators
        By the plan's GPU type, SkyPilot's name for it.
    hourly_margin
        ``max_hourly_cost`` is the plan's price of the task's nodes times one plus this.
    idle_minutes
        After which a node that does nothing is stopped.
    """

    bucket: Annotated[str, Field(pattern=r"^[a-z0-9]+://.+$")]
    run_dir: Annotated[str, Field(pattern=r"^/[A-Za-z0-9_./-]*$")] = "/optplan"
    infra: str | None = None
    image_id: str | None = None
    accelerators: ByName[str] = Field(default_factory=dict)
    hourly_margin: Annotated[float, Field(ge=0)] = 0.1
    idle_minutes: Annotated[int, Field(ge=1)] = 10


def write_files(outline: Outline, request: ExportRequest) -> Mapping[str, str]:
    """Return the pipelines, and the script that launches them.

    Raises
    ------
    CannotExpressError
        When segments of different sizes run side by side: tasks of a pipeline follow one another.
    """
    template = request.template
    assert isinstance(template, SkyPilotTemplate)  # the exporter's entry names it
    types = [resource.gpu_type for resource in outline.plan.resources.values()]
    require_known("accelerators", template.accelerators, types)
    if outline.kind is Kind.STREAM:
        files = {
            f"tasks/{way.name}.yaml": _write_pipeline(outline, way.name, way.steps, request) for way in outline.ways
        }
        return {**files, "submit.sh": _STREAM}
    if outline.kind is Kind.FLEET:
        if len(outline.steps) > 1:
            many = f"the fleet has {len(outline.steps)} groups of nodes, and a task's nodes are alike"
            raise CannotExpressError(f"cannot express: {many}; use --to slurm or kubernetes")
        return {
            "tasks/train.yaml": _write_pipeline(outline, "train", outline.steps, request),
            "submit.sh": _submit("train"),
        }
    for level in outline.levels():
        if len(level) > 1:
            names = " and ".join(repr(step.segment.id) for step in level[:2])
            many = f"{names} run side by side, and tasks of a pipeline follow one another"
            raise CannotExpressError(f"cannot express: {many}; use --to slurm or kubernetes")
    return {
        "tasks/search.yaml": _write_pipeline(outline, "search", outline.steps, request),
        "stage.sh": _STAGE,
        "submit.sh": _submit("search"),
    }


def _write_pipeline(outline: Outline, name: str, steps: Sequence[Step], request: ExportRequest) -> str:
    tasks = [{"name": f"{outline.tag}-{name}"}, *(_write_task(outline, step, request) for step in steps)]
    return "---\n".join(write_yaml(task) for task in tasks)


def _write_task(outline: Outline, step: Step, request: ExportRequest) -> dict[str, Any]:
    template = request.template
    assert isinstance(template, SkyPilotTemplate)  # the exporter's entry names it
    resource = outline.plan.resources[step.segment.resource]
    search = outline.kind is Kind.SEARCH
    nodes = step.segment.nodes if search else step.shape.nodes
    folder = template.run_dir
    if search:
        run = f"bash {folder}/stage.sh {step.name} {step.segment.members} {step.shape.nodes} {step.shape.gpus_per_node}"
        promote = write_promotion(request, folder)
        before = [f"{promote} {step.name}"] if step.is_promoted else []
        after = [f"{promote} --winner"] if step.name == outline.steps[-1].name else []
        lines = [*before, run, *(f"[[ $SKYPILOT_NODE_RANK != 0 ]] || {line}" for line in after)]
    else:
        lines = [f"timeout --signal=TERM {step.limit_s} bash {folder}/launch.sh {step.name}"]
    task: dict[str, Any] = {
        "name": f"{outline.tag}-{step.name}",
        "num_nodes": nodes,
        "resources": _write_resources(resource, step, template, request, whole=search),
        "file_mounts": {folder: {"source": template.bucket, "mode": "MOUNT"}},
        "run": "".join(f"{line}\n" for line in ["set -euo pipefail", *lines]),
    }
    if outline.kind is Kind.STREAM:
        task["envs"] = {"OPTPLAN_JOB": "optplan-job"}
    return task


def _write_resources(
    resource: Resource, step: Step, template: SkyPilotTemplate, request: ExportRequest, *, whole: bool
) -> dict[str, Any]:
    gpus = resource.gpus_per_node if whole else step.shape.gpus_per_node
    if request.options.gpus_per_node is not None:
        gpus = request.options.gpus_per_node
    found: dict[str, Any] = {}
    infra = template.infra or "/".join(each for each in (resource.provider, resource.region) if each)
    if infra:
        found["infra"] = infra
    if resource.instance_type:
        found["instance_type"] = resource.instance_type
    else:
        kind = template.accelerators.get(resource.gpu_type, resource.gpu_type.upper())
        found["accelerators"] = {kind: gpus}
    if template.image_id is not None:
        found["image_id"] = template.image_id
    found["use_spot"] = resource.spot
    if resource.price_usd_per_hour is not None:
        hourly = resource.price_usd_per_hour * gpus / resource.gpus_per_node
        found["max_hourly_cost"] = round(hourly * (1 + template.hourly_margin), 4)
    found["autostop"] = {"idle_minutes": template.idle_minutes}
    found["job_recovery"] = {"strategy": None, "max_restarts_on_errors": request.options.retries}
    return found


def _submit(name: str) -> str:
    return _HEAD + _ONCE + f"sky jobs launch --yes --detach-run tasks/{name}.yaml\n"


_HEAD = """#!/usr/bin/env bash
# Launches the plan as managed jobs. The files of this folder have to be in the bucket that the tasks mount.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"
"""

_ONCE = """if ! mkdir launched 2>/dev/null; then
  echo "submit.sh: was launched before; when sky jobs queue shows that it has ended, rmdir launched" >&2
  exit 1
fi
trap 'code=$?; ((code == 0)) || rmdir launched' EXIT
"""

_STREAM = (
    _HEAD
    + """# A job of a class: submit.sh NAME WAY. `optplan submit` chooses the way.
name=$1 way=$2
[[ $name =~ ^[A-Za-z0-9][A-Za-z0-9._-]*$ ]] || { echo "submit.sh: no name for a job: $name" >&2; exit 2; }
[[ -e tasks/$way.yaml ]] || { echo "submit.sh: there is no way $way" >&2; exit 2; }
sky jobs launch --yes --detach-run --name "$name" --env "OPTPLAN_JOB=$name" "tasks/$way.yaml"
"""
)

_STAGE = """#!/usr/bin/env bash
# Runs this node's trials of a stage, each on GPUs of its own: stage.sh STEP MEMBERS NODES GPUS
#
# NODES and GPUS are what one trial holds: so many nodes, and so many GPUs on each.
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
step=$1 members=$2 nodes=$3 gpus=$4
count=${SKYPILOT_NUM_NODES} rank=${SKYPILOT_NODE_RANK}
own=${SKYPILOT_NUM_GPUS_PER_NODE}
# Groups of NODES nodes have one trial at a time, single nodes as many as their GPUs are enough for.
slots=1
((nodes > 1)) || slots=$((own / gpus))
groups=$((count / nodes))
((rank < groups * nodes)) || exit 0
group=$((rank / nodes))
export OPTPLAN_NODE_RANK=$((rank % nodes))
MASTER_ADDR=$(sed -n "$((group * nodes + 1))p" <<<"$SKYPILOT_NODE_IPS")
export MASTER_ADDR
run() {
  local place
  for ((place = group * slots + $1 + 1; place <= members; place += groups * slots)); do
    CUDA_VISIBLE_DEVICES=$(seq -s , $(($1 * gpus)) $((($1 + 1) * gpus - 1))) MASTER_PORT=$((29500 + $1)) \\
      bash "$here/launch.sh" "$step" "$place" || echo "stage.sh: place $place of $step failed" >&2
  done
}
for ((slot = 0; slot < slots; slot++)); do
  run "$slot" &
done
wait
"""
