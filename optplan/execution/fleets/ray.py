"""Fleets on Ray: every VM is an actor, on a machine that offers a unit of the custom resource of the VM's type.

So Ray's autoscaler launches machines of that type for actors that wait, and gives back what stands idle. The folder of
the run is one that all share.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from optplan.execution.fleets.folder import FolderFleet, Ranks
from optplan.execution.fleets.ranks import count_ranks, main
from optplan.execution.folders import FolderSettings, Running
from optplan.execution.protocol import Capabilities
from optplan.execution.ray_cluster import connect


class VmWorker:
    """Runs the ranks of a VM, which end with it."""

    def run(self, folder: str, vm: str, log: str, command: list[str]) -> int:
        """Return their exit code, once they have ended."""
        return main(Path(folder), vm, Path(log), command)


class RayFleet(FolderFleet):
    """Has a detached actor for each VM, by its name, so that a monitor that begins anew starts none again."""

    capabilities = Capabilities("ray", lateness=0.01)

    def __init__(self, gpus_per_node: Mapping[str, int], settings: FolderSettings, *, now_s: float = 0.0) -> None:
        super().__init__(gpus_per_node, settings, now_s=now_s)
        self._ray = connect(settings)
        self._has_gpus = self._ray.cluster_resources().get("GPU", 0.0) > 0

    def _start(self, folder: Path, ranks: Ranks, log: Path) -> None:
        command = shlex.split(self._settings.command)
        for vm, count in count_ranks(ranks.said).items():
            options = self._ray.remote(VmWorker).options(
                name=f"{folder.name}.{vm}",
                lifetime="detached",
                get_if_exists=True,
                num_cpus=count,
                num_gpus=count if self._has_gpus else 0,
                resources={vm.rpartition(".vm-")[0]: 1},
            )
            # Asked again, it does nothing: its ranks have written their reports, or hold their locks.
            ranks.promises.append(options.remote().run.remote(str(folder), vm, str(log), command))

    def _is_alive(self, running: Running[Ranks]) -> bool:
        """Whether any actor has not returned yet; those that have would wait for another call, and hold their VMs."""
        ranks = running.handle
        if ranks is None or ranks.is_ended:
            return False
        if not ranks.promises:  # an earlier monitor asked them to end: they say when they have
            folder, log = str(running.folder.resolve()), str(self._log_of(running.operation.trial).resolve())
            ranks.promises = [actor.run.remote(folder, "", log, []) for actor in self._list_actors(running)]
        waiting = ranks.promises
        if waiting:
            _, waiting = self._ray.wait(waiting, num_returns=len(waiting), timeout=0)
        if not waiting:
            self._kill(running)
        return bool(waiting)

    def _kill(self, running: Running[Ranks]) -> None:
        for actor in self._list_actors(running):
            self._ray.kill(actor)
        if running.handle is not None:
            running.handle.is_ended = True

    def _list_actors(self, running: Running[Ranks]) -> list[Any]:
        """Return the actors of a fleet that are there."""
        found = []
        for vm in count_ranks(running.handle.said) if running.handle is not None else ():
            with suppress(ValueError):  # it has gone
                found.append(self._ray.get_actor(f"{running.folder.name}.{vm}"))
        return found

    def close(self) -> None:
        """Leave the cluster, and alone what runs there."""
        self._ray.shutdown()
