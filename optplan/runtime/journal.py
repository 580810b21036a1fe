"""The journal: an append-only SQLite file, one transaction for each decision of the loop.

Write-ahead logging with full synchronisation: what was committed survives the loss of power. One driver at a time holds
the folder, by a lock that the system drops when the process ends, however it ends.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

from optplan.errors import DataError, OutputError, UsageError
from optplan.runtime.records import Record, decode, encode

#: Version of the tables; a reader migrates older ones, or refuses them by name.
SCHEMA_VERSION = 1

#: Name of the file in a run's folder.
JOURNAL = "journal.sqlite"
_LOCK = "driver.lock"
_TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE records (number INTEGER PRIMARY KEY, wall REAL NOT NULL, body TEXT NOT NULL);
"""


class Journal:
    """The journal of one run, in its folder.

    Parameters
    ----------
    folder
        Of the run; it is made, for the user alone (mode 0700).
    writable
        Whether records are written: then no other driver may hold the folder.

    Raises
    ------
    OutputError
        When the folder cannot be written.
    UsageError
        When another driver holds the folder, or it has no journal and none may be made.
    """

    def __init__(self, folder: Path, *, writable: bool = True) -> None:
        self.folder = folder
        path = folder / JOURNAL
        if not writable and not path.is_file():
            raise UsageError(f"{folder}: no run is there; give the folder that --out named")
        try:
            with ExitStack() as held:
                if writable:
                    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                    folder.chmod(0o700)
                    busy = f"{folder}: another driver follows a plan there; wait for it, or `optplan stop {folder}`"
                    held.callback(os.close, hold_lock(folder / _LOCK, busy))
                self._connection = _open(path, writable=writable)
                self._held = held.pop_all()
        except (OSError, sqlite3.Error) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise OutputError(f"{folder} cannot be written ({reason}); give another folder") from None

    def __enter__(self) -> Self:
        """Return itself, to be closed at the end."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()

    @property
    def is_new(self) -> bool:
        """Whether nothing was written yet."""
        return self.read_meta("plan") is None

    def read_meta(self, name: str) -> Any:  # noqa: ANN401 - plain data
        """Return what was stored under a name; None where nothing was."""
        row = self._connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return None if row is None else json.loads(row[0])

    def begin(self, meta: dict[str, Any], records: Sequence[Record]) -> None:
        """Store what the run is made from, and its first records."""
        with self._writing():
            rows = [(name, json.dumps(value, ensure_ascii=False)) for name, value in meta.items()]
            self._connection.executemany("INSERT INTO meta VALUES (?, ?)", rows)
            self._append(records)

    def commit(self, records: Sequence[Record]) -> None:
        """Append records, all or none.

        Raises
        ------
        OutputError
            When the disk is full, or the folder has become read-only.
        """
        if records:
            with self._writing():
                self._append(records)

    def replay(self) -> Iterator[Record]:
        """Yield all records in their order."""
        for (body,) in self._connection.execute("SELECT body FROM records ORDER BY number"):
            yield decode(body)

    def idle_s(self) -> float:
        """Return the seconds since the last record was written, by a wall clock that may be set back: 0 then."""
        last = self._connection.execute("SELECT wall FROM records ORDER BY number DESC LIMIT 1").fetchone()[0]
        return max(0.0, time.time() - float(last))

    def close(self) -> None:
        """Close the file and let another driver have the folder."""
        self._connection.close()
        self._held.close()

    def _append(self, records: Sequence[Record]) -> None:
        wall = time.time()
        rows = [(wall, encode(record)) for record in records]
        self._connection.executemany("INSERT INTO records (wall, body) VALUES (?, ?)", rows)

    def _writing(self) -> AbstractContextManager[None]:
        return writing(self._connection, self.folder, "make room, then go on with --resume")


@contextmanager
def writing(connection: sqlite3.Connection, folder: Path, advice: str) -> Iterator[None]:
    """Hold a transaction whose failures name the folder, and say what to do."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
    except sqlite3.Error as error:
        raise OutputError(f"{folder} cannot be written ({error}); {advice}") from None


def holds(folder: Path | str, name: str) -> bool:
    """Whether a folder has a journal that stores something under a name: ``stream`` and ``watch`` tell runs apart."""
    if not Path(folder, JOURNAL).is_file():
        return False
    with Journal(Path(folder), writable=False) as journal:
        return journal.read_meta(name) is not None


def hold_lock(path: Path, busy: str) -> int:
    """Take the lock of a folder; the system drops it when the process ends, however it ends.

    Returns
    -------
    int
        The open file, which holds the lock until it is closed; it says which process that is.

    Raises
    ------
    UsageError
        When another process has it, with the text ``busy``.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        if error.errno in (errno.EAGAIN, errno.EACCES):
            raise UsageError(busy) from None
        raise
    os.ftruncate(handle, 0)
    os.write(handle, str(os.getpid()).encode())
    return handle


def find_holder(folder: Path) -> int | None:
    """Return the process that holds a run's folder; None where nobody does."""
    path = folder / _LOCK
    return int(path.read_bytes() or b"0") or None if is_locked(path) else None


def is_locked(path: Path) -> bool:
    """Whether a process holds a lock."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def _open(path: Path, *, writable: bool) -> sqlite3.Connection:
    new = not path.exists()
    if not writable:
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)
    else:
        connection = sqlite3.connect(path, isolation_level=None)
        path.chmod(0o600)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    is_empty = not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if is_empty and not writable:  # its driver was killed before the run was written down
        connection.close()
        raise UsageError(f"{path.parent}: no run is there; give the folder that --out named")
    if new or is_empty:
        connection.executescript(f"BEGIN; {_TABLES} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")
    elif version != SCHEMA_VERSION:
        connection.close()
        problem = f"has version {version}; understood: {SCHEMA_VERSION}"
        raise DataError(str(path), problem, "use the release of optplan that began the run")
    return connection
