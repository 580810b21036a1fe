"""``export``: a plan as the files of a scheduler, written into a folder of their own; and the exporters, by name.

A package outside names its own in the group ``optplan.exporters``, under the target's name, as ``module:NAME`` of an
:class:`ExporterEntry`.
"""

# ruff: noqa: RUF009 - a Part is a descriptor, not a default that records would share

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from optplan.contracts.parts import Part, load
from optplan.contracts.plan import Plan
from optplan.contracts.registry import leave_out, list_entries, load_entry
from optplan.errors import OutputError, UsageError, nearest_name_hint
from optplan.execution.exports.folder import MANIFEST, VERSION, describe, write_launcher
from optplan.execution.exports.request import ExportOptions, ExportRequest, Template, placeholders
from optplan.execution.exports.steps import Outline, kind_of, outline
from optplan.execution.options import Rules, SearchOptions
from optplan.execution.scheduler import list_trials
from optplan.execution.spaces import draw_configurations
from optplan.instances.files import format_json, write_text

EXPORTER_GROUP = "optplan.exporters"
_HERE = "optplan.execution.exports"


class Workdir(StrEnum):
    """Where the jobs of a target find the folder in which the user stood."""

    #: Under the same path.
    SHARED = "shared"
    #: The target copies it to the nodes, and jobs begin there.
    COPIED = "copied"
    #: Nowhere: containers have their image's.
    IMAGE = "image"


#: An exporter: returns the target's own files by their path below the folder; those that end in ``.sh`` can be run.
WriteFiles: TypeAlias = Callable[[ExportRequest], Mapping[str, str]]


@dataclass(frozen=True)
class ExporterEntry:
    """One target of ``optplan export``.

    ``needs`` has to be there to use the files; ``template`` is the ``module:class`` of what ``--template`` may hold.
    Jobs start through ``launch.sh``, which is written besides.
    """

    name: str
    summary: str
    needs: str
    write: Part[WriteFiles] = Part("files")
    template: str = ""
    workdir: Workdir = Workdir.SHARED


_OWN = (
    ExporterEntry(
        name="slurm",
        summary="one job a segment, chained; arrays for trials; het jobs for mixed fleets",
        needs="sbatch, srun, and a folder that all nodes see",
        write=f"{_HERE}.slurm:write_files",
        template=f"{_HERE}.slurm:SlurmTemplate",
    ),
    ExporterEntry(
        name="script",
        summary="plain shell on one machine, its GPUs dealt out to trials",
        needs="bash",
        write=f"{_HERE}.script:write_files",
    ),
    ExporterEntry(
        name="kubernetes",
        summary="a Job for each segment, a JobSet where a trial has several pods; Kueue's labels where asked",
        needs="kubectl, and a volume that all pods mount",
        write=f"{_HERE}.kubernetes:write_files",
        template=f"{_HERE}.kubernetes:KubernetesTemplate",
        workdir=Workdir.IMAGE,
    ),
    ExporterEntry(
        name="trainjob",
        summary="a TrainJob of Kubeflow Trainer for each segment",
        needs="kubectl, a training runtime, and a volume that its pods mount",
        write=f"{_HERE}.kubernetes:write_files",
        template=f"{_HERE}.kubernetes:TrainJobTemplate",
        workdir=Workdir.IMAGE,
    ),
    ExporterEntry(
        name="skypilot",
        summary="managed jobs, one task a segment, chained in pipelines",
        needs="sky, and a bucket that its nodes mount",
        write=f"{_HERE}.skypilot:write_files",
        template=f"{_HERE}.skypilot:SkyPilotTemplate",
        workdir=Workdir.COPIED,
    ),
)


@cache
def exporters() -> dict[str, ExporterEntry]:
    """Return every exporter by name: the own ones first, then those of other packages.

    What another package declares wrongly is left out, with a RegistrationWarning that names it.
    """
    found = {entry.name: entry for entry in _OWN}
    for point in list_entries(EXPORTER_GROUP):
        declared = load_entry(point, ExporterEntry)
        if declared is None:
            continue
        if declared.name != point.name or declared.name in found:
            leave_out(point, f"its name {declared.name!r} is taken, or not that of its entry point")
        else:
            found[declared.name] = declared
    return found


def exporter_named(name: str) -> ExporterEntry:
    """Return the exporter of that name."""
    known = exporters()
    if name not in known:
        raise UsageError(f"to: got {name!r}; {nearest_name_hint(name, known)}")
    return known[name]


