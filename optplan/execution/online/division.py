"""Who gets how many GPUs where not everybody simply keeps what it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optplan.execution.online.jobs import ActiveJob, Order, rank_claim
from optplan.execution.online.stock import Stock


@dataclass(slots=True, eq=False)
class Claim:
    """A job that wants GPUs.

    Parameters
    ----------
    job
        Which.
    wanted, kind
        What the table says that it holds.
    held, held_kind
        What it holds.
    got, got_kind
        What it gets.
    """

    job: ActiveJob
    wanted: int
    kind: str
    held: int
    held_kind: str
    got: int = 0
    got_kind: str = ""

    @property
    def is_served(self) -> bool:
        """Whether it gets what it wants."""
        return self.got == self.wanted and self.got_kind == self.kind


def divide(claims: Sequence[Claim], stock: Stock, scarce: frozenset[str]) -> None:
    """Divide what is there among those who want something else than they hold.

    Parameters
    ----------
    claims
        Their ``got`` is set. Where somebody may be stopped, all jobs are among them.
    stock
        What is there; what is held now counts as used.
    scarce
        Types of which more is wanted than there will ever be.
    """
    rules = stock.rules
    ordered = sorted(claims, key=lambda one: rank_claim(one.job, one.held, rules.order))
    for one in ordered:
        one.got, one.got_kind = one.held, one.held_kind
        if one.held > one.wanted and one.held_kind == one.kind:
            _give(one, one.wanted, stock)
    for one in reversed(ordered):
        stops = rules.order is not Order.FIRST_COME and one.kind in scarce
        if one.got and (stops or stock.is_above(one.got_kind)):
            _give(one, 0, stock)
    running = [one for one in ordered if one.got and not one.is_served]
    grown = True
    while grown:  # one that goes to another type leaves room to those before it
        grown = False
        for one in running:
            grown |= _grow(one, stock)
    unserved = {one.kind for one in running if not one.is_served}
    _start([one for one in ordered if not one.got], stock, scarce, unserved)


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


def _start(waiting: Sequence[Claim], stock: Stock, scarce: frozenset[str], unserved: set[str]) -> None:
    """Start those for whom there is room; where more nodes come, the first for whom there is not on what is left.

    Where somebody runs on less than it wants already, what is left is for him. Of a type that is scarce nobody is put
    on less than it wants, which would last: with first come nobody overtakes, else whoever fits does.
    """
    barred: set[str] = set()
    for one in waiting:
        room = 0 if one.kind in barred else stock.room(one.kind)
        if room >= one.wanted:
            _give(one, one.wanted, stock)
        elif one.kind in scarce:
            if stock.rules.order is Order.FIRST_COME:
                barred.add(one.kind)
        elif one.kind not in unserved:
            part = stock.rules.largest_runnable(one.job.job_class, room)
            if part:
                _give(one, part, stock)
                unserved.add(one.kind)
