"""What the calculator has written down: an SQLite file with the ids of events and, by name, all else.

A batch of events and the state that follows from it are one transaction, in write-ahead logging with full
synchronisation: whatever was confirmed survives kill -9 and the loss of power, and counts once.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager, ExitStack, closing
from pathlib import Path
from typing import Any

from optplan.errors import DataError
from optplan.execution.journal import connect, has_tables, hold_folder, reporting, writing
from optplan.execution.serving.access import TOKEN_FILE
from optplan.execution.trial_files import DRIVER_LOCK

#: Version of the tables; others are refused.
_VERSION = 4
_TABLES = """
    CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE events (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE);
"""

_FILE = "calculator.sqlite"
#: What may lie in a folder in which no calculator has begun: after a kill, a token that was put there, a volume's own.
_HARMLESS = (DRIVER_LOCK, TOKEN_FILE, "lost+found")
#: Ids of so many events are kept at least; a repetition of an older one would count again.
_KEPT_IDS = 2_000_000


class Store:
    """The file of one calculator, in its folder, which is made for the user alone (mode 0700); one process holds it."""

    def __init__(self, folder: Path) -> None:
        self._path, busy = folder / _FILE, "another calculator runs there; stop it, or give another folder"
        with ExitStack() as held, _reading(self._path):
            held.callback(os.close, hold_folder(self._path, "calculator", _HARMLESS, busy))
            self._connection = connect(self._path, _TABLES, _VERSION)
            held.callback(self._connection.close)
            self._held = held.pop_all()

    def read(self, name: str) -> Any:  # noqa: ANN401 - plain data
        """Return what was stored under a name; None where nothing was."""
        with _reading(self._path):
            return _find(self._connection, name)

    def find_known(self, ids: Collection[str]) -> set[str]:
        """Return those ids that were written down before."""
        query = "SELECT id FROM events WHERE id IN (SELECT value FROM json_each(?))"
        with _reading(self._path):
            return {row[0] for row in self._connection.execute(query, (json.dumps(list(ids)),))}

    def commit(self, ids: Iterable[str] = (), **named: Any) -> None:  # noqa: ANN401 - plain data
        """Write down the ids of new events, and by name what has changed besides, all or none."""
        connection = self._connection
        with writing(connection, self._path, "make room"):
            connection.executemany("INSERT INTO events (id) VALUES (?)", ((each,) for each in ids))
            connection.execute("DELETE FROM events WHERE number <= (SELECT max(number) FROM events) - ?", (_KEPT_IDS,))
            rows = [(name, json.dumps(value, ensure_ascii=False)) for name, value in named.items()]
            connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows)

    def close(self) -> None:
        """Close the file, and let another calculator have the folder."""
        self._held.close()


def is_begun(folder: Path) -> bool:
    """Whether a calculator has written anything down in a folder."""
    return (folder / _FILE).is_file()


def read_stored(folder: Path, name: str) -> Any:  # noqa: ANN401 - plain data
    """Return what a calculator has stored under a name, whether or not it runs; None where nothing was."""
    path = folder / _FILE
    with _reading(path), closing(connect(path, _TABLES, _VERSION, writable=False)) as connection:
        return _find(connection, name) if has_tables(connection) else None  # killed before it wrote anything


def _find(connection: sqlite3.Connection, name: str) -> Any:  # noqa: ANN401 - plain data
    row = connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
    return None if row is None else json.loads(row[0])


def _reading(path: Path) -> AbstractContextManager[None]:
    return reporting(path, "give another folder", _describe_broken)


def _describe_broken(path: Path, error: str) -> DataError:
    fix = f"put it back from a copy; or move {path.parent} away and begin anew, with --instance"
    return DataError(str(path), f"cannot be read ({error})", fix)
