"""What lies in the folder of a trial's operation: names of files that driver and worker write, and how they do."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

OPERATION, PROGRESS, STORED, OUTCOME = "operation.json", "progress.jsonl", "stored.json", "outcome.json"
STOP, LOCK = "stop", "lock"
#: Who supervises a group of processes, and with which exit code it has ended.
PROCESS, ENDED = "process.json", "ended.json"
#: What a command of the user's was asked to start, it has.
STARTED = "started.json"

#: Exit codes of a process that would fail again, and of one that could not write.
HOPELESS, NO_ROOM = 3, 4
#: What the system says where nothing can be written: disk or quota full, file too large, folder read-only.
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})
#: What a trial's log may grow to.
LOG_BYTES = 8_000_000


def judge(error: OSError) -> int:
    """Return the exit code of a process that has met an error of the system's."""
    return NO_ROOM if error.errno in _FULL else 1


def write(path: Path, data: Mapping[str, Any]) -> None:
    """Write plain data, whole or not at all."""
    write_whole(path, json.dumps(data))


def write_whole(path: Path, text: str, mode: int = 0o666) -> None:
    """Write a file that others read meanwhile: they find the one before, or this one."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    with open(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    scratch.rename(path)


def read(path: Path) -> Mapping[str, Any] | None:
    """Read plain data that was written by rename; None where it is not there."""
    try:
        data: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return data


def read_new_lines(path: Path, offset: int) -> tuple[list[bytes], int]:
    """Return the whole lines of a file behind an offset, and where they end; none while there is no file."""
    if not path.is_file() or path.stat().st_size <= offset:
        return [], offset
    with path.open("rb") as file:
        file.seek(offset)
        lines = [line for line in file if line.endswith(b"\n")]
    return lines, offset + sum(map(len, lines))


def bound_log(path: Path) -> None:
    """Cut a log that has become too long to its last part; its writers append."""
    if not path.is_file() or path.stat().st_size <= LOG_BYTES:
        return
    with path.open("r+b") as log:
        log.seek(-LOG_BYTES // 4, os.SEEK_END)
        rest = log.read()
        log.seek(0)
        log.write(b"... (the beginning was cut off)\n" + rest[rest.find(b"\n") + 1 :])
        log.truncate()
