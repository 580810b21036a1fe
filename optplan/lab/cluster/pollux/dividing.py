"""The division of a cluster among jobs that is best by Pollux' fitness.

Costs are sums over jobs, so without nodes the least one is a knapsack with one choice per job: how many GPUs, and
whether it keeps what it holds. Dynamic programming solves it for every number of GPUs at once. Its sum at the size of
the cluster bounds the fitness of every division from above. Where its choices can be placed, the division is optimal,
and says so. Where they cannot and jobs are few, another knapsack shares nodes as well among jobs of several nodes, and
bounds better. Else choices are mended, from several sizes and from what jobs hold: each job in turn takes what is best
for it beside the others, then some jobs and all on a few nodes share anew what they leave, again and again. The bound
says how much can be missing at most.

Jobs of one node fill gaps, jobs of several nodes never meet on one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from optplan.lab.cluster.jobs import Places
from optplan.lab.cluster.pollux.fitness import EPSILON, MOST_NODES, Prospect, Round
from optplan.schema import FloatArray, IntArray


class Floor:
    """The nodes of a cluster, by their names, while its GPUs are handed out."""

    def __init__(self, nodes: Iterable[int], gpus_per_node: int) -> None:
        self._size = gpus_per_node
        self._free = dict.fromkeys(nodes, gpus_per_node)
        self._open = dict.fromkeys(self._free, True)

    def put(self, places: Places) -> None:
        """Let a job hold GPUs that are free."""
        for node, count in places:
            self._free[node] -= count
            if len(places) > 1:
                self._open[node] = False

    def lift(self, places: Places) -> None:
        """Take the GPUs of a job away again."""
        for node, count in places:
            self._free[node] += count
            if len(places) > 1:
                self._open[node] = True

    def has_room(self, places: Places) -> bool:
        """Whether a job may hold these GPUs."""
        alone = len(places) == 1
        return all(self._free.get(node, 0) >= count and (alone or self._open[node]) for node, count in places)

    @property
    def free(self) -> int:
        """GPUs that nobody holds."""
        return sum(self._free.values())

    @property
    def most_within(self) -> int:
        """The most GPUs that are free on one node."""
        return max(self._free.values(), default=0)

    @property
    def most_across(self) -> int:
        """The most GPUs for one more job of several nodes; 0 where there are not two nodes for it."""
        free = sorted((count for node, count in self._free.items() if count and self._open[node]), reverse=True)
        return sum(free[:MOST_NODES]) if len(free) > 1 else 0

    def find_within(self, gpus: int) -> Places | None:
        """Return the fullest node with so many free GPUs; one that is of no use to jobs of several nodes, if any."""
        fits = [(count, self._open[node], node) for node, count in self._free.items() if count >= gpus]
        return ((min(fits)[2], gpus),) if fits else None

    def find_across(self, gpus: int) -> Places | None:
        """Return GPUs of several nodes: of few nodes if that can be, and of those that the rest just fits on."""
        free = {node: count for node, count in self._free.items() if count and self._open[node]}
        places: list[tuple[int, int]] = []
        while gpus and len(places) < MOST_NODES and free:
            # The first node of a job must leave something for a second one.
            wanted = gpus if places else min(gpus - 1, self._size)
            fits = [(count, node) for node, count in free.items() if count >= min(wanted, self._size)]
            count, node = min(fits) if fits else max((count, -node) for node, count in free.items())
            node = abs(node)
            taken = min(count, wanted)
            places.append((node, taken))
            del free[node]
            gpus -= taken
        return tuple(sorted(places)) if not gpus and len(places) > 1 else None


#: Costs that differ by less, relative to the larger one, are the same.
_SAME = 1e-9
#: Sizes below that of the cluster that are tried where the best choices cannot be placed.
_TRIED_SIZES = 4
#: Up to so many jobs, nodes are shared as well as GPUs where GPUs alone do not tell what can be placed.
_FEW_JOBS = 12
#: How often a few jobs share anew, how many nodes are left for it at most, and up to how many GPUs are spared.
_REARRANGEMENTS, _LEFT_NODES, _SPARED = 100, 3, 5


@dataclass(frozen=True)
class Division:
    """Who is to hold what, and its fitness; no division's exceeds ``bound``."""

    places: tuple[Places, ...]
    fitness: float
    bound: float

    @property
    def is_optimal(self) -> bool:
        """Whether it is proven that no other division is better."""
        return self.fitness >= self.bound * (1.0 - _SAME)


