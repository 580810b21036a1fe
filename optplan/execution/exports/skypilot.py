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
from typing import Annotated, Any

from pydantic import Field

from optplan.contracts.resources import Resource
from optplan.execution.exports.commands import split, write_promotion
from optplan.execution.exports.request import ExportRequest, Template, require_known, write_yaml
from optplan.execution.exports.steps import CannotExpressError, Kind, Outline, Step
from optplan.schema import ByName


class SkyPilotTemplate(Template):
    """What is merged into tasks.

    ``setup`` runs once on each node before its first trial, in a shell of its own. ``bucket`` is mounted on every node
    at ``run_dir``, for checkpoints, metrics and the files of the export. ``infra`` is a cloud, or cloud and region as
    in ``aws/us-east-1``; the plan's by default. ``accelerators`` has SkyPilot's names for the plan's GPU types.
    ``max_hourly_cost`` is the plan's price of the task's nodes times one plus ``hourly_margin``.
    """

    bucket: Annotated[str, Field(pattern=r"^[a-z0-9]+://.+$")]
    run_dir: Annotated[str, Field(pattern=r"^/[A-Za-z0-9_./-]*$")] = "/optplan"
    infra: str | None = None
    image_id: str | None = None
    accelerators: ByName[str] = Field(default_factory=dict)
    hourly_margin: Annotated[float, Field(ge=0)] = 0.1
    idle_minutes: Annotated[int, Field(ge=1)] = 10

    @property
    def member_setup(self) -> str:
        """Nothing: the nodes have been set up before."""
        return ""


def write_files(outline: Outline, request: ExportRequest) -> Mapping[str, str]:
    """Return the pipelines, whose tasks follow one another, and the script that launches them."""
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
        "stage.sh": _write_stage(request),
        "submit.sh": _submit("search"),
    }


def _write_pipeline(outline: Outline, name: str, steps: Sequence[Step], request: ExportRequest) -> str:
    following = [step.name for step in steps[1:]] + ["--winner"]
    tasks: list[Mapping[str, Any]] = [{"name": f"{request.tag}-{name}"}]
    tasks += [_write_task(outline, step, after, request) for step, after in zip(steps, following, strict=True)]
    return "---\n".join(write_yaml(task) for task in tasks)


def _write_task(outline: Outline, step: Step, after: str, request: ExportRequest) -> dict[str, Any]:
    template = request.template
    assert isinstance(template, SkyPilotTemplate)  # the exporter's entry names it
    resource = outline.plan.resources[step.segment.resource]
    search = outline.kind is Kind.SEARCH
    folder = template.run_dir
    run = f"bash {folder}/launch.sh {step.name}"
    setup = template.setup.splitlines()
    if search:
        shape, size = step.shape, request.options.gpus_per_node or resource.gpus_per_node
        run = f"bash {folder}/stage.sh {step.name} {shape.nodes} {shape.gpus_per_node} {size} {after}"
        setup.append(f"{shlex.join(split(template.optplan))} --version  # decides who goes on")
    task: dict[str, Any] = {
        "name": f"{request.tag}-{step.name}",
        "workdir": request.workdir,
        "num_nodes": step.segment.nodes if search else step.shape.nodes,
        "resources": _write_resources(resource, step, template, request, whole=search),
        "file_mounts": {folder: {"source": template.bucket, "mode": "MOUNT_CACHED"}},
        "envs": {"OPTPLAN_EXPECTED": request.export_id},
        "run": f"{run}\n",
    }
    if setup:
        task["setup"] = "".join(f"{line}\n" for line in ["set -e", *setup])
    if outline.kind is Kind.STREAM:
        task["envs"]["OPTPLAN_JOB"] = "optplan-job"
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
    # Trials of a search are started again one by one; a stage that fails has nobody who could go on.
    restarts = 0 if whole else request.options.retries
    found["job_recovery"] = {"strategy": None, "max_restarts_on_errors": restarts}
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


def _write_stage(request: ExportRequest) -> str:
    promote = write_promotion(request, '"$here"')
    return _STAGE.replace("@RETRIES@", str(request.options.retries)).replace("@PROMOTE@", promote)


_STAGE = """#!/usr/bin/env bash
# Runs this node's trials of a stage, each on GPUs of its own; the first node waits for all, and decides who goes on.
# It fails where nobody does, so that no nodes are rented for the next stage: stage.sh STEP NODES GPUS SIZE NEXT
#
# NODES and GPUS are what one trial holds: so many nodes, and so many GPUs on each; SIZE is how many GPUs a node has.
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
step=$1 nodes=$2 gpus=$3 size=$4 next=$5
count=$SKYPILOT_NUM_NODES rank=$SKYPILOT_NODE_RANK task=$SKYPILOT_TASK_ID
# Groups of NODES nodes have one trial at a time, single nodes as many as their GPUs are enough for.
slots=1
((nodes > 1)) || slots=$((size / gpus))
groups=$((count / nodes))
if ((slots == 0 || groups == 0)); then
  echo "stage.sh: a trial needs $nodes nodes of $gpus GPUs, and there are $count of $size" >&2
  exit 1
fi
group=$((rank / nodes))
export OPTPLAN_NODE_RANK=$((rank % nodes))
mapfile -t trials <"$here/members/$step.txt"
# What has failed for good leaves a mark of this task: a new one tries again.
has_failed() { [[ $(cat "$here/trials/$1/failed-$step" 2>/dev/null) == "$task" ]]; }
run() {
  local place try code
  for ((place = group * slots + $1; place < ${#trials[@]}; place += groups * slots)); do
    ! has_failed "${trials[place]}" || continue
    for ((try = 0; try <= @RETRIES@; try++)); do
      code=0
      CUDA_VISIBLE_DEVICES=$(seq -s , $(($1 * gpus)) $((($1 + 1) * gpus - 1))) MASTER_PORT=$((29500 + $1)) \\
        bash "$here/launch.sh" "$step" $((place + 1)) || code=$?
      ((code != 0)) || break
      echo "stage.sh: ${trials[place]} failed in $step" >&2
      ((code != 143)) || return 0 # the node is asked to end
      ((code != 4 && code != 124)) || break # its time is over
    done
    if ((code != 0 && OPTPLAN_NODE_RANK == 0)); then
      mkdir -p "$here/trials/${trials[place]}"
      printf '%s\\n' "$task" >"$here/trials/${trials[place]}/failed-$step"
    fi
  done
}
if ((group < groups)); then
  MASTER_ADDR=$(sed -n "$((group * nodes + 1))p" <<<"$SKYPILOT_NODE_IPS")
  export MASTER_ADDR
  for ((slot = 0; slot < slots; slot++)); do
    run "$slot" &
  done
  wait
fi
((rank == 0)) || exit 0
for trial in "${trials[@]}"; do
  until [[ -e $here/trials/$trial/ended-$step ]] || has_failed "$trial"; do
    sleep 5 # other nodes' trials; what they write is seen here after seconds
  done
done
[[ $next != --winner ]] || exec @PROMOTE@ --winner
code=0
@PROMOTE@ "$next" || code=$?
if ((code == 0)) && [[ ! -s $here/members/$next.txt ]]; then
  code=1
fi
((code == 0)) || @PROMOTE@ --winner || true
exit "$code"
"""
