"""Executors whose operations are processes: on this machine, started by a command of the user's, or as jobs of Slurm.

On this machine a node is a share of it: as many GPUs, or CPU slots, as the plan's nodes have. Each operation is a group
of processes in a session of its own (:mod:`optplan.execution.supervision`), and outlives a driver that is killed.

The command starts and ends the processes of an operation, wherever that may be. It is called with ``OPTPLAN_ACTION``,
``start`` or ``stop``, and returns once that is under way; docs/executors.md has its variables. After a driver was
killed it may be called again for the same operation: whichever of the two comes second does nothing.

On Slurm every operation is a job of its own, submitted at the size that was decided. Jobs with GPUs cannot grow there,
so that a new width is a new job that goes on from the checkpoint of the one before. Slurm chooses the machines and
queues jobs; what they wait in its queue is time for which nodes are held.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import subprocess
import sys
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optplan.errors import OutputError, UsageError
from optplan.execution import supervision
from optplan.execution.folders import Ending, FolderExecutor, FolderSettings, Handle, Running, explain_code
from optplan.execution.protocol import Operation
from optplan.execution.records import NodeChanged, NodeWanted
from optplan.execution.state import Phase
from optplan.execution.trial_files import ENDED, LOCK, OPERATION, PROCESS, STARTED, read, write
from optplan.units import format_duration

#: What a supervisor adds to the number of the signal that has ended the work.
_SIGNALS = 128
#: What torchrun starts.
_WORKER = ("-m", "optplan.execution.worker")
#: What the user's command writes, in the folder of the run.
COMMANDS = "commands.log"
#: Seconds without a sign of life after which an operation that had begun is gone.
_SILENCE_S = 60.0
#: Seconds that one of Slurm's commands has, and for which squeue may fail, as while Slurm is started anew.
_PATIENCE_S, _OUTAGE_S = 60.0, 600.0
#: Seconds between two looks for jobs.
_JOBS_S = 1.0
#: States in which jobs end that are not to blame for it.
_BLAMELESS = frozenset({"BOOT_FAIL", "NODE_FAIL", "PREEMPTED"})


class ProcessExecutor(FolderExecutor[Handle]):
    """Has groups of supervised processes on this machine; which of them this driver has started its heirs know."""

    @abstractmethod
    def _list_children(self, running: Running[Handle]) -> Iterable[subprocess.Popen[bytes]]:
        """Return the supervisors that this driver has started."""

    def close(self) -> None:
        """Let go of the processes; those that run go on."""
        for running in self._running.values():
            for child in self._list_children(running):
                if child.poll() is None:
                    child.returncode = 0  # not ours any more: no complaint that it still runs

    def _is_alive(self, running: Running[Handle]) -> bool:
        if any(child.poll() is None for child in self._list_children(running)):
            return True
        homes = supervision.list_homes(running.folder)
        if any(map(supervision.is_running, homes)):
            return True
        for home in homes:
            supervision.clear(home)
        return False

    def _kill(self, running: Running[Handle]) -> None:
        for home in supervision.list_homes(running.folder):
            supervision.end(home)


@dataclass(frozen=True)
class _Group:
    """The processes of an operation: their supervisor, where this driver has started it, and their GPUs."""

    devices: list[str]
    child: subprocess.Popen[bytes] | None = None


class LocalExecutor(ProcessExecutor[_Group]):
    """Runs operations as processes."""

    look_s = 0.02

    def __init__(self, gpus_per_node: Mapping[str, int], settings: FolderSettings, *, now_s: float = 0.0) -> None:
        supervision.require_support()
        super().__init__(gpus_per_node, settings, now_s=now_s)
        self._devices = list_devices()
        self._slots = settings.slots or (len(self._devices) or None)
        self._wanted: dict[str, int] = {}
        self._nodes: dict[str, list[str]] = {}

    def ensure_nodes(self, requests: Sequence[NodeWanted]) -> None:
        """Set a part of the machine aside for each node, as soon as there is room."""
        for request in requests:
            if request.node not in self._nodes:
                self._wanted[request.node] = self._gpus_per_node[request.resource]
        self._fill_nodes()

    def release_nodes(self, nodes: Sequence[str]) -> None:
        """Let others have the parts."""
        for node in nodes:
            self._wanted.pop(node, None)
            self._nodes.pop(node, None)
        self._fill_nodes()

    def _find(self, operation: Operation, folder: Path) -> _Group | None:  # noqa: ARG002 - the folder tells
        if not supervision.is_running(folder):
            supervision.clear(folder)
            return None
        return _Group((read(folder / OPERATION) or {}).get("devices", []))

    def _describe(self, operation: Operation, log: Path) -> dict[str, Any]:
        own = [device for node, count in operation.place.items() for device in self._free_devices(node)[:count]]
        return {**super()._describe(operation, log), "devices": own}

    def _launch(self, operation: Operation, folder: Path, log: Path) -> _Group:
        devices: list[str] = (read(folder / OPERATION) or {})["devices"]
        joined = [*_torchrun(1, operation.workers), "--rdzv-endpoint=127.0.0.1:0", *_WORKER, str(folder)]
        command, variables = joined if self._settings.is_joined else [], self._name_variables(operation, devices)
        return _Group(devices, supervision.launch(folder, folder, command, log=log, variables=variables))

    def _name_variables(self, operation: Operation, devices: Sequence[str]) -> dict[str, str]:
        gpus = operation.workers * operation.gpus_per_worker
        threads = gpus if self._settings.launcher == "single" else operation.gpus_per_worker
        variables = {"OMP_NUM_THREADS": str(threads), "PYTHONUNBUFFERED": "1"}
        return variables | ({"CUDA_VISIBLE_DEVICES": ",".join(devices)} if self._devices else {})

    def _free_devices(self, node: str) -> list[str]:
        """Return the GPUs of a node that no operation has; names of slots are none."""
        taken = {device for each in self._running.values() if each.handle for device in each.handle.devices}
        own = self._nodes.get(node, []) if self._devices else []
        return [device for device in own if device not in taken]

    def _fill_nodes(self) -> None:
        for node, gpus in list(self._wanted.items()):
            used = [device for devices in self._nodes.values() for device in devices]
            if self._slots is not None and len(used) + gpus > self._slots:
                continue
            free = [device for device in self._devices if device not in used]
            self._nodes[node] = free[:gpus] if self._devices else [f"{node}.{slot}" for slot in range(gpus)]
            del self._wanted[node]
            self._events.append(NodeChanged(self.now_s(), node, Phase.READY))

    def _list_children(self, running: Running[_Group]) -> Iterable[subprocess.Popen[bytes]]:
        return () if running.handle is None or running.handle.child is None else (running.handle.child,)

    def _explain(self, running: Running[_Group]) -> Ending:
        code = supervision.read_code(running.folder)
        for child in self._list_children(running) if code is None else ():  # there was no room to write it down
            code = child.returncode if child.returncode <= _SIGNALS else _SIGNALS - child.returncode
        return explain_code(code)


def list_devices() -> list[str]:
    """Return the GPUs that may be used; none where there are none."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        return [device for device in given.split(",") if device.strip() not in ("", "-1")]
    known = Path("/proc/driver/nvidia/gpus")
    return [str(number) for number in range(len(list(known.iterdir())))] if known.is_dir() else []


