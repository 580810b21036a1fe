"""The folder of a calculator: what it has written down, and the token of who may ask.

An SQLite file has the ids of events and, by name, all else. A batch of events and the state that follows from it are
one transaction, in write-ahead logging with full synchronisation: whatever was confirmed survives kill -9 and the loss
of power, and counts once.

A page in a browser of the same machine reaches what listens on loopback, also one of a stranger. So a service takes its
token only as a header that browsers send of no page by themselves, and what comes from another page is refused.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import sqlite3
import stat
from collections.abc import Collection, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack, closing
from pathlib import Path
from typing import Any

from optplan.errors import DataError, OutputError, UsageError
from optplan.execution.journal import connect, has_tables, hold_folder, reporting, writing
from optplan.execution.trial_files import DRIVER_LOCK

#: The token, in the folder of the state.
TOKEN_FILE = "token"
#: Random bytes of a token that is made here, and characters of one that is taken.
_TOKEN_BYTES, _LEAST_CHARACTERS = 32, 20


def read_token(folder: Path) -> str:
    """Return the token of a folder; it is made where there is none, for the user alone (mode 0600)."""
    path = folder / TOKEN_FILE
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        pass
    except OSError as error:
        raise OutputError(f"{path} cannot be written ({error.strerror})") from None
    else:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(_TOKEN_BYTES) + "\n")
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise UsageError(f"{path}: others can read it (mode {mode:o}); make a new one: rm {path}, and start again")
    token = path.read_text("utf-8").strip()
    if len(token) < _LEAST_CHARACTERS or not token.isascii():
        problem = f"{len(token)} characters are no token"
        raise DataError(str(path), problem, f"remove it for a new one, or give {_LEAST_CHARACTERS} or more of ASCII")
    return token


def find_token(headers: Mapping[str, str]) -> str:
    """Return the token that a request brings, as ``Bearer TOKEN``; empty without."""
    scheme, _, value = headers.get("Authorization", "").partition(" ")
    return value.strip() if scheme.casefold() == "bearer" else ""


def is_right(token: str, given: str) -> bool:
    """Whether a given token is the right one; how long that takes does not say how much of it is right."""
    return hmac.compare_digest(token.encode(), given.encode("utf-8", "surrogateescape"))


def is_own(headers: Mapping[str, str], names: frozenset[str]) -> bool:
    """Whether a request names its host, without the port, by one of these names."""
    name = headers.get("Host", "").strip().casefold()
    return (name.partition("]")[0] + "]" if name.startswith("[") else name.partition(":")[0]) in names


def is_from_own_page(headers: Mapping[str, str]) -> bool:
    """Whether a request that a page makes is made by the service's own one; what says no origin comes from no page."""
    if headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
        return False
    origin = headers.get("Origin")
    return origin is None or origin.partition("://")[2].casefold() == headers.get("Host", "").casefold()


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
