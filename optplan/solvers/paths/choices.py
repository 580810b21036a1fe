"""One path per graph, chosen from known ones: by exhaustion, and by a small integer program.

*Exhaustion.* Sets are merged two at a time, smallest first, keeping undominated totals that can still lead to a choice
that is asked for. The last two are matched without forming their product: with one limit the best partner of a total is
the one that uses up what is left of it; with several, no binding limit has much room left in a choice of nearly the
bound's value, so the partners of a total have their consumption in a narrow window.

Lists of undominated sums are those of Nemhauser and Ullmann, "Discrete dynamic programming and capital allocation",
Management Science 15, 1969; matching the last two sets is the idea of Horowitz and Sahni (Journal of the ACM 21, 1974).

Where totals are too many, some of each set are kept, spread over all consumptions: nearly as good, and no proof.

*The restricted master heuristic* solves the program over known paths with HiGHS, as far as effort allows (Joncour et
al., "Column generation based primal heuristics", Electronic Notes in Discrete Mathematics 36, 2010).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from optplan.progress import Stopwatch
from optplan.solvers.limits import ROUNDING
from optplan.solvers.paths import TUNING
from optplan.solvers.paths.dominance import (
    expand_ranges,
    find_undominated,
    find_undominated_vectors,
    scale_to_one,
    weigh_criteria,
)
from optplan.solvers.paths.families import FloatArray, IntArray, PathSets
from optplan.solvers.paths.search import Effort, OutOfEffortError
from optplan.solvers.quiet_highs import run_engine, start_engine

if TYPE_CHECKING:
    import highspy

#: Absolute tolerance of HiGHS on the scaled program, and the relative slack of the limits: together LIMIT_TOLERANCE.
_ENGINE_TOLERANCE = 4e-10


@dataclass(frozen=True)
class MergeTarget:
    """Which choices are asked for."""

    #: (L,) Weights of the consumptions in the reduced cost.
    multipliers: FloatArray
    #: (L,) What the total consumption may be at most.
    most_consumption: FloatArray
    #: What the total value may be at most.
    most_value: float
    #: What the total reduced cost may be at most.
    most_reduced_cost: float
    #: Totals kept of each merged set, of one limit; None for all of them, which is what exhaustion needs.
    most_kept: int | None = None


@dataclass(frozen=True, eq=False)
class _Totals:
    """Totals over some graphs relative to their best paths, by reduced cost; with one limit by consumption."""

    #: (M,) Sums.
    value: FloatArray
    reduced_cost: FloatArray
    #: (M, L) Sums.
    consumption: FloatArray
    #: (M,) Positions in the two sets merged; for the set of one graph ``left`` is the path and ``right`` unused.
    left: IntArray
    right: IntArray
    #: The two sets; None for the set of one graph.
    parts: tuple[_Totals, _Totals] | None
    #: The graph of a set of one; -1 for a merged set.
    graph: int

    @property
    def least(self) -> FloatArray:
        """(2 + L,) The least value, reduced cost and consumptions."""
        return np.concatenate([[self.value.min(), self.reduced_cost.min()], self.consumption.min(axis=0)])

    def write_choice(self, position: int, choice: IntArray) -> None:
        """Enter the paths behind a total into ``choice``."""
        if self.parts is not None:
            self.parts[0].write_choice(int(self.left[position]), choice)
            self.parts[1].write_choice(int(self.right[position]), choice)
        elif self.graph >= 0:
            choice[self.graph] = self.left[position]


def merge_path_sets(paths: PathSets, target: MergeTarget, effort: Effort) -> IntArray | None:
    """Return the choice (G,), each graph's path, of least value among those asked for; None without any."""
    base, merging = _start_merge(paths, target, effort)
    left = _merge_down(paths, merging, 2)
    pair = None if left is None else merging.match(*left)
    return None if left is None or pair is None else _write_choice(base, left, pair)


def list_choices(paths: PathSets, target: MergeTarget, effort: Effort) -> list[IntArray]:
    """Return the choices (G,) asked for, within one limit, that none of less consumption dominates, the least first."""
    base, merging = _start_merge(paths, target, effort)
    left = _merge_down(paths, merging, 1)
    return [] if left is None else [_write_choice(base, left, [place]) for place in range(left[0].value.size)]


