"""Executors that start processes, by the name that users choose them by."""

from __future__ import annotations

from collections.abc import Mapping
from pkgutil import resolve_name

from optplan.execution.folders import FolderSettings
from optplan.execution.protocol import Executor

_EXECUTORS = {
    "local": "optplan.execution.local:LocalExecutor",
    "command": "optplan.execution.command_executor:CommandExecutor",
    "slurm": "optplan.execution.slurm:SlurmExecutor",
    "ray": "optplan.execution.ray_cluster:RayExecutor",
}
#: Those of fleets, whose operations have a rank for each GPU, on nodes of several types.
_FLEETS = {
    "local": "optplan.execution.fleets.folder:LocalFleet",
    "command": "optplan.execution.fleets.folder:CommandFleet",
    "slurm": "optplan.execution.fleets.slurm:SlurmFleet",
    "ray": "optplan.execution.fleets.ray:RayFleet",
}


def make_executor(
    name: str, gpus_per_node: Mapping[str, int], settings: FolderSettings, *, now_s: float = 0.0, fleet: bool = False
) -> Executor:
    """Make the executor ``local``, ``command``, ``ray`` or ``slurm``; parameters as of their common base.

    Raises
    ------
    MissingExtraError
        When what it needs is not installed.
    UsageError
        When there is no Ray cluster at the address.
    """
    made: Executor = resolve_name((_FLEETS if fleet else _EXECUTORS)[name])(gpus_per_node, settings, now_s=now_s)
    return made
