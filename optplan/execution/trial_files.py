"""What lies in the folder of a trial's operation: names of files that driver and worker write, and how they do.

Locks of files: held by a process, and dropped by the system when it ends, however it ends.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from optplan.errors import UsageError

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


#: File in a run's folder that its driver holds.
DRIVER_LOCK = "driver.lock"
#: Looks for who has just taken it, and seconds between two of them.
_LOOKS, _LOOK_S = 10, 0.005


def take_lock(path: Path) -> int | None:
    """Take a lock that nobody holds, else return None; those who only look at it are not in the way.

    The open file holds the lock until the last copy of it is closed.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        while not _try(handle, fcntl.LOCK_EX):
            if not _try(handle, fcntl.LOCK_SH):
                os.close(handle)
                return None
    except OSError:
        os.close(handle)
        raise
    return handle


def hold_lock(path: Path, busy: str) -> int:
    """Take the lock of a folder while the file is open, and write down whose it is; else say ``busy``."""
    handle = take_lock(path)
    if handle is None:
        raise UsageError(busy)
    os.ftruncate(handle, 0)
    os.write(handle, str(os.getpid()).encode())
    return handle


def find_holder(folder: Path) -> int | None:
    """Return the process that holds a folder by its lock, such as a run's driver; None where nobody does.

    Who has just taken it says who it is a moment later, and on a shared disk it may be of another machine.
    """
    path, process = folder / DRIVER_LOCK, 0
    for _ in range(_LOOKS):
        if not is_locked(path):
            return None
        written = path.read_bytes() or b"0"
        if not written.isdigit():
            raise UsageError(f"{path}: a process holds it, but it says no process id; end that process, then remove it")
        process = int(written)
        if is_open(path, process):
            break
        time.sleep(_LOOK_S)
    return process or None


def is_open(path: Path, process: int) -> bool:
    """Whether a process of this machine has a file open; taken for granted where the system does not tell."""
    if not Path("/proc/self/fd").is_dir():
        return True
    known = path.stat()
    for handle in Path(f"/proc/{process}").glob("fd/*"):
        with contextlib.suppress(OSError):  # it closes it just now
            if os.path.samestat(handle.stat(), known):
                return True
    return False


def is_locked(path: Path) -> bool:
    """Whether a process holds a lock."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        return not _try(handle, fcntl.LOCK_SH)
    finally:
        os.close(handle)


def _try(handle: int, kind: int) -> bool:
    """Try to lock an open file; False where another process is in the way."""
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True
