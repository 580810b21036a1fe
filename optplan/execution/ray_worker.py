"""A worker of a trial as an actor of Ray: has an operation run by a group of processes that ends with the actor."""

from __future__ import annotations

import json
import socket
import threading
import time
from pathlib import Path
from typing import Any

from optplan.execution.locks import DRIVER_LOCK
from optplan.execution.supervision import LockWatch, is_running, launch, list_homes, name_home, read_code
from optplan.execution.trial_files import OPERATION

#: Exit code of a worker that does not see the run's folder.
UNSEEN = 5
#: Seconds between two looks at a group of processes that another actor has started.
_LOOK_S = 0.1


class Worker:
    """Runs an operation once, however often it is asked to."""

    def __init__(self) -> None:
        self._code: int | None = None
        self._meeting = ""

    def meet(self) -> str:
        """Return where the workers of the trial meet, as ``HOST:PORT``; asked of the first one."""
        import ray

        if not self._meeting:
            host = ray.util.get_node_ip_address()
            with socket.socket() as probe:
                probe.bind((host, 0))
                self._meeting = f"{host}:{probe.getsockname()[1]}"
        return self._meeting

    def run(self, folder: str, rank: int, workers: int, meeting: str | None) -> int:
        """Run the operation in a folder and return the exit code; the same again when it has run already."""
        if self._code is None:
            self._code = self._run(Path(folder), rank, workers, meeting)
        return self._code

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
        return written if written is not None else 1 if code is None else code


def _leave_without_driver(root: Path, after_s: float, group: Any) -> None:  # noqa: ANN401 - Ray's
    """Give the actor's node back once nobody drives the run any more, and nothing of it runs."""
    import ray

    watch = LockWatch(root / DRIVER_LOCK, after_s)
    while not watch.is_gone() or any(is_running(home) for own in root.glob("operations/*") for home in list_homes(own)):
        time.sleep(watch.look_s)
    if group is not None:
        ray.util.remove_placement_group(group)
