"""The best choice of one path per graph from the graphs' Pareto sets, by exhaustion.

Sets are merged two at a time, smallest first, keeping undominated totals that can still beat the target; the last two
are matched by bisection, without forming their product. Of many graphs the totals lie so densely that there are too
many of them; there a merge that keeps only some of each set, spread over all consumptions, finds a choice that is as
good as the best or nearly so, and proves nothing.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from optplan.solvers.paths.effort import Effort
from optplan.solvers.paths.families import FloatArray, IntArray, PathSets
from optplan.solvers.paths.skyline import expand_ranges, find_undominated, scale_to_one

#: Pairs formed at once; bounds the memory of a merge, and how long it does not look at the clock.
_CHUNK_PAIRS = 1 << 21


@dataclass(frozen=True)
class MergeLimits:
    """Which totals are worth keeping; all are relative to the base choice.

    Parameters
    ----------
    multiplier
        Weight of the consumption in the reduced cost.
    excess
        Largest excess of a total.
    room
        Largest consumption of a total.
    gain
        Largest value of a total: what it takes to be no worse than the incumbent.
    most_kept
        Totals kept of each merged set; None for all of them, which is what exhaustion needs.
    """

    multiplier: float
    excess: float
    room: float
    gain: float
    most_kept: int | None = None


@dataclass(frozen=True, eq=False)
class _Totals:
    """Undominated totals over some graphs, relative to their base paths, by increasing consumption.

    Parameters
    ----------
    consumption, value
        (M,) Sums of the differences to the base paths.
    left, right
        (M,) Positions in the two sets merged; for the set of one graph ``left`` is the path and ``right`` unused.
    parts
        The two sets; None for the set of one graph.
    graph
        The graph of a set of one; -1 for a merged set.
    """

    consumption: FloatArray
    value: FloatArray
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


def merge_sets(paths: PathSets, base: IntArray, limits: MergeLimits, effort: Effort) -> IntArray | None:
    """Return the choice of least value within the room, or None when no choice keeps the limits.

    Parameters
    ----------
    paths
        The graphs' Pareto sets.
    base
        (G,) Position of each graph's path of least reduced cost.
    limits
        Choices beyond them need not be found.
    effort
        Charged for every pair of partial totals.

    Returns
    -------
    IntArray | None
        (G,) Position of the chosen path of each graph.

    Raises
    ------
    OutOfEffortError
        When a limit of ``effort`` is met.
    """
    sizes = np.diff(paths.starts)
    sets = [_split_off(paths, int(graph), int(base[graph])) for graph in np.flatnonzero(sizes > 1)]
    least = sum(float(part.consumption[0]) for part in sets), sum(float(part.value[-1]) for part in sets)
    # Equal sizes leave the queue in the order of their making, so the outcome is deterministic.
    queue = [(part.value.size, number, part) for number, part in enumerate(sets)]
    heapq.heapify(queue)
    for number in range(len(sets), 2 * len(sets) - 2):
        first, second = heapq.heappop(queue)[2], heapq.heappop(queue)[2]
        rest = least[0] - _least_consumption(first, second), least[1] - _least_value(first, second)
        merged = _multiply(first, second, limits, rest, effort)
        if merged is None:
            return None
        least = rest[0] + float(merged.consumption[0]), rest[1] + float(merged.value[-1])
        heapq.heappush(queue, (merged.value.size, number, merged))
    choice = base.copy()
    if not queue:
        return choice if limits.room >= 0 and limits.gain >= 0 else None
    return _match([entry[2] for entry in queue], limits, choice)


def _split_off(paths: PathSets, graph: int, base: int) -> _Totals:
    """Return the set of one graph relative to its base path."""
    part = np.arange(paths.starts[graph], paths.starts[graph + 1])
    return _Totals(
        paths.used[part] - paths.used[base],
        paths.value[part] - paths.value[base],
        part,
        part,
        None,
        graph,
    )


def _least_consumption(first: _Totals, second: _Totals) -> float:
    return float(first.consumption[0] + second.consumption[0])


def _least_value(first: _Totals, second: _Totals) -> float:
    return float(first.value[-1] + second.value[-1])


def _multiply(
    first: _Totals, second: _Totals, limits: MergeLimits, rest: tuple[float, float], effort: Effort
) -> _Totals | None:
    """Return the undominated totals of two sets within the limits, or None when there are none.

    ``rest`` is the least (consumption, value) that the other sets add.
    """
    excess = first.value + limits.multiplier * first.consumption
    other_excess = second.value + limits.multiplier * second.consumption
    by_excess = np.argsort(other_excess, kind="stable")
    partners = np.searchsorted(other_excess[by_excess], limits.excess - excess, side="right")
    effort.require_pairs(int(partners.sum()))
    chunk = (np.cumsum(partners) - partners) // _CHUNK_PAIRS
    found: list[tuple[FloatArray, FloatArray, IntArray, IntArray]] = []
    for rows in np.split(np.arange(partners.size), np.flatnonzero(np.diff(chunk)) + 1):
        effort.charge_pairs(int(partners[rows].sum()))
        owner, place = expand_ranges(np.zeros(rows.size, dtype=np.intp), partners[rows])
        left, right = rows[owner], by_excess[place]
        consumption = first.consumption[left] + second.consumption[right]
        value = first.value[left] + second.value[right]
        kept = np.flatnonzero((consumption + rest[0] <= limits.room) & (value + rest[1] <= limits.gain))
        kept = kept[_filter(consumption[kept], value[kept])]
        found.append((consumption[kept], value[kept], left[kept], right[kept]))
    consumption, value, left, right = (np.concatenate(parts) for parts in zip(*found, strict=True))
    kept = _filter(consumption, value)
    if not kept.size:
        return None
    if limits.most_kept is not None and kept.size > limits.most_kept:
        reduced_cost = value[kept] + limits.multiplier * consumption[kept]
        kept = kept[_spread(consumption[kept], reduced_cost, limits.most_kept)]
    return _Totals(consumption[kept], value[kept], left[kept], right[kept], (first, second), -1)


def _spread(consumption: FloatArray, reduced_cost: FloatArray, most: int) -> IntArray:
    """Return the positions of the least reduced cost in each of some equal intervals of (M,) rising consumptions."""
    interval = np.minimum((scale_to_one(consumption) * most).astype(np.intp), most - 1)
    order = np.lexsort((reduced_cost, interval))
    first = np.concatenate([[True], np.diff(interval[order]) > 0])
    return np.asarray(order[first])


def _filter(consumption: FloatArray, value: FloatArray) -> IntArray:
    """Return the positions of undominated totals by increasing consumption."""
    if not value.size:
        return np.empty(0, dtype=np.intp)
    return find_undominated(np.zeros(value.size, dtype=np.intp), scale_to_one(consumption), scale_to_one(value))


def _match(sets: list[_Totals], limits: MergeLimits, choice: IntArray) -> IntArray | None:
    """Complete the choice by the best pair of totals from the last one or two sets, or return None."""
    first = sets[0]
    if len(sets) == 1:
        position = int(np.searchsorted(first.consumption, limits.room, side="right")) - 1
        if position < 0 or first.value[position] > limits.gain:
            return None
        first.write_choice(position, choice)
        return choice
    second = sets[1]
    partner = np.searchsorted(second.consumption, limits.room - first.consumption, side="right") - 1
    total = np.where(partner >= 0, first.value + second.value[partner], np.inf)
    position = int(np.argmin(total))
    if not total[position] <= limits.gain:
        return None
    first.write_choice(position, choice)
    second.write_choice(int(partner[position]), choice)
    return choice
