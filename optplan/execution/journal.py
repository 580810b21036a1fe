"""The journal: an append-only SQLite file, one transaction for each decision of the loop.

Write-ahead logging with full synchronisation: what was committed survives the loss of power. The records are a hash
chain, each with a digest of itself and of the digest before it (linked time-stamps: S. Haber and W. S. Stornetta, "How
to time-stamp a digital document", Journal of Cryptology 3, 1991), and a file beside the journal says how it begins and
how many there are: whatever was changed, moved or is missing is noticed before anything follows from it, and what can
still be read is said. One driver at a time holds the folder, by a lock that the system drops when its process ends.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from optplan.errors import DataError, OptplanError, OutputError, UsageError
from optplan.execution.records import OperationWanted, Record, decode, encode
from optplan.execution.trial_files import DRIVER_LOCK, hold_lock
from optplan.units import format_duration

#: Version of the tables; a reader migrates older ones, or refuses them by name.
SCHEMA_VERSION = 4

#: Name of the file in a run's folder.
JOURNAL = "journal.sqlite"
#: File with the number of records and the digest of the first.
COUNT = "journal.count"
#: What may lie in a folder in which no run has begun: after a kill, and at the top of a volume.
_HARMLESS = (DRIVER_LOCK, COUNT, "lost+found")
#: Digits of the number of records.
_DIGITS = 12
#: Files in the folders of the operations that runs have started.
_STARTED = "operations/*/operation.json"
#: What tells that a run has been in a folder.
_TRACES = (_STARTED, "trials/*/output.log", "trials/*/checkpoint-*")
_TABLES = """
CREATE TABLE records (number INTEGER PRIMARY KEY, wall REAL NOT NULL, body TEXT NOT NULL, digest TEXT NOT NULL);
"""
Kind = Literal["search", "stream", "fleet"]
#: What a folder can hold.
_KINDS: dict[Kind, str] = {
    "search": "the run of a plan",
    "stream": "a stream of jobs",
    "fleet": "the run of a fleet",
}
#: How SQLite's names of errors begin for which the file is not to blame.
_DISK = tuple(
    f"SQLITE_{what}"
    for what in ("IOERR", "FULL", "BUSY", "LOCKED", "READONLY", "CANTOPEN", "PERM", "NOMEM", "PROTOCOL")
)
_NOTHING_LEFT = "none of its records can be read"


@dataclass(frozen=True)
class Beginning:
    """What a run is made from, as plain data, the first record of its journal."""

    kind: Kind
    plan: dict[str, Any]
    options: dict[str, Any]
    own: dict[str, Any]


class _Row(NamedTuple):
    """A record as it is stored: its number from 0, seconds since 1970, JSON, and the digest."""

    number: int
    wall: float
    body: str
    digest: str


class Journal(AbstractContextManager["Journal", None]):
    """The journal of one run, in its folder, which is made for the user alone (mode 0700).

    One that is there has to be empty, or of a run. Where records are written (``writable``), no other driver may hold
    the folder; else a run has to have begun, and nothing is made. With ``salvaged``, what can be read of a damaged one
    is, and ``torn`` says what is wrong with it.
    """

    def __init__(self, folder: Path, *, writable: bool = True, salvaged: bool = False) -> None:
        self.folder, self._is_salvaged, self.torn = folder, salvaged, ""
        self._is_writable = writable
        # Looked for before the journal is read: a driver that goes on writes first, then counts and starts.
        trace = _find_trace(folder)
        if not self._path.is_file():
            self._require_nothing(trace, writable=writable)
        with ExitStack() as held, self._reading():
            if writable:
                busy = "another driver follows a plan there; wait for it, or `optplan stop {}`"
                held.callback(os.close, hold_folder(self._path, "run", _HARMLESS, busy))
            self._connection = connect(self._path, _TABLES, SCHEMA_VERSION, writable=writable)
            held.callback(self._connection.close)
            bodies = self._read_whole() if has_tables(self._connection) else []
            self.beginning = Beginning(**json.loads(bodies[0])) if bodies else None
            if self.beginning is None:  # a driver may have been killed before the run was written down
                self._require_nothing(trace, writable=writable)
            if writable:
                self._count = _open_count(folder / COUNT)
                held.callback(os.close, self._count)
            self._held = held.pop_all()

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()

    def require(self, kind: Kind | None) -> Beginning:
        """Return what the run is made from; one of another kind than is asked for is refused."""
        assert self.beginning is not None  # else it cannot be opened to go on with
        if kind not in (None, self.beginning.kind):
            what = f"{self.folder}: holds {_KINDS[self.beginning.kind]}"
            raise UsageError(f"{what}; `optplan run --resume {self.folder}` goes on with it")
        return self.beginning

    def begin(self, beginning: Beginning, records: Sequence[Record]) -> None:
        """Store what the run is made from, and its first records."""
        self._write([json.dumps(asdict(beginning)), *map(encode, records)])
        self.beginning = beginning

    def commit(self, records: Sequence[Record]) -> None:
        """Append records, all or none; OutputError when the disk is full, or the folder has become read-only."""
        if records:
            self._write([encode(record) for record in records])

    def replay(self) -> Iterator[Record]:
        """Yield all records in their order, once all of them were looked at.

        Where one was changed, moved or is missing, or something was started of which none tells, DataError says what
        can still be read.
        """
        # Before it is read: a driver that goes on writes first, then starts.
        unknown = {path.parent.name for path in self.folder.glob(_STARTED)}
        records = [self._decode(number, body) for number, body in enumerate(self._read_whole()) if number]
        if self.torn:
            unknown = set()  # that records are missing is said
        unknown -= {record.operation for record in records if isinstance(record, OperationWanted)}
        if unknown:
            problem = f"{self.folder} holds {min(unknown)}, which no record tells of: records are missing"
            raise _describe_damage(self._path, problem, f"all {len(records) + 1} that are there can be read")
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

    def _require_nothing(self, trace: str, *, writable: bool) -> None:
        """Raise where no run has been written down, and one has left a trace, or is to be read."""
        if trace:
            raise _describe_damage(self._path, trace)
        if not writable:
            raise UsageError(f"{self.folder}: no run is there; give the folder that --out named")

    def _read_whole(self) -> list[str]:
        """Return the bodies of all records, once the chain was followed from the first to the last."""
        known = _read_count(self.folder)  # before the records: a driver writes them first
        rows, trouble = self._read_rows()
        if not (rows or trouble):
            return []
        count, first = known or (len(rows), "")
        if known is None:
            trouble = trouble or f"{COUNT} beside it does not say how many records it has"
        elif len(rows) < count:
            trouble = trouble or f"it has {len(rows)} of {count} records"
        whole, broken = _follow(rows)
        found = broken or trouble
        if whole and first not in ("", rows[0].digest):
            found, whole = f"it is another run's: {COUNT} beside it is of one with another beginning", 0
        if found:
            damage = _describe_damage(self._path, found, _say_readable(rows[:whole], max(count, len(rows))))
            if not (self._is_salvaged and whole):
                raise damage
            self.torn = str(damage)
        return [row.body for row in rows[:whole]]

    def _read_rows(self) -> tuple[list[_Row], str]:
        """Return the rows that can be read, in their order, and why there are no more; nothing where these are all."""
        rows: list[_Row] = []
        try:
            found = self._connection.execute("SELECT number, wall, body, digest FROM records ORDER BY number")
            rows.extend(_Row(*row) for row in found)
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorname", "").startswith(_DISK):
                raise
            return rows, str(error)
        return rows, ""

    def _decode(self, number: int, body: str) -> Record:
        try:
            return decode(body)
        except TypeError as error:
            fix = "use the release of optplan that began the run"
            raise DataError(str(self._path), f"record {number} is not understood ({error})", fix) from None

    def _write(self, bodies: Sequence[str]) -> None:
        ask = self._connection.execute
        with writing(self._connection, self._path, "make room, then go on with --resume"):
            last = ask("SELECT number, digest FROM records ORDER BY number DESC LIMIT 1").fetchone()
            (number, digest), wall = last or (-1, ""), time.time()
            for body in bodies:
                number += 1
                digest = _digest(digest, number, wall, body)
                ask("INSERT INTO records VALUES (?, ?, ?, ?)", (number, wall, body, digest))
            first = ask("SELECT digest FROM records WHERE number = 0").fetchone()[0]
            ask("COMMIT")
            os.pwrite(self._count, f"{number + 1:0{_DIGITS}d} {first}".encode(), 0)  # in place: that takes no room

    def _reading(self) -> AbstractContextManager[None]:
        if self._is_writable:
            return reporting(self._path, "give another folder")
        return reporting(self._path, "copy it to where it can be written, and look there", done="read")


def _digest(before: str, number: int, wall: float, body: str) -> str:
    """Return the digest of a record that follows one with the digest ``before``; the first follows an empty one."""
    return hashlib.sha256(f"{before} {number} {wall!r} {body}".encode()).hexdigest()


def _follow(rows: Sequence[_Row]) -> tuple[int, str]:
    """Return how many records from the first one on are as they were written, and why no more; empty for all."""
    before = ""
    for at, row in enumerate(rows):
        if row.number != at or row.digest != _digest(before, *row[:3]):
            return at, _explain_break(rows, at, before)
        before = row.digest
    return len(rows), ""


def _explain_break(rows: Sequence[_Row], at: int, before: str) -> str:
    """Say why the record at a place is not the one that was written there."""
    row = rows[at]
    twice = next((each.number for each in rows[:at] if each.digest == row.digest), None)
    if twice is not None:
        return f"record {row.number} is record {twice} again"
    follows = [each.number for each in rows[at:] if each.digest == _digest(before, at, each.wall, each.body)]
    if follows:
        return f"records are out of order: record {at} stands as record {follows[0]}"
    if row.number == at:
        return f"record {at} is not as it was written"
    missing = f"record {at} is" if row.number == at + 1 else f"records {at} to {row.number - 1} are"
    return f"{missing} missing"


def _say_readable(rows: Sequence[_Row], count: int) -> str:
    """Say what can still be read of so many records: how many, and up to when on the run's clock."""
    if not rows:
        return _NOTHING_LEFT
    until_s = json.loads(rows[-1].body).get("t", 0.0)
    return f"of {count} records the first {len(rows)} can be read, up to {format_duration(until_s)} of the run"


