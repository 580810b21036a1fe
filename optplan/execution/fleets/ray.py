"""Fleets on Ray: every VM is an actor, on a machine that offers a unit of the custom resource of the VM's type.

So Ray's autoscaler launches machines of that type for actors that wait, and gives back what stands idle. The folder of
the run is one that all share.
"""

from __future__ import annotations

import shlex
from contextlib import suppress
from pathlib import Path
from typing import Any

from optplan.errors import MissingExtraError
from optplan.execution.fleets.folder import FolderFleet
from optplan.execution.fleets.hook import FLEET
from optplan.execution.fleets.ranks import count_ranks, main
from optplan.execution.folders import FolderSettings
from optplan.execution.ray_cluster import connect
from optplan.execution.trial_files import read


class VmWorker:
    """Runs the ranks of a VM, which end with it."""

    def run(self, folder: str, vm: str, command: list[str]) -> int:
        """Return their exit code, once they have ended."""
        return main(Path(folder), vm, command)


class RayFleet(FolderFleet):
    """Has a detached actor for each VM, by its name, so that a monitor that begins anew starts none again.

    Raises
    ------
    MissingExtraError
        When Ray is not installed.
    UsageError
        When there is no cluster at the address.
    """

    def __init__(self, settings: FolderSettings, *, now_s: float) -> None:
        try:
            import ray
        except ModuleNotFoundError:
            raise MissingExtraError("ray", "ray") from None
        super().__init__(settings, now_s=now_s)
        self._ray = ray
        connect(settings.address, f"optplan-{settings.name}")
        self._has_gpus = ray.cluster_resources().get("GPU", 0.0) > 0

    def _start(self, folder: Path, said: dict[str, Any]) -> None:
        for vm, ranks in count_ranks(said).items():
            options = self._ray.remote(VmWorker).options(
                name=f"{folder.name}.{vm}",
                lifetime="detached",
                get_if_exists=True,
                num_cpus=ranks,
                num_gpus=ranks if self._has_gpus else 0,
                resources={vm.rpartition(".vm-")[0]: 1},
            )
            # Asked again, it does nothing: its ranks have written their reports, or hold their locks.
            options.remote().run.remote(str(folder), vm, shlex.split(self._settings.command))

    def _end(self, folder: Path) -> None:
        for vm in count_ranks(read(folder / FLEET) or {"ranks": ()}):
            with suppress(ValueError):  # it has gone
                self._ray.kill(self._ray.get_actor(f"{folder.name}.{vm}"))

    def close(self) -> None:
        """Leave the cluster, and alone what runs there."""
        self._ray.shutdown()
