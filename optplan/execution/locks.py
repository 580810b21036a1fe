"""Locks of files: held by a process, and dropped by the system when it ends, however it ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from optplan.errors import UsageError

#: File in a run's folder that its driver holds.
DRIVER_LOCK = "driver.lock"


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
    """Return the process that holds a folder by its lock, such as a run's driver; None where nobody does."""
    path = folder / DRIVER_LOCK
    if not is_locked(path):
        return None
    written = path.read_bytes() or b"0"
    if not written.isdigit():
        raise UsageError(f"{path}: a process holds it, but it says no process id; end that process, then remove it")
    return int(written) or None


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