def _open_count(path: Path) -> int:
    """Open the file with the number of records; where it is new there are none."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    if not os.fstat(handle).st_size:
        os.write(handle, b"0" * _DIGITS)
    return handle


def _read_count(folder: Path) -> tuple[int, str] | None:
    """Return how many records there are at least, and the digest of the first, empty where there is none.

    None where that is not known.
    """
    try:
        count, _, first = (folder / COUNT).read_text(encoding="ascii").partition(" ")
        return int(count or "0"), first  # just made: empty
    except (OSError, ValueError):
        return None


def _find_trace(folder: Path) -> str:
    """Say what a run has left in a folder besides its journal; nothing where there is nothing."""
    if (folder / COUNT).is_file() and _read_count(folder) != (0, ""):
        return f"nothing is in it, and {COUNT} beside it says otherwise"
    traces = (path for pattern in _TRACES for path in folder.glob(pattern))
    return next((f"nothing is in it, and {path} is of a run" for path in traces), "")


def hold_folder(path: Path, what: str, harmless: Iterable[str], busy: str) -> int:
    """Make the folder of a file for the user alone (mode 0700), hold it by its lock, and return the lock's handle.

    Where the file is not there yet a folder with files of others is refused: its mode would be changed, and the new
    ones would lie among them.
    """
    folder = path.parent
    foreign = {each.name for each in folder.iterdir()}.difference(harmless) if folder.is_dir() else set()
    if foreign and not path.is_file():
        raise UsageError(f"{folder}: holds other files ({min(foreign)}), and no {what}; give a new or an empty folder")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    return hold_lock(folder / DRIVER_LOCK, f"{folder}: {busy.format(folder)}")


def _describe_damage(path: Path, what: str, readable: str = _NOTHING_LEFT) -> DataError:
    fix = "put it and what lies beside it back from a copy, or begin anew in another folder; what trials stored stays"
    return DataError(str(path), f"is damaged ({what}; {readable})", fix)


@contextmanager
def reporting(
    path: Path, advice: str, describe: Callable[[Path, str], DataError] = _describe_damage, done: str = "written"
) -> Iterator[None]:
    """Say what is wrong with a file: its disk, which it was to be ``done`` on, and what to do; or the file itself."""
    try:
        yield
    except OptplanError:  # some are errors of the system's as well
        raise
    except (sqlite3.Error, OSError) as error:
        if isinstance(error, sqlite3.Error) and not getattr(error, "sqlite_errorname", "").startswith(_DISK):
            raise describe(path, str(error)) from None
        reason = getattr(error, "strerror", None) or error
        raise OutputError(f"{path.parent} cannot be {done} ({reason}); {advice}") from None
    except ValueError as error:  # what is written there, or the tables' own description
        raise describe(path, str(error)) from None


@contextmanager
def writing(connection: sqlite3.Connection, path: Path, advice: str) -> Iterator[None]:
    """Hold a transaction whose failures name the folder of a file, and say what to do."""
    with reporting(path, advice):
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            if connection.in_transaction:
                connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")


def read_kind(folder: Path | str) -> Kind:
    """Return of which kind the run in a folder is."""
    with Journal(Path(folder), writable=False, salvaged=True) as journal:  # who needs all of it reads it again
        assert journal.beginning is not None  # else it cannot be looked at
        return journal.beginning.kind


def connect(path: Path, tables: str, version: int, *, writable: bool = True) -> sqlite3.Connection:
    """Open a file that is for the user alone; where it may be written and has no tables, make them."""
    if writable:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        path.chmod(0o600)
    place = path.resolve().as_uri() + ("" if writable else "?mode=ro")
    connection = sqlite3.connect(place, uri=True, isolation_level=None, check_same_thread=False)
    try:
        if writable:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
        is_there = has_tables(connection)
        found = connection.execute("PRAGMA user_version").fetchone()[0]  # after it: a driver writes both at once
        if writable and not (is_there or found):
            connection.executescript(f"BEGIN; {tables} PRAGMA user_version = {version}; COMMIT;")
        elif (is_there or found) and found != version:
            problem = f"has version {found}; understood: {version}"
            raise DataError(str(path), problem, "use the release of optplan that wrote it")
    except BaseException:
        connection.close()
        raise
    return connection


def has_tables(connection: sqlite3.Connection) -> bool:
    """Whether anything is in a file."""
    return bool(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