def divide(task: Round) -> Division:
    """Divide a cluster among at least one job, never worse than changing nothing."""
    least, gpus = share_gpus(task.claims, len(task.nodes) * task.gpus_per_node)
    size, num_jobs = least.size - 1, len(task.claims)
    enough = float(least[size]) * (1.0 + _SAME)
    best = _Draft(task)
    best.keep_all()
    best.improve(range(num_jobs))
    for smaller in range(min(_TRIED_SIZES, size) + 1):
        if best.cost <= max(enough, float(least[size - smaller])):
            break
        draft = _Draft(task)
        draft.place(range(num_jobs), trace(task.claims, gpus, size - smaller))
        draft.improve(range(num_jobs))
        best = min(best, draft, key=lambda one: one.cost)
    bound, wishes = float(least[size]), trace(task.claims, gpus, size)
    if best.cost > enough and num_jobs <= _FEW_JOBS:
        bound, wishes = share_nodes(task)
        enough = bound * (1.0 + _SAME)
        draft = _Draft(task)
        draft.place(range(num_jobs), wishes)
        draft.improve(range(num_jobs))
        best = min(best, draft, key=lambda one: one.cost)
    if best.cost > enough:
        _rearrange(best, wishes, enough)
    return Division(tuple(best.places), num_jobs / best.cost, num_jobs / bound)


def share_gpus(claims: Sequence[Prospect], gpus: int) -> tuple[FloatArray, IntArray]:
    """Return the least sums of costs of 0 to ``gpus`` GPUs, whatever the nodes, and what jobs hold, (J, gpus + 1)."""
    least = np.zeros(gpus + 1)
    held = np.zeros((len(claims), gpus + 1), dtype=np.int64)
    for number, claim in enumerate(claims):
        costs = _cheapest(claim)[: gpus + 1]
        padded = np.concatenate([np.full(costs.size - 1, np.inf), least])
        sums = sliding_window_view(padded, costs.size)[:, ::-1] + costs
        held[number] = sums.argmin(axis=1)
        least = sums[np.arange(gpus + 1), held[number]]
    return least, held


def share_nodes(task: Round) -> tuple[float, list[int]]:
    """Share GPUs, and nodes between jobs of several of them; return the bound on costs, and what each job holds."""
    nodes, gpus = len(task.nodes), len(task.nodes) * task.gpus_per_node
    least = np.zeros((gpus + 1, nodes + 1))
    choices = [list(_list_choices(claim)) for claim in task.claims]
    chosen = []
    for options in choices:
        sums, best = np.full(least.shape, np.inf), np.zeros(least.shape, dtype=np.int64)
        for option, (count, taken, cost) in enumerate(options):
            if count <= gpus and taken <= nodes:
                reached = least[: gpus + 1 - count, : nodes + 1 - taken] + cost
                there = sums[count:, taken:]
                better = reached < there
                there[better] = reached[better]
                best[count:, taken:][better] = option
        least = sums
        chosen.append(best)
    at, counts = (gpus, nodes), []
    for options, best in zip(reversed(choices), reversed(chosen), strict=True):
        count, taken, _ = options[best[at]]
        counts.append(count)
        at = (at[0] - count, at[1] - taken)
    return float(least[gpus, nodes]), counts[::-1]


