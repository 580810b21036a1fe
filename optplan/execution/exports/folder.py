"""What every target's folder holds: the launcher, what each step is told and runs, the first members, the manifest.

A step's command is written as words that a shell takes for data whatever they hold.

``export``: a plan as the files of a scheduler, written into a folder of their own; and the targets, by name.

A package outside names its own in the group ``optplan.exporters``, under the target's name, as ``module:CLASS`` of an
:class:`~optplan.execution.exports.request.Export`.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from optplan.contracts.conditions import Elapsed
from optplan.contracts.parts import load
from optplan.contracts.plan import Plan
from optplan.contracts.registry import leave_out, list_entries, load_entry
from optplan.errors import OutputError, UsageError, nearest_name_hint
from optplan.execution.exports.request import (
    PLACEHOLDER,
    CannotExpressError,
    Export,
    Step,
    kind_of,
    placeholders,
    split,
)
from optplan.execution.options import Rules, SearchOptions
from optplan.instances.files import format_json, write_text

#: What `optplan promote` and `optplan submit` read.
MANIFEST = "export.json"

#: Of the manifest; what an earlier one says about ended segments is not understood any more.
VERSION = 2

#: Variables that Bash lets nobody set.
_READ_ONLY = ("BASHOPTS", "BASH_VERSINFO", "EUID", "PPID", "SHELLOPTS", "UID")

#: Placeholders of which a command needs one, where sizes differ from a single GPU.
_SIZES = ("nodes", "gpus_per_node", "gpus", "workers")
#: Placeholders whose value is known when a job starts, by the variable that has it then.
_LATE = {"checkpoint": "OPTPLAN_SAVE", "metrics": "OPTPLAN_METRICS", "trial": "OPTPLAN_TRIAL"}


def describe(export: Export) -> dict[str, Any]:
    """Return what the manifest says of an export."""
    steps, ways = export.outline.steps, export.outline.ways
    rules = Rules.of(export.plan, SearchOptions(metric=export.metric, mode=export.mode))
    return {
        "version": VERSION,
        "export_id": export.export_id,
        "plan_id": export.plan.plan_id,
        "target": export.to,
        "kind": export.outline.kind,
        "workdir": export.workplace,
        **export.model_dump(include={"time_quantile", "margin", "gpus_per_node"}),
        "metric": rules.metric,
        "mode": rules.mode.value,
        "steps": {step.name: step.segment.id for step in steps},
        "limits_s": {step.name: step.limit_s for step in steps},
        "ways": {way.name: {"class": way.unit, "share": way.share, "steps": way.step_names} for way in ways},
        "configurations": [dict(each) for each in export.configurations],
    }


def write_launcher(export: Export) -> dict[str, str]:
    """Return the launcher and what it reads, by path below the folder."""
    found = {"launch.sh": export.write_script("launch.sh")}
    for step in export.outline.steps:
        found[f"steps/{step.name}.sh"] = _write_step(step, export)
        if export.outline.kind == "search" and not step.is_promoted:
            found[f"members/{step.name}.txt"] = _write_members(step, export)
    if export.configurations:
        names = _value_names(export)
        found["configurations.sh"] = "".join(_write_configuration(each, names) for each in export.configurations)
    return found


def _write_step(step: Step, export: Export) -> str:
    deadline_s = Rules.of(export.plan).deadline_s
    said = "".join(each if each.isprintable() else " " for each in step.segment.label or step.segment.id)
    variables = {
        "EXPORT": export.export_id,
        "PLAN": export.plan.plan_id,
        "KIND": export.outline.kind,
        "UNIT": step.segment.unit,
        **_describe_size(step, export),
        "DONE": None if isinstance(step.segment.exit, Elapsed) else step.done,
        "LIMIT": step.limit_s,
        "GRACE": export.grace_s,
        "DEADLINE": None if deadline_s is None else math.ceil(deadline_s),
        "WORKDIR": None if export.PREPARES else export.workplace,
    }
    lines = [f"# {said}"]
    named = {f"OPTPLAN_{name.upper()}": value for name, value in variables.items()}
    lines += [f"export {name}={_quote(name, value)}" for name, value in named.items()]
    own = [f"  export {_variable(name)}={_quote(name, value)}" for name, value in export.template.env.items()]
    lines += ["environment() {", *own, "  :", "}"]
    # As the user wrote it, here-documents included; a function of nothing but comments would be none.
    lines += ["setup() {", *([] if export.PREPARES else export.template.setup.splitlines()), ":", "}"]
    lines += ["arguments() {", f"  argv=({_write_command(step, export)})", "}"]
    return "".join(f"{line}\n" for line in lines)


def _variable(name: str) -> str:
    if not name.isascii() or not name.isidentifier():
        raise UsageError(f"template.env: got {name!r}; a variable has letters, digits and underscores")
    if name.startswith("OPTPLAN_") or name in _READ_ONLY:
        raise UsageError(f"template.env: got {name!r}, which the launcher or Bash sets; give another name")
    return name


def _quote(name: str, value: object) -> str:
    text = "" if value is None else str(value)
    if "\0" in text:
        raise CannotExpressError(f"{name}: cannot express the character NUL in a shell's variable; leave it out")
    return shlex.quote(text) if text else ""


def _write_members(step: Step, export: Export) -> str:
    """Return who is in a step from the beginning: numbers of trials over all units, in the order of drawing."""
    segment = step.segment
    units = [unit.id for unit in export.plan.units for _ in range(unit.members)]
    before, most = units.index(segment.unit), len(export.configurations) or len(units)
    numbers = range(before + segment.first_rank, min(before + segment.last_rank, most) + 1)
    return "".join(f"{number:04d}\n" for number in numbers)


def _write_configuration(configuration: Mapping[str, Any], names: list[str]) -> str:
    values = {"OPTPLAN_CONFIG": json.dumps(configuration, ensure_ascii=True)}
    for number, name in enumerate(names, start=1):
        value = configuration.get(name, "")
        values[f"OPTPLAN_VALUE_{number}"] = value if isinstance(value, str) else json.dumps(value)
    for name, value in values.items():
        if not value.isprintable():
            problem = f"cannot express {value!r}: a configuration's values stand on one line"
            raise CannotExpressError(f"space.{name}: {problem}; give it a printable name")
    return "export " + " ".join(f"{name}={_quote(name, value)}" for name, value in values.items()) + "\n"


def _describe_size(step: Step, export: Export) -> dict[str, int | float | str | None]:
    """Return what a step's command is told of it, by placeholder; as variables they begin with OPTPLAN_.

    Of a fleet these are the sizes of all groups together.
    """
    kind, segment = export.outline.kind, step.segment
    together = export.outline.steps if kind == "fleet" else (step,)
    return {
        "segment": segment.id,
        "nodes": sum(each.nodes for each in together),
        "gpus_per_node": step.gpus_per_node,
        "gpus": sum(each.segment.gpus for each in together),
        "workers": sum(each.segment.workers for each in together),
        "batch": segment.batch_per_worker,
        "iterations": None if kind == "stream" else step.target,
        "epochs": step.target if kind == "stream" else None,
        "seconds": round(segment.expected.seconds, 3) if isinstance(segment.exit, Elapsed) else None,
    }


def _write_command(step: Step, export: Export) -> str:
    """Return a step's command as the words of a Bash array; it is refused where it would lose its size."""
    command = export.commands.get(step.segment.unit, export.command)
    words = split(command)
    sizes = _describe_size(step, export)
    values = sizes | {"class": step.segment.unit if export.outline.kind == "stream" else None}
    late = _LATE | {name: f"OPTPLAN_VALUE_{number}" for number, name in enumerate(_value_names(export), start=1)}

    def fill(found: re.Match[str]) -> str:
        name = found[1]
        if name is None:
            return found[0][0]
        if name in late:
            return f"\0{late[name]}\0"
        if name not in values:
            message = f"command: {{{name}}} is no placeholder; {nearest_name_hint(name, [*values, *late])}"
            raise UsageError(f"{message} (for braces as they stand write {{{{{name}}}}})")
        if values[name] is None:
            raise CannotExpressError(f"command: cannot express {{{name}}}: the plan has none; leave it out")
        return str(values[name])

    # No word holds a NUL: between two of them stands the name of a variable.
    filled = [PLACEHOLDER.sub(fill, word).split("\0") for word in words]
    _require_size(command, export)
    return " ".join([*_launch(step, export, sizes["nodes"]), *(_write_word(parts) for parts in filled)])


