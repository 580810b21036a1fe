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

from pydantic import AfterValidator, Field

from optplan.contracts.plan import Segment
from optplan.errors import DataError
from optplan.execution.exports.request import Export, Template, require_known
from optplan.execution.exports.steps import Step
from optplan.schema import ByName

#: Tasks of one array: with Slurm's default MaxArraySize, 1001, their numbers end at 1000.
_LONGEST_ARRAY = 1000

#: Seconds that the start of a job and its set-up may take beside its time limit.
_START_S = 60

_Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:@,/+-]*$")]


def _require_type(text: str) -> str:
    if not re.fullmatch(r"([A-Za-z0-9][A-Za-z0-9_.-]*)?", text):
        raise ValueError(f"got {text!r}; the name of a GPU type in gres.conf is needed")
    return text


_GpuType = Annotated[str, AfterValidator(_require_type)]

#: Fields of the template that are options of sbatch, for all jobs and for those that hold nodes alone.
_OF_ALL = ("partition", "account", "qos")
_OF_TRAINING = (*_OF_ALL, "reservation", "constraint")

#: Options of sbatch that the plan gives.
_TAKEN = (
    "nodes ntasks ntasks-per-node gres gpus gpus-per-node gpus-per-socket gpus-per-task ntasks-per-gpu wrap chdir "
    "export time array dependency job-name"
)


class SlurmTemplate(Template):
    """What is merged into Slurm's files; ``gpus`` has the plan's types as ``gres.conf`` does, ``resources`` options."""

    partition: _Word | None = None
    account: _Word | None = None
    qos: _Word | None = None
    reservation: _Word | None = None
    constraint: str | None = None
    gpus: ByName[_GpuType] = Field(default_factory=dict)
    resources: ByName[ByName[str]] = Field(default_factory=dict)
    options: ByName[str] = Field(default_factory=dict)


class SlurmExport(Export):
    """An export to Slurm."""

    SUMMARY = "one job a segment, chained; arrays for trials; het jobs for mixed fleets"
    NEEDS = "sbatch, srun, and a folder that all nodes see"

    template: SlurmTemplate

    def write_files(self) -> Mapping[str, str]:
        """Return the batch scripts, and the script that submits them."""
        require_known("gpus", self.template.gpus, [each.gpu_type for each in self.plan.resources.values()])
        require_known("resources", self.template.resources, self.plan.resources)
        if self.outline.kind == "fleet":
            return {"jobs/train.sbatch": self._write_job("train", self.outline.steps), **self._submit(["submit train"])}
        if self.outline.kind == "stream":
            return self._write_stream()
        return self._write_search()

    def _write_search(self) -> dict[str, str]:
        found, lines = {}, []
        for step in self.outline.steps:
            depends = ""
            if step.after:
                decider = f"decide-{step.name}"
                found[f"jobs/{decider}.sbatch"] = self._write_decision(decider, step.name)
                lines.append(f"submit {decider} --dependency={_after_any(step.after)}")
                depends = f" --dependency=afterok:${{job[{decider}]}} --kill-on-invalid-dep=yes"
            found[f"jobs/{step.name}.sbatch"] = self._write_job(step.name, [step])
            lines += [f"submit {step.name}{depends} {array}" for array in _arrays(step.segment)]
        found["jobs/winner.sbatch"] = self._write_decision("winner", "--winner")
        lines.append(f"submit winner --dependency={_after_any([step.name for step in self.outline.last()])}")
        return found | self._submit(lines)

    def _write_stream(self) -> dict[str, str]:
        found = {"submit.sh": self.write_script("slurm-stream.sh")}
        for way in self.outline.ways:
            for step, after in zip(way.steps, [*way.step_names[1:], ""], strict=True):
                following = f'sbatch --parsable --export=ALL --job-name="$SLURM_JOB_NAME" jobs/{after}.sbatch\n'
                found[f"jobs/{step.name}.sbatch"] = self._write_job(step.name, [step]) + (following if after else "")
        return found

    def _write_job(self, name: str, steps: Sequence[Step]) -> str:
        is_search = self.outline.kind == "search"
        log = "logs/%x-%A_%a.log" if is_search else "logs/%x-%j.log"
        options = [f"--job-name={self.tag}-{name}", f"--output={log}", "--open-mode=append", "--requeue"]
        groups = [_comments(self._options(step)) for step in steps]
        runs = [_run(step, "${member}" if is_search else "1") for step in steps]
        groups_run = [f"--het-group={number} {run}" for number, run in enumerate(runs)]
        return self.write_script(
            "slurm-job.sh",
            plan_id=self.plan.plan_id,
            options=_comments(options) + "#SBATCH hetjob\n".join(groups),
            member="member=$((OPTPLAN_OFFSET + SLURM_ARRAY_TASK_ID))\n" if is_search else "",
            run=" : ".join(groups_run if len(steps) > 1 else runs),
        )

    def _options(self, step: Step) -> list[str]:
        template, resource = self.template, self.plan.resources[step.segment.resource]
        kind = template.gpus.get(resource.gpu_type, "")
        typed = f"{kind}:" if kind else ""
        if _is_by_gpu(step):
            found = [f"--ntasks={step.nodes}", f"--gpus-per-task={typed}1"]
        else:
            found = [f"--nodes={step.nodes}", "--ntasks-per-node=1", f"--gres=gpu:{typed}{step.gpus_per_node}"]
        # In minutes; the launcher's own limit comes before it, and says so.
        found.append(f"--time={math.ceil((step.limit_s + self.grace_s + _START_S) / 60)}")
        extra = {**template.options, **template.resources.get(step.segment.resource, {})}
        return found + self._list_given(_OF_TRAINING, extra)

    def _list_given(self, names: Iterable[str], extra: dict[str, str]) -> list[str]:
        """List the options of sbatch that the template gives, in fields of these names and beside them."""
        given = self.template.model_dump(include=set(names), exclude_none=True) | extra
        return [_write_option(name, value) for name, value in given.items()]

    def _write_decision(self, name: str, what: str) -> str:
        options = _comments(self._list_given(_OF_ALL, {}))
        setup = "".join(f"{line}\n" for line in self.template.setup.splitlines())
        return self.write_script("slurm-decide.sh", name=name, options=options, setup=setup, what=what)

    def _submit(self, lines: Iterable[str]) -> dict[str, str]:
        return {"submit.sh": self.write_script("slurm.sh") + "".join(f"{line}\n" for line in lines)}


