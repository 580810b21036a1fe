"""The decision of BOA Constrictor's scheduler (paper, section 5.2), as a function without memory.

*Job allocation.* The table says how many GPUs a job holds, by its class and epoch. Whoever holds that many keeps its
place. The others are placed anew. Where nodes are short, a running job keeps what it holds until its new width is
there, one of those who wait runs on what is left, and the others wait for the cluster to grow.

*Cluster sizing.* The widths of all jobs, those who wait included, add up to the GPUs and so to the nodes that are
wanted, type by type.

The paper stops at what is rented as it is needed. With quotas or ``most_gpus``, demand can be more than will ever be
there: then an order says who is served (:class:`~optplan.execution.online.jobs.Order`). Nobody is put on what is left,
as that would last; with first come nobody overtakes, and with the other orders those who run may be stopped for others.
A width above all that may ever be there is cut to that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from optplan.errors import DataError, nearest_name_hint
from optplan.execution.online.division import Claim, divide
from optplan.execution.online.jobs import ActiveJob, Node, Place, Rules, Widths, rank_claim
from optplan.execution.online.stock import Stock


@dataclass(frozen=True)
class Decision:
    """What is to be the case.

    Parameters
    ----------
    places
        By job, in the order in which jobs were given: what it holds; empty where it waits.
    nodes
        By type: how many nodes are wanted.
    short, waiting
        Jobs that hold other GPUs than the table says, fewer of them as a rule, and those that hold none.
    idle
        Nodes that nobody holds and that are not wanted: they can be given back.
    """

    places: Mapping[str, Place]
    nodes: Mapping[str, int]
    short: tuple[str, ...]
    waiting: tuple[str, ...]
    idle: tuple[str, ...]


def decide(table: Widths, jobs: Sequence[ActiveJob], nodes: Mapping[str, Node], rules: Rules) -> Decision:
    """Decide who holds what, and how many nodes are wanted.

    Parameters
    ----------
    table
        How many GPUs a job is to hold.
    jobs
        All that have arrived and are not over. A place that is no longer there, or that others hold as well, counts as
        none.
    nodes
        Those that can be used, by name.
    rules
        Types, quotas, order.

    Returns
    -------
    Decision
        Deciding again from what it says changes nothing.

    Raises
    ------
    DataError
        When two jobs have the same name, or the table or a node has a type that the rules do not know.
    """
    stock = Stock(nodes, rules)
    places = {job.name: job.place for job in jobs}
    if len(places) < len(jobs):
        raise DataError("jobs", "two have the same name", "give each job a name of its own")
    changed, demand = _look_up(table, jobs, stock)
    scarce = _find_scarce(demand, rules)
    may_stop = stock.may_stop(scarce)
    every = _claim_all(jobs, changed, stock) if scarce or may_stop else changed
    claims = every if may_stop else changed
    divide(claims, stock, scarce)
    _place(claims, stock, places)
    wanted = _count_nodes(every, demand, rules)
    return Decision(
        places=places,
        nodes=wanted,
        short=tuple(one.job.name for one in claims if one.got and not one.is_served),
        waiting=tuple(one.job.name for one in claims if not one.got),
        idle=stock.list_idle(wanted),
    )


def _look_up(table: Widths, jobs: Sequence[ActiveJob], stock: Stock) -> tuple[list[Claim], dict[str, int]]:
    """Return those who do not hold what they want, and the GPUs of each type that are wanted in all.

    This is what a decision spends its time on where nearly everybody holds what it should.
    """
    rules = stock.rules
    demand = dict.fromkeys(rules.gpus_per_node, 0)
    most = {kind: rules.most_of(kind) for kind in demand}
    default = next(iter(demand))
    looked_up: dict[tuple[str, int, int], tuple[int, str | None]] = {}
    held_at, count = table.held_at, stock.count
    changed = []
    for job in jobs:
        key = (job.job_class, job.epochs_done, job.row)
        cell = looked_up.get(key)
        if cell is None:
            cell = looked_up[key] = held_at(*key)
        wanted, kind = cell
        place = job.place
        held, held_kind = count(place) if place else (0, "")
        if kind is None:
            kind = held_kind or default
        elif kind not in demand:
            hint = nearest_name_hint(kind, demand)
            raise DataError(f"table.classes.{job.job_class}", f"wants GPUs of type {kind!r}", hint)
        if wanted > most[kind]:
            wanted = rules.largest_runnable(job.job_class, int(most[kind]))
        demand[kind] += wanted
        if held != wanted or held_kind != kind:
            changed.append(Claim(job, wanted, kind, held, held_kind))
    return changed, demand


def _claim_all(jobs: Sequence[ActiveJob], changed: Sequence[Claim], stock: Stock) -> list[Claim]:
    """Return all jobs, those who hold what they want as well."""
    others = {one.job.name: one for one in changed}
    claims = []
    for job in jobs:
        one = others.get(job.name)
        if one is None:
            held, kind = sum(job.place.values()), stock.kind_of(job.place) if job.place else ""
            one = Claim(job, held, kind, held, kind)
        claims.append(one)
    return claims


def _find_scarce(demand: Mapping[str, int], rules: Rules) -> frozenset[str]:
    """Return the types of which more is wanted than there will ever be."""
    if rules.most_gpus is not None and sum(demand.values()) > rules.most_gpus:
        return frozenset(demand)
    return frozenset(kind for kind, gpus in demand.items() if gpus > rules.cap(kind))


def _place(claims: Sequence[Claim], stock: Stock, places: dict[str, Place]) -> None:
    """Place those whose GPUs change: what they held is free for all, and the widest come first."""
    changing = [one for one in claims if (one.got, one.got_kind) != (one.held, one.held_kind)]
    for one in changing:
        if one.held:
            stock.give_back(one.job.place)
        places[one.job.name] = {}
    for one in claims:
        if not one.got:
            places[one.job.name] = {}
    starting = sorted((one for one in changing if one.got), key=lambda one: -one.got)
    if starting:
        buckets = stock.sort_free()
        for one in starting:
            places[one.job.name] = buckets.take(one.got, one.got_kind)


def _count_nodes(claims: Sequence[Claim], demand: Mapping[str, int], rules: Rules) -> dict[str, int]:
    """Return the nodes of each type on which all widths have room, as far as quotas and ``most_gpus`` let them."""
    sizes = rules.gpus_per_node
    granted = {kind: int(min(gpus, rules.cap(kind))) for kind, gpus in demand.items()}
    most = math.inf if rules.most_gpus is None else rules.most_gpus
    if sum(granted.values()) > most:
        granted = dict.fromkeys(demand, 0)
        left = int(most)
        for one in sorted(claims, key=lambda one: rank_claim(one.job, one.held, rules.order)):
            gpus = int(min(one.wanted, left, rules.cap(one.kind) - granted[one.kind]))
            granted[one.kind] += gpus
            left -= gpus
    nodes = {kind: int(min(-(-gpus // sizes[kind]), rules.cap(kind) // sizes[kind])) for kind, gpus in granted.items()}
    while sum(number * sizes[kind] for kind, number in nodes.items()) > most:
        emptiest = max(
            (kind for kind in nodes if nodes[kind]), key=lambda kind: nodes[kind] * sizes[kind] - granted[kind]
        )
        nodes[emptiest] -= 1
    return nodes
