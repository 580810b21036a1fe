"""Who may ask what is served here: whoever has its token.

A page in a browser of the same machine reaches what listens on loopback, also one of a stranger. So a service takes its
token only as a header that browsers send of no page by themselves, and what comes from another page is refused.
"""

from __future__ import annotations

import hmac
import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path

from optplan.errors import DataError, OutputError, UsageError

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
