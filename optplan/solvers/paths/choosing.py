"""Branch and bound where every graph has one layer: a path is a node, and all of them stand in one linear program.

Where a graph is a choice among a dozen nodes, the bound of mixtures may be percents below the best plan, because a
single choice weighs a lot. The program of all choices is kept in HiGHS from one part to the next, which closes nodes
and goes on from the basis it has: a part takes a fraction of a millisecond. Nodes whose reduced cost takes them beyond
the incumbent are split off at once, and are closed by the same weights; what is left of the part has a better bound.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from optplan.solvers.paths.branching import Region, Split
from optplan.solvers.paths.effort import Effort, OutOfEffortError
from optplan.solvers.paths.engine import pass_choices, run_engine, start_engine
from optplan.solvers.paths.families import FloatArray, IntArray, PathBatch, keep_limits
from optplan.solvers.paths.switching.graphs import LinkedGraphs

if TYPE_CHECKING:
    import highspy

#: More nodes of all graphs make the program slow; so many parts hardly fit into a certificate.
_MOST_NODES = 4_000
_MOST_PARTS = 4_000
#: Graphs that are tried to divide a part by.
_MOST_TRIED = 4
#: What a limit exceeded once over costs, as a multiple of the best plan known: then it is hardly ever worth while.
_DEAREST = 1e3
#: A graph with less than this beside one node is not divided.
_DIVIDED = 1e-7


@dataclass(frozen=True, eq=False)
class _Part:
    """Some choices: which nodes (N,) are open, their fractions in a best mixture, and what they exceed its bound by."""

    bound: float
    region: Region
    open: NDArray[np.bool_]
    fractions: FloatArray
    excess: FloatArray


def find_choices(graphs: LinkedGraphs) -> tuple[IntArray, PathBatch] | None:
    """Return all paths (N,) of graphs of one layer, by graph; None where there are more layers, or very many paths."""
    if graphs.num_layers > 1 or int((~graphs.closed).sum()) > _MOST_NODES:
        return None
    positions, places = np.nonzero(~graphs.closed)
    graph = graphs.order[positions]
    by_graph = np.argsort(graph, kind="stable")
    graph, places = graph[by_graph], places[by_graph]
    return graph, graphs.follow(graph, places.astype(np.int32)[:, None])


class ChoiceSearch:
    """The state of closing a gap between choices.

    Parameters
    ----------
    graphs
        Of one layer each.
    choices
        Their paths, from :func:`find_choices`.
    plan
        The best plan known.
    gap
        Relative gap at which to stop.
    rounding
        Values closer than this are the same.
    effort
        Charged for every linear program.
    """

    def __init__(
        self,
        graphs: LinkedGraphs,
        choices: tuple[IntArray, PathBatch],
        plan: PathBatch,
        gap: float,
        rounding: float,
        effort: Effort,
    ) -> None:
        self.graphs = graphs
        self.graph, self.columns = choices
        self.plan = plan
        self.gap = gap
        self.rounding = rounding
        self.effort = effort
        self.branches = 0
        #: All choices, divided as far as the search came.
        self.region = Region(np.append(1.0, np.zeros(graphs.limits.size)))
        self._pruned = math.inf
        self._open: list[tuple[float, int, _Part]] = []
        self._starts = np.searchsorted(self.graph, np.arange(graphs.num_graphs))
        self._engine = self._start_engine()

    @property
    def bound(self) -> float:
        """No plan has less value, as far as was proven; -inf before anything is."""
        return min(self._pruned, self._open[0][0]) if self._open else self._pruned if self.branches else -math.inf

    @property
    def _cutoff(self) -> float:
        return self.plan.total_value * (1.0 - self.gap) - self.rounding

    def run(self) -> None:
        """Divide until the gap is closed, or there are too many parts.

        Raises
        ------
        OutOfEffortError
            When time runs out; all is known that was known then.
        """
        whole = self._bound(np.ones(self.graph.size, dtype=np.bool_), self.region)
        self._open.append((whole.bound, 0, whole))
        while self._open and self._open[0][0] < self._cutoff and self.branches < _MOST_PARTS:
            self._branch(self._open[0][2])

    def _offer(self, chosen: IntArray) -> None:
        """Take a choice (G,) as the plan when it keeps the limits and is better."""
        plan = self.columns.take(chosen)
        if plan.total_value < self.plan.total_value and keep_limits(plan.total_consumption, self.graphs.limits):
            self.plan = plan

    def _branch(self, part: _Part) -> None:
        """Replace the first open part by two, after the nodes that cannot be in a better plan are split off."""
        whole = part.region
        beyond, part = self._split_off(part)
        try:
            sides = self._divide(part)
        except OutOfEffortError:
            whole.split = whole.parts = None  # the part stays open as it was
            raise
        heapq.heappop(self._open)
        self.branches += 1
        self._pruned = min(self._pruned, beyond, math.inf if sides else self._end(part))
        for number, side in enumerate(sides):
            if side.bound >= self._cutoff:
                self._pruned = min(self._pruned, side.bound)
            else:
                heapq.heappush(self._open, (side.bound, 2 * self.branches + number, side))

    def _split_off(self, part: _Part) -> tuple[float, _Part]:
        """Return the least bound of what is split off, and the part without."""
        gone = part.open & (part.bound + part.excess >= self._cutoff)
        region, weights = part.region, part.region.weights
        for graph in np.unique(self.graph[gone]).tolist():
            split = self._describe(graph, np.flatnonzero(gone & (self.graph == graph)), 0.0)
            region.split, region.parts = split, (Region(weights), Region(weights))
            region = region.parts[1]
        beyond = part.bound + float(part.excess[gone].min(initial=math.inf))
        return beyond, _Part(part.bound, region, part.open & ~gone, part.fractions, part.excess)

    def _divide(self, part: _Part) -> list[_Part]:
        """Return the two sides of the division that raises the bound most; none where a part is one plan."""
        best_score, best = -math.inf, list[_Part]()
        for graph, inside in self._find_divisions(part):
            regions = Region(part.region.weights), Region(part.region.weights)
            sides = []
            for nodes, region in zip((inside, ~inside), regions, strict=True):
                found = self._bound(part.open & (nodes | (self.graph != graph)), region)
                sides.append(_Part(max(found.bound, part.bound), region, found.open, found.fractions, found.excess))
            gains = [max(min(side.bound, self._cutoff) - part.bound, self.rounding) for side in sides]
            if gains[0] * gains[1] > best_score:
                best_score, best = gains[0] * gains[1], sides
                part.region.split, part.region.parts = self._describe(graph, np.flatnonzero(inside), 0.5), regions
        return best

    def _find_divisions(self, part: _Part) -> list[tuple[int, NDArray[np.bool_]]]:
        """Return graphs whose choice is mixed, those that matter most first, each with one side (N,) of its nodes.

        A mixture of one node per graph is a plan, or exceeds a limit: then the graph with most nodes is divided.
        """
        largest = np.maximum.reduceat(part.fractions, self._starts)
        slowest = np.maximum.reduceat(np.where(part.fractions > _DIVIDED, self.columns.value, 0.0), self._starts)
        counts = np.add.reduceat(part.open.astype(np.intp), self._starts)
        mixed = np.flatnonzero((largest < 1.0 - _DIVIDED) & (counts > 1))
        fractions = part.fractions
        if not mixed.size:
            order = np.lexsort((-fractions, self.graph))
            self._offer(order[self._starts])
            mixed = np.flatnonzero(counts == max(2, counts.max()))[:1]
            fractions = part.open / counts[self.graph]
        weight = np.minimum(largest, 1.0 - largest) * slowest
        tried = mixed[np.argsort(-weight[mixed], kind="stable")][:_MOST_TRIED]
        return [(graph, side) for graph in tried.tolist() for side in self._list_sides(graph, part.open, fractions)]

    def _list_sides(self, graph: int, is_open: NDArray[np.bool_], fractions: FloatArray) -> list[NDArray[np.bool_]]:
        """Return sides (N,) of a graph: nodes that take little of a limit, of each limit, with about half the mixture.

        What takes nothing of a quota is one side as a rule, which matters more than sides within one kind. Where no
        amount tells the nodes of the mixture apart, the quicker ones are a side.
        """
        nodes = np.flatnonzero(is_open & (self.graph == graph))
        sides: list[NDArray[np.bool_]] = []
        for amounts in self.columns.consumption[nodes].T:
            order = np.argsort(amounts, kind="stable")
            share = np.where(np.diff(amounts[order]) > 0.0, np.cumsum(fractions[nodes[order]])[:-1], 0.0)
            last = int(np.abs(share - 0.5).argmin())
            if _DIVIDED < share[last] < 1.0 - _DIVIDED:
                sides.append(np.isin(np.arange(self.graph.size), nodes[order[: last + 1]]))
        if not sides:
            order = np.argsort(self.columns.value[nodes], kind="stable")
            last = int(np.abs(np.cumsum(fractions[nodes[order]])[:-1] - 0.5).argmin())
            sides.append(np.isin(np.arange(self.graph.size), nodes[order[: last + 1]]))
        return list({side.tobytes(): side for side in sides}.values())

    def _end(self, part: _Part) -> float:
        """Return the bound of a part of one plan: +inf where it exceeds a limit."""
        used = self.columns.take(np.flatnonzero(part.open)).total_consumption / self.graphs.limits
        if keep_limits(used, np.ones(used.size)):
            return part.bound
        part.region.weights = np.append(0.0, (np.arange(used.size) == used.argmax()) / self.graphs.limits)
        return math.inf

    def _describe(self, graph: int, nodes: IntArray, weight: float) -> Split:
        """Return the split of a graph that has some nodes (of all graphs) on one side."""
        side = np.zeros(self.graphs.closed.shape[1], dtype=np.bool_)
        side[self.graphs.places(graph, self.columns.payload[nodes, 0])] = True
        return Split(graph, 0, side, weight)

    def _bound(self, nodes: NDArray[np.bool_], region: Region) -> _Part:
        """Find the best mixture of some nodes; its multipliers go into the region."""
        self.effort.charge_pass()
        count = self.graph.size
        upper = np.where(nodes, np.inf, 0.0)
        self._engine.changeColsBounds(count, np.arange(count, dtype=np.int32), np.zeros(count), upper)
        run_engine(self._engine)
        solution, limits = self._engine.getSolution(), self.graphs.limits
        prices = np.maximum(0.0, -np.asarray(solution.row_dual)[self.graphs.num_graphs :])
        multipliers = prices * self._unit / limits
        reduced = np.where(nodes, self.columns.weigh(multipliers), np.inf)
        least = np.minimum.reduceat(reduced, self._starts)
        region.weights = np.append(1.0, multipliers)
        bound = math.fsum(least.tolist()) - float(multipliers @ limits)
        fractions = np.asarray(solution.col_value)[:count]
        return _Part(bound, region, nodes, fractions, reduced - least[self.graph])

    def _start_engine(self) -> highspy.Highs:
        """Return HiGHS with all choices; limits may be exceeded at a high price."""
        graphs, limits = self.graphs.num_graphs, self.graphs.limits
        self._unit = self.plan.total_value / graphs
        engine = start_engine(presolve="off", solver="simplex")
        value, entries = self.columns.value / self._unit, self.columns.consumption / limits
        pass_choices(engine, self.graph, value, entries, np.ones(limits.size), dearest=_DEAREST * graphs)
        return engine
