"""Progress as events: solvers emit, whoever is interested listens; nothing here prints."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

#: Seconds after which the judge leaves what it has not checked, and says so, unless it is given another limit.
VERIFY_LIMIT_S = 60.0


@dataclass(frozen=True)
class Event:
    """Something that happened during a solve.

    Parameters
    ----------
    stage
        A short name of what the solver is doing, such as ``bound`` or ``labels``.
    elapsed_s
        Seconds since the solve began.
    objective
        The incumbent's objective, in the formulation's unit; None before there is one.
    bound
        The best bound so far; None before there is one.
    fraction
        How much of the work is done, from 0 to 1; None when nobody knows.
    """

    stage: str
    elapsed_s: float
    objective: float | None = None
    bound: float | None = None
    fraction: float | None = None


Listener = Callable[[Event], None]


class OutOfTime(Exception):  # noqa: N818 - no error: an end that was asked for
    """The time that was given is over."""


@dataclass
class Stopwatch:
    """Wall time since it was made, its limit, and the listener: what a solver carries through its stages.

    Parameters
    ----------
    limit_s
        Seconds that the solve may take; None means no limit.
    listener
        Receives the events; None means nobody listens.
    """

    limit_s: float | None = None
    listener: Listener | None = None
    _start: float = field(default_factory=time.perf_counter)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the stopwatch was made."""
        return time.perf_counter() - self._start

    @property
    def remaining_s(self) -> float | None:
        """Seconds left, never below zero; None without a limit."""
        return None if self.limit_s is None else max(0.0, self.limit_s - self.elapsed_s)

    @property
    def expired(self) -> bool:
        """Whether the limit has passed."""
        return self.limit_s is not None and self.elapsed_s >= self.limit_s

    def require(self) -> None:
        """Raise once the limit has passed.

        Raises
        ------
        OutOfTime
            For whoever started the stopwatch; long loops of the judge call this.
        """
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