def _value_names(export: Export) -> list[str]:
    """Return the hyperparameters of the configurations, in the order of their numbers in files."""
    return list(dict.fromkeys(name for each in export.configurations for name in each))


def _write_word(parts: list[str]) -> str:
    """Write a word, each second part of which is the name of a variable."""
    written = [f'"${part}"' if number % 2 else shlex.quote(part) for number, part in enumerate(parts) if part]
    return "".join(written) or "''"


def _require_size(command: str, export: Export) -> None:
    if export.sizes_known or export.launcher == "torchrun" or placeholders(command).intersection(_SIZES):
        return
    if any(step.segment.gpus > 1 for step in export.outline.steps):
        names = ", ".join(f"{{{name}}}" for name in _SIZES)
        message = f"command: nothing in {command!r} says how many GPUs it has, and the plan gives more than one"
        raise UsageError(
            f"{message}; use one of {names}, --launcher torchrun, or --sizes-by-environment where the program reads "
            "OPTPLAN_GPUS and its like"
        )


def _launch(step: Step, export: Export, nodes: object) -> list[str]:
    if export.launcher != "torchrun":
        return []
    processes = f"--nproc-per-node={step.workers_per_node}"
    if nodes == 1:
        return ["torchrun", "--standalone", processes, "--no-python"]
    meet = ["--rdzv-backend=c10d", '--rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT"', '--rdzv-id="$OPTPLAN_MEETING"']
    return ["torchrun", f"--nnodes={nodes}:{nodes}", processes, *meet, "--no-python"]


