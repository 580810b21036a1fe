"""A worker of a trial as an actor of Ray: runs :mod:`optplan.runtime.worker` in an operation's folder."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

from optplan.runtime import worker
from optplan.runtime.trial_files import OPERATION

#: Exit code of a worker that does not see the run's folder.
UNSEEN = 5


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
        path = folder / OPERATION
        if not path.is_file():
            return UNSEEN
        log = os.open(
            json.loads(path.read_text(encoding="utf-8"))["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600
        )
        for stream in (1, 2):
            os.dup2(log, stream)
        if meeting is not None:
            host, port = meeting.rsplit(":", 1)
            os.environ |= {"MASTER_ADDR": host, "MASTER_PORT": port, "RANK": str(rank), "WORLD_SIZE": str(workers)}
            os.environ |= {"LOCAL_RANK": "0", "TORCHELASTIC_RUN_ID": folder.name}  # each sees its own GPUs only
        return worker.main(folder)
