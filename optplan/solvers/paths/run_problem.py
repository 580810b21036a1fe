"""What branch and price searches: graphs laid out by runs on one kind of nodes, and how a part of all plans is divided.

One side of a division holds a range of a layer's nodes, as special ordered sets are divided (Beale and Tomlin, "Special
facilities in a general mathematical programming system for non-convex problems using ordered sets of variables", 1970).
Beside the tree better plans are looked for among the paths that are known, and near the best plan, as in large
neighbourhood search (Danna, Rothberg and Le Pape, "Exploring relaxation induced neighborhoods to improve MIP
solutions", Mathematical Programming 102, 2005); what is changed is that searches begin short and grow.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from optplan.contracts.judgement import PathCosts
from optplan.solvers.limits import most_within
from optplan.solvers.paths import TUNING
from optplan.solvers.paths.families import FloatArray, IntArray, NodeArray
from optplan.solvers.paths.runs import RunGraphs
from optplan.solvers.paths.simplex import RestrictedMaster

#: Graph, layer, first node and that behind the last: what one side holds there, and the other does not. With layer -1
#: graph, -1, kind and number: on one side the graph's path has at most so many runs on the kind, on the other more.
Split = tuple[int, int, int, int]


@dataclass(eq=False)
class Part:
    """Some of all plans: masks that multipliers allow, and then how it is divided, or what closes it."""

    #: No plan of the part is better; and the weights (1 + L,) of value and consumptions that prove it, which may have 0
    #: for the value: then they prove that there is none. They may go on (1 + L + G * F,): what each run on a kind is
    #: charged, by graph.
    bound: float
    weights: FloatArray
    #: Weights (1 + L,) by which nodes were closed, in turn.
    fixes: list[FloatArray] = field(default_factory=list)
    #: What one side holds, and the other does not.
    split: Split | None = None
    #: The two sides, that of the split first.
    sides: tuple[Part, Part] | None = None
    #: Of all plans: kinds by which weights have charges on runs, and how many weights come before these.
    charged: tuple[int, int] = (1, 1 << 31)


@dataclass(frozen=True, eq=False)
class RunProblem:
    """Graphs by kinds of nodes, and the limits that link them."""

    #: With all nodes open.
    graphs: RunGraphs
    #: (G + 1,) Where each graph's rows begin, (G, F + 1) where the nodes of each kind do.
    starts: IntArray
    kinds: IntArray
    #: (L,) What all paths together may consume.
    limits: FloatArray
    #: (N, K) The nodes that may not be used, to be written.
    mask: NDArray[np.uint8]
    #: (2, G, F) The fewest and the most runs of each graph on each kind.
    runs: NDArray[np.int32] = field(default_factory=lambda: np.zeros((2, 0, 0), dtype=np.int32))

    def list_counts(self, owner: IntArray, runs: NDArray[np.int32], levels: FloatArray) -> list[Split]:
        """List divisions of a mixture by its runs (C, F) on each kind; those nearest to halves come first."""
        counts = np.zeros(self.runs[0].shape)
        np.add.at(counts, owner, runs * levels[:, None])
        near = np.abs(counts - np.floor(counts) - 0.5)
        if np.count_nonzero((self.runs[0] > 0) | (self.runs[1] < self.most_runs)) >= TUNING.most_counts:
            return []
        nearest = np.argsort(near, axis=None, kind="stable")[: np.count_nonzero(near < 0.5 - 1e-6)]
        places = [divmod(place, counts.shape[1]) for place in nearest[: TUNING.counts_considered].tolist()]
        return [(graph, -1, kind, int(counts[graph, kind])) for graph, kind in places]

    def pay(self, weights: FloatArray, *, size: bool = False) -> float:
        """Return what limits and bounds on runs are worth by weights; or the size of that, whatever its sign."""
        charges = weights[1 + self.limits.size :]
        of_limits = float(weights[1 : 1 + self.limits.size] @ self.limits)
        if not charges.any():
            return of_limits
        most, fewest = self.runs[1].ravel(), self.runs[0].ravel()
        of_runs = np.where(charges > 0.0, charges * most, charges * fewest)
        return of_limits + math.fsum((np.abs(of_runs) if size else of_runs).tolist())

    @property
    def most_runs(self) -> int:
        """So many runs are no bound: the longest graph's layers."""
        return int(np.diff(self.starts).max())

    def list_splits(self, owner: IntArray, nodes: NodeArray, levels: FloatArray) -> list[Split]:
        """List divisions of a mixture, by kinds and within kinds; those nearest to halves come first.

        There is so much, ``levels`` (C,), of each path, with nodes (C, E) in the graph ``owner`` (C,).
        """
        found: list[tuple[float, Split]] = []
        for g in sorted(set(owner.tolist())):
            mine = np.flatnonzero(owner == g)
            if mine.size > 1:
                paths = nodes[mine, : int(self.starts[g + 1] - self.starts[g])]
                found += [(near, (g, *split)) for near, split in _divide(paths, levels[mine], self.kinds[g].tolist())]
        return [split for _, split in sorted(found)]

    def list_any(self) -> list[Split]:
        """List a division where the mixture is none: the first layer with several open nodes."""
        for g in range(self.graphs.num_graphs):
            for j in range(int(self.starts[g + 1] - self.starts[g])):
                left = np.flatnonzero(self.mask[int(self.starts[g]) + j] == 0)
                if left.size > 1:
                    return [(g, j, int(left[0]), int(left[0]) + 1)]
        return []

    def divides(self, split: Split) -> bool:
        """Whether either side of a division has open nodes in its layer."""
        graph, layer, first, behind = split
        if layer < 0:
            return bool(self.runs[0, graph, first] <= behind < self.runs[1, graph, first])
        row = self.mask[int(self.starts[graph]) + layer]
        inside = behind - first - int(row[first:behind].sum())
        return 0 < inside < int(row.size) - int(row.sum())

    def cut(self, split: Split, *, within: bool) -> None:
        """Close what a side of a division does not hold."""
        graph, layer, first, behind = split
        if layer < 0:
            self.runs[int(within), graph, first] = behind if within else behind + 1
            if within and behind == 0:
                nodes = slice(int(self.kinds[graph, first]), int(self.kinds[graph, first + 1]))
                self.mask[int(self.starts[graph]) : int(self.starts[graph + 1]), nodes] = 1
            return
        row = self.mask[int(self.starts[graph]) + layer]
        if within:
            row[:first] = 1
            row[behind:] = 1
        else:
            row[first:behind] = 1


