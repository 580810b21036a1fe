"""HiGHS in one thread, and what it writes to standard output, whatever its options say, kept aside."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING

from optplan.errors import EngineError
from optplan.progress import SILENT_THREAD

if TYPE_CHECKING:
    import ctypes

    import highspy

_OUTPUT, _ERROR = 1, 2


class _Aside:
    """Standard output as it was, kept while any thread wants it aside."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._kept: int | None = None
        #: Whether nobody else in this process writes there meanwhile.
        self.is_ours = False

    def enter(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                _flush()
                try:
                    self._kept = os.dup(_OUTPUT)
                    self._redirect()
                except OSError:  # a process without these streams has nothing to keep clean
                    self._kept = None

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0 and self._kept is not None:
                _flush()
                os.dup2(self._kept, _OUTPUT)
                os.close(self._kept)
                self._kept = None

    def _redirect(self) -> None:
        if not self.is_ours and _others_may_write():
            os.dup2(_ERROR, _OUTPUT)
            return
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, _OUTPUT)
        finally:
            os.close(nowhere)


def _others_may_write() -> bool:
    return any(each.name != SILENT_THREAD for each in threading.enumerate() if each is not threading.current_thread())


_ASIDE = _Aside()


def _flush() -> None:
    """Write out what C's streams hold back: where standard output is no terminal, that would come much later."""
    with suppress(OSError, AttributeError, TypeError):  # where C's library is not to be had by this way
        _load_c_library().fflush(None)


@cache
def _load_c_library() -> ctypes.CDLL:
    import ctypes  # on use: most commands run no engine

    return ctypes.CDLL(None)


def drop_engines_output() -> None:
    """Say that in this process nobody but engines writes to standard output while they run: it can be dropped."""
    _ASIDE.is_ours = True


@contextmanager
def standard_output_aside() -> Iterator[None]:
    """Drop what a library writes to standard output meanwhile, which would end up in the middle of somebody's JSON."""
    # HiGHS 1.16 writes its version there, 1.12 debugging lines (ERGO-Code/HiGHS#2783). The stream is the whole
    # process's: where other threads may be writing, it goes to standard error, unless :func:`drop_engines_output` says
    # otherwise.
    _ASIDE.enter()
    try:
        yield
    finally:
        _ASIDE.leave()


def start_engine(**options: float | str) -> highspy.Highs:
    """Return HiGHS without a model, quiet and in one thread; options are its own, and come on top."""
    import highspy

    with standard_output_aside():  # the first one of a process prints a banner
        engine = highspy.Highs()
    usual: dict[str, float | str] = {"output_flag": False, "threads": 1, "parallel": "off", "random_seed": 0}
    for name, option in (usual | options).items():
        if engine.setOptionValue(name, option) == highspy.HighsStatus.kError:
            raise EngineError(f"HiGHS does not know the option {name}={option!r}")
    return engine


def run_engine(engine: highspy.Highs) -> None:
    """Run HiGHS on its model, in one thread if that can be had, and keep standard output clean."""
    import highspy

    with standard_output_aside():
        failed = engine.run() == highspy.HighsStatus.kError
        if failed and engine.getModelStatus() == highspy.HighsModelStatus.kNotset:
            # HiGHS has one pool of threads per process; where somebody else has sized it, that size has to do.
            engine.setOptionValue("threads", 0)
            engine.run()
