"""Who gets how many GPUs where not everybody simply keeps what it holds.

GPUs that are there: on which nodes they are free, and how many more may be held.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from operator import attrgetter
from typing import Generic, TypeAlias, TypeVar

from optplan.errors import DataError, InternalError, nearest_name_hint
from optplan.execution.online.jobs import ActiveJob, Order, Place, Rules

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

    def list_idle(self, wanted: Mapping[str, int]) -> tuple[str, ...]:
        """List nodes that nobody holds, the last ones first, as many as there are above those that are wanted."""
        surplus = {kind: len(self._free[kind].by_node) - number for kind, number in wanted.items()}
        idle = [one for kind, number in surplus.items() if number > 0 for one in self._free[kind].empty[-number:]]
        return tuple(name for _, name in sorted(idle, reverse=True))


#: What those have in common of whom none fits where one does not: type, GPUs, class.
Kin: TypeAlias = tuple[str, int, str]
Rank: TypeAlias = tuple[float, float, str]
_rank = attrgetter("rank")


@dataclass(slots=True, eq=False)
class Claim:
    """A job that wants GPUs.

    Whose ``rank`` is less comes first; no two have the same. ``number`` is how many jobs came before it.
    """

    job: ActiveJob
    number: int
    wanted: int
    kind: str
    held: int
    held_kind: str
    rank: Rank
    got: int = 0
    got_kind: str = ""

    @property
    def kin(self) -> Kin:
        """What it has in common with others of whom none fits where it does not."""
        return self.kind, self.wanted, self.job.job_class

    @property
    def is_served(self) -> bool:
        """Whether it gets what it wants."""
        return self.got == self.wanted and self.got_kind == self.kind

    @property
    def is_changed(self) -> bool:
        """Whether it gets something else than it holds."""
        return (self.got, self.got_kind) != (self.held, self.held_kind)

    def keep(self) -> None:
        """Let it get what it holds."""
        self.got, self.got_kind = self.held, self.held_kind


class Line:
    """Those who hold nothing, kin beside kin, each by rank."""

    def __init__(self) -> None:
        self._kin: dict[Kin, list[Claim]] = {}

    def add(self, one: Claim) -> None:
        """Let one wait."""
        insort(self._kin.setdefault(one.kin, []), one, key=_rank)

    def remove(self, one: Claim) -> None:
        """Let one wait no more."""
        kin = self._kin[one.kin]
        del kin[bisect_left(kin, one.rank, key=_rank)]
        if not kin:
            del self._kin[one.kin]

    def walk(self, others: Iterable[Claim], closed: set[Kin | str]) -> Iterator[Claim]:
        """Yield those who wait, and others, by rank; kin and types that are in ``closed`` by then are left out."""
        lists = [kin for kin in self._kin.values() if kin[0].kin not in closed and kin[0].kind not in closed]
        heads: list[tuple[Rank, Claim, Iterator[Claim]]] = [(one.rank, one, iter(())) for one in others]
        for rest in map(iter, lists):
            first = next(rest)
            heads.append((first.rank, first, rest))
        heapify(heads)
        while heads:
            _, one, rest = heads[0]
            after = None
            if one.kind not in closed and one.kin not in closed:
                yield one
                after = next(rest, None)
            if after is None:
                heappop(heads)
            else:
                heapreplace(heads, (after.rank, after, rest))


def divide(
    running: Iterable[Claim], short: Iterable[Claim], line: Line, stock: Stock, scarce: frozenset[str]
) -> list[Claim]:
    """Divide what is there among those who want something else than they hold; return those it looked at."""
    first_come = stock.rules.order is Order.FIRST_COME
    seen = {one.number: one for one in short}
    ordered = sorted(seen.values(), key=_rank)
    for one in ordered:
        if one.held > one.wanted and one.held_kind == one.kind:
            _give(one, one.wanted, stock)
    stopped, stopping = [], frozenset[str]() if first_come else scarce
    if stopping or any(map(stock.is_above, stock.used)):
        for one in sorted(running, key=_rank, reverse=True):
            if one.got and (one.kind in stopping or stock.is_above(one.got_kind)):
                _give(one, 0, stock)
                stopped.append(one)
                seen[one.number] = one
    growing = [one for one in ordered if one.got and not one.is_served]
    grown = True
    while grown:  # one that goes to another type leaves room to those before it
        grown = False
        for one in growing:
            grown |= _grow(one, stock)
    unserved = {one.kind for one in growing if not one.is_served}
    for one in _start(line, stopped, stock, scarce, unserved):
        seen[one.number] = one
    return list(seen.values())


def _give(one: Claim, gpus: int, stock: Stock) -> None:
    if one.got:
        stock.used[one.got_kind] -= one.got
    one.got, one.got_kind = gpus, one.kind if gpus else ""
    if gpus:
        stock.used[one.kind] += gpus


def _grow(one: Claim, stock: Stock) -> bool:
    """Give a running job its new width if that is there, and say if it was; no pause is spent on a part of it."""
    if one.is_served:
        return False
    stock.used[one.got_kind] -= one.got
    room = stock.room(one.kind)
    stock.used[one.got_kind] += one.got
    if room >= one.wanted:
        _give(one, one.wanted, stock)
    return one.is_served


def _start(
    line: Line, stopped: Sequence[Claim], stock: Stock, scarce: frozenset[str], unserved: set[str]
) -> list[Claim]:
    """Start those for whom there is room; where more nodes come, the first for whom there is not on what is left.

    Where somebody runs on less than it wants already, what is left is for him. Of a type that is scarce nobody is put
    on less than it wants, which would last: with first come nobody overtakes, else whoever fits does. Room becomes only
    less on the way, so that who does not fit speaks for its kin.
    """
    started: list[Claim] = []
    closed: set[Kin | str] = {kind for kind in stock.used if not stock.room(kind)}
    for one in line.walk(stopped, closed):
        room, gpus = stock.room(one.kind), one.wanted
        if room < gpus:
            bars = one.kind in scarce and stock.rules.order is Order.FIRST_COME
            closed.add(one.kind if bars else one.kin)
            gpus = 0
            if one.kind not in scarce and one.kind not in unserved:
                gpus = stock.rules.largest_runnable(one.job.job_class, room)
                unserved |= {one.kind} if gpus else set()
        if gpus:
            _give(one, gpus, stock)
            started.append(one)
            if gpus == room:
                closed.add(one.kind)
    return started
