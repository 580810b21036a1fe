"""What lies in the folder of a trial's operation: names of files that driver and worker write, and how they do."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

OPERATION, PROGRESS, STORED, OUTCOME = "operation.json", "progress.jsonl", "stored.json", "outcome.json"
STOP, LOCK = "stop", "lock"

#: What a trial's log may grow to.
LOG_BYTES = 8_000_000


def write(path: Path, data: Mapping[str, Any]) -> None:
    """Write plain data, whole or not at all."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    with scratch.open("w", encoding="utf-8") as file:
        json.dump(data, file)
        file.flush()
        os.fsync(file.fileno())
    scratch.rename(path)


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
