"""Fleets on Slurm: every VM is a job, which runs its ranks; the folder of the run is one that all machines share."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import Any

from optplan.execution.fleets.folder import FolderFleet
from optplan.execution.fleets.hook import FLEET
from optplan.execution.fleets.ranks import LOG, count_ranks
from optplan.execution.folders import FolderSettings
from optplan.execution.slurm import cancel, find_jobs, submit
from optplan.execution.supervision import require_support
from optplan.execution.trial_files import read

#: Seconds between two looks for jobs that end.
_LOOK_S = 1.0


class SlurmFleet(FolderFleet):
    """Has a job for each VM, by a name of its own, so that a monitor that begins anew submits none again.

    ``{type}`` in an option of sbatch is the type of the VM. A VM that goes on with another fleet is another job.
    """

    def __init__(self, settings: FolderSettings, *, now_s: float) -> None:
        require_support()
        super().__init__(settings, now_s=now_s)

    def _start(self, folder: Path, said: dict[str, Any]) -> None:
        ranks, settings = count_ranks(said), self._settings
        there = find_jobs(*(self._name(folder, vm) for vm in ranks))
        for vm, count in ranks.items():
            noted = folder / f"{vm}.submitted"
            if noted.exists() or self._name(folder, vm) in there:
                continue  # it runs, or has
            given = {name: value.replace("{type}", vm.rpartition(".vm-")[0]) for name, value in settings.sbatch.items()}
            if settings.gres:
                given = {"gres": f"{settings.gres}:{count}", **given}
            words = [sys.executable, "-m", "optplan.execution.fleets.ranks", str(folder), vm]
            line = f"exec {shlex.join([*words, *shlex.split(settings.command)])}"
            options = {"nodes": "1", "ntasks": "1", "output": str(folder / LOG), "open-mode": "append", **given}
            noted.write_text(submit(self._name(folder, vm), options, line), encoding="utf-8")

    def _end(self, folder: Path) -> None:
        """Cancel the fleet's jobs, and wait until none is left."""
        names = [self._name(folder, vm) for vm in count_ranks(read(folder / FLEET) or {"ranks": ()})]
        while left := find_jobs(*names):
            for number in left.values():
                cancel(number)
            time.sleep(_LOOK_S)

    def _name(self, folder: Path, vm: str) -> str:
        return f"{self._settings.name}.{folder.name}.{vm}"