def call_command(command: str, root: Path, action: str, **variables: str) -> None:
    """Run a command of the user's to its end; what it writes goes to the folder of the run."""
    words = shlex.split(command)
    try:
        with (root / COMMANDS).open("ab") as output:
            ended = subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "OPTPLAN_ACTION": action, **variables},
                check=False,
            )
    except OSError as error:
        problem = f"command: {words[0]!r} cannot be started ({error.strerror})"
        raise UsageError(f"{problem}; give a program that is there, then --resume") from None
    if ended.returncode:
        message = f"command: ended with exit code {ended.returncode} on {action} (see {root / COMMANDS})"
        raise UsageError(f"{message}; mend it, then go on with --resume")


def _torchrun(nodes: int, processes: int) -> list[str]:
    """Return the words that start workers on nodes; their number is fixed: joining in place does not work reliably."""
    size = [f"--nnodes={nodes}", f"--nproc-per-node={processes}", "--max-restarts=0", "--rdzv-backend=c10d"]
    return [sys.executable, "-m", "torch.distributed.run", *size]


class QueueExecutor(FolderExecutor[Handle]):
    """Hands operations to somebody who chooses machines: nodes are there at once, and bound how many it hands over.

    The folder of the run has to be one that all machines share.
    """

    lateness = 0.05

    def __init__(self, gpus_per_node: Mapping[str, int], settings: FolderSettings, *, now_s: float = 0.0) -> None:
        supervision.require_support()
        super().__init__(gpus_per_node, settings, now_s=now_s)
        #: By node, its resource.
        self._nodes: dict[str, str] = {}

    def ensure_nodes(self, requests: Sequence[NodeWanted]) -> None:
        """Let operations be handed over for them."""
        for request in requests:
            if request.node not in self._nodes:
                self._nodes[request.node] = request.resource
                self._events.append(NodeChanged(self.now_s(), request.node, Phase.READY))

    def release_nodes(self, nodes: Sequence[str]) -> None:
        """Let no more be handed over for them."""
        for node in nodes:
            self._nodes.pop(node, None)

    def _count_gpus(self, operation: Operation) -> int:
        """Return the GPUs of one process; it gets a machine with all, of however many nodes they are counted."""
        gpus, resource = sum(operation.place.values()), self._nodes.get(next(iter(operation.place)), "")
        if len(operation.place) > 1:
            whose = f"{operation.trial} has {gpus} GPUs on {len(operation.place)} nodes"
            self._settings.require_one_node(whose, gpus, self._gpus_per_node.get(resource, 0))
        return gpus


