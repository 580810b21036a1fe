"""What the calculator has written down: an SQLite file with the instance, the ids of events, the state and its history.

A batch of events and the state that follows from it are one transaction, in write-ahead logging with full
synchronisation: whatever was confirmed survives kill -9 and the loss of power, and counts once.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from optplan.errors import DataError, OutputError
from optplan.execution.journal import connect, hold_folder, writing
from optplan.execution.locks import find_holder
from optplan.execution.serving.access import TOKEN_FILE

#: Version of the tables; others are refused.
_VERSION = 1
_TABLES = """
    CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE events (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE);
    CREATE TABLE calculations (number INTEGER PRIMARY KEY, body TEXT NOT NULL);
"""

_FILE, _LOCK = "calculator.sqlite", "calculator.lock"
#: What may lie in a folder in which no calculator has begun: after a kill, a token that was put there, a volume's own.
_HARMLESS = (_LOCK, TOKEN_FILE, "lost+found")
#: Calculations that are kept, and shown.
KEPT_CALCULATIONS = 50
#: Ids of so many events are kept at least; a repetition of an older one would count again.
_KEPT_IDS = 2_000_000


class Store:
    """The file of one calculator, in its folder, which is made for the user alone (mode 0700); one process holds it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            with ExitStack() as held:
                busy = "another calculator runs there; stop it, or give another folder"
                held.callback(os.close, hold_folder(folder / _FILE, "calculator", _HARMLESS, _LOCK, busy))
                self._connection = connect(folder / _FILE, _TABLES, _VERSION)
                self._held = held.pop_all()
        except (OSError, sqlite3.Error) as error:
            if getattr(error, "sqlite_errorname", "") in ("SQLITE_NOTADB", "SQLITE_CORRUPT"):  # not the disk
                raise _describe_broken(folder, error) from None
            raise OutputError(f"{folder} cannot be written ({error}); give another folder") from None

    def read_meta(self, name: str) -> Any:  # noqa: ANN401 - plain data
        """Return what was stored under a name; None where nothing was."""
        with self._reading():
            row = self._connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
            return None if row is None else json.loads(row[0])

    def find_known(self, ids: Collection[str]) -> set[str]:
        """Return those ids that were written down before."""
        query = "SELECT id FROM events WHERE id IN (SELECT value FROM json_each(?))"
        with self._reading():
            return {row[0] for row in self._connection.execute(query, (json.dumps(list(ids)),))}

    def count_events(self) -> int:
        """Return how many events were ever written down."""
        with self._reading():
            return int(self._connection.execute("SELECT coalesce(max(number), 0) FROM events").fetchone()[0])

    def list_calculations(self) -> list[Any]:
        """Return the latest calculations, the last one first."""
        with self._reading():
            rows = self._connection.execute("SELECT body FROM calculations ORDER BY number DESC")
            return [json.loads(row[0]) for row in rows]

    def commit(
        self, *, meta: dict[str, Any], ids: Iterable[str] = (), calculation: dict[str, Any] | None = None
    ) -> None:
        """Write down new events, a calculation and what has changed besides, all or none."""
        connection = self._connection
        with writing(connection, self.folder / _FILE, "make room"):
            connection.executemany("INSERT INTO events (id) VALUES (?)", ((each,) for each in ids))
            rows = [(name, json.dumps(value, ensure_ascii=False)) for name, value in meta.items()]
            connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows)
            if calculation is not None:
                connection.execute("INSERT INTO calculations (body) VALUES (?)", (json.dumps(calculation),))
                for table, kept in (("calculations", KEPT_CALCULATIONS), ("events", _KEPT_IDS)):
                    last = f"(SELECT max(number) FROM {table})"
                    connection.execute(f"DELETE FROM {table} WHERE number <= {last} - ?", (kept,))

    def close(self) -> None:
        """Close the file, and let another calculator have the folder."""
        self._connection.close()
        self._held.close()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, ValueError) as error:
            raise _describe_broken(self.folder, error) from None


def is_begun(folder: Path) -> bool:
    """Whether a calculator has written anything down in a folder."""
    return (folder / _FILE).is_file()


def find_publisher(folder: Path) -> int | None:
    """Return the process that publishes from a folder; None where none does."""
    return find_holder(folder, _LOCK)


def _describe_broken(folder: Path, error: Exception) -> DataError:
    fix = f"put it back from a copy; or move {folder} away and begin anew, with --instance"
    return DataError(str(folder / _FILE), f"cannot be read ({error})", fix)
