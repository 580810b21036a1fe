"""The local executor: trials as processes on this machine, on its GPUs or on CPU slots.

A node is a share of the machine: as many GPUs, or slots, as the plan's nodes have. Each operation has one process,
or torchrun, in a session of its own, so that it outlives a driver that is killed.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from optplan.errors import MissingExtraError
from optplan.runtime.folders import Ending, FolderExecutor, FolderSettings, Running, explain_code, read
from optplan.runtime.journal import is_locked
from optplan.runtime.protocol import Capabilities, NodeReady, NodeRequest, Operation
from optplan.runtime.trial_files import LOCK, write

if TYPE_CHECKING:
    import psutil

#: File with the process of an operation.
_PROCESS = "process.json"


@dataclass(frozen=True)
class _Process:
    """A process that this driver has started, or found; neither where somebody holds the operation's lock."""

    process: psutil.Process | None
    child: subprocess.Popen[bytes] | None = None


class LocalExecutor(FolderExecutor[_Process]):
    """Runs operations as processes.

    Raises
    ------
    MissingExtraError
        When psutil is not installed.
    """

    capabilities = Capabilities("local", lateness=0.01)
    look_s = 0.02

    def __init__(self, gpus_per_node: Mapping[str, int], settings: FolderSettings, *, now_s: float = 0.0) -> None:
        try:
            import psutil  # noqa: F401 - asked for before anything is started
        except ModuleNotFoundError:
            raise MissingExtraError("psutil", "run") from None
        super().__init__(gpus_per_node, settings, now_s=now_s)
        self._devices = list_devices()
        self._slots = settings.slots or (len(self._devices) or None)
        self._wanted: dict[str, int] = {}
        self._nodes: dict[str, list[str]] = {}

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

    def close(self) -> None:
        """Let go of the processes; those that run go on."""
        for running in self._running.values():
            if running.handle is not None and running.handle.child is not None:
                running.handle.child.returncode = 0  # not ours any more: no complaint that it still runs

    def _find_nodes(self, nodes: Sequence[NodeRequest]) -> frozenset[str]:
        self.ensure_nodes(nodes)  # those of this machine are always there
        return frozenset(request.node for request in nodes)

    def _find(self, operation: Operation, folder: Path) -> _Process | None:  # noqa: ARG002 - the folder tells
        process = _find_process(folder)
        return _Process(process) if process is not None or is_locked(folder / LOCK) else None

    def _launch(self, operation: Operation, folder: Path, log: Path) -> _Process:
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
        return _Process(process, child)

    def _command_line(self, operation: Operation, folder: Path) -> list[str]:
        worker = ["-m", "optplan.runtime.worker", str(folder)]
        if not self._settings.is_joined:
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
                    process = running.handle.process if running.handle is not None else None
                    environment = process.environ() if process is not None else {}
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

    def _is_alive(self, running: Running[_Process]) -> bool:
        if running.handle is None:
            return False
        if running.handle.child is not None:
            return running.handle.child.poll() is None
        if running.handle.process is None:
            return is_locked(running.folder / LOCK)
        import psutil

        with contextlib.suppress(psutil.NoSuchProcess):
            return running.handle.process.is_running() and running.handle.process.status() != psutil.STATUS_ZOMBIE
        return False

    def _kill(self, running: Running[_Process]) -> None:
        import psutil

        if running.handle is None or running.handle.process is None:
            return
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in [*running.handle.process.children(recursive=True), running.handle.process]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()

    def _explain(self, running: Running[_Process]) -> Ending:
        child = None if running.handle is None else running.handle.child
        return explain_code(None if child is None else child.returncode)


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
    known = read(folder / _PROCESS)
    process = None if known is None else _identify(known["pid"])
    if known is None or process is None:
        return None
    return process if abs(process.create_time() - known["create_time"]) < 1.0 else None