def _list_choices(claim: Prospect) -> Iterator[tuple[int, int, float]]:
    """Yield GPUs, nodes taken from other jobs of several nodes, and cost of all that a job may hold."""
    yield 0, 0, 1.0 / EPSILON
    if np.isfinite(claim.held_cost):
        yield claim.held_gpus, len(claim.held) if len(claim.held) > 1 else 0, claim.held_cost
    for count in range(1, claim.most_gpus + 1):
        if np.isfinite(claim.within_costs[count]):
            yield count, 0, float(claim.within_costs[count])
        if np.isfinite(claim.across_costs[count]):
            yield count, max(-(-count // claim.gpus_per_node), 2), float(claim.across_costs[count])


def trace(claims: Sequence[Prospect], held: IntArray, gpus: int) -> list[int]:
    """Return what each job holds where they share at most so many GPUs."""
    counts = []
    for number in reversed(range(len(claims))):
        counts.append(int(held[number, gpus]))
        gpus -= counts[-1]
    return counts[::-1]


def _cheapest(claim: Prospect) -> FloatArray:
    """Return the least cost of a job by number of GPUs, (K + 1,)."""
    costs = np.minimum(claim.within_costs, claim.across_costs)
    costs[0] = 1.0 / EPSILON
    if claim.held_gpus <= claim.most_gpus:
        costs[claim.held_gpus] = min(costs[claim.held_gpus], claim.held_cost)
    return costs


def _rearrange(draft: _Draft, wishes: Sequence[int], enough: float) -> None:
    """Let a few jobs at a time, on the same nodes or away from their wishes, share anew until the bound is reached."""
    draws = np.random.default_rng(0)  # the same for every division: nothing is left to chance
    nodes, jobs = draft.task.nodes, range(len(wishes))
    for _ in range(_REARRANGEMENTS):
        left = set(draws.choice(nodes, size=min(int(draws.integers(_LEFT_NODES + 1)), len(nodes)), replace=False))
        unhappy = [number for number in jobs if draft.gpus(number) != wishes[number]]
        among = unhappy if unhappy and draws.random() < 0.5 else list(jobs)
        chosen = set(draws.choice(among, size=min(int(draws.integers(1, 4)), len(among)), replace=False).tolist())
        chosen |= {number for number in jobs if any(node in left for node, _ in draft.places[number])}
        draft.share_anew(sorted(chosen), spare=int(draws.integers(_SPARED)))
        if draft.cost <= enough:
            break


class _Draft:
    """A division in the making."""

    def __init__(self, task: Round) -> None:
        self.task = task
        self.places: list[Places] = [()] * len(task.claims)
        self._floor = Floor(task.nodes, task.gpus_per_node)
        self._costs = [claim.cost(()) for claim in task.claims]

    @property
    def cost(self) -> float:
        """The sum of costs, 1 / F times the number of jobs."""
        return sum(self._costs)

    def gpus(self, number: int) -> int:
        """Return how many GPUs a job holds."""
        return sum(count for _, count in self.places[number])

    def put(self, number: int, places: Places) -> None:
        """Let a job hold GPUs instead of those that it held."""
        self._floor.lift(self.places[number])
        self._floor.put(places)
        self.places[number] = places
        self._costs[number] = self.task.claims[number].cost(places)

    def keep_all(self) -> None:
        """Let everybody hold what it holds, but for those who hold what is no longer allowed."""
        for number, claim in enumerate(self.task.claims):
            if claim.held_gpus <= claim.most_gpus and self._floor.has_room(claim.held):
                self.put(number, claim.held)

    def place(self, numbers: Sequence[int], counts: Sequence[int]) -> None:
        """Place GPUs of jobs without any: who keeps what it holds first, then large before small; the rest get none."""
        moved = []
        for number, count in zip(numbers, counts, strict=True):
            claim = self.task.claims[number]
            moving_cost = min(claim.within_costs[count], claim.across_costs[count])
            stays = count == claim.held_gpus and claim.held_cost <= moving_cost
            if count and stays and self._floor.has_room(claim.held):
                self.put(number, claim.held)
            elif count:
                moved.append((-count, number))
        for minus, number in sorted(moved):
            claim, count = self.task.claims[number], -minus
            is_within = claim.within_costs[count] <= claim.across_costs[count]
            found = self._floor.find_within(count) if is_within else self._floor.find_across(count)
            if found is not None:
                self.put(number, found)

    def improve(self, numbers: Sequence[int]) -> None:
        """Let each of some jobs in turn take what is best for it beside the others, until none of them gains."""
        gained = True
        while gained:
            gained = False
            for number in numbers:
                now = self.places[number]
                self._floor.lift(now)
                better = _respond(self.task.claims[number], self._floor, self._costs[number])
                self._floor.put(now)
                if better is not None:
                    self.put(number, better)
                    gained = True

    def share_anew(self, numbers: Sequence[int], spare: int) -> None:
        """Let some jobs share what they and nobody hold, but for a few GPUs to spare, if that costs less."""
        before, cost = [self.places[number] for number in numbers], self.cost
        for number in numbers:
            self.put(number, ())
        claims = [self.task.claims[number] for number in numbers]
        least, gpus = share_gpus(claims, self._floor.free)
        now = cost - sum(claim.cost(places) for claim, places in zip(claims, before, strict=True))
        if now + least[-1] < cost * (1.0 - _SAME):
            self.place(numbers, trace(claims, gpus, max(least.size - 1 - spare, 0)))
            self.improve(numbers)
        if self.cost >= cost * (1.0 - _SAME):
            for number in numbers:
                self.put(number, ())
            for number, places in zip(numbers, before, strict=True):
                self.put(number, places)


def _respond(claim: Prospect, floor: Floor, cost: float) -> Places | None:
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