class Gains:
    """What divisions have gained so far (pseudocosts): those of the same nodes in layers not far apart gain alike."""

    def __init__(self, starts: IntArray) -> None:
        self._depths = np.diff(starts).tolist()
        #: Sum and number, by sort of division and of all.
        self._known: dict[tuple[int, ...], tuple[float, int]] = {}
        self._all = (0.0, 0)

    def note(self, split: Split, gain: float) -> None:
        """Take down what a division gained."""
        total, count = self._known.get(self._sort_of(split), (0.0, 0))
        self._known[self._sort_of(split)] = total + gain, count + 1
        self._all = self._all[0] + gain, self._all[1] + 1

    def expect(self, split: Split) -> float:
        """Return the mean gain of a sort of division, to which the mean of all counts as one more."""
        total, count = self._known.get(self._sort_of(split), (0.0, 0))
        return (total + self._all[0] / max(1, self._all[1])) / (count + 1)

    def _sort_of(self, split: Split) -> tuple[int, ...]:
        graph, layer, first, behind = split
        return graph, layer * TUNING.gain_stages // self._depths[graph], first, behind


def state_runs(
    graphs: Sequence[PathCosts], kinds: Sequence[IntArray], own: Sequence[IntArray], limits: FloatArray
) -> RunProblem | None:
    """Lay out graphs by kinds of nodes.

    ``kinds`` are (K,) by graph, the kind of each node; ``own`` (F,) by graph, the limit that only nodes of each kind
    consume, -1 where there is none. None is returned where that would be too large, nodes of a kind are no neighbours,
    or entries differ from layer to layer.
    """
    steps_of_a_pass = sum(costs.run_value.size * len(costs.run_value) for costs in graphs)
    if len(graphs) + limits.size > TUNING.most_rows or steps_of_a_pass > TUNING.most_steps:
        return None
    width = max(costs.run_value.shape[1] for costs in graphs)
    groups = max(costs.num_groups for costs in graphs)
    most = max(int(kind.max()) for kind in kinds) + 1
    starts = np.concatenate([[0], np.cumsum([len(costs.run_value) for costs in graphs])]).astype(np.intp)
    size = 1 + limits.size
    steps = np.zeros((size, int(starts[-1]), width))
    entries = np.zeros((size, len(graphs), most if groups > 1 else 1, width))
    bounds = np.zeros((len(graphs), most + 1), dtype=np.intp)
    owns = np.full((len(graphs), most), -1, dtype=np.intp)
    closed = np.ones(steps.shape[1:], dtype=np.uint8)
    used = np.zeros((len(graphs), most, limits.size), dtype=np.uint8)
    for g, (costs, kind) in enumerate(zip(graphs, kinds, strict=True)):
        rows, nodes = slice(int(starts[g]), int(starts[g + 1])), kind.size
        step = np.concatenate([costs.run_value[None], costs.run_consumption])
        entry = np.concatenate([costs.enter_value[None], costs.enter_consumption])
        if np.any(np.diff(kind) < 0) or not bool((entry == entry[:, :, :1]).all()):
            return None
        finite = np.isfinite(step[0])
        steps[:, rows, :nodes] = np.where(finite, step, 0.0)
        closed[rows, :nodes] = ~finite
        entries[:, g, :, :nodes] = entry[:, :1, 0] if costs.num_groups == 1 else 0.0
        if costs.num_groups > 1:
            entries[:, g, : costs.num_groups, :nodes] = entry[:, :, 0]
        bounds[g] = np.searchsorted(kind, np.arange(most + 1))
        owns[g, : own[g].size] = own[g]
        for h in range(most):
            inside = slice(int(bounds[g, h]), int(bounds[g, h + 1]))
            use = steps[1:, rows, inside].any(axis=(1, 2)) | entries[1:, g, :, inside].any(axis=(1, 2))
            used[g, h] = use
    found = RunGraphs(steps, entries, starts, bounds, owns, used, most_within(limits))
    mask: NDArray[np.uint8] = np.asarray(found.closed)
    mask[:] = closed
    runs = np.zeros((2, *owns.shape), dtype=np.int32)
    runs[1] = np.diff(starts).max()
    return RunProblem(found, starts, bounds, limits, mask, runs)