EXPORTER_GROUP = "optplan.exporters"
_HERE = "optplan.execution.exports"
_OWN = {
    "slurm": f"{_HERE}.jobs:SlurmExport",
    "script": f"{_HERE}.jobs:ScriptExport",
    "kubernetes": f"{_HERE}.kubernetes:KubernetesExport",
    "trainjob": f"{_HERE}.kubernetes:TrainJobExport",
    "skypilot": f"{_HERE}.jobs:SkyPilotExport",
}


@cache
def exporters() -> dict[str, type[Export]]:
    """Return every target by name: the own ones first, then those of other packages.

    What another package declares wrongly is left out, with a RegistrationWarning that names it.
    """
    found: dict[str, type[Export]] = {name: load(target) for name, target in _OWN.items()}
    for point in list_entries(EXPORTER_GROUP):
        declared = load_entry(point, type)
        if declared is None:
            continue
        if point.name in found or not issubclass(declared, Export):
            leave_out(point, f"its name is taken, or {declared.__name__} is no subclass of optplan.execution.Export")
        else:
            found[point.name] = declared
    return found


def list_exporters() -> list[dict[str, Any]]:
    """List every target for ``optplan list``."""
    return [{"name": name, "summary": one.SUMMARY, "needs": one.NEEDS} for name, one in exporters().items()]


