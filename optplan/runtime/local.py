"""The local executor: trials as processes on this machine, on its GPUs or on CPU slots.

A node is a share of the machine: as many GPUs, or slots, as the plan's nodes have. Each operation has a folder
(``operations/ID`` of the run) and one process, :mod:`optplan.runtime.worker`, in a session of its own, so that it
outlives a driver that is killed; another driver adopts it. What it wrote last counts, not who asked for it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optplan.errors import MissingExtraError, OutputError
from optplan.runtime.checkpoints import is_whole, prune
from optplan.runtime.protocol import (
    Capabilities,
    Checkpoint,
    Event,
    Failed,
    Finished,
    NodeReady,
    NodeRequest,
    Observation,
    Operation,
    Progressed,
)
from optplan.runtime.worker import HOPELESS, LOCK, OPERATION, OUTCOME, PROGRESS, STOP, STORED, write

if TYPE_CHECKING:
    import psutil

#: Seconds between two looks at the processes.
_LOOK_S = 0.02
#: Characters of a log's end that tell why a process failed.
_TAIL = 2000
#: File with the process of an operation.
_PROCESS = "process.json"


@dataclass(frozen=True)
class LocalSettings:
    """How trials are run here.

    Parameters
    ----------
    root
        Folder of the run.
    train, command, folder
        What is run, and from which folder.
    metric
        What trials have to show.
    launcher
        ``single`` or ``torchrun``.
    slots
        GPUs or CPU slots that may be used; None: the machine's GPUs, or as many slots as are asked for.
    step_wait_s
        Least seconds of an iteration: what is left of them is waited.
    checkpoint_every_s
        Seconds after which a trial stores its state on the way.
    checkpoint_bytes
        What checkpoints may take before those of trials that are out are deleted.
    """

    root: Path
    train: str = ""
    command: str = ""
    folder: str = "."
    metric: str = "loss"
    launcher: str = "single"
    slots: int | None = None
    step_wait_s: float = 0.0
    checkpoint_every_s: float = 60.0
    checkpoint_bytes: float = 10e9


@dataclass
class _Running:
    """An operation's process, as this driver knows it."""

    operation: Operation
    folder: Path
    process: psutil.Process | None
    started_s: float
    offset: int = 0
    kill_at_s: float | None = None
    child: subprocess.Popen[bytes] | None = None


