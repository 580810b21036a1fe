"""SIGINT and SIGTERM: the first ends solves with the best plans found so far, the second ends everything at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from optplan.progress import Interruption, interruptible

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: Exit codes of programs that a signal ends are that much more than its number.
_EXIT_OFFSET = 128
_NOTE = "\ninterrupted: the best found so far follows; once more ends at once\n"


class Signals:
    """What has come in a block of :func:`heed_signals`."""

    def __init__(self, interruption: Interruption) -> None:
        self._interruption = interruption
        self._first: int | None = None

    @property
    def exit_code(self) -> int:
        """130 after SIGINT, 143 after SIGTERM; zero when neither has come."""
        return 0 if self._first is None else _EXIT_OFFSET + self._first

    def take(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the interface of handlers
        """Take the first signal; the next one finds the system's own handler, which ends the process at once."""
        self._first = number
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        self._interruption.interrupt()
        os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, _NOTE.encode())


@contextmanager
def heed_signals() -> Iterator[Signals]:
    """Have the solves of a block end with what they know when SIGINT or SIGTERM comes; in the main thread only."""
    with interruptible() as interruption:
        signals = Signals(interruption)
        if threading.current_thread() is not threading.main_thread():
            yield signals
            return
        before = {each: signal.signal(each, signals.take) for each in _SIGNALS}
        try:
            yield signals
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)
