"""The Slurm executor: every operation is a job of its own, submitted at the size that was decided.

Jobs with GPUs cannot grow in Slurm, so that a new width is a new job that goes on from the checkpoint of the one
before. Slurm chooses the machines and queues jobs; what they wait in its queue is time for which nodes are held.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import subprocess
import sys
from abc import abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from optplan.errors import OutputError, UsageError
from optplan.execution.command_executor import QueueExecutor
from optplan.execution.folders import Ending, FolderSettings, Handle, Running
from optplan.execution.protocol import Operation
from optplan.execution.supervision import read_code, write_command

#: Seconds that one of Slurm's commands has, and for which squeue may fail, as while Slurm is started anew.
_PATIENCE_S, _OUTAGE_S = 60.0, 600.0
#: Seconds between two looks for jobs.
_JOBS_S = 1.0
#: States in which jobs end that are not to blame for it.
_BLAMELESS = frozenset({"BOOT_FAIL", "NODE_FAIL", "PREEMPTED"})


class JobExecutor(QueueExecutor[Handle]):
    """Has jobs for operations, each by a name of its own, so that a driver that begins anew submits none again."""

    def __init__(self, gpus_per_node: Mapping[str, int], settings: FolderSettings, *, now_s: float = 0.0) -> None:
        super().__init__(gpus_per_node, settings, now_s=now_s)
        #: The user's jobs that are there, by name; when they were asked for, and when Slurm has answered.
        self._jobs: dict[str, str] = {}
        self._asked_s, self._answered_s = -math.inf, now_s

    @abstractmethod
    def _names_of(self, operation: Operation) -> list[str]:
        """Return the names of an operation's jobs."""

    def _name(self, *parts: str) -> str:
        """Return the name of a job: other runs may have operations of the same name."""
        return ".".join((self._settings.name, *parts))

    def _look_around(self) -> None:
        """Ask now and then which jobs are still there; while Slurm does not answer, those that were."""
        super()._look_around()
        if self.now_s() < self._asked_s + _JOBS_S:
            return
        self._asked_s = self.now_s()
        try:
            self._list_jobs()
        except OutputError:
            if self._asked_s >= self._answered_s + _OUTAGE_S:
                raise

    def _list_jobs(self) -> None:
        lines = call("squeue", "--noheader", "--me", "--format=%i %j").splitlines()
        self._jobs = {name: number for number, _, name in (line.partition(" ") for line in lines)}
        self._answered_s = self.now_s()

    def _submit(self, name: str, options: Mapping[str, str], line: str) -> str:
        """Submit a job that runs a line of a shell, and return its number; who starts it anew is the driver."""
        given = [f"--{option}={value}" for option, value in options.items()]
        said = call("sbatch", "--parsable", "--no-requeue", f"--job-name={name}", *given, f"--wrap={line}")
        number = self._jobs[name] = said.strip().partition(";")[0]  # the name of the cluster may follow
        return number

    def _is_alive(self, running: Running[Handle]) -> bool:
        return not self._jobs.keys().isdisjoint(self._names_of(running.operation))

    def _kill(self, running: Running[Handle]) -> None:
        """End its jobs; where Slurm cannot, as they have just ended or it does not answer, it is tried again."""
        for name in self._jobs.keys() & self._names_of(running.operation):
            with suppress(OutputError):
                call("scancel", self._jobs[name])


class SlurmExecutor(JobExecutor[str]):
    """Runs operations as jobs of Slurm; a handle is a job's number."""

    look_s = 1.0

    def _names_of(self, operation: Operation) -> list[str]:
        return [self._name(operation.id)]

    def _find(self, operation: Operation, folder: Path) -> str | None:  # noqa: ARG002 - Slurm knows it by its name
        (name,) = self._names_of(operation)
        if name not in self._jobs:
            self._list_jobs()
        return self._jobs.get(name)

    def _launch(self, operation: Operation, folder: Path, log: Path) -> str:
        if len(operation.place) > 1 and self._settings.launcher == "single":
            what = f"{operation.trial} has GPUs on {len(operation.place)} nodes, and is one process"
            raise UsageError(f"launcher: {what}; give torchrun")
        many, each = _divide(operation.place)
        options = {"nodes": str(many), "ntasks": str(many), "output": str(log.resolve()), "open-mode": "append"}
        if self._settings.gres:
            options["gres"] = f"{self._settings.gres}:{each}"
        options |= self._settings.sbatch
        return self._submit(self._name(operation.id), options, self._command_line(many, each, folder))

    def _command_line(self, nodes: int, gpus: int, folder: Path) -> str:
        """Return what the job runs; under torchrun one task a node, which meet on the first."""
        if not self._settings.is_joined:
            return f"exec {write_command(folder)}"
        worker = ["-m", "optplan.execution.worker", str(folder.resolve())]
        size = [f"--nnodes={nodes}", f"--nproc-per-node={gpus}", "--max-restarts=0", "--rdzv-backend=c10d"]
        torchrun = shlex.join([sys.executable, "-m", "torch.distributed.run", *size])
        first = '$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'
        meeting = f'--rdzv-id="$SLURM_JOB_ID" --rdzv-endpoint="{first}:$((20000 + SLURM_JOB_ID % 20000))"'
        return f"srun --ntasks-per-node=1 {torchrun} {meeting} {shlex.join(worker)}"

    def _explain(self, running: Running[str]) -> Ending:
        if read_code(running.folder) is None and running.handle is not None:
            with suppress(OutputError):  # Slurm forgets jobs some minutes after they have ended
                said = re.search(r"JobState=(\w+)", call("scontrol", "show", "job", running.handle))
                if said is not None and said[1] != "COMPLETED":
                    why = f"left nothing behind; Slurm says {said[1]} of its job {running.handle}"
                    return Ending(why, blameless=said[1] in _BLAMELESS)
        return super()._explain(running)


def _divide(place: Mapping[str, int]) -> tuple[int, int]:
    """Return how many nodes a job has and how many GPUs on each: as few as it is placed on, and all alike."""
    gpus = sum(place.values())
    many = next(many for many in range(len(place), gpus + 1) if gpus % many == 0)
    return many, gpus // many


def call(
    *words: str,
    patience_s: float = _PATIENCE_S,
    instead: str = "run on a machine that can submit to Slurm",
    variables: Mapping[str, str] | None = None,
) -> str:
    """Run a program, such as one of Slurm's, to its end, with variables of its environment; return what it printed.

    UsageError says what to do ``instead`` if it is missing; OutputError, if it fails or does not answer, what it said.
    """
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            timeout=patience_s,
            env={**os.environ, **(variables or {})},
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise UsageError(f"{words[0]} cannot be started ({error.strerror}); {instead}") from None
    except subprocess.TimeoutExpired:
        raise OutputError(f"{words[0]} did not answer within {patience_s:g} s; is it up?") from None
    if done.returncode:
        raise OutputError(f"{words[0]} failed: {(done.stderr.strip().splitlines() or ['it said nothing'])[-1]}")
    return done.stdout
