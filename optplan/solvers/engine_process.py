"""Engines in a process of their own, which ends when it has to, whatever the engine is doing.

General engines look at the clock when they please: presolve, root nodes and the building of large models take many
seconds in which nothing can be stopped. A call made here is made by a fresh interpreter, which reports what the engine
finds on the way. When the time is over, or somebody asks for an end, it is stopped, and the last report counts.

Starting costs some tenths of a second, so small models, whose engines heed their limits, are solved where they are.
"""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import IO, Any, TypeVar

from optplan.errors import EngineError, OptplanError
from optplan.progress import Stopwatch

OutcomeT = TypeVar("OutcomeT")

#: What a call made elsewhere is given to say what it has found so far.
Report = Callable[[OutcomeT], None]

#: Seconds beyond the limit in which an engine may end by itself and hand over its result.
PATIENCE_S = 0.3
#: Seconds between looks at the stopwatch.
_LOOK_S = 0.05
#: What the fresh interpreter runs: modules are found where they are found here.
_START = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from optplan.solvers.engine_process import serve; serve()"
)


def call_bounded(
    target: Callable[..., OutcomeT],
    arguments: tuple[Any, ...],
    stopwatch: Stopwatch,
    *,
    is_large: bool,
    otherwise: OutcomeT,
) -> OutcomeT:
    """Call a function here, or :func:`call_elsewhere` where what it is about is large.

    Parameters
    ----------
    target, arguments, stopwatch
        As there; here the function is called without a report.
    is_large
        Whether the call might not heed its limit.
    otherwise
        What a call amounts to that was stopped before it reported anything.
    """
    if not is_large:
        return target(*arguments, stopwatch)
    found = call_elsewhere(target, arguments, stopwatch)
    return otherwise if found is None else found


def call_elsewhere(
    target: Callable[..., OutcomeT], arguments: tuple[Any, ...], stopwatch: Stopwatch
) -> OutcomeT | None:
    """Call a function in a process of its own, and stop that once the stopwatch has expired.

    Parameters
    ----------
    target
        A function of a module. It is called with the arguments, a :class:`~optplan.progress.Stopwatch` with the time
        that is left, and a :data:`Report`.
    arguments
        Whatever can be pickled.
    stopwatch
        Limits the call, the start of the process included.

    Returns
    -------
    OutcomeT or None
        What the function returned; where it was stopped, what it reported last, or None.

    Raises
    ------
    OptplanError
        What the function raised.
    EngineError
        When the process ended by itself without a word, as for want of memory, or raised anything else.
    """
    if not sys.executable:  # nobody knows which interpreter this is, so there can be no other one
        return target(*arguments, stopwatch)
    messages: queue.Queue[tuple[str, Any]] = queue.Queue()
    with _start() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            threading.Thread(target=_listen, args=(process.stdout, messages), daemon=True).start()
            work = (target.__module__, target.__qualname__, arguments, stopwatch.remaining_s)
            threading.Thread(target=_send, args=(process.stdin, work), daemon=True).start()
            outcome: OutcomeT | None = _await(process, messages, stopwatch)
            return outcome
        finally:
            process.kill()
            with suppress(OSError):  # what was still to be sent goes nowhere now
                process.stdin.close()


def serve() -> None:
    """Make one call for the process that started this one; its own standard output is for that one alone."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())  # engines write there as they please
    os.close(nowhere)
    module, name, arguments, remaining_s = pickle.load(sys.stdin.buffer)
    stopwatch = Stopwatch(remaining_s)
    threading.Thread(target=_end_with_parent, daemon=True).start()

    def tell(kind: str, content: object) -> None:
        pickle.dump((kind, content), answers)
        answers.flush()

    try:
        target = getattr(import_module(module), name)
        tell("result", target(*arguments, stopwatch, lambda outcome: tell("report", outcome)))
    except OptplanError as error:
        tell("raised", error)
    except Exception as error:  # noqa: BLE001 - whatever it is, the other process has to hear of it
        tell("raised", EngineError(f"{type(error).__name__}: {error}"))
    os._exit(0)  # engines that still run must not hold up the end


def _start() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", _START],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # a Ctrl-C is for the process that waits
    )


def _send(stream: IO[bytes], work: tuple[Any, ...]) -> None:
    """Send paths and work; the stream stays open, for its end is the end of the other process."""
    try:
        pickle.dump(sys.path, stream)
        pickle.dump(work, stream)
        stream.flush()
    except (OSError, ValueError):  # it was stopped meanwhile, or has ended: whoever waits finds that out
        pass


def _listen(stream: IO[bytes], messages: queue.Queue[tuple[str, Any]]) -> None:
    """Pass on what comes, until nothing more can come."""
    try:
        while True:
            messages.put(pickle.load(stream))
    except (EOFError, OSError, ValueError, pickle.UnpicklingError):  # also cut off in the middle of a message
        messages.put(("end", None))


def _await(process: subprocess.Popen[bytes], messages: queue.Queue[tuple[str, Any]], stopwatch: Stopwatch) -> Any:  # noqa: ANN401 - what the function returns
    """Wait for the result, or until the stopwatch and patience have ended."""
    last, end = None, None
    while end is None or time.perf_counter() < end:
        if end is None and stopwatch.expired:
            end = time.perf_counter() + (_LOOK_S if stopwatch.interrupted else PATIENCE_S)
        try:
            kind, content = messages.get(timeout=_LOOK_S)
        except queue.Empty:
            continue
        if kind == "result":
            return content
        if kind == "raised":
            raise content
        if kind == "end":
            raise EngineError(f"the engine's process ended with code {process.wait()} and without a result")
        last = content
    return last


def _end_with_parent() -> None:
    """End this process when the one that started it has, which closes the stream."""
    sys.stdin.buffer.read()
    os._exit(1)
