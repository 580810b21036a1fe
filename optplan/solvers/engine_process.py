"""Engines in a process of their own, which ends when it has to, whatever the engine is doing.

General engines look at the clock when they please: presolve, root nodes and the building of large models take many
seconds in which nothing can be stopped. A call made here is made by a fresh interpreter, which reports what the engine
finds on the way. When the time is over, or somebody asks for an end, it is stopped, and the last report counts.

Starting costs some tenths of a second. So small models of engines that heed their limits are solved where they are, and
CP-SAT, whose library cannot share a process with every HiGHS, has a process that is kept for the next call.
"""

from __future__ import annotations

import atexit
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
from io import BufferedReader, FileIO
from typing import Any, TypeVar, cast

from optplan.errors import EngineError, OptplanError
from optplan.progress import SILENT_THREAD, Listener, Stopwatch

OutcomeT = TypeVar("OutcomeT")

#: What a call made elsewhere is given to say what it has found so far.
Report = Callable[[OutcomeT], None]

#: Seconds beyond the limit in which an engine may end by itself and hand over its result.
PATIENCE_S = 0.3
#: Seconds between looks at the stopwatch.
_LOOK_S = 0.05
#: Seconds in which threads have to see that a process has ended; they do at once, unless something it started holds on.
_PARTING_S = 10.0
#: What an event says besides its stage; its time is that of whoever hears it.
_KNOWN = ("objective", "bound", "fraction")
#: Seconds without a call after which a kept process ends; it gets none after half of them.
_KEPT_S = 60.0
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
    """Call a function here, or, where what it is about is large and might not heed its limit, elsewhere."""
    if not is_large:
        return target(*arguments, stopwatch)
    found = call_elsewhere(target, arguments, stopwatch)
    return otherwise if found is None else found


def call_elsewhere(
    target: Callable[..., OutcomeT], arguments: tuple[Any, ...], stopwatch: Stopwatch, *, keep: bool = False
) -> OutcomeT | None:
    """Call a module's function in a process of its own, stopped in time; return what it did, or reported last."""
    # It gets a stopwatch of the time left and a :data:`Report`; interruptions and events pass on. A process to ``keep``
    # is one that was kept, for engines of one kind. EngineError where it raised no OptplanError or ended by itself.
    if not sys.executable:  # nobody knows which interpreter this is, so there can be no other one
        return target(*arguments, stopwatch)
    engine = _take_kept() if keep else _EngineProcess()
    try:
        found: OutcomeT | None = engine.call(target, arguments, stopwatch)
        return found
    finally:
        if keep and engine.is_ready:
            engine.ready_since = time.monotonic()
            _KEPT.append(engine)
        else:
            engine.end()


class _EngineProcess:
    """A fresh interpreter, which makes one call after the other for this process, and ends with it."""

    def __init__(self) -> None:
        # Unbuffered, so that a fork of this process can close its copies and send nothing.
        self.process = subprocess.Popen(
            [sys.executable, "-c", _START],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # a Ctrl-C is for the process that waits
        )
        self._calls = cast(FileIO, self.process.stdin)
        self._answers = BufferedReader(cast(FileIO, self.process.stdout))
        #: Whether it has answered all that it was asked.
        self.is_ready = True
        self.ready_since = time.monotonic()
        self._threads: list[threading.Thread] = []
        _ALIVE.add(self)

    def call(self, target: Callable[..., OutcomeT], arguments: tuple[Any, ...], stopwatch: Stopwatch) -> Any:  # noqa: ANN401 - what the function returns
        """Make a call, and wait for the result, or until the stopwatch and patience have ended."""
        self.is_ready = False
        left_s = stopwatch.remaining_s
        deadline = None if left_s is None else time.monotonic() + left_s
        work = (target.__module__, target.__qualname__, arguments, deadline)
        messages: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        listening = threading.Thread(target=self._listen, args=(messages,), daemon=True)
        sending = threading.Thread(target=self._send, args=work, daemon=True)
        self._threads = [listening, sending]
        for thread in self._threads:
            thread.start()
        last, end = None, None
        while end is None or time.perf_counter() < end:
            if end is None and stopwatch.expired:
                end = time.perf_counter() + PATIENCE_S
                if stopwatch.interrupted and not sending.is_alive():
                    self._write(pickle.dumps(None))
            try:
                kind, content = messages.get(timeout=_LOOK_S)
            except queue.Empty:
                continue
            if kind == "end":
                raise EngineError(f"the engine's process ended with code {self.process.wait()} and without a result")
            self.is_ready = kind in ("result", "raised")
            if kind == "result":
                return content
            if kind == "raised":
                raise content
            if kind == "event":
                stopwatch.emit(content.stage, **{name: getattr(content, name) for name in _KNOWN})
            else:
                last = content
        return last

    def end(self) -> None:
        """End it, whatever it is doing."""
        _ALIVE.discard(self)
        self.process.kill()
        self.process.wait()
        for thread in self._threads:  # who still reads a closed file may read the next one with its number
            thread.join(_PARTING_S)
        if not any(thread.is_alive() for thread in self._threads):
            self._close()

    def forget(self) -> None:
        """Leave it to the process that this one is a fork of: it must not hold up its end."""
        self.process.returncode = 0  # it is no child of this one to be waited for
        self._close()

    def _close(self) -> None:
        self._calls.close()
        self._answers.raw.close()  # past the lock that a thread may hold which a fork has not

    def _send(self, module: str, name: str, arguments: tuple[Any, ...], deadline: float | None) -> None:
        """Send paths and work; the stream stays open, for its end is the end of the other process."""
        self._write(pickle.dumps(sys.path) + pickle.dumps((module, name, pickle.dumps(arguments), deadline)))

    def _write(self, content: bytes) -> None:
        rest = memoryview(content)
        with suppress(OSError, ValueError):  # it was stopped meanwhile, or has ended: whoever waits finds that out
            while rest:
                rest = rest[self._calls.write(rest) :]

    def _listen(self, messages: queue.SimpleQueue[tuple[str, Any]]) -> None:
        """Pass on what comes, until nothing more can come."""
        kind = ""
        while kind not in ("result", "raised", "end"):
            try:
                kind, content = pickle.load(self._answers)
            except Exception:  # noqa: BLE001 - cut off in the middle, or not to be read: there is no answer
                kind, content = "end", None
            messages.put((kind, content))


