"""How jobs get on, on a clock that jumps: pauses, epochs, what they held and how long they trained.

It is stated here once. Streams on the virtual clock and the simulated cluster say what jobs hold, and ask this when
their epochs end.

The virtual clock: things that are to happen, in the order of time and, at one time, in the order of scheduling.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import Generic, NamedTuple, TypeVar

#: What rounding may leave of a time, relative to it.
_ROUNDING = 1e-12


class Course(NamedTuple):
    """What each epoch takes (E,), and what all before it do (E + 1,): seconds, or GPU-seconds."""

    each: list[float]
    until: list[float]

    @classmethod
    def of(cls, each: Iterable[float]) -> Course:
        """Add up."""
        listed = list(each)
        return cls(listed, list(accumulate(listed, initial=0.0)))

    def at(self, epoch: int, left: float) -> float:
        """Return what has been done when so much of an epoch is left."""
        return self.until[epoch + 1] - left * self.each[epoch]


_NOTHING = Course([], [])


@dataclass(eq=False, slots=True, kw_only=True)
class Progress:
    """Where a job stands, and what it has held, as of ``settled_s``."""

    # Epochs take ``stretch`` times what the course says that belongs to what it holds; ``left`` is the share of the
    # present one still to be done. After its present pause it goes on at ``goes_on_s``, up to ``target`` epochs in all.
    # On what it holds, the present epoch began at ``begun_s``, with ``begun`` of it still to be done.

    epochs_done: int = 0
    left: float = 1.0
    gpus: int = 0
    goes_on_s: float = 0.0
    settled_s: float = 0.0
    begun_s: float = 0.0
    begun: float = 1.0
    course: Course = _NOTHING
    stretch: float = 1.0
    target: int = 0
    gpu_s: float = 0.0
    held_s: float = 0.0
    paused_s: float = 0.0
    trained_s: float = 0.0

    @property
    def epoch_s(self) -> float:
        """Seconds of its present epoch on what it holds."""
        return self.course.each[self.epochs_done] * self.stretch

    @property
    def trains_from_s(self) -> float:
        """From when on it trains, and has not been settled."""
        return max(self.settled_s, self.goes_on_s)

    @property
    def ends_s(self) -> float:
        """When it will have done its target, should it keep what it holds."""
        until = self.course.until
        rest_s = (until[self.target] - until[self.epochs_done + 1]) * self.stretch
        return self.trains_from_s + (self.left * self.epoch_s + rest_s)

    def hold(self, gpus: int, course: Course, goes_on_s: float) -> None:
        """Let a settled job hold GPUs from now on, on which epochs take what a course says."""
        self.gpus, self.course, self.goes_on_s = gpus, course, goes_on_s
        self.begun_s, self.begun = goes_on_s, self.left

    def settle(self, now_s: float) -> None:
        """Account for the time until now; it ends no more epochs than up to its target."""
        if self.gpus:
            since_s, from_s = self.settled_s, min(self.trains_from_s, now_s)
            self.gpu_s += self.gpus * (now_s - since_s)
            self.held_s += now_s - since_s
            self.paused_s += from_s - since_s
            if from_s < now_s:
                epoch, left = self._find(now_s - from_s)
                trained = self.course.at(epoch, left) - self.course.at(self.epochs_done, self.left)
                self.epochs_done, self.left = epoch, left
                self.trained_s += trained * self.stretch
        self.settled_s = now_s

    def finish(self) -> None:
        """Let a job that was settled when it ends its target have done that, whatever rounding says."""
        self.epochs_done, self.left = self.target, 1.0
        self.begun_s, self.begun = self.settled_s, 1.0

    def look(self, now_s: float) -> tuple[int, float]:
        """Return how many epochs a job that holds GPUs has done by now, and when it ends the present one."""
        begun_s = self.trains_from_s
        epoch, left = self._find(max(now_s - begun_s, 0.0))
        return epoch, max(now_s, begun_s) + left * self.course.each[epoch] * self.stretch

    def attained_gpu_s(self, now_s: float) -> float:
        """Return the GPU-seconds that it has held until now."""
        return self.gpu_s + self.gpus * (now_s - self.settled_s)

    def _find(self, trained_s: float) -> tuple[int, float]:
        """Return the epoch in which it is after so many seconds more, and what is left of that."""
        if self.target == self.epochs_done + 1:  # what comes most
            epoch_s = self.epoch_s
            return self.epochs_done, max(self.left - trained_s / epoch_s, 0.0) if epoch_s else 0.0
        each, until = self.course
        last, end = self.target - 1, until[self.target]
        at = min(self.course.at(self.epochs_done, self.left) + trained_s / self.stretch, end) if self.stretch else end
        epoch = min(bisect_right(until, at * (1.0 + _ROUNDING), self.epochs_done + 1) - 1, last)
        return epoch, min((until[epoch + 1] - at) / each[epoch], 1.0) if each[epoch] else 0.0


ItemT = TypeVar("ItemT")


class VirtualClock(Generic[ItemT]):
    """A clock, in the caller's unit, that jumps from one thing that is to happen to the next."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        self._queue: list[tuple[float, int, ItemT]] = []
        self._waiting: set[int] = set()
        self._made = 0

    def __len__(self) -> int:
        """How many things are to happen."""
        return len(self._waiting)

    def schedule(self, at: float, item: ItemT) -> int:
        """Let something happen at a time, what lies in the past now; the ticket cancels it."""
        ticket, self._made = self._made, self._made + 1
        heapq.heappush(self._queue, (max(at, self.now), ticket, item))
        self._waiting.add(ticket)
        return ticket

    def cancel(self, ticket: int) -> None:
        """Let something not happen; what has happened or was cancelled is left alone."""
        self._waiting.discard(ticket)

    @property
    def next_at(self) -> float:
        """When the next thing happens; infinite when nothing is to happen."""
        while self._queue and self._queue[0][1] not in self._waiting:
            heapq.heappop(self._queue)
        return self._queue[0][0] if self._queue else math.inf

    def advance(self, until: float = math.inf) -> ItemT | None:
        """Move to the next thing and return it; where it lies beyond ``until``, stay and return None."""
        at = self.next_at
        if math.isinf(at) or at > until:
            return None
        self.now, ticket, item = heapq.heappop(self._queue)
        self._waiting.discard(ticket)
        return item
