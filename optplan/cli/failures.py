"""How errors are reported: one line on stderr, or one JSON object there; the exit code says whose turn it is.

SIGINT and SIGTERM: the first ends solves with the best plans found so far, the second ends everything at once.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import click

import optplan
from optplan.cli.console import color_wanted
from optplan.errors import DataError, InternalError, OptplanError, UsageError, VerificationError, one_line, shorten
from optplan.progress import interruptible

#: Exit codes that no :class:`~optplan.errors.OptplanError` carries.
EXIT_USAGE = 2
EXIT_ON_TRUST = 6
EXIT_INTERNAL = 70
EXIT_INTERRUPTED = 130


def report(error: Exception, *, as_json: bool = False, with_traceback: bool = False) -> int:
    """Report an error on stderr, as text or as one line of JSON, and return the exit code."""
    if isinstance(error, ModuleNotFoundError) and error.name == "fcntl":
        error = UsageError("runs lock their folders as POSIX systems do (Linux, macOS); here plans can only be made")
    expected = isinstance(error, OptplanError | click.ClickException) and not isinstance(error, InternalError)
    if with_traceback and not expected:
        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    message = _message(error)
    if as_json:
        record = {"kind": type(error).__name__ if expected else "InternalError", "message": message}
        if isinstance(error, DataError) and error.path:
            record["path"] = shorten(error.path)
        click.echo(json.dumps({"error": record}, ensure_ascii=False), err=True)
    else:
        click.echo(f"{click.style('error:', fg='red')} {message}", err=True, color=color_wanted())
        if isinstance(error, click.UsageError) and error.ctx is not None:
            click.echo(f"Try '{error.ctx.command_path} --help' for help.", err=True)
    return int(getattr(error, "exit_code", EXIT_INTERNAL))  # ours have one, and click's


def _message(error: Exception) -> str:
    match error:
        case click.ClickException():
            return one_line(error.format_message())
        case VerificationError(given=True):
            return one_line(f"the result does not hold what it says: {error}")
        case VerificationError():
            return one_line(f"verification failed, a bug of optplan or of an engine; please report it: {error}")
        case OptplanError() if not isinstance(error, InternalError):
            return one_line(str(error))
    running = f"optplan {optplan.__version__}, Python {platform.python_version()}, {platform.platform(terse=True)}"
    return (
        f"internal error: {one_line(f'{type(error).__name__}: {error}')}\n"
        f"This is a bug of optplan. Please report it with the command and these versions: {running}.\n"
        "--traceback shows where it happened."
    )


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