def list_exporters() -> list[dict[str, Any]]:
    """List every exporter for ``optplan list``."""
    return [{"name": one.name, "summary": one.summary, "needs": one.needs} for one in exporters().values()]


def export(plan: Plan, to: str, command: str = "", **options: Any) -> dict[str, str]:  # noqa: ANN401 - fields of ExportOptions
    """Return a plan as the files of a scheduler, by their path below the folder that they are for.

    ``command``, which is no shell's, is what a member runs: its placeholders (docs/exports.md) are replaced, as are the
    names of the space. Of a stream, ``commands`` has those of classes; all others have this one. The options are the
    fields of :class:`~optplan.execution.exports.request.ExportOptions`.
    """
    entry = exporter_named(to)
    given = ExportOptions.parse(options)
    taken = outline(plan, margin=given.margin, quantile=given.time_quantile, gpus_per_node=given.gpus_per_node)
    classes = [unit.id for unit in plan.units] if taken.kind == "stream" and not command else []
    for name in classes:
        if name not in given.commands:
            raise UsageError(f"command: class {name!r} has none; give --command {name}=TEXT, or one for all")
    if given.overlay and entry.workdir is not Workdir.IMAGE:
        raise UsageError(f"overlay: jobs of {to} are no pods; leave it out")
    rules = Rules.of(plan, SearchOptions(metric=given.metric, mode=given.mode))
    request = ExportRequest(
        **vars(taken),
        command=command,
        options=given,
        template=(load(entry.template) if entry.template else Template).parse(dict(given.template), path="template"),
        workdir=_find_workdir(entry, given.workdir),
        enters_workdir=entry.workdir is not Workdir.COPIED,
        configurations=_draw(taken, given, command),
        metric=rules.metric,
        mode=rules.mode,
    )
    said = describe(request, to)
    request = replace(request, export_id=_identify(said, request))
    manifest = {"version": VERSION, "export_id": request.export_id, **said}
    common = {"plan.json": plan.to_json_data(), MANIFEST: manifest}
    files = {name: format_json(data) + "\n" for name, data in common.items()}
    files |= {**write_launcher(request), **entry.write(request)}
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
    before = _read_manifest(folder)
    if before is None:
        raise OutputError(f"{folder}: holds no export; --force replaces nothing else; give another folder")
    trials = folder / "trials"
    now = json.loads(files[MANIFEST])
    if (
        any(before.get(name) != now[name] for name in ("plan_id", "configurations"))
        and trials.is_dir()
        and any(trials.iterdir())
    ):
        message = f"{folder}: jobs of another plan, or with other configurations, have run there ({trials})"
        raise OutputError(f"{message}; give another folder, or move that one away")
    for name in files:
        if (folder / name).resolve() != folder.resolve() / name:
            raise OutputError(f"{folder / name}: is a link to elsewhere, and no file of an export; give another folder")


def _read_manifest(folder: Path) -> dict[str, Any] | None:
    try:
        found = json.loads((folder / MANIFEST).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and "plan_id" in found else None


def _draw(taken: Outline, options: ExportOptions, command: str) -> tuple[Mapping[str, Any], ...]:
    """Draw what trials try: from the space that was given, or the plan's own."""
    if taken.kind == "stream":
        if options.space is not None:
            raise UsageError("space: jobs of a stream have no configurations of the plan's; leave it out")
        return ()
    if options.space is None and not taken.plan.to_json_data().get("search_space"):
        if taken.kind == "search" and "trial" not in placeholders(command):
            message = "space: is missing, and the plan has none: nothing would tell one trial from another"
            raise UsageError(f"{message}; give --space, or use {{trial}} in the command")
        return ()
    drawn = draw_configurations(taken.plan, list_trials(taken.plan), options.space, options.seed)
    return tuple(drawn.values())


def _find_workdir(entry: ExporterEntry, given: str | None) -> str | None:
    """Return where the command runs: as given, or where the caller stands; None where the image says it."""
    if entry.workdir is Workdir.IMAGE:
        if given is not None and not given.startswith("/"):
            raise UsageError(f"workdir: got {given!r}; give a path in the containers, from / on")
        return given
    folder = Path(given or ".").expanduser()
    if not folder.is_dir():
        raise UsageError(f"workdir: {given!r} is no folder; give the one in which the command is to run")
    return str(folder.resolve())


def _identify(said: Mapping[str, Any], request: ExportRequest) -> str:
    """Return the id of an export: the same for the same plan and options, and another one for another folder."""
    asked = [said, request.command, request.options.model_dump(mode="json", exclude={"space"})]
    text = json.dumps(asked, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
