"""Executors that start processes, by the name that users choose them by."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from optplan.execution.folders import FolderSettings
from optplan.execution.protocol import Executor
from optplan.schema import FrozenModel


def gather_settings(options: FrozenModel, root: Path) -> FolderSettings:
    """Return how trials are run in a folder: the options that are fields of the settings."""
    names = FolderSettings.__dataclass_fields__.keys() & type(options).model_fields.keys()
    return FolderSettings(root, **{name: getattr(options, name) for name in names})


def make_executor(
    name: str, gpus_per_node: Mapping[str, int], settings: FolderSettings, *, now_s: float = 0.0
) -> Executor:
    """Make the executor ``local``, ``command``, ``ray`` or ``slurm``; parameters as of their common base.

    Raises
    ------
    MissingExtraError
        When what it needs is not installed.
    UsageError
        When there is no Ray cluster at the address.
    """
    if name == "ray":
        from optplan.execution.ray_cluster import RayExecutor

        return RayExecutor(gpus_per_node, settings, now_s=now_s)
    if name == "slurm":
        from optplan.execution.slurm import SlurmExecutor

        return SlurmExecutor(gpus_per_node, settings, now_s=now_s)
    if name == "command":
        from optplan.execution.command_executor import CommandExecutor

        return CommandExecutor(gpus_per_node, settings, now_s=now_s)
    from optplan.execution.local import LocalExecutor

    return LocalExecutor(gpus_per_node, settings, now_s=now_s)
