"""A worker of a trial as an actor of Ray: has an operation run by a group of processes that ends with the actor."""

from __future__ import annotations

import json
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from optplan.execution.supervision import LockWatch, is_running, launch, list_homes, name_home, read_code
from optplan.execution.trial_files import DRIVER_LOCK, ENDED, OPERATION, OUTCOME, PROCESS, PROGRESS, STOP, STORED, write

#: Exit code of a worker that does not see the run's folder.
UNSEEN = 5
#: What the operation writes, below the folder that is this machine's alone.
LOG = "output.log"
#: Seconds between two looks at a group of processes that another actor has started.
_LOOK_S = 0.1
#: Seconds within which an actor ends whose machine does.
_PARTING_S = 5.0


class Worker:
    """Runs an operation once, however often it is asked to."""

    def __init__(self) -> None:
        self._code: int | None = None
        self._meeting = ""
        #: Of the operation, where it is on this machine alone.
        self._scratch: Path | None = None

    def meet(self) -> str:
        """Return where the workers of the trial meet, as ``HOST:PORT``; asked of the first one."""
        import ray

        if not self._meeting:
            host = ray.util.get_node_ip_address()
            with socket.socket() as probe:
                probe.bind((host, 0))
                self._meeting = f"{host}:{probe.getsockname()[1]}"
        return self._meeting

    def run(
        self, folder: str, rank: int, workers: int, meeting: str | None, said: Mapping[str, Any] | None = None
    ) -> int:
        """Run the operation in a folder and return the exit code; the same again when it has run already.

        ``said`` is the operation where machines share no folder: it is done in one of this machine's.
        """
        if self._code is None:
            own = Path(folder) if said is None else self._unpack(said, rank)
            self._code = self._run(own, rank, workers, meeting)
        return self._code

    def look(self, known: Mapping[str, int]) -> dict[str, tuple[int, bytes]]:
        """Return what is new in the folder of this machine's; to be looked at is a sign of a driver.

        ``known`` and what is returned have, by file, the bytes that were read of one that grows, and of others when
        they were changed last, in nanoseconds.
        """
        found: dict[str, tuple[int, bytes]] = {}
        if self._scratch is None:
            return found
        root, folder = self._scratch.parents[1], self._scratch
        (root / DRIVER_LOCK).touch()
        for name, path in ((PROGRESS, folder / PROGRESS), (LOG, root / LOG)):
            if path.is_file() and path.stat().st_size != known.get(name, 0):
                whole = path.read_bytes()
                begin = known.get(name, 0) if len(whole) > known.get(name, 0) else 0  # it was cut
                found[name] = len(whole), whole[begin:]
        for name in (STORED, OUTCOME, PROCESS, ENDED):
            path = folder / name
            if path.is_file() and path.stat().st_mtime_ns != known.get(name, 0):
                found[name] = path.stat().st_mtime_ns, path.read_bytes()
        return found

    def stop(self) -> None:
        """Ask the operation to store its state and end, where its folder is this machine's."""
        if self._scratch is not None:
            (self._scratch / STOP).touch()

    def discard(self) -> None:
        """Delete the folder of this machine's: all of it was shown."""
        if self._scratch is not None:
            shutil.rmtree(self._scratch.parents[1], ignore_errors=True)

    def _unpack(self, said: Mapping[str, Any], rank: int) -> Path:
        root = Path(tempfile.mkdtemp(prefix=f"optplan-{rank}-"))
        folder = root / "operations" / str(said["id"])
        folder.mkdir(parents=True)
        (root / DRIVER_LOCK).touch()
        write(folder / OPERATION, {**said, "root": str(root), "log": str(root / LOG)})
        self._scratch = folder
        return folder

    @staticmethod
    def _run(folder: Path, rank: int, workers: int, meeting: str | None) -> int:
        import ray

        path = folder / OPERATION
        if not path.is_file():
            return UNSEEN
        said = json.loads(path.read_text(encoding="utf-8"))
        group = ray.util.get_current_placement_group()
        what = (Path(said["root"]), said["orphan_after_s"], group)
        threading.Thread(target=_leave_without_driver, args=what, daemon=True).start()
        variables = {"PYTHONUNBUFFERED": "1"}
        if meeting is not None:
            host, port = meeting.rsplit(":", 1)
            variables |= {"MASTER_ADDR": host, "MASTER_PORT": port, "RANK": str(rank), "WORLD_SIZE": str(workers)}
            variables |= {"LOCAL_RANK": "0", "TORCHELASTIC_RUN_ID": folder.name}  # each sees its own GPUs only
        home = name_home(folder, rank)
        home.mkdir(exist_ok=True)
        process = launch(home, folder, log=Path(said["log"]), variables=variables, tied=True)
        code = None if process is None else process.wait()
        while process is None and is_running(home):  # of an actor that was here before
            time.sleep(_LOOK_S)
        written = read_code(home)
        code = written if written is not None else 1 if code is None else code
        if code < 0:  # killed, as by an actor that ends with its machine: then it does not outlive this
            time.sleep(_PARTING_S)
        return code


def _leave_without_driver(root: Path, after_s: float, group: Any) -> None:  # noqa: ANN401 - Ray's
    """Give the actor's node back once nobody drives the run any more, and nothing of it runs."""
    import ray

    watch = LockWatch(root / DRIVER_LOCK, after_s)
    while not watch.is_gone() or any(is_running(home) for own in root.glob("operations/*") for home in list_homes(own)):
        time.sleep(watch.look_s)
    if group is not None:
        ray.util.remove_placement_group(group)
