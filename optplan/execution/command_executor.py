"""The command executor: a command of the user's starts and ends the processes of an operation, wherever that may be.

It is called with ``OPTPLAN_ACTION``, ``start`` or ``stop``, and returns once that is under way; docs/executors.md has
its variables. After a driver was killed it may be called again for the same operation: whichever of the two comes
second does nothing.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from optplan.errors import UsageError
from optplan.execution.folders import Ending, FolderExecutor, FolderSettings, Handle, Running
from optplan.execution.protocol import Operation
from optplan.execution.records import NodeChanged, NodeWanted
from optplan.execution.state import Phase
from optplan.execution.supervision import LockWatch, is_running, read_code, require_support, write_command
from optplan.execution.trial_files import ENDED, LOCK, PROCESS, STARTED, write
from optplan.units import format_duration

#: What the user's command writes, in the folder of the run.
COMMANDS = "commands.log"
#: Seconds without a sign of life after which an operation that had begun is gone.
_SILENCE_S = 60.0


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


class QueueExecutor(FolderExecutor[Handle]):
    """Hands operations to somebody who chooses machines: nodes are there at once, and bound how many it hands over.

    The folder of the run has to be one that all machines share.
    """

    lateness = 0.05

    def __init__(self, gpus_per_node: Mapping[str, int], settings: FolderSettings, *, now_s: float = 0.0) -> None:
        require_support()
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

    def _find_nodes(self, nodes: Sequence[NodeWanted]) -> frozenset[str]:
        self.ensure_nodes(nodes)
        self._look_around()
        return frozenset(self._nodes)


class CommandExecutor(QueueExecutor[LockWatch]):
    """Has operations started and ended by a command; a handle looks for signs of life."""

    look_s = 0.1

    def _describe(self, operation: Operation, log: Path) -> dict[str, Any]:
        return {**super()._describe(operation, log), "command": ""}  # that starts it, and does not train

    def _launch(self, operation: Operation, folder: Path, log: Path) -> LockWatch:
        if len(operation.place) > 1:
            what = f"{operation.trial} has GPUs on {len(operation.place)} nodes, and is one process"
            raise UsageError(f"executor: {what}; use --executor slurm or ray with --launcher torchrun")
        (node, gpus), settings = next(iter(operation.place.items())), self._settings
        said = {
            "OPTPLAN_OPERATION": str(folder.resolve()),
            "OPTPLAN_WORK": write_command(folder),
            "OPTPLAN_GPUS": str(gpus),
            "OPTPLAN_RESOURCE": self._nodes[node],
            "OPTPLAN_LOG": str(log.resolve()),
        }
        call_command(settings.command, settings.root, "start", **said)
        write(folder / STARTED, {})
        return LockWatch(folder / LOCK, _SILENCE_S)

    def _find(self, operation: Operation, folder: Path) -> LockWatch | None:  # noqa: ARG002 - the folder tells
        return LockWatch(folder / LOCK, _SILENCE_S) if (folder / STARTED).exists() else None

    def _is_alive(self, running: Running[LockWatch]) -> bool:
        if running.handle is None:
            return False
        if (running.folder / ENDED).exists():
            return is_running(running.folder)  # its supervisors end a moment later
        has_begun = (running.folder / PROCESS).exists()  # until then it waits for its machine
        return not has_begun or not running.handle.is_gone()

    def _kill(self, running: Running[LockWatch]) -> None:
        settings = self._settings
        call_command(settings.command, settings.root, "stop", OPTPLAN_OPERATION=str(running.folder.resolve()))
        running.handle = None

    def _explain(self, running: Running[LockWatch]) -> Ending:
        if read_code(running.folder) is None and running.handle is not None:
            return Ending(f"has shown no sign of life for {format_duration(_SILENCE_S)}", blameless=True)
        return super()._explain(running)
