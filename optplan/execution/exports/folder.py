"""What every target's folder holds: the plan, the launcher, a file of variables for each step, the first members."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Mapping
from functools import reduce
from importlib.resources import files
from typing import Any

from optplan.contracts.conditions import Elapsed
from optplan.errors import UsageError
from optplan.execution.exports.request import ExportRequest, value_names, write_command, write_promotion
from optplan.execution.exports.steps import CannotExpressError, Step, hard_deadline

#: What `optplan promote` and `optplan submit` read.
MANIFEST = "export.json"

#: Of the manifest; what an earlier one says about ended segments is not understood any more.
VERSION = 2

#: Variables that Bash lets nobody set.
_READ_ONLY = ("BASHOPTS", "BASH_VERSINFO", "EUID", "PPID", "SHELLOPTS", "UID")


def read_script(name: str, /, **blanks: object) -> str:
    """Return a text of the folder ``scripts``, with what stands in it between ``@`` filled in."""

    def fill(found: re.Match[str]) -> str:
        return str(blanks.get(found[1].lower(), found[0]))

    return re.sub("@([A-Z_]+)@", fill, _read(name))


def read_manifest(name: str, /, **blanks: object) -> dict[str, Any]:
    """Return a manifest of the folder ``scripts`` with what stands after ``$`` filled in; what is empty is left out.

    Behind a point stands an attribute of what was before it.
    """
    import yaml

    def fill(part: Any) -> Any:  # noqa: ANN401 - plain data
        if isinstance(part, Mapping):
            return {key: found for key, each in part.items() if not _is_empty(each, found := fill(each))}
        if isinstance(part, list):
            return [fill(each) for each in part]
        if not _is_blank(part):
            return part
        first, *attributes = part[1:].split(".")
        return reduce(getattr, attributes, blanks.get(first))

    found = fill(yaml.safe_load(_read(name)))
    assert isinstance(found, dict)  # as all of them are
    return found


def _read(name: str) -> str:
    return (files("optplan.execution.exports") / "scripts" / name).read_text(encoding="utf-8")


def _is_blank(part: object) -> bool:
    return isinstance(part, str) and part.startswith("$")


def _is_empty(part: object, filled: object) -> bool:
    return _is_blank(part) and (filled is None or filled in ({}, []))


def write_decide(request: ExportRequest) -> str:
    """Return a function of shell that decides who is in a step; where that cannot be, the best so far has won."""
    return read_script("decide.sh", promote=write_promotion(request)).rstrip()


def begin_stream(what: str, ways: Mapping[str, str]) -> str:
    """Return the beginning of a script that is given a job's name and way: what it does, and what each way sets."""
    cases = "".join(f"  {way}) {sets} ;;\n" for way, sets in ways.items())
    return read_script("stream.sh", what=what, cases=cases)


def write_launcher(request: ExportRequest) -> dict[str, str]:
    """Return the launcher and what it reads, by path below the folder."""
    found = {"launch.sh": read_script("launch.sh")}
    for step in request.steps:
        found[f"steps/{step.name}.sh"] = _write_step(step, request)
        if request.kind == "search" and not step.is_promoted:
            found[f"members/{step.name}.txt"] = _write_members(step, request)
    if request.configurations:
        names = value_names(request)
        lines = [_write_configuration(each, names) for each in request.configurations]
        found["configurations.sh"] = "".join(f"{line}\n" for line in lines)
    return found


def describe(request: ExportRequest, target: str) -> dict[str, Any]:
    """Return what a manifest says of an export, but for its version and its id."""
    return {
        "plan_id": request.plan.plan_id,
        "target": target,
        "kind": request.kind,
        "workdir": request.workdir,
        "time_quantile": request.options.time_quantile,
        "margin": request.options.margin,
        "gpus_per_node": request.options.gpus_per_node,
        "metric": request.metric,
        "mode": request.mode.value,
        "steps": {step.name: step.segment.id for step in request.steps},
        "limits_s": {step.name: step.limit_s for step in request.steps},
        "ways": {
            way.name: {"class": way.unit, "share": way.share, "steps": [step.name for step in way.steps]}
            for way in request.ways
        },
        "configurations": [dict(each) for each in request.configurations],
    }


def _write_step(step: Step, request: ExportRequest) -> str:
    deadline_s = hard_deadline(request.plan)
    said = "".join(each if each.isprintable() else " " for each in step.segment.label or step.segment.id)
    variables = {
        "EXPORT": request.export_id,
        "PLAN": request.plan.plan_id,
        "KIND": request.kind,
        "UNIT": step.segment.unit,
        **request.describe_size(step),
        "DONE": None if isinstance(step.segment.exit, Elapsed) else step.done,
        "LIMIT": step.limit_s,
        "GRACE": request.options.grace_s,
        "DEADLINE": None if deadline_s is None else math.ceil(deadline_s),
        "WORKDIR": request.workdir if request.enters_workdir else None,
    }
    lines = [f"# {said}"]
    named = {f"OPTPLAN_{name.upper()}": value for name, value in variables.items()}
    lines += [f"export {name}={_quote(name, value)}" for name, value in named.items()]
    own = [f"  export {_variable(name)}={_quote(name, value)}" for name, value in request.template.env.items()]
    lines += ["environment() {", *own, "  :", "}"]
    # As the user wrote it, here-documents included; a function of nothing but comments would be none.
    own_setup = request.template.setup.splitlines() if request.template.SETS_UP else []
    lines += ["setup() {", *own_setup, ":", "}"]
    lines += ["arguments() {", f"  argv=({write_command(step, request)})", "}"]
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


def _write_members(step: Step, request: ExportRequest) -> str:
    """Return who is in a step from the beginning: numbers of trials over all units, in the order of drawing."""
    segment, before, count = step.segment, 0, 0
    for unit in request.plan.units:
        before = count if unit.id == segment.unit else before
        count += unit.members
    most = len(request.configurations) or count
    numbers = range(before + segment.first_rank, min(before + segment.last_rank, most) + 1)
    return "".join(f"{number:04d}\n" for number in numbers)


def _write_configuration(configuration: Mapping[str, Any], names: list[str]) -> str:
    values = {"OPTPLAN_CONFIG": json.dumps(configuration, ensure_ascii=True)}
    for number, name in enumerate(names, start=1):
        value = configuration.get(name, "")
        values[f"OPTPLAN_VALUE_{number}"] = value if isinstance(value, str) else json.dumps(value)
    for name, value in values.items():
        if any(not each.isprintable() for each in value):
            problem = f"cannot express {value!r}: a configuration's values stand on one line"
            raise CannotExpressError(f"space.{name}: {problem}; give it a printable name")
    return "export " + " ".join(f"{name}={_quote(name, value)}" for name, value in values.items())
