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
from optplan.execution.protocol import Checkpoint
from optplan.execution.storage import Storage


def store(root: Path, path: str, write: Callable[[Path], None], url: str = "") -> Checkpoint:
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
    folder: Path, keep: Sequence[Path], droppable: Sequence[Path], most_bytes: float, busy: Collection[str] = ()
) -> None:
    """Delete the checkpoints in a folder of folders, all but these; droppable ones while they take too much space.

    Parameters
    ----------
    folder
        Holds a folder for each trial, and that its checkpoints.
    keep, droppable
        Folders of checkpoints that stay, and that stay while there is room; the first goes first.
    most_bytes
        What all of them together may take.
    busy
        Trials that run: what they have stored a moment ago nobody else knows yet.
    """
    known = {*keep, *droppable}
    for checkpoint in folder.glob("*/checkpoint-*"):
        if checkpoint not in known and checkpoint.parent.name not in busy:
            shutil.rmtree(checkpoint, ignore_errors=True)
    sizes = {path: _size(path) for path in known}
    total = sum(sizes.values())
    for path in droppable:
        if total <= most_bytes:
            break
        shutil.rmtree(path, ignore_errors=True)
        total -= sizes[path]


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
