"""The local executor: trials as processes on this machine, on its GPUs or on CPU slots.

A node is a share of the machine: as many GPUs, or slots, as the plan's nodes have. Each operation is a group of
processes in a session of its own (:mod:`optplan.execution.supervision`), so that it outlives a driver that is killed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optplan.execution.folders import Ending, FolderExecutor, FolderSettings, Handle, Running, explain_code
from optplan.execution.protocol import Operation
from optplan.execution.records import NodeChanged, NodeWanted
from optplan.execution.state import Phase
from optplan.execution.supervision import clear, end, is_running, launch, list_homes, read_code, require_support
from optplan.execution.trial_files import OPERATION, read

#: What a supervisor adds to the number of the signal that has ended the work.
_SIGNALS = 128


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
        homes = list_homes(running.folder)
        if any(map(is_running, homes)):
            return True
        for home in homes:
            clear(home)
        return False

    def _kill(self, running: Running[Handle]) -> None:
        for home in list_homes(running.folder):
            end(home)


@dataclass(frozen=True)
class _Group:
    """The processes of an operation: their supervisor, where this driver has started it, and their GPUs."""

    devices: list[str]
    child: subprocess.Popen[bytes] | None = None


class LocalExecutor(ProcessExecutor[_Group]):
    """Runs operations as processes."""

    look_s = 0.02

    def __init__(self, gpus_per_node: Mapping[str, int], settings: FolderSettings, *, now_s: float = 0.0) -> None:
        require_support()
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

    def _find_nodes(self, nodes: Sequence[NodeWanted]) -> frozenset[str]:
        self.ensure_nodes(nodes)  # those of this machine are always there
        return frozenset(request.node for request in nodes)

    def _find(self, operation: Operation, folder: Path) -> _Group | None:  # noqa: ARG002 - the folder tells
        if not is_running(folder):
            clear(folder)
            return None
        return _Group((read(folder / OPERATION) or {}).get("devices", []))

    def _describe(self, operation: Operation, log: Path) -> dict[str, Any]:
        own = [device for node, count in operation.place.items() for device in self._free_devices(node)[:count]]
        return {**super()._describe(operation, log), "devices": own}

    def _launch(self, operation: Operation, folder: Path, log: Path) -> _Group:
        devices: list[str] = (read(folder / OPERATION) or {})["devices"]
        command, variables = self._command_line(operation, folder), self._name_variables(operation, devices)
        return _Group(devices, launch(folder, folder, command, log=log, variables=variables))

    def _command_line(self, operation: Operation, folder: Path) -> list[str]:
        """Return what is run instead of the usual worker; empty where that is what is run."""
        if not self._settings.is_joined:
            return []
        # One node of a fixed size for each segment: joining and leaving in place does not work reliably.
        size = ["--nnodes=1", f"--nproc-per-node={operation.workers}", "--max-restarts=0"]
        meeting = ["--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0"]
        worker = ["-m", "optplan.execution.worker", str(folder)]
        return [sys.executable, "-m", "torch.distributed.run", *size, *meeting, *worker]

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
        code = read_code(running.folder)
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
