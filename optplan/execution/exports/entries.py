"""The exporters: one entry each, and those that other packages register by entry points.

A package outside names its own in the group ``optplan.exporters``, under the target's name, as ``module:NAME`` of an
:class:`ExporterEntry`.
"""

# ruff: noqa: RUF009 - a Part is a descriptor, not a default that records would share

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, TypeAlias

from optplan.contracts.parts import Part
from optplan.contracts.registry import leave_out, list_entries, load_entry
from optplan.errors import UsageError, nearest_name_hint
from optplan.execution.exports.request import ExportRequest

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
