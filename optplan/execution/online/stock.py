"""GPUs that are there: held, free, and how many more may be held."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from optplan.errors import DataError, InternalError, nearest_name_hint
from optplan.execution.online.jobs import Node, Order, Place, Rules


class Stock:
    """The GPUs of a cluster.

    Parameters
    ----------
    nodes
        By name.
    rules
        Types and limits.

    Attributes
    ----------
    used
        By type: the GPUs that are given to somebody.

    Raises
    ------
    DataError
        When a node has a type that the rules do not know, or no GPU.
    """

    def __init__(self, nodes: Mapping[str, Node], rules: Rules) -> None:
        self.rules = rules
        self._nodes = nodes
        self._kinds: dict[str, str] = {}
        self._free: dict[str, int] = {}
        self._there = dict.fromkeys(rules.gpus_per_node, 0)
        self.used = dict.fromkeys(rules.gpus_per_node, 0)
        self._most = math.inf if rules.most_gpus is None else rules.most_gpus
        for name, node in nodes.items():
            kind, gpus = node.gpu_type, node.gpus
            if kind not in self._there:
                hint = nearest_name_hint(kind, self._there)
                raise DataError(f"nodes.{name}.gpu_type", f"got {kind!r}", hint)
            if gpus < 1:
                raise DataError(f"nodes.{name}.gpus", f"got {gpus}", "a node has at least 1 GPU")
            self._kinds[name], self._free[name] = kind, gpus
            self._there[kind] += gpus

    def count(self, place: Place) -> tuple[int, str]:
        """Take what a job holds, and return how many GPUs of which type; none where that is not there to hold."""
        free, kinds = self._free, self._kinds
        if len(place) == 1:  # as most are
            for name, gpus in place.items():
                if name in free and 0 < gpus <= free[name]:
                    free[name] -= gpus
                    self.used[kinds[name]] += gpus
                    return gpus, kinds[name]
            return 0, ""
        held_kinds = {kinds.get(name) for name in place}
        if len(held_kinds) != 1 or None in held_kinds or any(not 0 < n <= free[name] for name, n in place.items()):
            return 0, ""
        for name, gpus in place.items():
            free[name] -= gpus
        kind, total = self._kinds[next(iter(place))], sum(place.values())
        self.used[kind] += total
        return total, kind

    def kind_of(self, place: Place) -> str:
        """Return the type of what a job holds."""
        return self._kinds[next(iter(place))]

    def give_back(self, place: Place) -> None:
        """Make a job's GPUs free to be taken."""
        for name, gpus in place.items():
            self._free[name] += gpus

    def room(self, kind: str) -> int:
        """Return how many more GPUs of a type can be used."""
        capped = min(self.rules.cap(kind) - self.used[kind], self._most - sum(self.used.values()))
        return max(0, int(min(self._there[kind] - self.used[kind], capped)))

    def is_above(self, kind: str) -> bool:
        """Whether more of a type, or of all, is used than may be."""
        return self.used[kind] > self.rules.cap(kind) or sum(self.used.values()) > self._most

    def may_stop(self, scarce: frozenset[str]) -> bool:
        """Whether somebody who runs may have to stop."""
        by_order = bool(scarce) and self.rules.order is not Order.FIRST_COME
        return by_order or any(map(self.is_above, self.used))

    def sort_free(self) -> FreeGpus:
        """Sort nodes by what is free on them, so that it can be taken."""
        return FreeGpus(self._kinds, self._free)

    def list_idle(self, wanted: Mapping[str, int]) -> tuple[str, ...]:
        """List nodes that nobody holds, the last ones first, as many as there are above those that are wanted."""
        there = Counter(self._kinds.values())
        surplus = {kind: there[kind] - number for kind, number in wanted.items() if there[kind] > number}
        if not surplus:
            return ()
        idle = []
        for name in reversed(list(self._nodes)):
            kind = self._kinds[name]
            if surplus.get(kind, 0) > 0 and self._free[name] == self._nodes[name].gpus:
                surplus[kind] -= 1
                idle.append(name)
        return tuple(idle)


class FreeGpus:
    """Nodes by what is free on them. GPUs are taken on as few nodes as possible, and nobody is moved for that.

    What it is made from, by node, are types and the GPUs that nobody holds; these are kept up to date.
    """

    def __init__(self, kinds: Mapping[str, str], free: dict[str, int]) -> None:
        self._free = free
        most = max(free.values(), default=0)
        # Each a dict for its order: what is taken must not depend on hashes.
        self._by_free: dict[str, list[dict[str, None]]] = {
            kind: [{} for _ in range(most + 1)] for kind in dict.fromkeys(kinds.values())
        }
        for name, gpus in free.items():
            self._by_free[kinds[name]][gpus][name] = None

    def take(self, gpus: int, kind: str) -> dict[str, int]:
        """Take GPUs of a type: of the fullest node that has them all, else of the emptiest nodes one after another."""
        buckets = self._by_free.get(kind, [])
        place: dict[str, int] = {}
        while gpus:
            roomy = next((one for one in buckets[gpus:] if one), None)
            bucket = roomy or next((one for one in reversed(buckets[1:]) if one), None)
            if bucket is None:
                raise InternalError(f"{gpus} GPUs of {kind} were promised, and none is free")
            name = next(iter(bucket))
            count = min(gpus, self._free[name])
            del bucket[name]
            self._free[name] -= count
            buckets[self._free[name]][name] = None
            place[name] = count
            gpus -= count
        return place
