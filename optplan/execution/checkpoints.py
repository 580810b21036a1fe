"""Checkpoints: written beside and renamed, so that one with its name is whole, and known by a hash.

For runs whose machines share no folder they are stored by URL as well, in files of PyArrow, such as those of S3: sent
file by file, and what names the hash last, so that what has that is whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from optplan.errors import MissingExtraError, OutputError, UsageError
from optplan.execution import trial_files
from optplan.execution.records import Checkpoint

#: Beside a checkpoint's folder: the hash that it was sent with.
_WHOLE = ".sha256"


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


def leave(folder: Path, name: str, data: Mapping[str, Any], operation: Mapping[str, Any]) -> None:
    """Leave what an operation has come to in its folder, and at its URL, should its machine be lost."""
    if operation["storage"]:
        Storage(operation["storage"]).write(f"operations/{operation['id']}/{name}", json.dumps(data))
    trial_files.write(folder / name, data)


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
