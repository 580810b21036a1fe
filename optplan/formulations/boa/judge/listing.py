"""Listing what lies below a weighted sum: all paths of a class, and all plans, that a bound by weights leaves open.

A plan that keeps the limits b and is better than U has w0 value + w . consumption <= w0 U + w . b for any weights from
0 on. So one class's paths may exceed its least weighted sum by no more than the least sums of all classes leave room
for; they are listed from the first epoch to the last, and the classes are joined. Of two beginnings in the same place,
one that has no more of anything makes the other superfluous. Written without sight of any solver.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from optplan.contracts.judgement import JUDGE_ROUNDING, PathCosts, UnlistedError
from optplan.progress import Stopwatch
from optplan.schema import FloatArray, IntArray

#: Beginnings of paths, or totals, that are kept at once, and numbers of these; a proof that needs more is none.
_MOST, _MOST_NUMBERS = 2_000_000, 16_000_000
#: Pairs that are formed at once.
_CHUNK = 1 << 18
#: Up to so many are held against each other all at once; of more, the first ones against the rest.
_SMALL = 256


@dataclass(frozen=True, eq=False)
class OpenPaths:
    """A class's graph under weights (1 + L,) of value and consumptions.

    ``steps`` (1 + L, E, K) is what being at an option takes, ``entries`` (1 + L, F, E, K) what coming to it from a
    group takes, (1 + L, F, 1, K) where all epochs are alike; ``group`` (K,) is that of each option.
    """

    steps: FloatArray
    entries: FloatArray
    group: IntArray
    weights: FloatArray

    @classmethod
    def of_costs(cls, costs: PathCosts, weights: FloatArray) -> OpenPaths:
        """Take a class's costs."""
        steps = np.concatenate([costs.run_value[None], costs.run_consumption])
        entries = np.concatenate([costs.enter_value[None], costs.enter_consumption])
        if (entries == entries[:, :, :1]).all():
            entries = entries[:, :, :1]
        return cls(steps, entries, costs.group, weights)

    def _weigh_entries(self) -> FloatArray:
        """Return (F, E, K) what entering costs; (F, 1, K) where it is the same in all epochs."""
        return np.tensordot(self.weights, self.entries, 1)

    def find_least(self) -> tuple[float, FloatArray, FloatArray]:
        """Return the least weighted sum of a path, and what remains at an option (E, K) and on leaving a group (E, F).

        The first includes the option's own epoch; the second is that of leaving in order to enter an epoch.
        """
        run = np.tensordot(self.weights, self.steps, 1)
        enter = self._weigh_entries()
        last = enter.shape[1] - 1
        onward = np.empty((len(run), len(enter)))
        for epoch in range(len(run) - 1, -1, -1):
            if epoch + 1 < len(run):
                run[epoch] += np.minimum(run[epoch + 1], onward[epoch + 1][self.group])
            onward[epoch] = (enter[:, min(epoch, last)] + run[epoch]).min(axis=1)
        first = enter[self.group, 0, np.arange(self.group.size)] + run[0]
        return float(first.min()), run, onward

    def list_sums(self, ceiling: float, stopwatch: Stopwatch) -> FloatArray:
        """List value and consumptions (M, 1 + L) of the paths up to a weighted sum; of dominated ones some may stay."""
        _, remaining, onward = self.find_least()
        ceiling += JUDGE_ROUNDING * abs(ceiling)
        enter = self._weigh_entries()
        last = enter.shape[1] - 1
        most = min(_MOST, _MOST_NUMBERS // len(self.steps))
        nodes = np.arange(self.group.size)
        nodes = nodes[enter[self.group, 0, nodes] + remaining[0] <= ceiling]
        sums = (self.entries[:, self.group[nodes], 0, nodes] + self.steps[:, 0, nodes]).T
        for epoch in range(1, len(remaining)):
            stopwatch.require()
            cost = sums @ self.weights
            leaving = np.flatnonzero(cost + onward[epoch][self.group[nodes]] <= ceiling)
            staying = np.flatnonzero(cost + remaining[epoch, nodes] <= ceiling)
            if not leaving.size:
                nodes, sums = nodes[staying], sums[staying] + self.steps[:, epoch, nodes[staying]].T
                continue
            further = enter[:, min(epoch, last)] + remaining[epoch]
            came = self._enter(epoch, (nodes[leaving], sums[leaving]), further, ceiling, most - staying.size, stopwatch)
            nodes = np.concatenate([nodes[staying], came[0]])
            sums = np.concatenate([sums[staying], came[1]]) + self.steps[:, epoch, nodes].T
            kept = find_undominated(nodes, sums, stopwatch)
            nodes, sums = nodes[kept], sums[kept]
        return sums[find_undominated(np.zeros(nodes.size, dtype=np.int64), sums, stopwatch)]

    def _enter(
        self,
        epoch: int,
        come: tuple[IntArray, FloatArray],
        further: FloatArray,
        ceiling: float,
        most: int,
        stopwatch: Stopwatch,
    ) -> tuple[IntArray, FloatArray]:
        """Return options and sums of all that enters an epoch, its own not included; ``further`` (F, K) is to come."""
        nodes, sums = come
        kept = find_undominated(self.group[nodes], sums, stopwatch)
        nodes, sums = nodes[kept], sums[kept]
        cost, left = sums @ self.weights, self.group[nodes]
        found: list[tuple[IntArray, FloatArray]] = []
        for group in np.unique(left).tolist():
            own = np.flatnonzero(left == group)
            target = np.flatnonzero(further[group] + cost[own].min() <= ceiling)
            for rows in _split(own, max(1, target.size)):
                stopwatch.require()
                row, column = np.nonzero(
                    (cost[rows, None] + further[group, target] <= ceiling) & (nodes[rows, None] != target)
                )
                entered = target[column]
                most -= entered.size
                if most < 0:
                    raise UnlistedError("a listed part has more beginnings of paths than are looked at")
                place = min(epoch, self.entries.shape[2] - 1)
                found.append((entered, sums[rows[row]] + self.entries[:, group, place, entered].T))
        if not found:
            return nodes[:0], sums[:0]
        return np.concatenate([each[0] for each in found]), np.concatenate([each[1] for each in found])


def find_least_plan(graphs: list[OpenPaths], most_value: float, limits: FloatArray, stopwatch: Stopwatch) -> float:
    """Return the least value, up to ``most_value``, of the plans that keep the limits; infinity where there is none.

    The classes' graphs have the same weights. With weight 0 for the value ``most_value`` is infinite, else finite.
    """
    weights = graphs[0].weights
    most = np.concatenate([[most_value], limits])
    ceiling = float(weights[weights > 0] @ most[weights > 0])
    least = [graph.find_least()[0] for graph in graphs]
    room = ceiling + JUDGE_ROUNDING * ceiling - sum(least)
    if not room >= 0.0:
        return float("inf")
    sets = [graph.list_sums(own + room, stopwatch) for graph, own in zip(graphs, least, strict=True)]
    if not all(len(sums) for sums in sets):
        return float("inf")
    sets.sort(key=len)
    # What the classes that come later add at least: to the weighted sum, and to each number by itself.
    later_cost = np.cumsum([(sums @ weights).min() for sums in sets[::-1]])[::-1]
    later = np.cumsum([sums.min(axis=0) for sums in sets[::-1]], axis=0)[::-1]
    totals = sets[0]
    for number in range(1, len(sets)):
        last = number + 1 == len(sets)
        bounds = (0.0, np.zeros(most.size)) if last else (float(later_cost[number + 1]), later[number + 1])
        totals = _join(totals, sets[number], weights, ceiling - bounds[0], most - bounds[1], stopwatch)
        if not len(totals):
            return float("inf")
    return float(totals[(totals <= most).all(axis=1), 0].min(initial=np.inf))


def _join(
    first: FloatArray,
    second: FloatArray,
    weights: FloatArray,
    ceiling: float,
    most: FloatArray,
    stopwatch: Stopwatch,
) -> FloatArray:
    """Return the sums of one of each that stay below a weighted sum and below ``most`` (1 + L,)."""
    ceiling += JUDGE_ROUNDING * abs(ceiling)
    second = second[np.argsort(second @ weights, kind="stable")]
    partners = np.searchsorted(second @ weights, ceiling - first @ weights, side="right")
    chunks, count, largest = [first[:0]], 0, min(_MOST, _MOST_NUMBERS // len(weights))
    for rows in _split_sizes(partners):
        stopwatch.require()
        owner = np.repeat(rows, partners[rows])
        place = np.arange(owner.size) - np.repeat(np.cumsum(partners[rows]) - partners[rows], partners[rows])
        sums = first[owner] + second[place]
        sums = sums[(sums <= most).all(axis=1)]
        sums = sums[find_undominated(np.zeros(len(sums), dtype=np.int64), sums, stopwatch)]
        chunks.append(sums)
        count += len(sums)
        if count > largest:
            raise UnlistedError("a listed part has more totals than are looked at")
    joined = np.concatenate(chunks)
    return joined[find_undominated(np.zeros(len(joined), dtype=np.int64), joined, stopwatch)]


def _split(rows: IntArray, width: int) -> list[IntArray]:
    """Return rows in runs of so many that with ``width`` columns each a run has a chunk of pairs."""
    size = max(1, _CHUNK // width)
    return [rows[start : start + size] for start in range(0, rows.size, size)]


def _split_sizes(sizes: IntArray) -> Iterator[IntArray]:
    """Yield positions in runs of about a chunk of pairs, given how many pairs each has."""
    ends, first = np.cumsum(sizes), 0
    while first < sizes.size:
        before = ends[first] - sizes[first]
        behind = max(first + 1, int(np.searchsorted(ends, before + _CHUNK, side="right")))
        yield np.arange(first, behind)
        first = behind


def find_undominated(place: IntArray, sums: FloatArray, stopwatch: Stopwatch | None = None) -> IntArray:
    """Return positions of the sums (M, 1 + L) that none of the same place dominates in everything; of equals the first.

    Where there are very many, some that are dominated may be among them.
    """
    if place.size < 2:
        return np.arange(place.size)
    scale = np.maximum(np.abs(sums).max(axis=0), 1e-300)
    order = np.lexsort(((sums / scale).sum(axis=1), place))
    kept: list[IntArray] = []
    watch = stopwatch or Stopwatch()
    starts = np.flatnonzero(np.diff(place[order], prepend=place[order[0]] - 1))
    for own in np.split(order, starts[1:]):
        rest, rounds = own, 0
        while rest.size and rounds < 16:
            watch.require()
            head = rest[:_SMALL]
            beats = (sums[head][:, None, :] <= sums[head][None, :, :]).all(axis=2)
            head = head[~np.triu(beats, 1).any(axis=0)]
            kept.append(head)
            rest = rest[_SMALL:]
            for champion in sums[head] if rest.size else ():
                watch.require()
                rest = rest[~(sums[rest] >= champion).all(axis=1)]
            rounds += 1
        kept.append(rest)
    return np.sort(np.concatenate(kept))
