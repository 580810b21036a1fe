"""``export``: a plan as the files of a scheduler, written into a folder of their own; and the targets, by name.

A package outside names its own in the group ``optplan.exporters``, under the target's name, as ``module:CLASS`` of an
:class:`~optplan.execution.exports.request.Export`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from optplan.contracts.parts import load
from optplan.contracts.plan import Plan
from optplan.contracts.registry import leave_out, list_entries, load_entry
from optplan.errors import OutputError, UsageError, nearest_name_hint
from optplan.execution.exports.folder import MANIFEST, describe, write_launcher
from optplan.execution.exports.request import Export
from optplan.execution.exports.steps import kind_of
from optplan.instances.files import format_json, write_text

EXPORTER_GROUP = "optplan.exporters"
_HERE = "optplan.execution.exports"
_OWN = {
    "slurm": f"{_HERE}.slurm:SlurmExport",
    "script": f"{_HERE}.script:ScriptExport",
    "kubernetes": f"{_HERE}.kubernetes:KubernetesExport",
    "trainjob": f"{_HERE}.kubernetes:TrainJobExport",
    "skypilot": f"{_HERE}.skypilot:SkyPilotExport",
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
