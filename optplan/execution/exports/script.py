"""Plain shell on one machine: segments one after the other, its GPUs dealt out to the trials that run side by side.

Time limits are kept by the launcher, budgets by nobody. Where the script is interrupted, what it started ends with it.
"""

from __future__ import annotations

from collections.abc import Mapping

from optplan.execution.exports.folder import begin_stream, read_script, write_decide
from optplan.execution.exports.request import ExportRequest, write_promotion
from optplan.execution.exports.steps import CannotExpressError

#: What else could be done where one machine is not enough.
_ELSE = "use --to slurm, skypilot or kubernetes"


def write_files(request: ExportRequest) -> Mapping[str, str]:
    """Return the script that runs the plan, or one job of a class, on one machine."""
    _require_one_machine(request)
    if request.kind == "stream":
        return {"submit.sh": _write_stream(request)}
    head = read_script("script.sh", lock=read_script("lock.sh"), retries=request.options.retries)
    lines = [head, write_decide(request)]
    for level in request.levels():
        lines += [f"decide {step.name}" for step in level if step.is_promoted]
        first = 0
        for step in level:
            shape = step.shape
            lines.append(f"stage {step.name} {step.segment.members} {step.segment.at_once} {first} {shape.gpus} &")
            first += step.segment.at_once * shape.gpus
        lines.append("wait")
    if request.kind == "search":
        lines.append(f"{write_promotion(request)} --winner")
    else:
        lines.append(f"[[ -e trials/job/ended-{request.steps[0].name} ]]")
    return {"submit.sh": "".join(f"{line}\n" for line in lines)}


def _require_one_machine(request: ExportRequest) -> None:
    for step in request.steps:
        if step.shape.nodes > 1:
            problem = f"segment {step.segment.id!r} gives {step.shape.nodes} nodes to one member"
            fix = f"give --gpus-per-node of a machine that has them all, or {_ELSE}"
            raise CannotExpressError(f"cannot express: {problem}, and a plain script has one machine; {fix}")
    request.require_one_group(f"and a plain script has one machine; {_ELSE}")
    for level in [] if request.kind == "stream" else request.levels():
        held = sum(step.segment.at_once * step.shape.gpus for step in level)
        sizes = [request.plan.resources[step.segment.resource].gpus_per_node for step in level]
        size = request.options.gpus_per_node or max(sizes)
        if held > size:
            problem = f"{level[0].segment.id!r} and what runs beside it hold {held} GPUs, and a node has {size}"
            fix = f"give --gpus-per-node of a larger machine, or {_ELSE}"
            raise CannotExpressError(f"cannot express: {problem}; {fix}")


def _write_stream(request: ExportRequest) -> str:
    what = "# Runs a job of a class: submit.sh NAME WAY. `optplan submit` chooses the way.\n"
    ways = {way.name: f"steps='{' '.join(step.name for step in way.steps)}'" for way in request.ways}
    return begin_stream(what, ways) + read_script("script-stream.sh", retries=request.options.retries)
