"""The four papers, their cached rows, and measuring what is missing of them."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import resource
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from suites.sweeps import describe_machine

from claims.record import Paper, Part, Rows, Scope
from optplan.errors import MeasurementError
from optplan.instances.files import format_json, write_text

#: In the order of the index; each is a module here, and ``measure_NAME`` measures for it.
NAMES = ("boa", "rubberband", "seer", "srift")
CACHE = Path(__file__).resolve().parent / "rows"

#: A part as it is kept: its rows, and where they come from.
Kept = dict[str, Any]


def load(name: str) -> Paper:
    """Return a paper."""
    paper: Paper = import_module(f"claims.{name}").PAPER
    return paper


def parts_of(name: str) -> Mapping[str, Part]:
    """Return what is measured for a paper, in the order in which it is."""
    parts: Mapping[str, Part] = import_module(f"claims.measure_{name}").PARTS
    return parts


def read_kept(name: str, cache: Path = CACHE) -> dict[str, Kept]:
    """Return the parts that are kept for a paper."""
    path = cache / f"{name}.json"
    kept: dict[str, Kept] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return kept


def rows_of(kept: Mapping[str, Kept]) -> Rows:
    """Return the rows alone."""
    return {part: one["rows"] for part, one in kept.items()}


def measure(
    name: str, scope: Scope, cache: Path, again: Sequence[str] = (), say: Callable[[str], None] = print
) -> None:
    """Measure the parts that are missing, and keep each as soon as it is there."""
    for key, part in parts_of(name).items():
        kept = read_kept(name, cache)
        if key in kept and key not in again:
            continue
        lacking = [file for file in part.data if scope.data is None or not (scope.data / file).exists()]
        if lacking:
            say(f"{name}: {key} is left out: the public data has no {lacking[0]}; give its folder with --data")
            continue
        before = _processor_seconds()
        try:
            rows = part.measure(scope)
        except MeasurementError as error:
            say(f"{name}: {key} is left out: {error}")
            continue
        if rows is None:
            say(f"{name}: {key} is left out: it needs {part.needs}")
            continue
        seconds = _processor_seconds() - before
        kept = read_kept(name, cache)  # another process may have measured another part meanwhile
        kept[key] = {
            "date": dt.datetime.now(tz=dt.UTC).date().isoformat(),
            "processor_seconds": round(seconds, 1),
            "machine": describe_machine(),
            "optplan": version("optplan"),
            "seed": part.seed,
            "data": {file: hash_file(scope.data / file) for file in part.data if scope.data is not None},
            "rows": rows,
        }
        write_text(format_json(kept) + "\n", cache / f"{name}.json", overwrite=True)
        say(f"{name}: {key} took {seconds:.1f} s of processor time")


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file, or of the names and contents of a folder's files."""
    found = hashlib.sha256()
    for file in sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]:
        if path.is_dir():
            found.update(str(file.relative_to(path)).encode())
        found.update(file.read_bytes())
    return found.hexdigest()


def _processor_seconds() -> float:
    """Return the processor time of this process and of those it started that have ended."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
