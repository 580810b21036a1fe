"""Slurm: one job for each segment, chained by dependencies; arrays for trials, and jobs that decide between stages.

GPU jobs of Slurm cannot grow in place, so every segment asks for its own size and goes on from the checkpoint of the
one before. Slurm enforces time limits and the number of GPUs; nobody enforces a budget in money.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

from pydantic import Field

from optplan.contracts.plan import Segment
from optplan.errors import DataError
from optplan.execution.exports.folder import begin_stream, read_script
from optplan.execution.exports.request import ExportRequest, Template, require_known, write_promotion
from optplan.execution.exports.steps import Step
from optplan.schema import ByName

#: Tasks of one array: with Slurm's default MaxArraySize, 1001, their numbers end at 1000.
_LONGEST_ARRAY = 1000

#: Seconds that the start of a job and its set-up may take beside its time limit.
_START_S = 60

_Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:@,/+-]*$")]


class SlurmTemplate(Template):
    """What is merged into Slurm's files; ``gpus`` has the plan's types as ``gres.conf`` does, ``resources`` options."""

    partition: _Word | None = None
    account: _Word | None = None
    qos: _Word | None = None
    reservation: _Word | None = None
    constraint: str | None = None
    gpus: ByName[str] = Field(default_factory=dict)
    resources: ByName[ByName[str]] = Field(default_factory=dict)
    options: ByName[str] = Field(default_factory=dict)


def write_files(request: ExportRequest) -> Mapping[str, str]:
    """Return the batch scripts, and the script that submits them."""
    template = request.template_as(SlurmTemplate)
    types = [resource.gpu_type for resource in request.plan.resources.values()]
    require_known("gpus", template.gpus, types)
    require_known("resources", template.resources, request.plan.resources)
    if request.kind == "fleet":
        job = _write_job(request.steps, request)
        return {"jobs/train.sbatch": job, "submit.sh": _submit(["submit train"])}
    if request.kind == "stream":
        return _write_stream(request)
    return _write_search(request)


def _write_search(request: ExportRequest) -> dict[str, str]:
    found, lines = {}, []
    for step in request.steps:
        depends = ""
        if step.after:
            decider = f"decide-{step.name}"
            found[f"jobs/{decider}.sbatch"] = _write_decision(request, decider, step.name)
            lines.append(
                f"submit {decider} --dependency=afterany{''.join(f':${{job[{name}]}}' for name in step.after)}"
            )
            depends = f" --dependency=afterok:${{job[{decider}]}} --kill-on-invalid-dep=yes"
        found[f"jobs/{step.name}.sbatch"] = _write_job([step], request, member="${member}")
        lines += [f"submit {step.name}{depends} {array}" for array in _arrays(step.segment)]
    found["jobs/winner.sbatch"] = _write_decision(request, "winner", "--winner")
    awaited = "".join(f":${{job[{step.name}]}}" for step in request.last())
    lines.append(f"submit winner --dependency=afterany{awaited}")
    return {**found, "submit.sh": _submit(lines)}


def _arrays(segment: Segment) -> Iterable[str]:
    """Yield options of sbatch for all members of a segment, as many arrays as their numbers need."""
    chunks = math.ceil(segment.members / _LONGEST_ARRAY)
    at_once = max(1, segment.at_once // chunks)
    for offset in range(0, segment.members, _LONGEST_ARRAY):
        many = min(_LONGEST_ARRAY, segment.members - offset)
        yield f"--array=1-{many}%{min(at_once, many)} --export=ALL,OPTPLAN_OFFSET={offset}"


def _write_stream(request: ExportRequest) -> dict[str, str]:
    found = {}
    for way in request.ways:
        for place, step in enumerate(way.steps):
            after = way.steps[place + 1].name if place + 1 < len(way.steps) else ""
            found[f"jobs/{step.name}.sbatch"] = _write_job([step], request, after=after)
    what = (
        "# Submits a job of a class: submit.sh NAME WAY. Its later segments are submitted by those before them.\n"
        "# `optplan submit` chooses the way.\n"
    )
    submit = begin_stream(what, {way.name: f"step={way.steps[0].name}" for way in request.ways})
    return {**found, "submit.sh": submit + read_script("slurm-stream.sh")}


def _write_job(steps: Sequence[Step], request: ExportRequest, *, member: str = "1", after: str = "") -> str:
    name = f"{request.tag}-{'train' if request.kind == 'fleet' else steps[0].name}"
    log = "logs/%x-%A_%a.log" if request.kind == "search" else "logs/%x-%j.log"
    options = [f"--job-name={name}", f"--output={log}", "--open-mode=append", "--requeue"]
    groups = [[f"#SBATCH {option}" for option in _options(step, request)] for step in steps]
    lines = [f"#SBATCH {option}" for option in options] + groups[0]
    for group in groups[1:]:
        lines += ["#SBATCH hetjob", *group]
    job = read_script(
        "slurm-job.sh",
        plan_id=request.plan.plan_id,
        options="\n".join(lines),
        member="member=$((OPTPLAN_OFFSET + SLURM_ARRAY_TASK_ID))\n" if request.kind == "search" else "",
        run=" : ".join(_run(number, step, member, len(steps)) for number, step in enumerate(steps)),
        retries=request.options.retries,
    )
    return job + (f'sbatch --parsable --export=ALL --job-name="$SLURM_JOB_NAME" jobs/{after}.sbatch\n' if after else "")


def _run(number: int, step: Step, member: str, groups: int) -> str:
    group = f"--het-group={number} " if groups > 1 else ""
    shape = step.shape
    spread = f"--ntasks={shape.nodes}" + ("" if _is_by_gpu(step) else " --ntasks-per-node=1")
    return f"{group}{spread} --kill-on-bad-exit=1 bash launch.sh {step.name} {member}"


def _is_by_gpu(step: Step) -> bool:
    """Whether a member's GPUs may be on any nodes, one task each."""
    return step.shape.gpus_per_node == 1 and step.shape.nodes > 1


