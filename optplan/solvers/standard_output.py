"""Keeping standard output clean while an engine runs."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_OUTPUT, _ERROR = 1, 2


class _Aside:
    """Standard output as it was, kept while any thread wants it aside."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._kept: int | None = None

    def enter(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                try:
                    self._kept = os.dup(_OUTPUT)
                    os.dup2(_ERROR, _OUTPUT)
                except OSError:  # a process without these streams has nothing to keep clean
                    self._kept = None

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0 and self._kept is not None:
                os.dup2(self._kept, _OUTPUT)
                os.close(self._kept)
                self._kept = None


_ASIDE = _Aside()


@contextmanager
def standard_output_aside() -> Iterator[None]:
    """Send what is written to standard output, by whatever library, to standard error meanwhile.

    HiGHS 1.12 writes a forgotten debugging line straight to standard output, whatever its options say
    (ERGO-Code/HiGHS#2783), which would end up in the middle of somebody's JSON. The stream is the whole process's, so
    what other threads write meanwhile goes to standard error, too.
    """
    _ASIDE.enter()
    try:
        yield
    finally:
        _ASIDE.leave()
