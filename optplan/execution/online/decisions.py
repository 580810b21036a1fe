"""The decision of BOA Constrictor's scheduler (paper, section 5.2).

*Job allocation.* The table says how many GPUs a job holds, by its class and epoch. Whoever holds that many keeps its
place. The others are placed anew. Where nodes are short, a running job keeps what it holds until its new width is
there, one of those who wait runs on what is left, and the others wait for the cluster to grow.

*Cluster sizing.* The widths of all jobs, those who wait included, add up to the GPUs and so to the nodes that are
wanted, type by type. So who finds no node with room is put on several: nobody waits for a node to start while there are
GPUs. Where nodes are there *at once*, as simulations may have it, there is nothing to wait for: another is wanted
wherever a job would be on more nodes than it has to be, as far as quotas and ``most_gpus`` go.

The paper stops at what is rented as it is needed. With quotas or ``most_gpus``, demand can be more than will ever be
there: then an order says who is served (:class:`~optplan.execution.online.jobs.Order`). Nobody is put on what is left,
as that would last; with first come nobody overtakes, and with the other orders those who run may be stopped for others.
A width above all that may ever be there is cut to that.

An :class:`Allocator` is told what changes and looks at nothing else; :func:`decide` tells a new one everything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from optplan.errors import DataError, nearest_name_hint
from optplan.execution.online.division import Claim, Kin, Line, Stock, divide
from optplan.execution.online.jobs import ActiveJob, Place, Rules, Widths, rank_claim

_number = attrgetter("number")


@dataclass(frozen=True)
class Decision:
    """What is to be the case.

    ``places`` has, in the order in which jobs came, what each that was asked about, or is to be elsewhere, is to hold;
    empty where it waits. ``nodes`` is how many are wanted by type; ``short`` are jobs that then hold other GPUs than
    the table says, fewer as a rule; ``idle`` nodes are held by nobody and not wanted: they can be given back.
    Where nodes are there at once, places may be on ``coming`` ones, to be rented in this order before anybody moves.
    """

    places: Mapping[str, Place]
    nodes: Mapping[str, int]
    short: tuple[str, ...]
    idle: tuple[str, ...]
    coming: tuple[str, ...] = ()

    @property
    def waiting(self) -> tuple[str, ...]:
        """Jobs that are to hold nothing yet."""
        return tuple(name for name, place in self.places.items() if not place)


class Allocator:
    """Decides who holds what, and how many nodes are wanted; a decision costs what has changed since the last one."""

    def __init__(self, table: Widths, rules: Rules, *, at_once: bool = False) -> None:
        self._table, self._rules = table, rules
        self._most = {kind: rules.most_of(kind) for kind in rules.gpus_per_node}
        self._is_plain = len(self._most) == 1 or rules.most_gpus is None  # else nodes of types are granted by rank
        self._stock = Stock(rules, at_once=at_once and self._is_plain)
        self._demand = dict.fromkeys(rules.gpus_per_node, 0)
        self._claims: dict[str, Claim] = {}
        self._put = 0
        # Those who hold something, those of them who want something else, those who hold nothing, and those who say
        # that they hold what is not there.
        self._running: dict[str, Claim] = {}
        self._short: dict[str, Claim] = {}
        self._line = Line()
        self._displaced: dict[str, Claim] = {}
        self._decided: Decision | None = None

    def follow(self, table: Widths) -> None:
        """Decide by another table from now on."""
        if table is self._table:
            return
        self._table = table
        for one in list(self._claims.values()):
            self.put(one.job)

    def put(self, job: ActiveJob) -> None:
        """Tell of a job that has arrived, or of which something has changed."""
        before = self._claims.get(job.name)
        if before is None:
            self._put += 1
            self._file(job, self._put)
        elif job.place != before.job.place or (job.place and not before.held) or not self._stays(before, job):
            self._withdraw(before)
            self._file(job, before.number)

    def advance(self, name: str, epochs_done: int, expected_left_s: float) -> bool:
        """Tell how far a job is that stays where it is; say whether what was decided holds, else tell all of it."""
        one = self._claims[name]
        job = one.job
        known = job.place, job.row, job.submitted_s, job.attained_gpu_s
        return self._stays(one, ActiveJob(name, job.job_class, epochs_done, *known, expected_left_s, job.weight))

    def drop(self, name: str) -> None:
        """Tell of a job that is over."""
        one = self._claims.pop(name, None)
        if one is not None:
            self._withdraw(one)

    def add_node(self, name: str, gpu_type: str, number: int) -> None:
        """Tell of a node that can be used; among equally full ones those with smaller numbers are taken first."""
        self._stock.add(name, gpu_type, number)
        self._decided = None

    def drop_node(self, name: str) -> None:
        """Tell of a node that has gone; who was there holds nothing any more."""
        if name not in self._stock:
            return
        holders = [one for one in self._running.values() if name in one.job.place]
        for one in holders:
            self._withdraw(one)
        self._stock.remove(name)
        for one in holders:
            self._file(one.job, one.number)
        self._decided = None

    def decide(self) -> Decision:
        """Decide; what is said is said again until it is the case, or something else changes."""
        for one in sorted(self._displaced.values(), key=_number):
            self.put(one.job)  # nodes may have come, and others may have left
        if self._decided is None:
            self._decided = self._decide()
        return self._decided

    def _stays(self, one: Claim, job: ActiveJob) -> bool:
        """Take note of a job whose place is as before; say whether what was decided of it holds.

        It wants the same and is as urgent; or it has what it wants, is to keep it, and has become more urgent: whoever
        was before it and was served still fits, as all of them did together. Nor is there anything to decide anew where
        that is to be done anyway.
        """
        wanted, kind = self._look_up(job, one.held_kind)
        if (wanted, kind, job.job_class) != (one.wanted, one.kind, one.job.job_class):
            return False
        rank = rank_claim(job, one.held, self._rules.order)
        if rank != one.rank:
            if not (one.held and one.is_served):
                return False
            decided = self._decided
            if decided is not None and (rank > one.rank or job.name in decided.places or not self._is_plain):
                return False
            one.rank = rank
        one.job = job
        return True

    def _look_up(self, job: ActiveJob, held_kind: str) -> tuple[int, str]:
        """Return how many GPUs of which type a job wants."""
        wanted, kind = self._table.held_at(job.job_class, job.epochs_done, job.row)
        if kind is None:
            kind = held_kind or next(iter(self._most))
        elif kind not in self._most:
            hint = nearest_name_hint(kind, self._most)
            raise DataError(f"table.classes.{job.job_class}", f"wants GPUs of type {kind!r}", hint)
        if wanted > self._most[kind]:
            wanted = self._rules.largest_runnable(job.job_class, int(self._most[kind]))
        return wanted, kind

    def _file(self, job: ActiveJob, number: int) -> None:
        held, held_kind = self._stock.hold(job.place) if job.place else (0, "")
        wanted, kind = self._look_up(job, held_kind)
        rank = rank_claim(job, held, self._rules.order)
        one = self._claims[job.name] = Claim(job, number, wanted, kind, held, held_kind, rank, held, held_kind)
        self._demand[kind] += wanted
        if held:
            self._stock.used[held_kind] += held
            self._running[job.name] = one
            if not one.is_served:
                self._short[job.name] = one
        else:
            if wanted:
                self._line.add(one)
            if job.place:
                self._displaced[job.name] = one
        self._decided = None

    def _withdraw(self, one: Claim) -> None:
        name = one.job.name
        self._demand[one.kind] -= one.wanted
        if one.held:
            self._stock.free(one.job.place)
            self._stock.used[one.held_kind] -= one.held
            del self._running[name]
            self._short.pop(name, None)
        else:
            if one.wanted:
                self._line.remove(one)
            self._displaced.pop(name, None)
        self._decided = None

    def _decide(self) -> Decision:
        stock, used = self._stock, dict(self._stock.used)
        demand, rules = self._demand, self._rules
        is_short = rules.most_gpus is not None and sum(demand.values()) > rules.most_gpus
        # Of these types more is wanted than there will ever be.
        scarce = frozenset(kind for kind, gpus in demand.items() if is_short or gpus > rules.cap(kind))
        seen = divide(self._running.values(), self._short.values(), self._line, stock, scarce)
        seen.sort(key=_number)
        changing = [one for one in seen if one.is_changed]
        places = self._place(changing)
        wanted = {kind: stock.count_held(kind) for kind in used} if stock.at_once else self._count_nodes()
        decided = Decision(
            places=places,
            nodes=wanted,
            short=tuple(one.job.name for one in seen if one.got and not one.is_served),
            idle=() if stock.coming else stock.list_idle(wanted),
            coming=tuple(stock.coming),
        )
        for one in changing:  # nothing of it is the case yet
            if one.got:
                stock.free(places[one.job.name])
        stock.cancel()
        for one in changing:
            if one.held:
                stock.hold(one.job.place)
            one.keep()
        stock.used.update(used)
        return decided

    def _place(self, changing: Sequence[Claim]) -> dict[str, Place]:
        """Place those whose GPUs change: what they held is free for all, and the widest come first."""
        for one in changing:
            if one.held:
                self._stock.free(one.job.place)
        moved = {one.number: one for one in (*changing, *self._displaced.values())}
        places: dict[str, Place] = {moved[number].job.name: {} for number in sorted(moved)}
        for one in sorted((one for one in changing if one.got), key=lambda one: -one.got):
            places[one.job.name] = self._stock.take(one.got, one.got_kind)
        return places

    def _count_nodes(self) -> dict[str, int]:
        """Return the nodes of each type on which all widths have room, as far as quotas and ``most_gpus`` let them."""
        rules, sizes = self._rules, self._rules.gpus_per_node
        granted = {kind: int(min(gpus, rules.cap(kind))) for kind, gpus in self._demand.items()}
        most = math.inf if rules.most_gpus is None else rules.most_gpus
        if sum(granted.values()) > most:
            granted = self._grant(int(most))
        nodes = {
            kind: int(min(-(-gpus // sizes[kind]), rules.cap(kind) // sizes[kind])) for kind, gpus in granted.items()
        }
        while sum(number * sizes[kind] for kind, number in nodes.items()) > most:
            emptiest = max(
                (kind for kind in nodes if nodes[kind]), key=lambda kind: nodes[kind] * sizes[kind] - granted[kind]
            )
            nodes[emptiest] -= 1
        return nodes

    def _grant(self, most: int) -> dict[str, int]:
        """Return how many of ``most`` GPUs are of which type, where more are wanted: those of the first ones."""
        granted, left = dict.fromkeys(self._demand, 0), most
        if len(granted) == 1:
            return dict.fromkeys(granted, most)
        full: set[Kin | str] = set()
        for one in self._line.walk(self._running.values(), full):
            room = self._rules.cap(one.kind) - granted[one.kind]
            gpus = int(min(one.wanted, left, room))
            granted[one.kind] += gpus
            left -= gpus
            if gpus == room:
                full.add(one.kind)
            if not left:
                break
        return granted


def decide(
    table: Widths, jobs: Sequence[ActiveJob], nodes: Mapping[str, str], rules: Rules, *, at_once: bool = False
) -> Decision:
    """Decide from nothing who holds what, and how many nodes are wanted; deciding again from that changes nothing.

    ``jobs`` are all that have arrived and are not over, and ``nodes`` the types of those that can be used, by name. A
    place that is no longer there, or that others hold as well, counts as none. With ``at_once``, places may be on nodes
    to be rented first. Two jobs of one name are refused, as is a type of the table or of a node that the rules do not
    know.
    """
    allocator = Allocator(table, rules, at_once=at_once)
    for number, (name, gpu_type) in enumerate(nodes.items()):
        allocator.add_node(name, gpu_type, number)
    places: dict[str, Place] = {job.name: job.place or {} for job in jobs}
    if len(places) < len(jobs):
        raise DataError("jobs", "two have the same name", "give each job a name of its own")
    for job in jobs:
        allocator.put(job)
    changes = allocator.decide()
    return replace(changes, places=places | dict(changes.places))