def _start_merge(paths: PathSets, target: MergeTarget, effort: Effort) -> tuple[IntArray, _ParetoMerge]:
    """Return the choice of least reduced cost, and what merges sets relative to it."""
    reduced_cost = paths.value + paths.consumption @ target.multipliers
    owner = np.repeat(np.arange(paths.starts.size - 1), np.diff(paths.starts))
    base = np.lexsort((reduced_cost, owner))[paths.starts[:-1]]
    return base, _ParetoMerge(paths, base, target, effort)


def _merge_down(paths: PathSets, merging: _ParetoMerge, most: int) -> list[_Totals] | None:
    """Merge the sets of all graphs, smallest first, until so many are left; None where no choice is asked for."""
    sets = [merging.split_off(graph) for graph in np.flatnonzero(np.diff(paths.starts) > 1).tolist()]
    sets += [merging.nothing() for _ in range(2 - len(sets))]
    # Equal sizes leave the queue in the order of their making, so the outcome is deterministic.
    queue = [(part.value.size, number, part) for number, part in enumerate(sets)]
    heapq.heapify(queue)
    least = np.sum([part.least for part in sets], axis=0)
    for number in range(len(sets), 2 * len(sets) - most):
        first, second = heapq.heappop(queue)[2], heapq.heappop(queue)[2]
        rest = least - first.least - second.least
        merged = merging.multiply(first, second, rest)
        if not merged.value.size:
            return None
        merging.effort.charge_labels(0, merged.value.size)
        least = rest + merged.least
        heapq.heappush(queue, (merged.value.size, number, merged))
    return [heapq.heappop(queue)[2] for _ in range(most)]


def _write_choice(base: IntArray, parts: Sequence[_Totals], places: Sequence[int]) -> IntArray:
    """Return the choice behind totals at some places of the last sets."""
    choice = base.copy()
    for part, place in zip(parts, places, strict=True):
        part.write_choice(place, choice)
    return choice


