"""What every target's folder holds: the launcher, variables of each step, the first members, the manifest."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping
from typing import Any

from optplan.contracts.conditions import Elapsed
from optplan.errors import UsageError
from optplan.execution.exports.command import describe_size, value_names, write_command
from optplan.execution.exports.request import Export
from optplan.execution.exports.steps import CannotExpressError, Step, hard_deadline

#: What `optplan promote` and `optplan submit` read.
MANIFEST = "export.json"

#: Of the manifest; what an earlier one says about ended segments is not understood any more.
VERSION = 2

#: Variables that Bash lets nobody set.
_READ_ONLY = ("BASHOPTS", "BASH_VERSINFO", "EUID", "PPID", "SHELLOPTS", "UID")


def describe(export: Export) -> dict[str, Any]:
    """Return what the manifest says of an export."""
    steps, ways = export.outline.steps, export.outline.ways
    return {
        "version": VERSION,
        "export_id": export.export_id,
        "plan_id": export.plan.plan_id,
        "target": export.to,
        "kind": export.outline.kind,
        "workdir": export.workplace,
        "time_quantile": export.time_quantile,
        "margin": export.margin,
        "gpus_per_node": export.gpus_per_node,
        "metric": export.rules.metric,
        "mode": export.rules.mode.value,
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
        names = value_names(export)
        found["configurations.sh"] = "".join(_write_configuration(each, names) for each in export.configurations)
    return found


def _write_step(step: Step, export: Export) -> str:
    deadline_s = hard_deadline(export.plan)
    said = "".join(each if each.isprintable() else " " for each in step.segment.label or step.segment.id)
    variables = {
        "EXPORT": export.export_id,
        "PLAN": export.plan.plan_id,
        "KIND": export.outline.kind,
        "UNIT": step.segment.unit,
        **describe_size(step, export),
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
    lines += ["arguments() {", f"  argv=({write_command(step, export)})", "}"]
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
    segment, before, count = step.segment, 0, 0
    for unit in export.plan.units:
        before = count if unit.id == segment.unit else before
        count += unit.members
    most = len(export.configurations) or count
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
