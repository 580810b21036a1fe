"""The journal: an append-only SQLite file, one transaction for each decision of the loop.

Write-ahead logging with full synchronisation: what was committed survives the loss of power. Each record carries a
digest of itself and of all before it, and a file beside the journal says how many there are: whatever was changed or is
missing is noticed before anything follows from it. One driver at a time holds the folder, by a lock that the system
drops when the process ends, however it ends.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

from optplan.errors import DataError, OptplanError, OutputError, UsageError
from optplan.execution.locks import DRIVER_LOCK, hold_lock
from optplan.execution.records import OperationWanted, Record, decode, encode

#: Version of the tables; a reader migrates older ones, or refuses them by name.
SCHEMA_VERSION = 2

#: Name of the file in a run's folder.
JOURNAL = "journal.sqlite"
#: File with the number of records.
_COUNT = "journal.count"
#: What may lie in a folder in which no run has begun: after a kill, and at the top of a volume.
_HARMLESS = (DRIVER_LOCK, _COUNT, "lost+found")
#: Digits of the number of records.
_DIGITS = 12
#: Files in the folders of what runs have started; and what the names of their operations begin with besides.
_STARTED = {"operations/*/operation.json": "", "fleets/*/fleet.json": "fleet-"}
#: What tells that a run has been in a folder.
_TRACES = (*_STARTED, "trials/*/output.log", "trials/*/checkpoint-*")
#: What the run is made from is number 0.
_TABLES = """
CREATE TABLE records (number INTEGER PRIMARY KEY, wall REAL NOT NULL, body TEXT NOT NULL, digest TEXT NOT NULL);
"""
#: What a folder can hold, by the command that goes on with it.
_KINDS = {"run": "the run of a plan", "stream": "a stream of jobs", "watch": "a watched fleet"}
#: How SQLite's names of errors begin for which the file is not to blame.
_DISK = tuple(
    f"SQLITE_{what}"
    for what in ("IOERR", "FULL", "BUSY", "LOCKED", "READONLY", "CANTOPEN", "PERM", "NOMEM", "PROTOCOL")
)


class Journal:
    """The journal of one run, in its folder.

    Parameters
    ----------
    folder
        Of the run; it is made, for the user alone (mode 0700). One that is there has to be empty, or of a run.
    writable
        Whether records are written: then no other driver may hold the folder.
    begun
        Whether a run has to be there: then nothing is made, and a folder without one is left as it is.

    Raises
    ------
    OutputError
        When the folder cannot be written.
    UsageError
        When another driver holds the folder, no run is there although one has to be, or other things are.
    DataError
        When the journal is damaged, gone from beside what the run has started, or of another version.
    """

    def __init__(self, folder: Path, *, writable: bool = True, begun: bool = False) -> None:
        self.folder = folder
        # Looked for before the journal is read: a driver that goes on writes first, then counts and starts.
        trace, is_there = _find_trace(folder), self._path.is_file()
        if trace and not is_there:
            raise _describe_damage(self._path, trace)
        if not (writable or is_there):
            raise UsageError(f"{folder}: no run is there; give the folder that --out named")
        if writable and begun:
            Journal(folder, writable=False).close()  # looks, and touches nothing
        try:
            with ExitStack() as held, self._reading():
                if writable:
                    if not is_there:
                        require_room(folder, "run", _HARMLESS)
                    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                    folder.chmod(0o700)
                    busy = f"{folder}: another driver follows a plan there; wait for it, or `optplan stop {folder}`"
                    held.callback(os.close, hold_lock(folder / DRIVER_LOCK, busy))
                self._connection = _connect(self._path, writable=writable)
                held.callback(self._connection.close)
                self._meta = self._read_first() if _prepare(self._connection, self._path, writable=writable) else {}
                if self._meta:
                    _read_count(folder)
                elif trace:
                    raise _describe_damage(self._path, trace)
                elif not writable:  # a driver was killed before the run was written down
                    raise UsageError(f"{folder}: no run is there; give the folder that --out named")
                if writable:
                    self._count = _open_count(folder / _COUNT)
                    held.callback(os.close, self._count)
                self._held = held.pop_all()
        except OSError as error:
            if isinstance(error, OptplanError):
                raise
            raise OutputError(f"{folder} cannot be written ({error.strerror or error}); give another folder") from None

    def __enter__(self) -> Self:
        """Return itself, to be closed at the end."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()

    @property
    def is_new(self) -> bool:
        """Whether nothing was written yet."""
        return not self._meta

    def read_meta(self, name: str) -> Any:  # noqa: ANN401 - plain data
        """Return what was stored under a name; None where nothing was."""
        return self._meta.get(name)

    def require_kind(self, kind: str) -> None:
        """Refuse a journal of another kind of run than ``run``, ``stream`` or ``watch``.

        Raises
        ------
        UsageError
            Which says what goes on with it.
        """
        found = next((each for each in ("stream", "watch") if each in self._meta), "run")
        if found != kind:
            what = f"{self.folder}: holds {_KINDS[found]}; `optplan run --resume {self.folder}` goes on with it"
            raise UsageError(what)

    def begin(self, meta: dict[str, Any], records: Sequence[Record]) -> None:
        """Store what the run is made from, and its first records."""
        self._write([json.dumps(meta), *map(encode, records)])
        self._meta = json.loads(json.dumps(meta))

    def commit(self, records: Sequence[Record]) -> None:
        """Append records, all or none.

        Raises
        ------
        OutputError
            When the disk is full, or the folder has become read-only.
        """
        if records:
            self._write([encode(record) for record in records])

    def replay(self) -> Iterator[Record]:
        """Yield all records in their order, once all of them were looked at.

        Raises
        ------
        DataError
            When one was changed or is missing, or something was started of which none tells.
        """
        # Both before it is read: a driver that goes on writes first, then counts and starts.
        count, unknown = _read_count(self.folder), _list_started(self.folder)
        with self._reading():
            rows = self._connection.execute("SELECT * FROM records ORDER BY number").fetchall()
        digest = ""
        for number, row in enumerate(rows):
            digest = self._check(number, digest, row)
        if len(rows) < count:
            raise _describe_damage(self._path, f"it has {len(rows)} of {count} records")
        records = [self._decode(number, body) for number, _, body, _ in rows[1:]]
        unknown -= {record.operation for record in records if isinstance(record, OperationWanted)}
        if unknown:
            problem = f"{self.folder} holds {min(unknown)}, which no record tells of: records are missing"
            raise _describe_damage(self._path, problem)
        yield from records

    def idle_s(self) -> float:
        """Return the seconds since the last record was written, by a wall clock that may be set back: 0 then."""
        with self._reading():
            last = self._connection.execute("SELECT wall FROM records ORDER BY number DESC LIMIT 1").fetchone()[0]
        return max(0.0, time.time() - float(last))

    def close(self) -> None:
        """Close the file and let another driver have the folder."""
        self._held.close()

    @property
    def _path(self) -> Path:
        return self.folder / JOURNAL

    def _read_first(self) -> dict[str, Any]:
        """Return what the run is made from; nothing where nothing was written yet."""
        row = self._connection.execute("SELECT * FROM records ORDER BY number LIMIT 1").fetchone()
        if row is None:
            return {}
        self._check(0, "", row)
        meta: dict[str, Any] = json.loads(row[2])
        return meta

    def _check(self, number: int, before: str, row: tuple[int, float, str, str]) -> str:
        """Return the digest of a row of the table, which has to be the one that was noted with it."""
        digest = _digest(before, number, row[1], row[2])
        if (row[0], row[3]) != (number, digest):
            raise _describe_damage(self._path, f"record {number} is not as it was written")
        return digest

    def _decode(self, number: int, body: str) -> Record:
        try:
            return decode(body)
        except TypeError as error:
            fix = "use the release of optplan that began the run"
            raise DataError(str(self._path), f"record {number} is not understood ({error})", fix) from None

    def _append(self, bodies: Sequence[str]) -> int:
        """Append records, and return how many there are then."""
        last = self._connection.execute("SELECT number, digest FROM records ORDER BY number DESC LIMIT 1").fetchone()
        (number, digest), wall, rows = last or (-1, ""), time.time(), []
        for body in bodies:
            number += 1
            digest = _digest(digest, number, wall, body)
            rows.append((number, wall, body, digest))
        self._connection.executemany("INSERT INTO records VALUES (?, ?, ?, ?)", rows)
        return number + 1

    def _write(self, bodies: Sequence[str]) -> None:
        with writing(self._connection, self._path, "make room, then go on with --resume"):
            count = self._append(bodies)
            self._connection.execute("COMMIT")
            os.pwrite(self._count, f"{count:0{_DIGITS}d}".encode(), 0)  # in place: that takes no room

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise _describe_trouble(self._path, error, "give another folder") from None
        except UnicodeDecodeError as error:  # of its tables' own description
            raise _describe_damage(self._path, str(error)) from None


