"""What trials write: names of the files in the folder of an operation, locks, and checkpoints.

Locks of files are held by a process, and dropped by the system when it ends, however it ends. Checkpoints are written
beside and renamed, so that one with its name is whole, and known by a hash. For runs whose machines share no folder
they are stored by URL as well, in files of PyArrow, such as those of S3: sent file by file, and what names the hash
last, so that what has that is whole.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from optplan.errors import MissingExtraError, OutputError, UsageError
from optplan.execution.records import Checkpoint

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
#: File in a run's folder that its driver holds.
DRIVER_LOCK = "driver.lock"
#: Beside a checkpoint's folder: the hash that it was sent with.
_WHOLE = ".sha256"


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


#: Looks for who has just taken a lock, and seconds between two of them.
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
        with suppress(OSError):  # it closes it just now
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


def store(root: Path, path: str, write: Callable[[Path], object], url: str = "") -> Checkpoint:
    """Write a checkpoint: synchronised, and renamed to its name below ``root``; sent to a URL, where there is one.

    ``write`` writes the state into a folder that is there and empty; a checkpoint that had the name is replaced.
    """
    final = root / path
    scratch = final.with_name(f".{final.name}.{os.getpid()}")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    write(scratch)
    for file in _list_files(scratch):
        synchronise(file)
    synchronise(scratch)
    shutil.rmtree(final, ignore_errors=True)
    scratch.rename(final)
    synchronise(final.parent)
    stored = Checkpoint(path, hash_folder(final))
    if url:
        Storage(url).send(root, stored)
    return stored


def bring(operation: Mapping[str, Any]) -> Path | None:
    """Return the folder of the checkpoint that an operation goes on from, fetched from its URL; None without one."""
    if operation["checkpoint"] is None:
        return None
    checkpoint, root = Checkpoint(**operation["checkpoint"]), Path(operation["root"])
    if operation["storage"] and not Checkpoints(root).is_whole(checkpoint):
        Storage(operation["storage"]).fetch(checkpoint, root)
    return root / checkpoint.path


def hash_folder(folder: Path) -> str:
    """Return the SHA-256 of the names and contents of a folder's files."""
    digest = hashlib.sha256()
    for file in _list_files(folder):
        name = file.relative_to(folder).as_posix().encode()
        digest.update(len(name).to_bytes(8, "big") + name + file.stat().st_size.to_bytes(8, "big"))
        with file.open("rb") as content:
            while block := content.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def _list_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def synchronise(path: Path) -> None:
    """Have a file or a folder survive the loss of power."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Checkpoints:
    """The checkpoints of a run below its folder; their paths are ``trials/TRIAL/CHECKPOINT``."""

    def __init__(self, root: Path) -> None:
        self._folder = root

    def is_whole(self, checkpoint: Checkpoint) -> bool:
        """Whether a checkpoint is there, with the content that it had."""
        folder = self._folder / checkpoint.path
        return folder.is_dir() and hash_folder(folder) == checkpoint.sha256

    def prune(
        self, keep: Sequence[Checkpoint], droppable: Sequence[Checkpoint], most_bytes: float, busy: Collection[str] = ()
    ) -> None:
        """Delete all checkpoints but these, and droppable ones, the first first, while they take too much space.

        What ``busy`` trials have stored a moment ago nobody else knows yet.
        """
        known, sizes = {each.path for each in (*keep, *droppable)}, self._weigh()
        for path in sizes:
            if path not in known and path.split("/")[1] not in busy:
                self._drop(path)
        total = sum(sizes.get(path, 0) for path in known)
        for each in droppable:
            if total <= most_bytes:
                break
            self._drop(each.path)
            total -= sizes.get(each.path, 0)

    def _weigh(self) -> dict[str, int]:
        """Return the bytes of each checkpoint that is there, by its path."""
        return {
            folder.relative_to(self._folder).as_posix(): sum(file.stat().st_size for file in _list_files(folder))
            for folder in self._folder.glob("trials/*/checkpoint-*")
        }

    def _drop(self, path: str) -> None:
        shutil.rmtree(self._folder / path, ignore_errors=True)


class Storage(Checkpoints):
    """What a run stores at a URL, by PyArrow, which Ray's own storage needs as well."""

    def __init__(self, url: str) -> None:
        try:
            from pyarrow import fs
        except ModuleNotFoundError:
            raise MissingExtraError("pyarrow", "ray") from None
        self._module: Any = fs
        if urlsplit(url).password is not None:
            raise UsageError("storage: the URL has a password, and is written down; give credentials by environment")
        whole = url
        if url.startswith("s3:") and "allow_delayed_open" not in url:
            # One request writes a small file: the last of several fails where it is sent again after it was done.
            whole += f"{'&' if '?' in url else '?'}allow_delayed_open=true"
        try:
            self._system, path = fs.FileSystem.from_uri(whole)
        except (OSError, ValueError) as error:
            reason = str(error).strip().splitlines()[0]
            raise UsageError(f"storage: got {url!r} ({reason}); give a URL, as in s3://bucket/runs/first") from None
        self._url, self._root = url, path.rstrip("/")

    def is_empty(self) -> bool:
        """Whether nothing is stored there yet."""
        return not self._list("")

    def write(self, name: str, text: str) -> None:
        """Write a file, whole or not at all."""
        path = f"{self._root}/{name}"
        with self._reporting():
            self._system.create_dir(path.rpartition("/")[0], recursive=True)
            with self._system.open_output_stream(path) as file:
                file.write(text.encode())

    def read(self, name: str) -> str | None:
        """Read a file; None where there is none."""
        with self._reporting():
            try:
                with self._system.open_input_stream(f"{self._root}/{name}") as file:
                    return bytes(file.read()).decode()
            except FileNotFoundError:
                return None

    def send(self, root: Path, checkpoint: Checkpoint) -> None:
        """Send a checkpoint that lies below a folder of this machine."""
        with self._reporting():
            target = f"{self._root}/{checkpoint.path}"
            self._system.create_dir(target, recursive=True)
            self._module.copy_files(str(root / checkpoint.path), target, self._module.LocalFileSystem(), self._system)
        self.write(checkpoint.path + _WHOLE, checkpoint.sha256)

    def fetch(self, checkpoint: Checkpoint, root: Path) -> None:
        """Bring a checkpoint to a folder of this machine."""
        target = root / checkpoint.path
        target.mkdir(parents=True, exist_ok=True)
        with self._reporting():
            source = f"{self._root}/{checkpoint.path}"
            self._module.copy_files(source, str(target), self._system, self._module.LocalFileSystem())

    def is_whole(self, checkpoint: Checkpoint) -> bool:
        """Whether a checkpoint was sent, all of it."""
        return self.read(checkpoint.path + _WHOLE) == checkpoint.sha256

    def _weigh(self) -> dict[str, int]:
        sizes: dict[str, int] = {}
        for info in self._list("trials"):
            place = info.path[len(self._root) + 1 :].split("/")
            if len(place) > 3 and place[2].startswith("checkpoint-"):
                name = "/".join(place[:3])
                sizes[name] = sizes.get(name, 0) + max(0, info.size or 0)
        return sizes

    def _drop(self, path: str) -> None:
        with self._reporting():
            for delete, name in ((self._system.delete_file, path + _WHOLE), (self._system.delete_dir, path)):
                with suppress(FileNotFoundError):
                    delete(f"{self._root}/{name}")

    def _list(self, name: str) -> list[Any]:
        with self._reporting():
            selector = self._module.FileSelector(f"{self._root}/{name}", recursive=True, allow_not_found=True)
            return [each for each in self._system.get_file_info(selector) if each.is_file]

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        """Say of what a file system refuses where that was."""
        try:
            yield
        except OSError as error:
            reason = str(error).strip().splitlines()[0]
            message = f"storage: {self._url} cannot be used ({reason}); is it there, and may it be written?"
            raise OutputError(message) from None
