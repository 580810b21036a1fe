"""Executors that start processes, by the name that users choose them by."""

from __future__ import annotations

from collections.abc import Mapping
from pkgutil import resolve_name

from optplan.execution.folders import FolderSettings
from optplan.execution.protocol import Executor

#: By name, what runs operations; and those of fleets, which have a rank for each GPU, on nodes of several types.
_EXECUTORS = {
    "local": ("local:LocalExecutor", "fleets.folder:LocalFleet"),
    "command": ("command_executor:CommandExecutor", "fleets.folder:CommandFleet"),
    "slurm": ("slurm:SlurmExecutor", "fleets.clusters:SlurmFleet"),
    "ray": ("ray_cluster:RayExecutor", "fleets.clusters:RayFleet"),
}


def make_executor(
    name: str, gpus_per_node: Mapping[str, int], settings: FolderSettings, *, now_s: float = 0.0, fleet: bool = False
) -> Executor:
    """Make the executor ``local``, ``command``, ``ray`` or ``slurm``; parameters as of their common base."""
    kind = resolve_name(f"optplan.execution.{_EXECUTORS[name][fleet]}")
    made: Executor = kind(gpus_per_node, settings, now_s=now_s)
    return made
