"""Targets whose jobs are scripts: plain shell on one machine, Slurm, and SkyPilot.

Plain shell runs segments one after the other, its GPUs dealt out to the trials that run side by side. Where the script
is interrupted, what it started ends with it.

Slurm has one job for each segment, chained by dependencies; arrays for trials, and jobs that decide between stages. GPU
jobs of Slurm cannot grow in place, so every segment asks for its own size and goes on from the checkpoint of the one
before. Slurm enforces time limits and the number of GPUs.

SkyPilot has managed jobs, one task a segment, chained in pipelines; each task rents its own nodes. It enforces a price
by the hour (``max_hourly_cost``), recovers spot VMs, and stops what is idle. The bucket is mounted with a cache on the
node (``MOUNT_CACHED``): mounted plainly it takes whole objects only, and neither appends nor writes in their midst.
What is written arrives after seconds, before a task ends in any case. So nobody is ranked by what may still be on its
way: a trial's mark of its end has its metrics, and is one object.

A total budget in money is enforced by nobody; time limits are kept by the launcher where the target does not.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from optplan.contracts.plan import Segment
from optplan.errors import DataError
from optplan.execution.exports.request import CannotExpressError, Export, Step, Template, require_known, write_yaml
from optplan.schema import ByName

#: What else could be done where one machine is not enough.
_ELSE = "use --to slurm, skypilot or kubernetes"
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


class ScriptExport(Export):
    """An export to plain shell."""

    SUMMARY = "plain shell on one machine, its GPUs dealt out to trials"
    NEEDS = "bash"

    def write_files(self) -> Mapping[str, str]:
        """Return the script that runs the plan, or one job of a class, on one machine."""
        self._require_one_machine()
        if self.outline.kind == "stream":
            return {"submit.sh": self.write_script("script-stream.sh")}
        lines = [self.write_script("script.sh"), self.write_script("decide.sh").rstrip()]
        for level in self.outline.levels():
            lines += [f"decide {step.name}" for step in level if step.is_promoted]
            first = 0
            for step in level:
                segment = step.segment
                lines.append(f"stage {step.name} {segment.members} {segment.at_once} {first} {segment.gpus} &")
                first += segment.at_once * segment.gpus
            lines.append("wait")
        if self.outline.kind == "search":
            lines.append(f"{self.optplan} promote . --winner")
        else:
            lines.append(f"[[ -e trials/job/ended-{self.outline.steps[0].name} ]]")
        return {"submit.sh": "".join(f"{line}\n" for line in lines)}

    def _require_one_machine(self) -> None:
        for step in self.outline.steps:
            if step.nodes > 1:
                problem = f"segment {step.segment.id!r} gives {step.nodes} nodes to one member"
                fix = f"give --gpus-per-node of a machine that has them all, or {_ELSE}"
                raise CannotExpressError(f"cannot express: {problem}, and a plain script has one machine; {fix}")
        self.require_one_group(f"and a plain script has one machine; {_ELSE}")
        for level in [] if self.outline.kind == "stream" else self.outline.levels():
            held = sum(step.segment.at_once * step.segment.gpus for step in level)
            sizes = [self.plan.resources[step.segment.resource].gpus_per_node for step in level]
            size = self.gpus_per_node or max(sizes)
            if held > size:
                problem = f"{level[0].segment.id!r} and what runs beside it hold {held} GPUs, and a node has {size}"
                fix = f"give --gpus-per-node of a larger machine, or {_ELSE}"
                raise CannotExpressError(f"cannot express: {problem}; {fix}")


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
