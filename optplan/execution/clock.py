"""The virtual clock: things that are to happen, in the order of time and, at one time, in the order of scheduling."""

from __future__ import annotations

import heapq
import math
from typing import Generic, TypeVar

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