#: Those that have not been ended, and of them those that wait for a call.
_ALIVE: set[_EngineProcess] = set()
_KEPT: list[_EngineProcess] = []


def _take_kept() -> _EngineProcess:
    """Take the process that was kept last, or start one; each is one call's alone until it is kept again."""
    while True:
        try:
            engine = _KEPT.pop()
        except IndexError:
            return _EngineProcess()
        # It runs, and will wait for another call for a while.
        if engine.process.poll() is None and time.monotonic() - engine.ready_since < _KEPT_S / 2:
            return engine
        engine.end()


@atexit.register
def _end_kept() -> None:
    while _KEPT:
        _KEPT.pop().end()


def _forget_all() -> None:
    for engine in _ALIVE:
        engine.forget()
    _ALIVE.clear()
    _KEPT.clear()


os.register_at_fork(after_in_child=_forget_all)


def serve() -> None:
    """Make calls for the process that started this one; its own standard output is for that one alone."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())  # engines write there as they please
    os.close(nowhere)
    calls: queue.SimpleQueue[tuple[str, str, bytes, Stopwatch]] = queue.SimpleQueue()
    telling = threading.Lock()

    def tell(kind: str, content: object) -> None:
        message = pickle.dumps((kind, content))
        with telling:
            try:
                answers.write(message)
                answers.flush()
            except OSError:  # nobody is left to hear it
                os._exit(1)

    heard = (calls, lambda event: tell("event", event))
    threading.Thread(target=_hear, args=heard, name=SILENT_THREAD, daemon=True).start()
    while True:
        try:
            module, name, arguments, stopwatch = calls.get(timeout=_KEPT_S)
        except queue.Empty:
            os._exit(0)
        try:
            target = getattr(import_module(module), name)
            tell("result", target(*pickle.loads(arguments), stopwatch, lambda outcome: tell("report", outcome)))
        except OptplanError as error:
            tell("raised", error)
        except Exception as error:  # noqa: BLE001 - whatever it is, the other process has to hear of it
            tell("raised", EngineError(f"{type(error).__name__}: {error}"))


def _hear(calls: queue.SimpleQueue[tuple[str, str, bytes, Stopwatch]], listener: Listener) -> None:
    """Take in paths, calls and interruptions; end this process when the one that started it has, whatever runs."""
    stopwatch = Stopwatch()
    try:
        while True:
            said = pickle.load(sys.stdin.buffer)
            if said is None:
                stopwatch.interrupt()
            elif isinstance(said, list):
                sys.path[:] = said
            else:
                module, name, arguments, deadline = said
                left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
                stopwatch = Stopwatch(left_s, listener)
                calls.put((module, name, arguments, stopwatch))
    finally:
        os._exit(1)
