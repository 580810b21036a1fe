"""The Slurm executor: every operation is a job of its own, submitted at the size that was decided.

Jobs with GPUs cannot grow in Slurm, so that a new width is a new job that goes on from the checkpoint of the one
before. Slurm chooses the machines and queues jobs; what they wait in its queue is time for which nodes are held.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from optplan.errors import OutputError, UsageError
from optplan.execution.command_executor import QueueExecutor
from optplan.execution.folders import Ending, FolderSettings, Running
from optplan.execution.protocol import Operation
from optplan.execution.supervision import read_code, write_command

#: Seconds that one of Slurm's commands has, and for which squeue may fail, as while Slurm is started anew.
_PATIENCE_S, _OUTAGE_S = 60.0, 600.0
#: States in which jobs end that are not to blame for it.
_BLAMELESS = frozenset({"BOOT_FAIL", "NODE_FAIL", "PREEMPTED"})


class SlurmExecutor(QueueExecutor[str]):
    """Runs operations as jobs of Slurm; a handle is a job's number."""

    look_s = 1.0

    def __init__(self, gpus_per_node: Mapping[str, int], settings: FolderSettings, *, now_s: float = 0.0) -> None:
        super().__init__(gpus_per_node, settings, now_s=now_s)
        self._alive: frozenset[str] = frozenset()
        self._answered_s = now_s

    def _find(self, operation: Operation, folder: Path) -> str | None:  # noqa: ARG002 - Slurm knows it by its name
        found = find_jobs(self._name(operation)).get(self._name(operation))
        self._alive |= set() if found is None else {found}
        return found

    def _launch(self, operation: Operation, folder: Path, log: Path) -> str:
        if len(operation.place) > 1 and self._settings.launcher == "single":
            what = f"{operation.trial} has GPUs on {len(operation.place)} nodes, and is one process"
            raise UsageError(f"launcher: {what}; give torchrun")
        many, each = _divide(operation.place)
        options = {"nodes": str(many), "ntasks": str(many), "output": str(log.resolve()), "open-mode": "append"}
        if self._settings.gres:
            options["gres"] = f"{self._settings.gres}:{each}"
        options |= self._settings.sbatch
        number = submit(self._name(operation), options, self._command_line(many, each, folder))
        self._alive |= {number}
        return number

    def _name(self, operation: Operation) -> str:
        """Return the name of an operation's job: other runs may have operations of the same name."""
        return f"{self._settings.name}.{operation.id}"

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

    def _look_around(self) -> None:
        """Ask once for all jobs which of them are still there; while Slurm does not answer, those that were."""
        try:
            self._alive = frozenset(call("squeue", "--noheader", "--me", "--format=%i").split())
        except OutputError:
            if self.now_s() >= self._answered_s + _OUTAGE_S:
                raise
        else:
            self._answered_s = self.now_s()

    def _is_alive(self, running: Running[str]) -> bool:
        return running.handle in self._alive

    def _kill(self, running: Running[str]) -> None:
        cancel(str(running.handle))

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


def submit(name: str, options: Mapping[str, str], line: str) -> str:
    """Submit a job that runs a line of a shell, and return its number; who starts it anew is the driver."""
    given = [f"--{option}={value}" for option, value in options.items()]
    number = call("sbatch", "--parsable", "--no-requeue", f"--job-name={name}", *given, f"--wrap={line}")
    return number.strip().partition(";")[0]  # the name of the cluster may follow


def find_jobs(*names: str) -> dict[str, str]:
    """Return the numbers of the jobs that there are, by these names."""
    if not names:
        return {}
    lines = call("squeue", "--noheader", "--me", f"--name={','.join(names)}", "--format=%i %j").splitlines()
    return {name: number for number, name in map(str.split, lines)}


def cancel(number: str) -> None:
    """End a job; where Slurm cannot, as it has just ended or does not answer, who still sees it tries again."""
    with suppress(OutputError):
        call("scancel", number)


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
