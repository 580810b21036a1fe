"""GPUs that are there: on which nodes they are free, and how many more may be held."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from optplan.errors import DataError, InternalError, nearest_name_hint
from optplan.execution.online.jobs import Order, Place, Rules

#: More than there ever will be.
_PLENTY = 10**9

#: A node, by which equally full ones are taken in ascending order.
NodeT = TypeVar("NodeT", int, tuple[int, str])


class FreeGpus(Generic[NodeT]):
    """Nodes of a size, and what is free on them.

    GPUs are taken together: of the fullest node that has them all (whole nodes first), else of the emptiest ones, one
    after another. Nobody is moved for that. Streams and simulated clusters place jobs so.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        #: By node: what is free; in the order in which they came.
        self.by_node: dict[NodeT, int] = {}
        self._by_free: list[list[NodeT]] = [[] for _ in range(size + 1)]

    @property
    def empty(self) -> Sequence[NodeT]:
        """Nodes that nobody holds, ascending."""
        return self._by_free[self.size]

    def add(self, node: NodeT) -> None:
        """Let an empty node come."""
        self.by_node[node] = self.size
        insort(self._by_free[self.size], node)

    def remove(self, node: NodeT) -> None:
        """Let a node go."""
        self._leave(node, self.by_node.pop(node))

    def shift(self, node: NodeT, gpus: int) -> None:
        """Make more GPUs of a node free, or fewer."""
        free = self.by_node[node]
        self._leave(node, free)
        self.by_node[node] = free + gpus
        insort(self._by_free[free + gpus], node)

    def take(self, gpus: int, rent: Callable[[], bool] = lambda: False) -> dict[NodeT, int]:
        """Take GPUs; where it can ``rent`` another node, of that rather than of several that are used already."""
        place = dict[NodeT, int]()
        while gpus:
            roomy = next((nodes for nodes in self._by_free[min(gpus, self.size) :] if nodes), None)
            if roomy is None and rent():
                continue
            nodes = roomy or next((nodes for nodes in reversed(self._by_free[1:]) if nodes), None)
            if nodes is None:
                raise InternalError(f"{gpus} GPUs were promised, and none is free")
            node = nodes[0]
            place[node] = min(gpus, self.by_node[node])
            self.shift(node, -place[node])
            gpus -= place[node]
        return place

    def _leave(self, node: NodeT, free: int) -> None:
        nodes = self._by_free[free]
        del nodes[bisect_left(nodes, node)]


class Stock:
    """The GPUs of a cluster, of which ``used`` are given away, by type.

    Where nodes are there ``at_once``, those that are still to be rented can be taken as well: they are ``coming``.
    """

    def __init__(self, rules: Rules, *, at_once: bool = False) -> None:
        self.rules, self.at_once, self.coming = rules, at_once, list[str]()
        self.used = dict.fromkeys(rules.gpus_per_node, 0)
        self._most = math.inf if rules.most_gpus is None else rules.most_gpus
        sizes = rules.gpus_per_node if at_once else {}
        # By type, where they are there at once: how many nodes there may ever be.
        self._most_nodes = {kind: int(min(rules.most_of(kind), _PLENTY)) // size for kind, size in sizes.items()}
        self._free = {kind: FreeGpus[tuple[int, str]](size) for kind, size in rules.gpus_per_node.items()}
        # By name: the type of a node, and its place among those of the type.
        self._nodes: dict[str, tuple[str, tuple[int, str]]] = {}

    def __contains__(self, name: str) -> bool:
        """Whether a node is there."""
        return name in self._nodes

    def add(self, name: str, kind: str, number: int) -> None:
        """Add a node of a type; among equally full ones, those with smaller numbers are taken first."""
        if kind not in self._free:
            raise DataError(f"nodes.{name}.gpu_type", f"got {kind!r}", nearest_name_hint(kind, self._free))
        self._nodes[name] = kind, (number, name)
        self._free[kind].add((number, name))

    def remove(self, name: str) -> None:
        """Take a node away that nobody holds."""
        kind, node = self._nodes.pop(name)
        self._free[kind].remove(node)

    def is_idle(self, name: str) -> bool:
        """Whether nobody holds a GPU of a node."""
        kind, node = self._nodes[name]
        return self._free[kind].by_node[node] == self._free[kind].size

    def hold(self, place: Place) -> tuple[int, str]:
        """Take what a job holds, and return how many GPUs of which type; none where that is not there to hold."""
        kind, total = "", 0
        for name, gpus in place.items():
            found, node = self._nodes.get(name, ("", (0, "")))
            if not found or kind not in ("", found) or not 0 < gpus <= self._free[found].by_node[node]:
                return 0, ""
            kind, total = found, total + gpus
        for name, gpus in place.items():
            self._free[kind].shift(self._nodes[name][1], -gpus)
        return total, kind

    def take(self, gpus: int, kind: str) -> dict[str, int]:
        """Take GPUs of a type."""
        return {name: held for (_, name), held in self._free[kind].take(gpus, lambda: self._rent(kind)).items()}

    def cancel(self) -> None:
        """Let no more nodes come."""
        while self.coming:
            self.remove(self.coming.pop())

    def _rent(self, kind: str) -> bool:
        """Let another node come, if there may be one."""
        there = self._free[kind]
        if len(there.by_node) >= self._most_nodes.get(kind, 0):
            return False
        self.coming.append(f"+{len(self.coming)}")
        self.add(self.coming[-1], kind, _PLENTY + len(self.coming))
        return True

    def free(self, place: Place) -> None:
        """Make GPUs free to be taken."""
        for name, gpus in place.items():
            kind, node = self._nodes[name]
            self._free[kind].shift(node, gpus)

    def room(self, kind: str) -> int:
        """Return how many more GPUs of a type can be used."""
        there, used = self._free[kind], self.used[kind]
        capped = min(self.rules.cap(kind) - used, self._most - sum(self.used.values()))
        nodes = self._most_nodes.get(kind, len(there.by_node))
        return max(0, int(min(nodes * there.size - used, capped)))

    def count_held(self, kind: str) -> int:
        """Return on how many nodes of a type somebody is, or is to be."""
        return len(self._free[kind].by_node) - len(self._free[kind].empty)

    def is_above(self, kind: str) -> bool:
        """Whether more of a type, or of all, is used than may be."""
        return self.used[kind] > self.rules.cap(kind) or sum(self.used.values()) > self._most

    def may_stop(self, scarce: frozenset[str]) -> bool:
        """Whether somebody who runs may have to stop."""
        by_order = bool(scarce) and self.rules.order is not Order.FIRST_COME
        return by_order or any(map(self.is_above, self.used))

    def list_idle(self, wanted: Mapping[str, int]) -> tuple[str, ...]:
        """List nodes that nobody holds, the last ones first, as many as there are above those that are wanted."""
        surplus = {kind: len(self._free[kind].by_node) - number for kind, number in wanted.items()}
        idle = [one for kind, number in surplus.items() if number > 0 for one in self._free[kind].empty[-number:]]
        return tuple(name for _, name in sorted(idle, reverse=True))