def _divide(paths: NodeArray, levels: FloatArray, kinds: list[int]) -> Iterator[tuple[float, tuple[int, int, int]]]:
    """List divisions of a graph's mixture with how far its share is from one half: layer, first node, behind the last.

    Of neighbouring layers with the same share there is one, in their middle. Layers in which no path moves are one.
    """
    begins = [0, *(np.flatnonzero((paths[:, 1:] != paths[:, :-1]).any(axis=0)) + 1).tolist(), paths.shape[1]]
    stretches = paths[:, begins[:-1]].T
    used = sorted(set(stretches.ravel().tolist()))
    ranges = []
    for node, after in itertools.zip_longest(used, used[1:], fillvalue=kinds[-1]):
        kind = bisect_right(kinds, node)
        ranges.append((kinds[kind - 1], node + 1 if after < kinds[kind] else kinds[kind]))
    first, behind = np.array(ranges).T[:, :, None, None]
    shares = np.cumsum(((first <= stretches) & (stretches < behind)) * levels, axis=-1)[..., -1]
    for (first, behind), weights in zip(ranges, shares.tolist(), strict=True):
        start = 0
        for at, weight in enumerate(weights):
            if at + 1 < len(weights) and abs(weights[at + 1] - weight) <= 1e-9:
                continue
            if 1e-6 < weights[start] < 1.0 - 1e-6:
                yield abs(weights[start] - 0.5), ((begins[start] + begins[at + 1] - 1) // 2, first, behind)
            start = at + 1


class Neighbourhoods:
    """Which graphs may leave the best plan's paths in each search near it: choices of fewer graphs come first.

    Once all were searched, those whose search was cut short are searched again, for twice as many parts.
    """

    def __init__(self, num_graphs: int) -> None:
        self._num_graphs = num_graphs
        #: The value of the plan, what is to be searched near it, and what was cut short.
        self._value = math.inf
        self._waiting: Iterator[tuple[int, ...]] = iter(())
        self._cut_short: list[tuple[int, ...]] = []
        #: Parts of each search, and of all so far.
        self.most_parts = TUNING.parts_near
        self.parts = 0

    def take(self, value: float) -> tuple[int, ...] | None:
        """Return the next choice of graphs near a plan of a value; None where no search would find a better one."""
        if self._value > value:
            self._value, self.most_parts, self._cut_short = value, TUNING.parts_near, []
            sizes = range(2, self._num_graphs)
            self._waiting = itertools.chain.from_iterable(
                itertools.combinations(range(self._num_graphs), size) for size in sizes
            )
        free = next(self._waiting, None)
        if free is None and self._cut_short:
            self.most_parts *= 2
            self._waiting, self._cut_short = iter(self._cut_short), []
            free = next(self._waiting)
        return free

    def note_cut_short(self, free: tuple[int, ...]) -> None:
        """Take down that a search ended before all near the plan was looked at."""
        self._cut_short.append(free)


def choose_columns(master: RestrictedMaster, weights: FloatArray, ceiling: float) -> IntArray | None:
    """Return a column of each graph (G,) of the master that keep the limits and cost less than ``ceiling`` together.

    ``weights`` (L,) of the limits say which paths are looked at first. None where the steps allowed found none.
    """
    known, graphs = slice(master.count), master.num_graphs
    entries = np.asarray(master.entries)[known]
    reduced = np.asarray(master.value)[known] + entries @ weights
    owner = np.asarray(master.owner)[known]
    lists = [_find_least(reduced, np.flatnonzero(owner == g), TUNING.choice_paths) for g in range(graphs)]
    if not all(each.size for each in lists):
        return None
    order_of = sorted(range(graphs), key=lambda g: (lists[g].size, g))
    lists = [lists[g] for g in order_of]
    starts = np.concatenate([[0], np.cumsum([each.size for each in lists])]).astype(np.intp)
    order = np.concatenate(lists)
    least = np.array([[reduced[each].min(), *entries[each].min(axis=0)] for each in lists])
    rest = np.zeros((graphs + 1, 1 + weights.size))
    rest[:-1] = least[::-1].cumsum(axis=0)[::-1]
    chosen = np.empty(graphs, dtype=np.intp)
    best = master.combine(
        starts, order, reduced[order], rest, ceiling, float(weights.sum()), TUNING.choice_steps, chosen
    )
    return chosen[np.argsort(order_of)] if best < ceiling else None


def _find_least(numbers: FloatArray, places: IntArray, count: int) -> IntArray:
    """Return the places of the least numbers, in order; of equal ones the first."""
    own = numbers[places]
    if own.size > count:  # to sort all of many takes longer than to find where the least end
        near = own <= np.partition(own, count)[count]
        places, own = places[near], own[near]
    return places[np.argsort(own, kind="stable")[:count]]


def round_to(weights: FloatArray, digits: int) -> FloatArray:
    """Round weights to significant digits."""
    return np.array([float(f"{each:.{digits - 1}e}") if each else 0.0 for each in weights.tolist()])
