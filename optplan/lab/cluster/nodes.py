"""Nodes of a simulated cluster: who is on which, and which are rented."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable

from optplan.errors import InternalError, UsageError
from optplan.execution.online.stock import FreeGpus
from optplan.lab.cluster.jobs import Places
from optplan.schema import LARGEST_COUNT

_NONE: frozenset[int] = frozenset()


class Nodes:
    """Nodes with the same number of GPUs: a fixed number of them, or as many as are needed."""

    # A node that is rented again within ``reclaim_s`` of its return is there after ``warm_start_s``, others after
    # ``start_s``; ``reclaimed_s`` is the time in between.

    def __init__(
        self,
        gpus_per_node: int,
        fixed: int | None = None,
        *,
        start_s: float = 0.0,
        warm_start_s: float | None = None,
        reclaim_s: float = 0.0,
    ) -> None:
        for what, number in (("gpus_per_node", gpus_per_node), ("nodes", 1 if fixed is None else fixed)):
            if not 1 <= number <= LARGEST_COUNT:
                raise UsageError(f"{what}: got {number}; from 1 to {LARGEST_COUNT:,} are allowed")
        if not (math.isfinite(start_s) and start_s >= 0.0):
            raise UsageError(f"start_s: got {start_s!r}; seconds of at least zero are allowed")
        self.gpus_per_node = gpus_per_node
        self.is_fixed = fixed is not None
        self.rented = fixed or 0
        self.used = 0
        self.start_s = start_s
        self._warm_start_s = start_s if warm_start_s is None else warm_start_s
        self._reclaim_s = reclaim_s
        self.have_to_start = fixed is None and max(start_s, self._warm_start_s) > 0.0
        self._leaving: deque[float] = deque()  # when nodes that were returned are reclaimed, ascending
        self.reclaimed_s = 0.0
        self._free = FreeGpus[int](gpus_per_node)
        self._ready_s: dict[int, float] = {}
        self._made = self.rented
        self._names: tuple[int, ...] | None = None  # until nodes come or go
        for node in range(self.rented):
            self._free.add(node)

    @property
    def gpus(self) -> float:
        """GPUs of the cluster; infinite where nodes are rented as they are needed."""
        return self.rented * self.gpus_per_node if self.is_fixed else math.inf

    def take(self, gpus: int, now_s: float) -> tuple[Places, float]:
        """Take GPUs; return where they are, and when all of their nodes can be used."""
        if gpus > self.gpus - self.used:
            raise InternalError(f"{gpus} GPUs were asked for where {self.gpus - self.used:g} are free")
        place = self._free.take(gpus, None if self.is_fixed else lambda: self._rent(now_s))
        self.used += gpus
        return tuple(place.items()), self._find_ready(place, now_s)

    def take_places(self, places: Places, now_s: float) -> float:
        """Take GPUs of nodes that somebody chose; return when all of these can be used."""
        for node, count in places:
            free = self._free.by_node.get(node, 0)
            if not 0 < count <= free:
                raise InternalError(f"{count} GPUs of node {node} were asked for where {free} are free")
            self._free.shift(node, -count)
            self.used += count
        return self._find_ready((node for node, _ in places), now_s)

    def release(self, places: Places, now_s: float) -> None:
        """Give GPUs back; nodes that are empty then are no longer rented, unless somebody chooses their number."""
        for node, count in places:
            self._free.shift(node, count)
            self.used -= count
            if not (self.is_fixed or self.have_to_start) and self._free.by_node[node] == self.gpus_per_node:
                self._return(node, now_s)

    @property
    def names(self) -> tuple[int, ...]:
        """Names of the nodes that are rented, ascending."""
        if self._names is None:
            self._names = tuple(self._free.by_node)
        return self._names

    def list_starting(self, now_s: float) -> frozenset[int]:
        """List the nodes that cannot be used yet."""
        if not self._ready_s:
            return _NONE
        return frozenset(node for node, ready_s in self._ready_s.items() if ready_s > now_s)

    def rent(self, count: int, now_s: float) -> dict[int, float]:
        """Rent more nodes, which stay until they are retired; return when each of them can be used."""
        made = [self._rent(now_s) for _ in range(count)]
        return {node: self._find_ready([node], now_s) for node in made}

    def emptiest(self, count: int) -> tuple[int, ...]:
        """Return nodes that are best given up: those with the most free GPUs, the newest of them first."""
        free = self._free.by_node
        return tuple(sorted(free, key=lambda node: (free[node], node), reverse=True)[:count])

    def retire(self, nodes: Iterable[int], now_s: float) -> None:
        """Return nodes on which nobody is."""
        for node in nodes:
            if self._free.by_node[node] != self.gpus_per_node:
                raise InternalError(f"node {node} was given up while a job is on it")
            self._return(node, now_s)

    def lose(self, node: int, now_s: float) -> None:
        """Let a node on which nobody is any more be taken away; where their number is fixed, another is rented."""
        if node in self._free.by_node:
            self._remove(node)
        elif self._reclaim_s:  # it was returned just now, when it became empty: nobody pays for it any more
            self._leaving.pop()
            self.reclaimed_s -= self._reclaim_s
        if self.is_fixed:
            self._rent(now_s)

    def _return(self, node: int, now_s: float) -> None:
        self._remove(node)
        if self._reclaim_s:
            self.reclaimed_s += self._reclaim_s
            self._leaving.append(now_s + self._reclaim_s)

    def _remove(self, node: int) -> None:
        self._free.remove(node)
        self._ready_s.pop(node, None)
        self._names = None
        self.rented -= 1

    def _find_ready(self, nodes: Iterable[int], now_s: float) -> float:
        """Return when all of some nodes can be used."""
        return max(now_s, *(self._ready_s.get(node, now_s) for node in nodes))

    def _rent(self, now_s: float) -> int:
        node, self._made = self._made, self._made + 1
        start_s = self.start_s
        while self._leaving and self._leaving[0] <= now_s:
            self._leaving.popleft()
        if self._leaving:
            self.reclaimed_s -= self._leaving.pop() - now_s
            start_s = self._warm_start_s
        if start_s:
            self._ready_s[node] = now_s + start_s
        self._names = None
        self.rented += 1
        self._free.add(node)
        return node