class CommandExecutor(QueueExecutor[supervision.LockWatch]):
    """Has operations started and ended by a command; a handle looks for signs of life."""

    look_s = 0.1

    def _describe(self, operation: Operation, log: Path) -> dict[str, Any]:
        return {**super()._describe(operation, log), "command": ""}  # that starts it, and does not train

    def _launch(self, operation: Operation, folder: Path, log: Path) -> supervision.LockWatch:
        gpus = self._count_gpus(operation)
        node, settings = next(iter(operation.place)), self._settings
        said = {
            "OPTPLAN_OPERATION": str(folder.resolve()),
            "OPTPLAN_WORK": supervision.write_command(folder),
            "OPTPLAN_GPUS": str(gpus),
            "OPTPLAN_RESOURCE": self._nodes[node],
            "OPTPLAN_LOG": str(log.resolve()),
        }
        call_command(settings.command, settings.root, "start", **said)
        write(folder / STARTED, {})
        return supervision.LockWatch(folder / LOCK, _SILENCE_S)

    def _find(self, operation: Operation, folder: Path) -> supervision.LockWatch | None:  # noqa: ARG002 - the folder tells
        return supervision.LockWatch(folder / LOCK, _SILENCE_S) if (folder / STARTED).exists() else None

    def _is_alive(self, running: Running[supervision.LockWatch]) -> bool:
        if running.handle is None:
            return False
        if (running.folder / ENDED).exists():
            return supervision.is_running(running.folder)  # its supervisors end a moment later
        has_begun = (running.folder / PROCESS).exists()  # until then it waits for its machine
        return not has_begun or not running.handle.is_gone()

    def _kill(self, running: Running[supervision.LockWatch]) -> None:
        settings = self._settings
        call_command(settings.command, settings.root, "stop", OPTPLAN_OPERATION=str(running.folder.resolve()))
        running.handle = None

    def _explain(self, running: Running[supervision.LockWatch]) -> Ending:
        if supervision.read_code(running.folder) is None and running.handle is not None:
            return Ending(f"has shown no sign of life for {format_duration(_SILENCE_S)}", blameless=True)
        return super()._explain(running)


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
        if self._settings.launcher == "single":
            many, each = 1, self._count_gpus(operation)
        else:
            many, each = _divide(operation.place)
        options = {"nodes": str(many), "ntasks": str(many), "output": str(log.resolve()), "open-mode": "append"}
        if self._settings.gres:
            options["gres"] = f"{self._settings.gres}:{each}"
        options |= self._settings.sbatch
        return self._submit(self._name(operation.id), options, self._command_line(many, each, folder))

    def _command_line(self, nodes: int, gpus: int, folder: Path) -> str:
        """Return what the job runs; under torchrun one task a node, which meet on the first."""
        if not self._settings.is_joined:
            return f"exec {supervision.write_command(folder)}"
        first = '$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'
        meeting = f'--rdzv-id="$SLURM_JOB_ID" --rdzv-endpoint="{first}:$((20000 + SLURM_JOB_ID % 20000))"'
        worker = shlex.join([*_WORKER, str(folder.resolve())])
        return f"srun --ntasks-per-node=1 {shlex.join(_torchrun(nodes, gpus))} {meeting} {worker}"

    def _explain(self, running: Running[str]) -> Ending:
        if supervision.read_code(running.folder) is None and running.handle is not None:
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