class LocalExecutor:
    """Runs operations as processes.

    Parameters
    ----------
    gpus_per_node
        By resource, the GPUs of a node.
    settings
        How trials are run.
    now_s
        What the run's clock shows.

    Raises
    ------
    MissingExtraError
        When psutil is not installed.
    """

    capabilities = Capabilities("local", lateness=0.01)

    def __init__(self, gpus_per_node: Mapping[str, int], settings: LocalSettings, *, now_s: float = 0.0) -> None:
        try:
            import psutil  # noqa: F401 - asked for before anything is started
        except ModuleNotFoundError:
            raise MissingExtraError("psutil", "run") from None
        self._gpus_per_node = gpus_per_node
        self._settings = settings
        self._zero = time.monotonic() - now_s
        self._devices = list_devices()
        self._slots = settings.slots or (len(self._devices) or None)
        self._wanted: dict[str, int] = {}
        self._nodes: dict[str, list[str]] = {}
        self._running: dict[str, _Running] = {}
        self._events: list[Event] = []

    def now_s(self) -> float:
        """Return the seconds since the run began."""
        return time.monotonic() - self._zero

    def observe(self, nodes: Sequence[NodeRequest], operations: Sequence[Operation]) -> Observation:
        """Adopt the processes that still run, and what ended ones left; nodes of this machine are always there."""
        for operation in operations:
            folder = self._folder_of(operation.id)
            process = _find_process(folder)
            if (folder / OUTCOME).is_file() or process is not None or _is_held(folder):
                self._running[operation.id] = _Running(operation, folder, process, operation.wanted_s)
        self.ensure_nodes(nodes)
        return Observation(frozenset(request.node for request in nodes), frozenset(self._running))

    def ensure_nodes(self, requests: Sequence[NodeRequest]) -> None:
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

    def start(self, operation: Operation) -> None:
        """Start the process of an operation, unless it runs already.

        Raises
        ------
        OutputError
            When its folder cannot be written.
        """
        if operation.id in self._running:
            return
        folder = self._folder_of(operation.id)
        log = self._settings.root / "trials" / operation.trial / "output.log"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            log.parent.mkdir(parents=True, exist_ok=True)
            write(folder / OPERATION, self._describe(operation, log))
            with log.open("ab") as output:
                child = subprocess.Popen(
                    self._command_line(operation, folder),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **self._name_variables(operation)},
                    start_new_session=True,
                )
            process = _identify(child.pid)
            if process is not None:
                write(folder / _PROCESS, {"pid": child.pid, "create_time": process.create_time()})
        except OSError as error:
            message = f"{folder} cannot be written ({error.strerror}); make room, then go on with --resume"
            raise OutputError(message) from None
        self._running[operation.id] = _Running(operation, folder, process, self.now_s(), child=child)

    def stop(self, operation: str, grace_s: float) -> None:
        """Ask a process to store its state and end; after the grace it is killed."""
        if operation in self._running:
            running = self._running[operation]
            (running.folder / STOP).touch()
            running.kill_at_s = self.now_s() + grace_s

    def poll(self, until_s: float) -> list[Event]:
        """Return what has happened; wait until something does, or until the time has come."""
        while True:
            for running in list(self._running.values()):
                self._look_at(running)
            if self._events or self.now_s() >= until_s:
                events, self._events = self._events, []
                return events
            time.sleep(min(_LOOK_S, max(0.0, until_s - self.now_s())))

    def prune(self, keep: Sequence[Checkpoint], droppable: Sequence[Checkpoint]) -> None:
        """Delete checkpoints that nobody needs."""
        root = self._settings.root
        running = [root / r.operation.checkpoint.path for r in self._running.values() if r.operation.checkpoint]
        kept = [*(root / each.path for each in keep), *running]
        prune(root / "trials", kept, [root / each.path for each in droppable], self._settings.checkpoint_bytes)

    def close(self) -> None:
        """Let go of the processes; those that run go on."""
        for running in self._running.values():
            if running.child is not None:
                running.child.returncode = 0  # not ours any more: no complaint that it still runs

    # ------------------------------------------------------------------------------------------------------- starting

    def _folder_of(self, operation: str) -> Path:
        return self._settings.root / "operations" / operation

    def _describe(self, operation: Operation, log: Path) -> dict[str, Any]:
        settings, now = self._settings, time.time()
        until = None if operation.until_s is None else now + operation.until_s - self.now_s()
        return {
            **asdict(operation),
            "gpus": operation.workers * operation.gpus_per_worker,
            "train": settings.train,
            "command": settings.command,
            "folder": str(Path(settings.folder).resolve()),
            "root": str(settings.root.resolve()),
            "log": str(log.resolve()),
            "metric": settings.metric,
            "step_wait_s": settings.step_wait_s,
            "checkpoint_every_s": settings.checkpoint_every_s,
            "wanted_wall": now - (self.now_s() - operation.wanted_s),
            "until_wall": until,
        }

    def _command_line(self, operation: Operation, folder: Path) -> list[str]:
        worker = ["-m", "optplan.runtime.worker", str(folder)]
        if self._settings.launcher == "single" or self._settings.command:
            return [sys.executable, *worker]
        # One node of a fixed size for each segment: joining and leaving in place does not work reliably.
        size = ["--nnodes=1", f"--nproc-per-node={operation.workers}", "--max-restarts=0"]
        meeting = ["--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0"]
        return [sys.executable, "-m", "torch.distributed.run", *size, *meeting, *worker]

    def _name_variables(self, operation: Operation) -> dict[str, str]:
        gpus = operation.workers * operation.gpus_per_worker
        threads = gpus if self._settings.launcher == "single" else operation.gpus_per_worker
        variables = {"OMP_NUM_THREADS": str(threads), "PYTHONUNBUFFERED": "1"}
        if self._devices:
            own = [device for node, count in operation.place.items() for device in self._free_devices(node)[:count]]
            variables["CUDA_VISIBLE_DEVICES"] = ",".join(own)
        return variables

    def _free_devices(self, node: str) -> list[str]:
        taken: set[str] = set()
        for running in self._running.values():
            if node in running.operation.place:
                with contextlib.suppress(OSError, KeyError, ValueError):
                    environment = running.process.environ() if running.process is not None else {}
                    taken |= set(environment.get("CUDA_VISIBLE_DEVICES", "").split(","))
        return [device for device in self._nodes.get(node, []) if device not in taken]

    def _fill_nodes(self) -> None:
        """Make nodes ready for which there is room."""
        for node, gpus in list(self._wanted.items()):
            used = [device for devices in self._nodes.values() for device in devices]
            if self._slots is not None and len(used) + gpus > self._slots:
                continue
            free = [device for device in self._devices if device not in used]
            self._nodes[node] = free[:gpus] if self._devices else [f"{node}.{slot}" for slot in range(gpus)]
            del self._wanted[node]
            self._events.append(NodeReady(node, self.now_s()))

    # -------------------------------------------------------------------------------------------------------- looking

    def _look_at(self, running: _Running) -> None:
        """Report what a process has done since the last look."""
        self._read_progress(running)
        name = running.operation.id
        if not self._is_alive(running):
            self._read_progress(running)
            del self._running[name]
            self._events.append(self._conclude(running))
        elif running.kill_at_s is not None and self.now_s() >= running.kill_at_s:
            _kill(running)

    def _is_alive(self, running: _Running) -> bool:
        if running.child is not None:
            return running.child.poll() is None
        if running.process is None:
            return _is_held(running.folder)
        import psutil

        with contextlib.suppress(psutil.NoSuchProcess):
            return running.process.is_running() and running.process.status() != psutil.STATUS_ZOMBIE
        return False

    def _read_progress(self, running: _Running) -> None:
        path = running.folder / PROGRESS
        if not path.is_file() or path.stat().st_size <= running.offset:
            return
        with path.open("rb") as file:
            file.seek(running.offset)
            for line in file:
                if line.endswith(b"\n"):
                    running.offset += len(line)
                    data = json.loads(line)
                    name = running.operation.id
                    done = data["iterations"], data["metrics"], data.get("seconds")
                    self._events.append(Progressed(name, self.now_s(), *done))

    def _conclude(self, running: _Running) -> Event:
        """Say how an operation whose process is gone has ended."""
        operation, now_s = running.operation, self.now_s()
        outcome = _read(running.folder / OUTCOME)
        if outcome is not None:
            checkpoint = None if outcome["checkpoint"] is None else Checkpoint(**outcome["checkpoint"])
            if checkpoint is None or is_whole(self._settings.root, checkpoint):
                done = (outcome["iterations"], outcome["metrics"], checkpoint)
                busy_s = now_s - operation.wanted_s
                return Finished(operation.id, now_s, *done, busy_s, outcome["complete"], outcome["timings"])
        code = None if running.child is None else running.child.returncode
        log = self._settings.root / "trials" / operation.trial / "output.log"
        stored = _read(running.folder / STORED) or {}
        kept = Checkpoint(**stored["checkpoint"]) if stored.get("checkpoint") else None
        if kept is not None and not is_whole(self._settings.root, kept):
            stored, kept = {}, None
        return Failed(
            operation.id,
            now_s,
            _say_code(code, killed=running.kill_at_s is not None),
            tail=_read_tail(log),
            blameless=running.kill_at_s is not None,
            hopeless=code == HOPELESS,
            iterations=stored.get("iterations"),
            metrics=stored.get("metrics", {}),
            checkpoint=kept,
        )


