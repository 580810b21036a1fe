"""The best choice of one path per graph within several limits, from the graphs' sets of paths, by exhaustion.

Sets are merged two at a time, smallest first, keeping undominated totals that can still lead to a choice of at most the
value that is asked for. The last two are matched without forming their product: in a choice of nearly the bound's value
no binding limit has much room left, so the partners of a total have their consumption in a narrow window.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from optplan.solvers.limits import ROUNDING
from optplan.solvers.paths.dominance import find_undominated_vectors, weigh_criteria
from optplan.solvers.paths.effort import Effort
from optplan.solvers.paths.families import FloatArray, IntArray, PathSets
from optplan.solvers.paths.skyline import expand_ranges

#: Pairs formed at once; bounds the memory of a merge.
_CHUNK_PAIRS = 1 << 20


@dataclass(frozen=True)
class MergeTarget:
    """Which choices are asked for.

    Parameters
    ----------
    multipliers
        (L,) Weights of the consumptions in the reduced cost.
    most_consumption
        (L,) What the total consumption may be at most.
    most_value
        What the total value may be at most.
    """

    multipliers: FloatArray
    most_consumption: FloatArray
    most_value: float

    @property
    def most_reduced_cost(self) -> float:
        """What the total reduced cost is at most, then."""
        return self.most_value + float(self.multipliers @ self.most_consumption)


@dataclass(frozen=True, eq=False)
class _Totals:
    """Totals over some graphs by increasing reduced cost.

    Parameters
    ----------
    value, reduced_cost
        (M,) Sums.
    consumption
        (M, L) Sums.
    left, right
        (M,) Positions in the two sets merged; for the set of one graph ``left`` is the path and ``right`` unused.
    parts
        The two sets; None for the set of one graph.
    graph
        The graph of a set of one; -1 for a merged set.
    """

    value: FloatArray
    reduced_cost: FloatArray
    consumption: FloatArray
    left: IntArray
    right: IntArray
    parts: tuple[_Totals, _Totals] | None
    graph: int

    def write_choice(self, position: int, choice: IntArray) -> None:
        """Enter the paths behind a total into ``choice``."""
        if self.parts is None:
            choice[self.graph] = self.left[position]
            return
        self.parts[0].write_choice(int(self.left[position]), choice)
        self.parts[1].write_choice(int(self.right[position]), choice)


def _list_least(part: _Totals) -> FloatArray:
    """Return (2 + L,) the least value, reduced cost and consumptions of a set."""
    return np.concatenate([[part.value.min(), part.reduced_cost[0]], part.consumption.min(axis=0)])


def merge_path_sets(paths: PathSets, target: MergeTarget, effort: Effort) -> IntArray | None:
    """Return the choice of least value among those asked for, or None when there is none.

    Parameters
    ----------
    paths
        The graphs' sets.
    target
        Choices beyond it need not be found.
    effort
        Charged for every pair of partial totals; a set of totals may be no larger than what labels may be kept.

    Returns
    -------
    IntArray | None
        (G,) Position of the chosen path of each graph.

    Raises
    ------
    OutOfEffortError
        When a limit of ``effort`` is met.
    """
    merging = _Merging(target, effort)
    sets = [_split_off(paths, graph, target.multipliers) for graph in range(paths.starts.size - 1)]
    if len(sets) == 1:
        sets.append(_nothing(target.multipliers.size))
    # Equal sizes leave the queue in the order of their making, so the outcome is deterministic.
    queue = [(part.value.size, number, part) for number, part in enumerate(sets)]
    heapq.heapify(queue)
    number = len(queue)
    least = np.sum([_list_least(part) for part in sets], axis=0)
    while len(queue) > 2:
        first, second = heapq.heappop(queue)[2], heapq.heappop(queue)[2]
        rest = least - _list_least(first) - _list_least(second)
        merged = merging.multiply(first, second, rest)
        if not merged.value.size:
            return None
        effort.charge_labels(0, merged.value.size)
        least = rest + _list_least(merged)
        heapq.heappush(queue, (merged.value.size, number, merged))
        number += 1
    first, second = heapq.heappop(queue)[2], heapq.heappop(queue)[2]
    pair = merging.match(first, second)
    if pair is None:
        return None
    choice = np.zeros(paths.starts.size, dtype=np.intp)
    first.write_choice(pair[0], choice)
    second.write_choice(pair[1], choice)
    return choice[:-1]


def _split_off(paths: PathSets, graph: int, multipliers: FloatArray) -> _Totals:
    """Return the set of one graph."""
    part = np.arange(paths.starts[graph], paths.starts[graph + 1])
    reduced_cost = paths.value[part] + paths.consumption[part] @ multipliers
    order = np.argsort(reduced_cost, kind="stable")
    part = part[order]
    return _Totals(paths.value[part], reduced_cost[order], paths.consumption[part], part, part, None, graph)


def _nothing(num_limits: int) -> _Totals:
    """Return the set of no graph, whose choice is written to the last place and forgotten."""
    zero, none = np.zeros(1), np.zeros(1, dtype=np.intp)
    return _Totals(zero, zero, np.zeros((1, num_limits)), none, none, None, -1)


class _Merging:
    """Products and matches of sets towards one target."""

    def __init__(self, target: MergeTarget, effort: Effort) -> None:
        self.target = target
        self.effort = effort
        self.weights = weigh_criteria(target.most_value, target.most_consumption)

    def multiply(self, first: _Totals, second: _Totals, rest: FloatArray) -> _Totals:
        """Return the undominated totals of two sets that the rest can bring to the target.

        ``rest`` is the least (2 + L,) that the other sets add to value, reduced cost and consumptions.
        """
        target = self.target
        most = target.most_reduced_cost - rest[1]
        partners = np.searchsorted(second.reduced_cost, most - first.reduced_cost, side="right")
        self.effort.charge_pairs(int(partners.sum()))
        left, right = [], []
        for rows in _split_rows(partners):
            owner, place = expand_ranges(np.zeros(rows.size, dtype=np.intp), partners[rows])
            owner = rows[owner]
            value = first.value[owner] + second.value[place]
            consumption = first.consumption[owner] + second.consumption[place]
            kept = np.flatnonzero(
                (value + rest[0] <= target.most_value) & (consumption + rest[2:] <= target.most_consumption).all(axis=1)
            )
            kept = kept[self._filter(value[kept], consumption[kept])]
            left.append(owner[kept])
            right.append(place[kept])
        lefts, rights = np.concatenate(left), np.concatenate(right)
        value = first.value[lefts] + second.value[rights]
        consumption = first.consumption[lefts] + second.consumption[rights]
        kept = self._filter(value, consumption)
        reduced_cost = value[kept] + consumption[kept] @ target.multipliers
        order = np.argsort(reduced_cost, kind="stable")
        kept = kept[order]
        return _Totals(
            value[kept], reduced_cost[order], consumption[kept], lefts[kept], rights[kept], (first, second), -1
        )

    def match(self, first: _Totals, second: _Totals) -> tuple[int, int] | None:
        """Return the positions of the pair of least value within the target, or None."""
        target = self.target
        order, low, high = self._find_windows(first, second)
        sizes = np.maximum(high - low, 0)
        self.effort.charge_pairs(int(sizes.sum()))
        best_value, best = float(np.nextafter(target.most_value, np.inf)), None
        for rows in _split_rows(sizes):
            self.effort.charge_pairs(0)
            owner, place = expand_ranges(low[rows], sizes[rows])
            owner, place = rows[owner], order[place]
            value = first.value[owner] + second.value[place]
            better = np.flatnonzero(value < best_value)
            fits = (first.consumption[owner[better]] + second.consumption[place[better]]) <= target.most_consumption
            better = better[fits.all(axis=1)]
            if better.size:
                position = better[np.argmin(value[better])]
                best_value, best = float(value[position]), (int(owner[position]), int(place[position]))
        return best

    def _find_windows(self, first: _Totals, second: _Totals) -> tuple[IntArray, IntArray, IntArray]:
        """Return an order of the second set, and for each of the first where its partners begin and end in it."""
        target = self.target
        # A choice's reduced cost and the worth of the room it leaves add up to at most most_reduced_cost.
        spare = target.most_reduced_cost - first.reduced_cost - second.reduced_cost[0]
        spread = target.multipliers * (np.ptp(second.consumption, axis=0))
        limit = int(np.argmax(spread)) if spread.size else 0
        if not spread.size or spread[limit] <= 0:
            high = np.searchsorted(second.reduced_cost, spare + second.reduced_cost[0], side="right")
            return np.arange(second.value.size), np.zeros(first.value.size, dtype=np.intp), high
        order = np.argsort(second.consumption[:, limit], kind="stable")
        ranked = second.consumption[order, limit]
        most = target.most_consumption[limit] - first.consumption[:, limit]
        room = (spare + ROUNDING * target.most_reduced_cost) / target.multipliers[limit]
        low = np.searchsorted(ranked, most - room, side="left")
        high = np.where(spare >= 0, np.searchsorted(ranked, most, side="right"), low)
        return order, low, high

    def _filter(self, value: FloatArray, consumption: FloatArray) -> IntArray:
        """Return the positions of undominated totals."""
        criteria = np.concatenate([value[:, None], consumption * self.weights], axis=1)
        return find_undominated_vectors(np.zeros(value.size, dtype=np.intp), criteria)


def _split_rows(sizes: IntArray) -> list[IntArray]:
    """Return the rows in runs of about as many pairs as may be formed at once."""
    chunk = (np.cumsum(sizes) - sizes) // _CHUNK_PAIRS
    return np.split(np.arange(sizes.size), np.flatnonzero(np.diff(chunk)) + 1)
