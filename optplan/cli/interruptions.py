"""SIGINT and SIGTERM: the first ends solves with the best plans found so far, the second ends everything at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from optplan.progress import interruptible

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: Exit codes of programs that a signal ends are that much more than its number.
_EXIT_OFFSET = 128
_NOTE = "\ninterrupted: the best found so far follows; once more ends at once\n"


class Signals:
    """What has come in a block of :func:`heed_signals`."""

    exit_code = 0  #: 130 after SIGINT, 143 after SIGTERM; zero when neither has come.


@contextmanager
def heed_signals() -> Iterator[Signals]:
    """Have the solves of a block end with what they know when SIGINT or SIGTERM comes; in the main thread only."""
    with interruptible() as interruption:
        signals = Signals()

        def take(number: int, _: FrameType | None) -> None:
            # The next one finds the system's own handler, which ends the process at once.
            signals.exit_code = _EXIT_OFFSET + number
            for each in _SIGNALS:
                signal.signal(each, signal.SIG_DFL)
            interruption.interrupt()
            os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, _NOTE.encode())

        is_main = threading.current_thread() is threading.main_thread()
        before = {each: signal.signal(each, take) for each in _SIGNALS if is_main}
        try:
            yield signals
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)
