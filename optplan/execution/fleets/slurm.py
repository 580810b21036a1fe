"""Fleets on Slurm: every VM is a job, which runs its ranks; the folder of the run is one that all machines share."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from pathlib import Path

from optplan.errors import OutputError
from optplan.execution.fleets.folder import FolderFleet, Ranks
from optplan.execution.fleets.ranks import count_ranks
from optplan.execution.folders import FolderSettings, Running
from optplan.execution.protocol import Capabilities
from optplan.execution.slurm import cancel, find_jobs, submit

#: Seconds between two looks for jobs.
_JOBS_S = 1.0


class SlurmFleet(FolderFleet):
    """Has a job for each VM, by a name of its own, so that a monitor that begins anew submits none again.

    ``{type}`` in an option of sbatch is the type of the VM. A VM that goes on with another fleet is another job.
    """

    capabilities = Capabilities("slurm", lateness=0.05)

    def __init__(self, gpus_per_node: Mapping[str, int], settings: FolderSettings, *, now_s: float = 0.0) -> None:
        super().__init__(gpus_per_node, settings, now_s=now_s)
        #: The jobs of the fleet that are there, by name, and when they were looked for.
        self._jobs: dict[str, str] = {}
        self._asked_s = -_JOBS_S

    def _start(self, folder: Path, ranks: Ranks, log: Path) -> None:
        counts, settings = count_ranks(ranks.said), self._settings
        self._jobs, self._asked_s = find_jobs(*(self._name(folder, vm) for vm in counts)), self.now_s()
        for vm, count in counts.items():
            name, noted = self._name(folder, vm), folder / f"{vm}.submitted"
            if noted.exists() or name in self._jobs:
                continue  # it runs, or has
            given = {name: value.replace("{type}", vm.rpartition(".vm-")[0]) for name, value in settings.sbatch.items()}
            if settings.gres:
                given = {"gres": f"{settings.gres}:{count}", **given}
            words = [sys.executable, "-m", "optplan.execution.fleets.ranks", str(folder), vm, str(log)]
            line = f"exec {shlex.join([*words, *shlex.split(settings.command)])}"
            options = {"nodes": "1", "ntasks": "1", "output": str(log), "open-mode": "append", **given}
            self._jobs[name] = submit(name, options, line)
            noted.write_text(self._jobs[name], encoding="utf-8")

    def _is_alive(self, running: Running[Ranks]) -> bool:
        """Whether any of its jobs is there; while Slurm does not answer, those that were."""
        if running.handle is not None and self.now_s() >= self._asked_s + _JOBS_S:
            names = [self._name(running.folder, vm) for vm in count_ranks(running.handle.said)]
            with suppress(OutputError) if self._jobs else nullcontext():
                self._jobs = find_jobs(*names)
            self._asked_s = self.now_s()
        return bool(self._jobs)

    def _kill(self, running: Running[Ranks]) -> None:  # noqa: ARG002 - it is the only one
        for number in self._jobs.values():
            cancel(number)

    def _name(self, folder: Path, vm: str) -> str:
        return f"{self._settings.name}.{folder.name}.{vm}"
