"""Who gets how many GPUs where not everybody simply keeps what it holds."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from operator import attrgetter
from typing import TypeAlias

from optplan.execution.online.jobs import ActiveJob, Order
from optplan.execution.online.stock import Stock

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

    def __init__(self, claims: Iterable[Claim] = ()) -> None:
        self._kin: dict[Kin, list[Claim]] = {}
        for one in sorted(claims, key=_rank):
            self._kin.setdefault(one.kin, []).append(one)

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
    stopped = []
    if stock.may_stop(scarce):
        for one in sorted(running, key=_rank, reverse=True):
            stops = not first_come and one.kind in scarce
            if one.got and (stops or stock.is_above(one.got_kind)):
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