def _options(step: Step, request: ExportRequest) -> list[str]:
    template = request.template_as(SlurmTemplate)
    resource = request.plan.resources[step.segment.resource]
    kind = template.gpus.get(resource.gpu_type, "")
    typed = f"{_require_word(f'template.gpus.{resource.gpu_type}', kind)}:" if kind else ""
    shape = step.shape
    if _is_by_gpu(step):
        found = [f"--ntasks={shape.nodes}", f"--gpus-per-task={typed}1"]
    else:
        found = [f"--nodes={shape.nodes}", "--ntasks-per-node=1", f"--gres=gpu:{typed}{shape.gpus_per_node}"]
    # The launcher's own limit comes before it, and says so.
    found.append(f"--time={_write_time(step.limit_s + request.options.grace_s + _START_S)}")
    named = ("partition", "account", "qos", "reservation", "constraint")
    own = {name: getattr(template, name) for name in named if getattr(template, name) is not None}
    extra = {**own, **template.options, **template.resources.get(step.segment.resource, {})}
    return [*found, *(_write_option(name, value) for name, value in extra.items())]


_TAKEN = (
    "nodes ntasks ntasks-per-node gres gpus gpus-per-node gpus-per-socket gpus-per-task ntasks-per-gpu wrap chdir "
    "export time array dependency job-name"
)


def _write_option(name: str, value: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
        raise DataError(
            "template.options", f"got {name!r}", "give the long name of an option of sbatch, without dashes"
        )
    if name in _TAKEN.split():
        raise DataError(f"template.options.{name}", "the plan says it", "leave it out")
    if not value.isprintable():
        raise DataError(f"template.options.{name}", f"got {value!r}", "an option stands on one line")
    # Unlike a shell, sbatch takes a backslash for an escape within single quotes, too.
    quoted = shlex.quote(value).replace("\\", "\\\\")
    return f"--{name}={quoted}" if value else f"--{name}"


def _require_word(path: str, text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", text):
        raise DataError(path, f"got {text!r}", "give the name of a GPU type in gres.conf")
    return text


def _write_time(seconds: int) -> str:
    """Write a time limit; Slurm rounds to minutes."""
    minutes = max(1, math.ceil(seconds / 60))
    return f"{minutes // 1440}-{minutes // 60 % 24:02d}:{minutes % 60:02d}:00"


def _write_decision(request: ExportRequest, name: str, what: str) -> str:
    template = request.template_as(SlurmTemplate)
    own = {name: getattr(template, name) for name in ("partition", "account", "qos") if getattr(template, name)}
    return read_script(
        "slurm-decide.sh",
        tag=request.tag,
        name=name,
        options="".join(f"#SBATCH {_write_option(name, value)}\n" for name, value in own.items()),
        setup="".join(f"{line}\n" for line in template.setup.splitlines()),
        promote=f"{write_promotion(request)} {what}",
    )


def _submit(lines: Iterable[str]) -> str:
    return read_script("slurm.sh", lock=read_script("lock.sh")) + "".join(f"{line}\n" for line in lines)
