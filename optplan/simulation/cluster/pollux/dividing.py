"""The division of a cluster among jobs that is best by Pollux' fitness.

Costs are sums over jobs, so without nodes the least one is a knapsack with one choice per job: how many GPUs, and
whether it keeps what it holds. Dynamic programming solves it for every number of GPUs at once. Its sum at the size of
the cluster bounds the fitness of every division from above. Where its choices can be placed, the division is optimal,
and says so; else they are mended (jobs that found no place take the best that is left, then each in turn what is best
for it beside the others), from several sizes, and the bound says how much can be missing at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from optplan.schema import FloatArray, IntArray
from optplan.simulation.cluster.jobs import Places
from optplan.simulation.cluster.pollux.fitness import EPSILON, Claim, Round
from optplan.simulation.cluster.pollux.placing import Floor

#: Costs that differ by less, relative to the larger one, are the same.
_SAME = 1e-9
#: Sizes below that of the cluster that are tried where the best choices cannot be placed.
_TRIED_SIZES = 4


@dataclass(frozen=True)
class Division:
    """Who is to hold what.

    Parameters
    ----------
    places
        By job.
    fitness
        Its fitness.
    bound
        What no division's fitness exceeds.
    """

    places: tuple[Places, ...]
    fitness: float
    bound: float

    @property
    def is_optimal(self) -> bool:
        """Whether it is proven that no other division is better."""
        return self.fitness >= self.bound * (1.0 - _SAME)


def divide(task: Round) -> Division:
    """Divide a cluster.

    Parameters
    ----------
    task
        Nodes, and at least one job.

    Returns
    -------
    Division
        Allowed, and never worse than that in which nobody changes anything.
    """
    least, gpus = share_gpus(task.claims, len(task.nodes) * task.gpus_per_node)
    size = least.size - 1
    best = _keep_all(task)
    _improve(task, best)
    best_cost = _total(task, best)
    for smaller in range(min(_TRIED_SIZES, size) + 1):
        if least[size - smaller] >= best_cost * (1.0 - _SAME):
            break
        places = _place(task, trace(task.claims, gpus, size - smaller))
        _improve(task, places)
        cost = _total(task, places)
        if cost < best_cost * (1.0 - _SAME):
            best_cost, best = cost, places
    num_jobs = len(task.claims)
    return Division(tuple(best), num_jobs / best_cost, num_jobs / float(least[size]))


def share_gpus(claims: Sequence[Claim], gpus: int) -> tuple[FloatArray, IntArray]:
    """Share GPUs without regard to nodes, at the least sum of costs.

    Parameters
    ----------
    claims
        Of J jobs.
    gpus
        The most GPUs to share.

    Returns
    -------
    tuple
        The least sums with at most 0 to ``gpus`` GPUs, (gpus + 1,); and what the last of the first j + 1 jobs holds in
        them, (J, gpus + 1).
    """
    least = np.zeros(gpus + 1)
    held = np.zeros((len(claims), gpus + 1), dtype=np.int64)
    for number, claim in enumerate(claims):
        costs = _cheapest(claim)[: gpus + 1]
        padded = np.concatenate([np.full(costs.size - 1, np.inf), least])
        sums = sliding_window_view(padded, costs.size)[:, ::-1] + costs
        held[number] = sums.argmin(axis=1)
        least = sums[np.arange(gpus + 1), held[number]]
    return least, held


def trace(claims: Sequence[Claim], held: IntArray, gpus: int) -> list[int]:
    """Return what each job holds where they share at most so many GPUs."""
    counts = []
    for number in reversed(range(len(claims))):
        counts.append(int(held[number, gpus]))
        gpus -= counts[-1]
    return counts[::-1]


def _cheapest(claim: Claim) -> FloatArray:
    """Return the least cost of a job by number of GPUs, (K + 1,)."""
    costs = np.minimum(claim.within_costs, claim.across_costs)
    costs[0] = 1.0 / EPSILON
    if claim.held_gpus <= claim.most_gpus:
        costs[claim.held_gpus] = min(costs[claim.held_gpus], claim.held_cost)
    return costs


def _place(task: Round, counts: Sequence[int]) -> list[Places]:
    """Place numbers of GPUs: who keeps what it holds first, then large before small; who finds no place gets none."""
    floor = Floor(task.nodes, task.gpus_per_node)
    places: list[Places] = [()] * len(task.claims)
    moved = []
    for number, (claim, count) in enumerate(zip(task.claims, counts, strict=True)):
        stays = count == claim.held_gpus and claim.held_cost <= min(
            claim.within_costs[count], claim.across_costs[count]
        )
        if count and stays and floor.has_room(claim.held):
            places[number] = claim.held
            floor.put(claim.held)
        elif count:
            moved.append(number)
    for number in sorted(moved, key=lambda number: -counts[number]):
        claim, count = task.claims[number], counts[number]
        is_within = claim.within_costs[count] <= claim.across_costs[count]
        found = floor.find_within(count) if is_within else floor.find_across(count)
        if found is not None:
            places[number] = found
            floor.put(found)
    return places


def _keep_all(task: Round) -> list[Places]:
    """Return the division in which nobody changes anything, but for those who hold what is no longer allowed."""
    floor = Floor(task.nodes, task.gpus_per_node)
    places: list[Places] = []
    for claim in task.claims:
        keeps = claim.held_gpus <= claim.most_gpus and floor.has_room(claim.held)
        places.append(claim.held if keeps else ())
        floor.put(places[-1])
    return places


def _total(task: Round, places: Sequence[Places]) -> float:
    return sum(claim.cost(held) for claim, held in zip(task.claims, places, strict=True))


def _improve(task: Round, places: list[Places]) -> None:
    """Let each job in turn take what is best for it beside the others, until nobody gains."""
    floor = Floor(task.nodes, task.gpus_per_node)
    for held in places:
        floor.put(held)
    gained = True
    while gained:
        gained = False
        for number, claim in enumerate(task.claims):
            now = places[number]
            floor.lift(now)
            better = _respond(claim, floor, claim.cost(now))
            if better is not None:
                places[number], gained = better, True
            floor.put(places[number])


def _respond(claim: Claim, floor: Floor, cost: float) -> Places | None:
    """Return what is best for a job in what is free, if it costs less than a number."""
    limit = cost * (1.0 - _SAME)
    if claim.held_cost < limit and floor.has_room(claim.held):
        best: Places | None = claim.held
        limit = claim.held_cost * (1.0 - _SAME)
    else:
        best = None
    within, across = claim.within_costs[: floor.most_within + 1], claim.across_costs[: floor.most_across + 1]
    count = int(within.argmin())
    if count and within[count] < limit:
        best, limit = floor.find_within(count), within[count] * (1.0 - _SAME)
    if across.size > 1:
        count = int(across.argmin())
        if count and across[count] < limit:
            best = floor.find_across(count)
    return best
