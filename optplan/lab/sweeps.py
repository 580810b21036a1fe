"""Many simulations at once: spread over processors or machines, one file for each, none run twice.

Each cell's file is named after its trace, its policy and a digest of all that decides its figures: the content of its
files, its parameters, and the revision of the simulator. So a sweep that was interrupted goes on where it was, one that
was changed runs what is new, and what two sweeps share is run once if they share a folder.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from optplan.errors import DataError, OptplanError, OutputError
from optplan.instances.files import format_json, write_text
from optplan.instances.plain_data import read_data
from optplan.lab.cluster.cells import Cell, Checksums
from optplan.parallel import Engine, spread
from optplan.progress import Listener, Stopwatch

#: Digits of the digest in a file's name; all of it stands in the file.
_DIGITS = 12
_REMOVE = "remove it, and it is simulated again"


def run(
    cells: Sequence[Cell],
    folder: Path | str,
    processes: int | None = None,
    *,
    engine: Engine | str = Engine.PROCESSES,
    on_event: Listener | None = None,
) -> list[dict[str, Any]]:
    """Run the cells of a sweep, each in its file; those whose file is there already are read.

    With 1 of ``processes`` cells run in this process; None takes one for each processor. Returns by cell what ``optplan
    simulate cluster --json`` writes, with ``digest`` and ``cpu_s``, seconds of processor time. Where cells fail, the
    first's error is raised once all others are done and written.
    """
    watch, checksums = Stopwatch(listener=on_event), Checksums()
    places = [_place(Path(folder), cell, cell.digest(checksums)) for cell in cells]
    missing = {path: (cell, digest) for cell, (path, digest) in zip(cells, places, strict=True) if not path.is_file()}
    if missing:
        _require_folder(Path(folder))
    failed: list[tuple[Cell, OptplanError]] = []
    total = len(set(places))
    done = total - len(missing)
    watch.emit(f"{done} of {total} cells", fraction=done / max(1, total))
    waiting = {path: cell for path, (cell, _) in missing.items()}
    for path, answer in spread(_run_cell, waiting, processes, engine=engine):
        cell, digest = missing[path]
        if isinstance(answer, OptplanError):
            failed.append((cell, answer))
            continue
        write_text(format_json({"digest": digest, **answer}) + "\n", path, overwrite=True)
        done += 1
        watch.emit(f"{done} of {total} cells", fraction=done / total)
    if failed:
        cell, error = failed[0]
        error.add_note(f"in {len(failed)} of {total} cells, first {Path(cell.workload).name} under {cell.policy}")
        raise error
    return [_read(path, digest) for path, digest in places]


def _require_folder(folder: Path) -> None:
    """Make the folder, and write something there that is gone at once."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OutputError(
            f"{folder}: no results can be written there ({error.strerror}); give another folder"
        ) from None


def _read(path: Path, digest: str) -> dict[str, Any]:
    """Read what came of a cell; its file may have been cut short, or be that of something else."""
    try:
        told = read_data(path)
    except DataError as error:
        raise DataError(str(path), f"cannot be read as a result ({error.problem})", _REMOVE) from None
    if not isinstance(told, dict) or told.get("digest") != digest:
        raise DataError(str(path), "is not the result of this simulation", _REMOVE)
    return told


def _place(folder: Path, cell: Cell, digest: str) -> tuple[Path, str]:
    """Return a cell's file, and its digest."""
    policy = Path(cell.policy).stem if Path(cell.policy).suffix else cell.policy
    words = re.sub(r"[^\w.-]+", "-", f"{Path(cell.workload).stem}-{policy}")
    return folder / f"{words}-{digest[:_DIGITS]}.json", digest


def _run_cell(cell: Cell) -> dict[str, Any] | OptplanError:
    """Run a cell; an error of the user's data is an answer too, so that others go on."""
    start = time.process_time()
    try:
        _, data = cell.run()
    except OptplanError as error:
        return error
    return {"cpu_s": time.process_time() - start, **data}