class _ParetoMerge:
    """Products and matches of sets towards one target, all relative to the choice of least reduced cost."""

    def __init__(self, paths: PathSets, base: IntArray, target: MergeTarget, effort: Effort) -> None:
        self.paths = paths
        self.base = base
        self.target = target
        self.effort = effort
        value, consumption = paths.add_up(base)
        #: By how much value, reduced cost and consumptions may exceed those of that choice.
        self.gain = target.most_value - value
        self.excess = target.most_reduced_cost - (value + float(target.multipliers @ consumption))
        self.room = target.most_consumption - consumption
        self.weights = weigh_criteria(target.most_value, target.most_consumption)

    def split_off(self, graph: int) -> _Totals:
        """Return the set of one graph."""
        part, base = np.arange(*self.paths.starts[graph : graph + 2]), self.base[graph]
        value = self.paths.value[part] - self.paths.value[base]
        consumption = self.paths.consumption[part] - self.paths.consumption[base]
        return self._arrange(value, consumption, part, part, None, graph)

    def nothing(self) -> _Totals:
        """Return the set of no graph."""
        zero, none = np.zeros(1), np.zeros(1, dtype=np.intp)
        return _Totals(zero, zero, np.zeros((1, self.room.size)), none, none, None, -1)

    def _arrange(
        self,
        value: FloatArray,
        consumption: FloatArray,
        left: IntArray,
        right: IntArray,
        parts: tuple[_Totals, _Totals] | None,
        graph: int,
    ) -> _Totals:
        """Return totals that are by consumption where there is one limit."""
        reduced_cost = value + consumption @ self.target.multipliers
        if self.room.size == 1:
            return _Totals(value, reduced_cost, consumption, left, right, parts, graph)
        order = np.argsort(reduced_cost, kind="stable")
        return _Totals(value[order], reduced_cost[order], consumption[order], left[order], right[order], parts, graph)

    def multiply(self, first: _Totals, second: _Totals, rest: FloatArray) -> _Totals:
        """Return the undominated totals of two sets that the rest, (2 + L,) at least, can bring to the target."""
        by_cost = np.argsort(second.reduced_cost, kind="stable")
        most = self.excess - rest[1] - first.reduced_cost
        partners = np.searchsorted(second.reduced_cost[by_cost], most, side="right")
        if partners.sum() > self.effort.max_pairs:
            raise OutOfEffortError("pairs")
        left, right = [], []
        for rows in _split_rows(partners):
            self.effort.charge_pairs(int(partners[rows].sum()))
            owner, place = expand_ranges(np.zeros(rows.size, dtype=np.intp), partners[rows])
            owner, place = rows[owner], by_cost[place]
            value = first.value[owner] + second.value[place]
            consumption = first.consumption[owner] + second.consumption[place]
            kept = np.flatnonzero((value + rest[0] <= self.gain) & (consumption + rest[2:] <= self.room).all(axis=1))
            kept = kept[self._filter(value[kept], consumption[kept])]
            left.append(owner[kept])
            right.append(place[kept])
        lefts, rights = np.concatenate(left), np.concatenate(right)
        value = first.value[lefts] + second.value[rights]
        consumption = first.consumption[lefts] + second.consumption[rights]
        kept = self._filter(value, consumption)
        if self.target.most_kept is not None and kept.size > self.target.most_kept:
            reduced_cost = value[kept] + consumption[kept] @ self.target.multipliers
            kept = kept[_spread(consumption[kept, 0], reduced_cost, self.target.most_kept)]
        return self._arrange(value[kept], consumption[kept], lefts[kept], rights[kept], (first, second), -1)

    def match(self, first: _Totals, second: _Totals) -> tuple[int, int] | None:
        """Return the positions of the pair of least value within the target, or None."""
        if self.room.size == 1:
            return self._match_pareto_sets(first, second)
        order, low, high = self._find_windows(first, second)
        sizes = np.maximum(high - low, 0)
        best_value, best = float(np.nextafter(self.gain, np.inf)), None
        for rows in _split_rows(sizes):
            self.effort.charge_pairs(int(sizes[rows].sum()))
            owner, place = expand_ranges(low[rows], sizes[rows])
            owner, place = rows[owner], order[place]
            value = first.value[owner] + second.value[place]
            better = np.flatnonzero(value < best_value)
            fits = (first.consumption[owner[better]] + second.consumption[place[better]]) <= self.room
            better = better[fits.all(axis=1)]
            if better.size:
                position = better[np.argmin(value[better])]
                best_value, best = float(value[position]), (int(owner[position]), int(place[position]))
        return best

    def _match_pareto_sets(self, first: _Totals, second: _Totals) -> tuple[int, int] | None:
        """Return the pair of least value within the room: of undominated totals, more consumption is less value."""
        partner = np.searchsorted(second.consumption[:, 0], self.room[0] - first.consumption[:, 0], side="right") - 1
        total = np.where(partner >= 0, first.value + second.value[partner], np.inf)
        position = int(np.argmin(total))
        return (position, int(partner[position])) if total[position] <= self.gain else None

    def _find_windows(self, first: _Totals, second: _Totals) -> tuple[IntArray, IntArray, IntArray]:
        """Return an order of the second set, and for each of the first where its partners begin and end in it."""
        multipliers = self.target.multipliers
        # A choice's reduced cost and the worth of the room it leaves add up to at most most_reduced_cost.
        spare = self.excess - first.reduced_cost - second.reduced_cost[0]
        spread = multipliers * np.ptp(second.consumption, axis=0)
        limit = int(np.argmax(spread)) if spread.size else 0
        if not spread.size or spread[limit] <= 0:
            high = np.searchsorted(second.reduced_cost, spare + second.reduced_cost[0], side="right")
            return np.arange(second.value.size), np.zeros(first.value.size, dtype=np.intp), high
        order = np.argsort(second.consumption[:, limit], kind="stable")
        ranked = second.consumption[order, limit]
        most = self.room[limit] - first.consumption[:, limit]
        room = (spare + ROUNDING * self.target.most_reduced_cost) / multipliers[limit]
        low = np.searchsorted(ranked, most - room, side="left")
        high = np.where(spare >= 0, np.searchsorted(ranked, most, side="right"), low)
        return order, low, high

    def _filter(self, value: FloatArray, consumption: FloatArray) -> IntArray:
        """Return the positions of undominated totals; of one limit, by increasing consumption."""
        segment = np.zeros(value.size, dtype=np.intp)
        if not value.size:
            return segment
        if consumption.shape[1] == 1:
            return find_undominated(segment, scale_to_one(consumption[:, 0]), scale_to_one(value))
        return find_undominated_vectors(segment, np.concatenate([value[:, None], consumption * self.weights], axis=1))


