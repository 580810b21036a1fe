"""Progress as events, time limits and interruptions: what connects a solve with whoever waits; nothing here prints."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

#: Seconds of processor time after which the judge leaves what it has not checked, and says so, unless it is given
#: another limit.
VERIFY_LIMIT_S = 60.0
#: Name of threads that write nothing, and so let an engine's standard output be dropped meanwhile.
SILENT_THREAD = "optplan-silent"


@dataclass(frozen=True)
class Event:
    """Something that happened during a solve, in a stage such as ``bound``; None for what is not known."""

    stage: str
    elapsed_s: float
    objective: float | None = None
    bound: float | None = None
    fraction: float | None = None  #: Of the work, from 0 to 1.


Listener = Callable[[Event], None]


class OutOfTime(Exception):  # noqa: N818 - no error: an end that was asked for
    """The time that was given is over."""


class Interruption:
    """A wish for an end, which whoever waits for a solve may utter: from a signal handler or another thread."""

    def __init__(self) -> None:
        self.wanted = False

    def interrupt(self) -> None:
        """Ask for an end, with what is known by then. There is no way back."""
        self.wanted = True


_HEARD: ContextVar[Interruption | None] = ContextVar("interruption", default=None)


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Have all solves of a block listen to one interruption, instead of one around it.

    Yields
    ------
    Interruption
        Calling its ``interrupt()`` ends the solve that runs, and all that follow in the block, with the best plan found
        so far and the termination ``interrupted``.
    """
    interruption = Interruption()
    token = _HEARD.set(interruption)
    try:
        yield interruption
    finally:
        _HEARD.reset(token)


def _heard() -> Interruption:
    return _HEARD.get() or Interruption()


@dataclass
class Stopwatch:
    """Time since it was made, its limit, the listener, and who may interrupt: what a solver carries along."""

    # The clock counts wall time for whoever waits; ``time.thread_time``, the processor time of the thread that asks,
    # for the judge, whose verdict must not depend on what else the machine has to do.

    limit_s: float | None = None
    listener: Listener | None = None
    clock: Callable[[], float] = time.perf_counter
    #: That of the block of :func:`interruptible` in which it was made, or its own.
    _interruption: Interruption = field(default_factory=_heard)
    _start: float = field(init=False)
    #: When, on the wall, a limit of processor time can have passed at the earliest.
    _earliest: float = field(init=False, default=-math.inf)

    def __post_init__(self) -> None:
        """Start."""
        self._start = self.clock()

    @property
    def elapsed_s(self) -> float:
        """Seconds of the clock since the stopwatch was made."""
        return self.clock() - self._start

    @property
    def remaining_s(self) -> float | None:
        """Seconds left, never below zero and none after an interruption; None without a limit."""
        if self.interrupted:
            return 0.0
        return None if self.limit_s is None else max(0.0, self.limit_s - self.elapsed_s)

    @property
    def expired(self) -> bool:
        """Whether the limit has passed, or somebody has asked for an end."""
        return self.interrupted or (self.limit_s is not None and self._has_passed(self.limit_s))

    def _has_passed(self, limit_s: float) -> bool:
        """Return whether so much time has passed; asking for processor time takes long, and it never runs ahead."""
        if self.clock is not time.thread_time:
            return self.elapsed_s >= limit_s
        now = time.perf_counter()
        if now < self._earliest:
            return False
        left = limit_s - self.elapsed_s
        self._earliest = now + left
        return left <= 0.0

    @property
    def interrupted(self) -> bool:
        """Whether somebody has asked for an end."""
        return self._interruption.wanted

    def interrupt(self) -> None:
        """Ask for an end, as if the limit had passed now."""
        self._interruption.interrupt()

    def require(self) -> None:
        """Raise once the limit has passed."""
        if self.expired:
            raise OutOfTime

    def emit(
        self,
        stage: str,
        *,
        objective: float | None = None,
        bound: float | None = None,
        fraction: float | None = None,
    ) -> None:
        """Tell the listener, if there is one, where the solve is."""
        if self.listener is not None:
            self.listener(Event(stage, self.elapsed_s, objective, bound, fraction))


def end_with_parent() -> None:
    """Have this process end as soon as the one that started it has: the initializer of pools of processes."""
    # Without it, processes of a pool whose parent was ended by a signal go on until their present work is done.
    from multiprocessing import parent_process

    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_outlive, args=(parent,), name=SILENT_THREAD, daemon=True).start()


def _outlive(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)
