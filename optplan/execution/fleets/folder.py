"""Fleets in a folder that all VMs see: ranks report in files, orders are files; the page on the monitor lists them.

Who starts ranks is up to its heirs: a process for each on this machine, or a command of the user's.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shlex
import shutil
import subprocess
import time
from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from optplan.errors import UsageError
from optplan.execution.command_executor import call_command
from optplan.execution.fleets.hook import FLEET, ORDERS, RANKS, STOP
from optplan.execution.fleets.protocol import Fleet, FleetRequest, Notice, Report
from optplan.execution.fleets.ranks import LOG, start_ranks
from optplan.execution.folders import FolderSettings
from optplan.execution.supervision import clear, end, is_running, list_homes, require_support
from optplan.execution.trial_files import STARTED, read_new_lines, write

#: Names in the folder of a run, and of a fleet.
FLEETS, NOTICES, _PLAN = "fleets", "notices", "plan.json"
#: Bytes at the end of a rank's reports in which it says how far it is.
_TAIL = 8_192
#: Seconds between two looks.
_LOOK_S = 0.02


class FolderFleet(Fleet):
    """Listens to ranks that report in files.

    Parameters
    ----------
    settings
        Where, and what is started.
    now_s
        What the run's clock shows.
    """

    is_virtual = False

    def __init__(self, settings: FolderSettings, *, now_s: float) -> None:
        self._settings, self._root = settings, settings.root.resolve()
        self._zero = time.monotonic() - now_s
        self._number = 0
        self._offsets: dict[Path, int] = {}
        self._noticed: set[str] = set()
        (self._root / NOTICES).mkdir(exist_ok=True)

    def now_s(self) -> float:
        """Return the seconds since the run began."""
        return time.monotonic() - self._zero

    def start(self, request: FleetRequest) -> None:
        """Write down what each rank does, and have them started, unless they were."""
        folder = self._folder_of(request.number)
        for name in (RANKS, ORDERS):
            (folder / name).mkdir(parents=True, exist_ok=True)
        self._number, self._offsets = request.number, {}
        write(folder / _PLAN, request.plan.to_json_data())
        said = {
            "number": request.number,
            "plan_id": request.plan.plan_id,
            "from_iterations": request.from_iterations,
            "to_iterations": request.to_iterations,
            "checkpoint": request.checkpoint,
            "source": request.source,
            "heartbeat_s": request.heartbeat_s,
            "checkpoint_every_s": request.checkpoint_every_s,
            "started": list(request.started),
            "ranks": list(request.roles()),
        }
        write(folder / FLEET, said)
        if not (folder / STOP).exists():
            self._start(folder, said)

    def ask(self, number: int, order: int, rank: int) -> None:
        """Leave an order."""
        path = self._folder_of(number) / ORDERS / f"{order:04d}.json"
        write(path, {"order": order, "rank": rank, "do": "checkpoint"})

    def stop(self, number: int) -> None:
        """Leave word that all end."""
        (self._folder_of(number) / STOP).touch()

    def end(self, number: int) -> None:
        """End what is left."""
        self.stop(number)
        self._end(self._folder_of(number))

    def poll(self, until_s: float) -> list[Report | Notice]:
        """Return what was written since the last look."""
        while True:
            heard: list[Report | Notice] = [*self._read_reports(), *self._read_notices()]
            left_s = until_s - self.now_s()
            if heard or left_s <= 0:
                return heard
            time.sleep(min(_LOOK_S, left_s))

    # -------------------------------------------------------------------------------------------- what its heirs can do

    @abstractmethod
    def _start(self, folder: Path, said: dict[str, Any]) -> None:
        """Have the ranks of a fleet started that are not."""

    @abstractmethod
    def _end(self, folder: Path) -> None:
        """End the ranks of a fleet."""

    # ---------------------------------------------------------------------------------------------------------- reading

    def _folder_of(self, number: int) -> Path:
        return self._root / FLEETS / f"{number:03d}"

    def _read_reports(self) -> Iterator[Report]:
        """Yield what ranks have written."""
        if not self._number:
            return
        for path in sorted((self._folder_of(self._number) / RANKS).glob("*.jsonl")):
            lines, self._offsets[path] = read_new_lines(path, self._offsets.get(path, 0))
            for line in lines:
                yield self._understand(int(path.stem), line)

    def _understand(self, rank: int, line: bytes) -> Report:
        """Read a line; what a rank of a newer hook says beside is left out, and a line that is none is a heartbeat."""
        said: Any = {}
        with contextlib.suppress(ValueError):
            said = json.loads(line)
        if not isinstance(said, dict):
            said = {}
        iterations = said.get("iterations")
        return Report(
            self._number,
            rank,
            self.now_s(),
            iterations if isinstance(iterations, int) else None,
            stored=str(said.get("stored", "")),
            order=int(said.get("order", 0)),
            ended=bool(said.get("ended")),
            left=bool(said.get("left")),
            trouble=str(said.get("trouble", "")),
        )

    def _read_notices(self) -> Iterator[Notice]:
        """Read notices of the provider's: a file for each VM, with the seconds that it has left."""
        for path in sorted((self._root / NOTICES).glob("*.json")):
            if path.name in self._noticed:
                continue
            with contextlib.suppress(ValueError, TypeError, KeyError):  # half written: the next look finds it whole
                said = json.loads(path.read_text(encoding="utf-8"))
                age_s = max(0.0, time.time() - path.stat().st_mtime)
                yield Notice(path.stem, self.now_s() - age_s + float(said["in_s"]))
                self._noticed.add(path.name)