def list_devices() -> list[str]:
    """Return the GPUs that may be used; none where there are none."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        return [device for device in given.split(",") if device.strip() not in ("", "-1")]
    known = Path("/proc/driver/nvidia/gpus")
    return [str(number) for number in range(len(list(known.iterdir())))] if known.is_dir() else []


def _identify(pid: int) -> psutil.Process | None:
    import psutil

    try:
        return psutil.Process(pid)
    except psutil.NoSuchProcess:
        return None


def _find_process(folder: Path) -> psutil.Process | None:
    """Return the process of an operation if it still runs: a number alone may be another one's by now."""
    known = _read(folder / _PROCESS)
    process = None if known is None else _identify(known["pid"])
    if known is None or process is None:
        return None
    return process if abs(process.create_time() - known["create_time"]) < 1.0 else None


def _is_held(folder: Path) -> bool:
    """Whether a process holds the operation."""
    if not (folder / LOCK).is_file():
        return False
    with (folder / LOCK).open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def _kill(running: _Running) -> None:
    """Kill a process and its children."""
    import psutil

    if running.process is None:
        return
    with contextlib.suppress(psutil.NoSuchProcess):
        for process in [*running.process.children(recursive=True), running.process]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def _read(path: Path) -> dict[str, Any] | None:
    """Read plain data that was written by rename; None where it is not there."""
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return data


def _read_tail(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL))
            return file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""


def _say_code(code: int | None, *, killed: bool) -> str:
    if killed:
        return "did not end in time and was killed"
    if code is None:
        return "ended and left nothing behind"
    return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
