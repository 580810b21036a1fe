"""GPUs that are there: held, free, and how many more may be held."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Mapping
from dataclasses import dataclass

from optplan.errors import DataError, InternalError, nearest_name_hint
from optplan.execution.online.jobs import Node, Order, Place, Rules

#: Above the numbers of all nodes: what a decision takes from a node places it from here on, behind the others.
_LATER = 1 << 62


@dataclass(slots=True)
class _There:
    """A node that is there: what is free on it, and its place among nodes that are equally full, now and by itself."""

    node: Node
    free: int
    at: tuple[int, str]
    own: tuple[int, str]


class Stock:
    """The GPUs of a cluster, of which ``used`` are given away, by type.

    They are taken on as few nodes as possible, and nobody is moved for that.
    """

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.used = dict.fromkeys(rules.gpus_per_node, 0)
        self._most = math.inf if rules.most_gpus is None else rules.most_gpus
        self._nodes: dict[str, _There] = {}
        # By type: nodes, and their GPUs.
        self._counts = dict.fromkeys(rules.gpus_per_node, 0)
        self._gpus = dict.fromkeys(rules.gpus_per_node, 0)
        # By type: the places of nodes by what is free on them, and of those that nobody holds.
        self._by_free: dict[str, list[list[tuple[int, str]]]] = {kind: [] for kind in self.used}
        self._empty: dict[str, list[tuple[int, str]]] = {kind: [] for kind in self.used}
        self._taken = 0

    def __contains__(self, name: str) -> bool:
        """Whether a node is there."""
        return name in self._nodes

    def add(self, name: str, node: Node, number: int) -> None:
        """Add a node; among equally full ones, those with smaller numbers are taken first."""
        kind, gpus = node.gpu_type, node.gpus
        if kind not in self._gpus:
            raise DataError(f"nodes.{name}.gpu_type", f"got {kind!r}", nearest_name_hint(kind, self._gpus))
        if gpus < 1:
            raise DataError(f"nodes.{name}.gpus", f"got {gpus}", "a node has at least 1 GPU")
        at = (number, name)
        self._nodes[name] = _There(node, gpus, at, at)
        self._counts[kind] += 1
        self._gpus[kind] += gpus
        buckets = self._by_free[kind]
        buckets += [[] for _ in range(gpus + 1 - len(buckets))]
        insort(buckets[gpus], at)
        insort(self._empty[kind], at)

    def remove(self, name: str) -> None:
        """Take a node away that nobody holds."""
        there = self._nodes.pop(name)
        kind, gpus = there.node.gpu_type, there.node.gpus
        self._counts[kind] -= 1
        self._gpus[kind] -= gpus
        _discard(self._by_free[kind][gpus], there.at)
        _discard(self._empty[kind], there.own)

    def is_idle(self, name: str) -> bool:
        """Whether nobody holds a GPU of a node."""
        there = self._nodes[name]
        return there.free == there.node.gpus

    def hold(self, place: Place) -> tuple[int, str]:
        """Take what a job holds, and return how many GPUs of which type; none where that is not there to hold."""
        kind, total = "", 0
        for name, gpus in place.items():
            there = self._nodes.get(name)
            if there is None or not 0 < gpus <= there.free or kind not in ("", there.node.gpu_type):
                return 0, ""
            kind, total = there.node.gpu_type, total + gpus
        for name, gpus in place.items():
            there = self._nodes[name]
            self._shift(there, -gpus, there.own)
        return total, kind

    def take(self, gpus: int, kind: str) -> dict[str, int]:
        """Take GPUs of a type: of the fullest node that has them all, else of the emptiest nodes one after another.

        Nodes that come to be as full as others are taken after these, until :meth:`free` was called for them.
        """
        buckets, place = self._by_free[kind], dict[str, int]()
        while gpus:
            roomy = next((one for one in buckets[gpus:] if one), None)
            bucket = roomy or next((one for one in reversed(buckets[1:]) if one), None)
            if bucket is None:
                raise InternalError(f"{gpus} GPUs of {kind} were promised, and none is free")
            name = bucket[0][1]
            there, self._taken = self._nodes[name], self._taken + 1
            place[name] = min(gpus, there.free)
            gpus -= place[name]
            self._shift(there, -place[name], (_LATER + self._taken, name))
        return place

    def free(self, place: Place) -> None:
        """Make GPUs free to be taken."""
        for name, gpus in place.items():
            there = self._nodes[name]
            self._shift(there, gpus, there.own)

    def _shift(self, there: _There, gpus: int, at: tuple[int, str]) -> None:
        """Change what is free on a node, and its place."""
        kind, size = there.node.gpu_type, there.node.gpus
        buckets = self._by_free[kind]
        _discard(buckets[there.free], there.at)
        if there.free == size:
            _discard(self._empty[kind], there.own)
        there.free, there.at = there.free + gpus, at
        insort(buckets[there.free], at)
        if there.free == size:
            insort(self._empty[kind], there.own)

    def room(self, kind: str) -> int:
        """Return how many more GPUs of a type can be used."""
        capped = min(self.rules.cap(kind) - self.used[kind], self._most - sum(self.used.values()))
        return max(0, int(min(self._gpus[kind] - self.used[kind], capped)))

    def is_above(self, kind: str) -> bool:
        """Whether more of a type, or of all, is used than may be."""
        return self.used[kind] > self.rules.cap(kind) or sum(self.used.values()) > self._most

    def may_stop(self, scarce: frozenset[str]) -> bool:
        """Whether somebody who runs may have to stop."""
        by_order = bool(scarce) and self.rules.order is not Order.FIRST_COME
        return by_order or any(map(self.is_above, self.used))

    def list_idle(self, wanted: Mapping[str, int]) -> tuple[str, ...]:
        """List nodes that nobody holds, the last ones first, as many as there are above those that are wanted."""
        surplus = {kind: self._counts[kind] - number for kind, number in wanted.items() if self._counts[kind] > number}
        idle = [one for kind, number in surplus.items() for one in self._empty[kind][-number:]]
        return tuple(name for _, name in sorted(idle, reverse=True))


def _discard(places: list[tuple[int, str]], place: tuple[int, str]) -> None:
    del places[bisect_left(places, place)]
