"""Fleets on clusters: every VM is a job of Slurm, or an actor of Ray; the folder of the run is one that all share.

On Ray an actor is on a machine that offers a unit of the custom resource of its VM's type, so that Ray's autoscaler
launches machines of that type for actors that wait, and gives back what stands idle.
"""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from optplan.execution.executors import JobExecutor
from optplan.execution.fleets.folder import FolderFleet, Ranks
from optplan.execution.fleets.ranks import main
from optplan.execution.folders import FolderSettings, Running
from optplan.execution.protocol import Operation
from optplan.execution.ray_cluster import connect


class SlurmFleet(FolderFleet, JobExecutor[Ranks]):
    """Has a job for each VM; ``{type}`` in an option of sbatch is the type of the VM.

    A VM that goes on with another fleet is another job.
    """

    def _names_of(self, operation: Operation) -> list[str]:
        return [self._name(operation.id, vm) for vm in operation.place]

    def _start(self, folder: Path, ranks: Ranks, log: Path) -> None:
        counts, settings = Counter(role["vm"] for role in ranks.said["ranks"]), self._settings
        self._list_jobs()
        for vm, count in counts.items():
            name, noted = self._name(folder.name, vm), folder / f"{vm}.submitted"
            if noted.exists() or name in self._jobs:
                continue  # it runs, or has
            given = {name: value.replace("{type}", vm.rpartition(".vm-")[0]) for name, value in settings.sbatch.items()}
            if settings.gres:
                given = {"gres": f"{settings.gres}:{count}", **given}
            words = [sys.executable, "-m", "optplan.execution.fleets.ranks", str(folder), vm, str(log)]
            line = f"exec {shlex.join([*words, *shlex.split(settings.command)])}"
            options = {"nodes": "1", "ntasks": "1", "output": str(log), "open-mode": "append", **given}
            noted.write_text(self._submit(name, options, line), encoding="utf-8")


class VmWorker:
    """Runs the ranks of a VM, which end with it."""

    def run(self, folder: str, vm: str, log: str, command: list[str]) -> None:
        """End with them, so that the VM is free."""
        from ray.actor import exit_actor

        main(Path(folder), vm, Path(log), command)
        exit_actor()


class RayFleet(FolderFleet):
    """Has a detached actor for each VM, by its name, so that a monitor that begins anew starts none again."""

    look_s = 0.2  # at each look Ray is asked for every VM

    def __init__(self, gpus_per_node: Mapping[str, int], settings: FolderSettings, *, now_s: float = 0.0) -> None:
        super().__init__(gpus_per_node, settings, now_s=now_s)
        self._ray = connect(settings)
        self._has_gpus = self._ray.cluster_resources().get("GPU", 0.0) > 0

    def _start(self, folder: Path, ranks: Ranks, log: Path) -> None:
        command = shlex.split(self._settings.command)
        for vm, count in Counter(role["vm"] for role in ranks.said["ranks"]).items():
            options = self._ray.remote(VmWorker).options(
                name=f"{folder.name}.{vm}",
                lifetime="detached",
                get_if_exists=True,
                num_cpus=count,
                num_gpus=count if self._has_gpus else 0,
                resources={vm.rpartition(".vm-")[0]: 1},
            )
            # Asked again, it does nothing: its ranks have written their reports, or hold their locks.
            options.remote().run.remote(str(folder), vm, str(log), command)

    def _is_alive(self, running: Running[Ranks]) -> bool:
        return bool(self._list_actors(running))

    def _kill(self, running: Running[Ranks]) -> None:
        for actor in self._list_actors(running):
            self._ray.kill(actor)

    def _list_actors(self, running: Running[Ranks]) -> list[Any]:
        """Return the actors that have not ended."""
        found = []
        for vm in running.operation.place:
            with suppress(ValueError):  # it has gone
                found.append(self._ray.get_actor(f"{running.folder.name}.{vm}"))
        return found

    def close(self) -> None:
        """Leave the cluster, and alone what runs there."""
        self._ray.shutdown()