class LocalFleet(FolderFleet):
    """A group of processes for each rank, on this machine (:mod:`optplan.execution.supervision`).

    A monitor that begins anew neither starts nor forgets one.

    Raises
    ------
    MissingExtraError
        When psutil is not installed.
    UsageError
        On another system than Linux.
    """

    def __init__(self, settings: FolderSettings, *, now_s: float) -> None:
        require_support()
        super().__init__(settings, now_s=now_s)
        self._children: dict[int, subprocess.Popen[bytes]] = {}

    def _start(self, folder: Path, said: dict[str, Any]) -> None:
        words = shlex.split(self._settings.command)
        if shutil.which(words[0]) is None:
            problem = f"command: {words[0]!r} cannot be started ({os.strerror(errno.ENOENT)})"
            raise UsageError(f"{problem}; give a program that is there")
        self._children |= start_ranks(folder, said, words)

    def _end(self, folder: Path) -> None:
        homes = list_homes(folder)
        while running := [home for home in homes if is_running(home)]:
            for home in running:
                end(home)
            time.sleep(_LOOK_S)
        for home in homes:
            clear(home)
        for child in self._children.values():
            child.wait()
        self._children.clear()

    def _read_reports(self) -> Iterator[Report]:
        """Yield what ranks have written, and what became of those that never came to it."""
        yield from super()._read_reports()
        for rank, child in list(self._children.items()):
            if child.poll() is not None:
                del self._children[rank]
                if not (self._folder_of(self._number) / RANKS / f"{rank:05d}.jsonl").exists():
                    trouble = f"rank {rank} ended with exit code {child.returncode}; see {LOG}"
                    yield Report(self._number, rank, self.now_s(), trouble=trouble, left=True)

    def close(self) -> None:
        """Let go of the processes; those that run go on."""
        for child in self._children.values():
            if child.poll() is None:
                child.returncode = 0  # not ours any more: no complaint that it still runs


class CommandFleet(FolderFleet):
    """VMs and ranks that a command of the user's starts and ends.

    It gets ``OPTPLAN_FLEET``, the folder of a fleet, and ``OPTPLAN_ACTION``: ``start`` (make the VMs that
    ``fleet.json`` calls ``started``, and run the ranks), ``stop`` (end the ranks) or ``release`` (give all VMs of the
    run back); and returns once that is under way. After a monitor was killed it may be called again for the same fleet.
    """

    def _start(self, folder: Path, said: dict[str, Any]) -> None:
        if not (folder / STARTED).exists():
            self._call("start", folder)
            write(folder / STARTED, {"vms": said["started"]})

    def _end(self, folder: Path) -> None:
        self._call("stop", folder)

    def release(self) -> None:
        """Have the command give all VMs back."""
        self._call("release", self._folder_of(max(1, self._number)))

    def _call(self, action: str, folder: Path) -> None:
        call_command(self._settings.command, self._root, action, OPTPLAN_FLEET=str(folder))


def read_iterations(root: Path, number: int) -> int:
    """Return the iterations that the ranks of a fleet say they have done in all; 0 where they have not said any."""
    done = 0
    for path in (root / FLEETS / f"{number:03d}" / RANKS).glob("*.jsonl"):
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL))
            for line in file:
                with contextlib.suppress(ValueError, AttributeError, TypeError):  # its beginning may be cut off
                    done = max(done, json.loads(line).get("iterations", 0))
    return done