def _spread(consumption: FloatArray, reduced_cost: FloatArray, most: int) -> IntArray:
    """Return the positions of the least reduced cost in each of some equal intervals of (M,) rising consumptions."""
    interval = np.minimum((scale_to_one(consumption) * most).astype(np.intp), most - 1)
    order = np.lexsort((reduced_cost, interval))
    first = np.concatenate([[True], np.diff(interval[order]) > 0])
    return np.asarray(order[first])


def _split_rows(sizes: IntArray) -> list[IntArray]:
    """Return the rows in runs of about as many pairs as may be formed at once."""
    chunk = (np.cumsum(sizes) - sizes) // TUNING.chunk_pairs
    return np.split(np.arange(sizes.size), np.flatnonzero(np.diff(chunk)) + 1)


def find_nearest(graph: IntArray, reduced_cost: FloatArray) -> IntArray:
    """Return the positions of the paths of least excess, graphs (C,), as many as :func:`choose_paths` looks among."""
    least = np.full(int(graph.max()) + 1, np.inf)
    np.minimum.at(least, graph, reduced_cost)
    nearest = np.argsort(reduced_cost - least[graph], kind="stable")
    return np.sort(nearest[: TUNING.known_paths + 2 * least.size])


def choose_paths(
    graph: IntArray, value: FloatArray, consumption: FloatArray, limits: FloatArray, gap: float, stopwatch: Stopwatch
) -> IntArray | None:
    """Return a good choice (G,) of one path per graph that keeps the limits; None when none was found."""
    # ``graph`` (M,) says whose path each is, ``value`` (M,), ``consumption`` (M, L); the gap is to the best of these.
    import highspy

    num_graphs = int(graph.max()) + 1
    entries = consumption / limits
    usable = np.flatnonzero((entries <= 1.0 + _ENGINE_TOLERANCE).all(axis=1))
    graph, entries = graph[usable], entries[usable]
    if np.unique(graph).size < num_graphs:
        return None
    engine = start_engine(
        mip_rel_gap=gap,
        mip_max_nodes=TUNING.choice_nodes,
        mip_feasibility_tolerance=_ENGINE_TOLERANCE,
        primal_feasibility_tolerance=_ENGINE_TOLERANCE,
        small_matrix_value=1e-12,
    )
    if stopwatch.remaining_s is not None:
        engine.setOptionValue("time_limit", stopwatch.remaining_s)
    _pass_program(engine, graph, value[usable] / (float(value.max()) or 1.0), entries)
    run_engine(engine)
    if engine.getInfo().primal_solution_status != int(highspy.SolutionStatus.kSolutionStatusFeasible):
        return None
    chosen = np.flatnonzero(np.asarray(engine.getSolution().col_value) > 0.5)
    # Paths come in any order, and the choice is by graph.
    return usable[chosen[np.argsort(graph[chosen])]] if chosen.size == num_graphs else None


def _pass_program(engine: highspy.Highs, graph: IntArray, value: FloatArray, entries: FloatArray) -> None:
    """Give HiGHS a binary column for each path; rows are graphs, then limits, of which ``entries`` are shares."""
    import highspy

    graphs, (count, limits) = int(graph.max()) + 1, entries.shape
    rows = np.concatenate([graph[:, None], np.tile(graphs + np.arange(limits), (count, 1))], axis=1)
    numbers = np.concatenate([np.ones((count, 1)), entries], axis=1)
    engine.passModel(
        count,
        graphs + limits,
        numbers.size,
        int(highspy.MatrixFormat.kColwise),
        int(highspy.ObjSense.kMinimize),
        0.0,
        value,
        np.zeros(count),
        np.ones(count),
        np.concatenate([np.ones(graphs), np.full(limits, -np.inf)]),
        np.concatenate([np.ones(graphs), np.full(limits, 1.0 + _ENGINE_TOLERANCE)]),
        (np.arange(count) * rows.shape[1]).astype(np.int32),
        rows.ravel().astype(np.int32),
        numbers.ravel(),
        np.ones(count, dtype=np.int32),
    )
