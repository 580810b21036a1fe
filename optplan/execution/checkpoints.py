"""Checkpoints: written beside and renamed, so that one with its name is whole, and known by a hash."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from optplan.execution import trial_files
from optplan.execution.records import Checkpoint
from optplan.execution.storage import Storage, choose_unneeded


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
    if operation["storage"] and not is_whole(root, checkpoint):
        Storage(operation["storage"]).fetch(checkpoint, root)
    return root / checkpoint.path


def leave(folder: Path, name: str, data: Mapping[str, Any], operation: Mapping[str, Any]) -> None:
    """Leave what an operation has come to in its folder, and at its URL, should its machine be lost."""
    if operation["storage"]:
        Storage(operation["storage"]).write(f"operations/{operation['id']}/{name}", json.dumps(data))
    trial_files.write(folder / name, data)


def is_whole(root: Path, checkpoint: Checkpoint) -> bool:
    """Whether a checkpoint is there, with the content that it had."""
    folder = root / checkpoint.path
    return folder.is_dir() and hash_folder(folder) == checkpoint.sha256


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


def prune(
    root: Path,
    keep: Sequence[Checkpoint],
    droppable: Sequence[Checkpoint],
    most_bytes: float,
    busy: Collection[str] = (),
) -> None:
    """Delete checkpoints below ``root``, as :func:`optplan.execution.storage.choose_unneeded` says."""
    sizes = {folder.relative_to(root).as_posix(): _size(folder) for folder in root.glob("trials/*/checkpoint-*")}
    for path in choose_unneeded(sizes, keep, droppable, most_bytes, busy):
        shutil.rmtree(root / path, ignore_errors=True)


def _list_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in _list_files(folder))


def synchronise(path: Path) -> None:
    """Have a file or a folder survive the loss of power."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