def _digest(before: str, number: int, wall: float, body: str) -> str:
    """Return the digest of a record and of all before it."""
    return hashlib.sha256(f"{before} {number} {wall!r} {body}".encode()).hexdigest()


def _open_count(path: Path) -> int:
    """Open the file with the number of records; where it is new there are none."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    if not os.fstat(handle).st_size:
        os.write(handle, b"0" * _DIGITS)
    return handle


def _read_count(folder: Path) -> int:
    """Return how many records there are at least."""
    try:
        return int((folder / _COUNT).read_bytes() or b"0")  # just made
    except (OSError, ValueError):
        raise _describe_damage(folder / JOURNAL, f"{_COUNT} beside it does not say how many records it has") from None


def _find_trace(folder: Path) -> str:
    """Say what a run has left in a folder besides its journal; nothing where there is nothing."""
    if (folder / _COUNT).is_file() and _read_count(folder):
        return f"nothing is in it, and {_COUNT} beside it says otherwise"
    traces = (path for pattern in _TRACES for path in folder.glob(pattern))
    return next((f"nothing is in it, and {path} is of a run" for path in traces), "")


def require_room(folder: Path, what: str, harmless: Iterable[str]) -> None:
    """Refuse a folder with files of others: its mode would be changed, and the new ones would lie among them."""
    foreign = {path.name for path in folder.iterdir()}.difference(harmless) if folder.is_dir() else set()
    if foreign:
        raise UsageError(f"{folder}: holds other files ({min(foreign)}), and no {what}; give a new or an empty folder")


def _list_started(folder: Path) -> set[str]:
    """Return the names of the operations whose folders are there."""
    return {before + path.parent.name for pattern, before in _STARTED.items() for path in folder.glob(pattern)}


def _describe_damage(path: Path, what: str) -> DataError:
    fix = "put it and what lies beside it back from a copy, or begin anew in another folder; what trials stored stays"
    return DataError(str(path), f"is damaged ({what})", fix)


def _describe_trouble(path: Path, error: sqlite3.Error, advice: str) -> OptplanError:
    """Say what is wrong: the disk, or else the file."""
    if getattr(error, "sqlite_errorname", "").startswith(_DISK):
        return OutputError(f"{path.parent} cannot be written ({error}); {advice}")
    return _describe_damage(path, str(error))


@contextmanager
def writing(connection: sqlite3.Connection, path: Path, advice: str) -> Iterator[None]:
    """Hold a transaction whose failures name the folder of a file, and say what to do."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            if connection.in_transaction:
                connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
    except sqlite3.Error as error:
        raise _describe_trouble(path, error, advice) from None
    except OSError as error:
        raise OutputError(f"{path.parent} cannot be written ({error.strerror}); {advice}") from None


def holds(folder: Path | str, name: str) -> bool:
    """Whether a folder has a journal that stores something under a name: ``stream`` and ``watch`` tell runs apart."""
    if not Path(folder, JOURNAL).is_file():
        return False
    with Journal(Path(folder), writable=False) as journal:
        return journal.read_meta(name) is not None


def _connect(path: Path, *, writable: bool) -> sqlite3.Connection:
    if not writable:
        return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    path.chmod(0o600)
    return sqlite3.connect(path, isolation_level=None)


def _prepare(connection: sqlite3.Connection, path: Path, *, writable: bool) -> bool:
    """Make the tables where there are none and they may be written; say whether they are there."""
    if writable:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
    is_empty = not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]  # after it: a driver writes both at once
    if is_empty and writable:
        connection.executescript(f"BEGIN; {_TABLES} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")
    elif not is_empty and version != SCHEMA_VERSION:
        problem = f"has version {version}; understood: {SCHEMA_VERSION}"
        raise DataError(str(path), problem, "use the release of optplan that began the run")
    return writable or not is_empty