def _after_any(names: Iterable[str]) -> str:
    """Write that a job waits for others, whatever becomes of them."""
    return f"afterany{''.join(f':${{job[{name}]}}' for name in names)}"


def _arrays(segment: Segment) -> Iterable[str]:
    """Yield options of sbatch for all members of a segment, as many arrays as their numbers need."""
    chunks = math.ceil(segment.members / _LONGEST_ARRAY)
    at_once = max(1, segment.at_once // chunks)
    for offset in range(0, segment.members, _LONGEST_ARRAY):
        many = min(_LONGEST_ARRAY, segment.members - offset)
        yield f"--array=1-{many}%{min(at_once, many)} --export=ALL,OPTPLAN_OFFSET={offset}"


def _comments(options: Iterable[str]) -> str:
    return "".join(f"#SBATCH {option}\n" for option in options)


def _run(step: Step, member: str) -> str:
    """Return what srun starts: a task on each node of a member, or where its GPUs may be on any, one for each."""
    spread = "" if _is_by_gpu(step) else " --ntasks-per-node=1"
    return f"--ntasks={step.nodes}{spread} --kill-on-bad-exit=1 bash launch.sh {step.name} {member}"


def _is_by_gpu(step: Step) -> bool:
    """Whether a member's GPUs may be on any nodes, one task each."""
    return step.gpus_per_node == 1 and step.nodes > 1


def _write_option(name: str, value: str) -> str:
    path = f"template.options.{name}"
    if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
        raise DataError(
            "template.options", f"got {name!r}", "give the long name of an option of sbatch, without dashes"
        )
    if name in _TAKEN.split():
        raise DataError(path, "the plan says it", "leave it out")
    if not value.isprintable():
        raise DataError(path, f"got {value!r}", "an option stands on one line")
    # Unlike a shell, sbatch takes a backslash for an escape within single quotes, too.
    quoted = shlex.quote(value).replace("\\", "\\\\")
    return f"--{name}={quoted}" if value else f"--{name}"