def export(plan: Plan, to: str, command: str = "", **options: Any) -> dict[str, str]:  # noqa: ANN401 - fields of Export
    """Return a plan as the files of a scheduler, by their path below the folder that they are for.

    ``command``, which is no shell's, is what a member runs: its placeholders (docs/exports.md) are replaced, as are the
    names of the space. Of a stream, ``commands`` has those of classes; all others have this one. The options are the
    fields of :class:`~optplan.execution.exports.request.Export`.
    """
    known = exporters()
    if to not in known:
        raise UsageError(f"to: got {to!r}; {nearest_name_hint(to, known)}")
    request = known[to].parse({"template": {}, **options, "plan": plan, "to": to, "command": command})
    classes = [unit.id for unit in plan.units] if request.outline.kind == "stream" and not command else []
    for name in classes:
        if name not in request.commands:
            raise UsageError(f"command: class {name!r} has none; give --command {name}=TEXT, or one for all")
    if request.overlay and not request.IN_PODS:
        raise UsageError(f"overlay: jobs of {to} are no pods; leave it out")
    common = {"plan.json": plan.to_json_data(), MANIFEST: describe(request)}
    files = {name: format_json(data) + "\n" for name, data in common.items()}
    files |= {**write_launcher(request), **request.write_files()}
    return dict(sorted(files.items()))


def divide_commands(texts: Sequence[str], plan: Plan) -> tuple[str, dict[str, str]]:
    """Divide ``CLASS=COMMAND`` from the command of all others, which is empty where there is none."""
    classes = [unit.id for unit in plan.units] if kind_of(plan) == "stream" else []
    others, commands = "", dict[str, str]()
    for text in texts:
        name, equals, command = text.partition("=")
        if equals and name in classes:
            if name in commands:
                raise UsageError(f"command: class {name!r} has two; give one")
            commands[name] = command
        elif equals and not re.search(r"[\s/\"']", name):
            hint = nearest_name_hint(name, classes) if classes else f"leave out {name}=: the plan has no classes"
            raise UsageError(f"command: got {text!r}, and there is no class {name!r}; {hint}")
        elif others:
            raise UsageError("command: got two for all classes; give one, and others as CLASS=COMMAND")
        else:
            others = text
    return others, commands


def write_folder(files: Mapping[str, str], folder: Path, *, overwrite: bool = False) -> None:
    """Write files of an export; those that end in ``.sh`` can be run.

    Nothing else is written over: neither what jobs wrote, nor an export of another plan whose jobs have run, nor,
    without ``overwrite``, anything.
    """
    _require_folder(files, folder, overwrite=overwrite)
    for name, text in files.items():
        target = folder / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"{target.parent}: cannot be made ({error.strerror}); give another folder") from None
        write_text(text, target, overwrite=overwrite)
        if name.endswith(".sh"):
            mode = target.stat().st_mode
            target.chmod(mode | (mode & 0o444) >> 2)  # by whoever may read it


def _require_folder(files: Mapping[str, str], folder: Path, *, overwrite: bool) -> None:
    """Refuse a folder in which something of the user's, or what jobs have done, would be lost or mistaken."""
    try:
        held = folder.exists() and any(folder.iterdir())
    except OSError as error:
        raise OutputError(f"{folder}: is no folder that can be read ({error.strerror}); give another") from None
    if not held:
        return
    if not overwrite:
        raise OutputError(f"{folder}: is not empty; give another folder, or --force to write over an export")
    now, trials = json.loads(files[MANIFEST]), folder / "trials"
    try:
        before = json.loads((folder / MANIFEST).read_bytes())
        differs = any(before[name] != now[name] for name in ("plan_id", "configurations"))
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        raise OutputError(f"{folder}: holds no export; --force replaces nothing else; give another folder") from None
    if differs and trials.is_dir() and any(trials.iterdir()):
        message = f"{folder}: jobs of another plan, or with other configurations, have run there ({trials})"
        raise OutputError(f"{message}; give another folder, or move that one away")
    for name in files:
        if (folder / name).resolve() != folder.resolve() / name:
            raise OutputError(f"{folder / name}: is a link to elsewhere, and no file of an export; give another folder")
