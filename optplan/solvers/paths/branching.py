"""Branch and price: pure plans where the Lagrangian bound alone is too weak to enumerate above it.

Where limits bind, a best mixture splits graphs between groups of nodes, which one path can often not imitate. So a
layer of a split graph is given to one side of the split, then to the other, and each time the bound is maximised anew,
starting from the paths that are still allowed. Subproblems whose bound reaches the incumbent end there; those with
little left between bound and incumbent are enumerated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optplan.solvers.limits import ROUNDING
from optplan.solvers.paths.bounds import widen
from optplan.solvers.paths.effort import Effort
from optplan.solvers.paths.families import FloatArray, IntArray, PathBatch
from optplan.solvers.paths.generation import Aim, Generation, Progress, exceeds_one
from optplan.solvers.paths.switching.graphs import LinkedGraphs
from optplan.solvers.paths.switching.trails import Trails

#: A mixture with less than this on one side is not divided.
_DIVIDED = 1e-9

#: Graphs with some nodes closed, and their known paths of open nodes with whose they are.
Side = tuple[LinkedGraphs, tuple[IntArray, PathBatch]]


@dataclass(eq=False)
class Region:
    """Some of all choices, and why none of them is better than what is proven; it is divided further or has a bound.

    Parameters
    ----------
    weights
        (1 + L,) Of value and consumptions: the least so weighted sum of the region's choices is what bounds them. With
        0 for the value it shows that none of them keeps the limits.
    listed
        Whether all choices whose weighted sum does not exceed what is proven were looked at.
    split, parts
        The layer that divides it, and its two sides: the split's own, then the rest.
    """

    weights: FloatArray
    listed: bool = False
    split: Split | None = None
    parts: tuple[Region, Region] | None = None


@dataclass(frozen=True, eq=False)
class Subproblem:
    """Graphs with some nodes closed, and their greatest bound.

    Parameters
    ----------
    graphs
        The graphs.
    region
        Their choices, among those of the whole problem.
    multipliers
        (L,) Multipliers that attain the bound.
    bound
        No plan that uses open nodes only has less value.
    graph, columns, fractions
        (C,) The paths known, whose they are, and the fraction of each in a best mixture.
    """

    graphs: LinkedGraphs
    region: Region
    multipliers: FloatArray
    bound: float
    graph: IntArray
    columns: PathBatch
    fractions: FloatArray

    @property
    def is_pure(self) -> bool:
        """Whether the mixture has one path per graph."""
        return int(np.count_nonzero(self.fractions)) == self.graphs.num_graphs

    @property
    def plan(self) -> PathBatch:
        """The largest path of each graph in the mixture."""
        order = np.lexsort((-self.fractions, self.graph))
        return self.columns.take(order[np.searchsorted(self.graph[order], np.arange(self.graphs.num_graphs))])


@dataclass(frozen=True, eq=False)
class Split:
    """A layer of a graph whose nodes are given to two sides.

    Parameters
    ----------
    graph, layer
        Which layer.
    side
        (K,) Which nodes belong to one side, by place.
    weight
        Share of the mixture on that side.
    visited
        Of the last layer of graphs that remember their trails: the set of groups whose paths are one side; else 0.
    """

    graph: int
    layer: int
    side: NDArray[np.bool_]
    weight: float
    visited: int = 0


def solve_subproblem(
    graphs: LinkedGraphs, limits: FloatArray, known: tuple[IntArray, PathBatch], cutoff: float, effort: Effort
) -> tuple[float, Region, Subproblem | None]:
    """Return the graphs' greatest bound, and the subproblem unless the bound reaches the cutoff.

    Parameters
    ----------
    graphs
        With their closed nodes.
    limits
        (L,) What the total consumptions may be.
    known
        Whose paths are known, and the paths: at least one per graph, all of open nodes.
    cutoff
        Bounds from here on need not be the greatest.
    effort
        Charged for every pass.

    Returns
    -------
    tuple[float, Region, Subproblem | None]
        The bound is +inf where no mixture keeps the limits; the region has the multipliers that prove it.

    Raises
    ------
    OutOfEffortError
        When time runs out.
    """
    generation = Generation(graphs, ROUNDING, effort)
    generation.add(*known)
    progress = Progress(np.zeros(limits.size))
    generation.minimise(Aim.least_value(limits), progress, hopeless=cutoff)
    if progress.master is None:
        feasibility = Progress(np.zeros(limits.size))
        generation.find_factor(limits, feasibility, complete=False)
        if exceeds_one(feasibility.bound):
            return math.inf, Region(np.append(0.0, feasibility.multipliers)), None
        # Choices that keep the limits within the tolerance only are no mixture of less.
        generation.minimise(Aim.least_value(widen(limits, feasibility)), progress, hopeless=cutoff)
    region = Region(np.append(1.0, progress.multipliers))
    if progress.bound >= cutoff or progress.master is None:
        return progress.bound, region, None
    columns = generation.columns
    fractions = np.zeros(columns.value.size)
    fractions[: progress.master.fractions.size] = progress.master.fractions
    problem = Subproblem(graphs, region, progress.multipliers, progress.bound, generation.graph, columns, fractions)
    return progress.bound, region, problem


def find_splits(problem: Subproblem, trails: Trails | None) -> list[Split]:
    """Return for each divided graph the layer at which it is most divided, the graphs that matter most first.

    Parameters
    ----------
    problem
        Whose mixture has several paths of some graph.
    trails
        Where its graphs remember which groups a path has visited: by that they are divided first.
    """
    graphs = problem.graphs
    used = np.flatnonzero(problem.fractions)
    counts = np.bincount(problem.graph[used], minlength=graphs.num_graphs)
    found = []
    for graph in np.flatnonzero(counts > 1).tolist():
        members = used[problem.graph[used] == graph]
        depth = int(graphs.lengths[graphs.position_of[graph]])
        places = graphs.places(graph, problem.columns.payload[members, :depth])
        share = problem.fractions[members]
        split = None if trails is None else _find_trail(graph, places, share, trails)
        # Sides of whole groups matter more than sides within one.
        for sides in (_list_groups(graph, graphs, trails), _halve(graph, graphs, places, trails)):
            split = split or _find_split(graph, places, share, sides)
        if split is not None:
            divided = min(split.weight, 1.0 - split.weight)
            found.append((not split.visited, -divided * float(share @ problem.columns.value[members]), split))
    return [split for _, _, split in sorted(found, key=lambda entry: entry[:2])]


def _find_trail(graph: int, places: IntArray, share: FloatArray, trails: Trails) -> Split | None:
    """Return the most even split by the set of groups that paths (P, E) visit; None where all visit the same."""
    visited = np.zeros(trails.graphs.run_value.shape[1], dtype=np.intp)
    numbers = np.arange(trails.visited[graph].size, dtype=np.int32)
    visited[trails.graphs.places(graph, numbers)] = trails.visited[graph]
    ends = visited[places[:, -1]]
    sets = np.unique(ends)
    if sets.size == 1:
        return None
    weight = np.array([float(share[ends == each].sum()) for each in sets.tolist()])
    best = int(np.argmax(np.minimum(weight, 1.0 - weight)))
    if min(weight[best], 1.0 - weight[best]) <= _DIVIDED:
        return None
    chosen = int(sets[best])
    return Split(graph, places.shape[1] - 1, visited == chosen, float(weight[best]), chosen)


def _list_groups(graph: int, graphs: LinkedGraphs, trails: Trails | None) -> list[NDArray[np.bool_]]:
    """Return the nodes of each group, whatever was visited before."""
    if trails is None:
        return [graphs.group_of == group for group in range(graphs.num_groups)]
    kind = _by_place(graph, graphs, trails.kind[graph])
    return [kind == each for each in range(int(kind.max()) + 1)]


def _by_place(graph: int, graphs: LinkedGraphs, numbers: IntArray) -> IntArray:
    """Return (K,) by place what is given by the nodes' numbers; -1 where no node is."""
    placed = np.full(graphs.run_value.shape[1], -1, dtype=np.intp)
    placed[graphs.places(graph, np.arange(numbers.size, dtype=np.int32))] = numbers
    return placed


def _halve(graph: int, graphs: LinkedGraphs, places: IntArray, trails: Trails | None) -> list[NDArray[np.bool_]]:
    """Return the sides of the nodes up to each one in use, whatever was visited before."""
    rank = np.arange(graphs.run_value.shape[1])
    if trails is not None:
        rank = _by_place(graph, graphs, trails.node[graph])
    return [rank <= used for used in np.unique(rank[places])[:-1].tolist()]


def _find_split(graph: int, places: IntArray, share: FloatArray, sides: list[NDArray[np.bool_]]) -> Split | None:
    """Return the most even split of the paths ``places`` (P, E) with shares (P,), or None where no layer is split."""
    depth = places.shape[1]
    # Of layers that are divided alike, the middle one leaves the least freedom on either side.
    middle = 1e-3 * np.minimum(np.arange(depth), np.arange(depth)[::-1]) / depth
    best, found = 0.0, None
    for side in sides:
        weight = share @ side[places]
        divided = np.minimum(weight, 1.0 - weight)
        score = np.where(divided > _DIVIDED, divided + middle, 0.0)
        layer = int(np.argmax(score))
        if score[layer] > best:
            best, found = float(score[layer]), Split(graph, layer, side, float(weight[layer]))
    return found


def list_sides(problem: Subproblem, split: Split) -> list[Side]:
    """Return the two sides of a split: graphs, and the known paths of open nodes with whose they are."""
    sides = []
    for side in (split.side, ~split.side):
        kept = problem.graph != split.graph
        numbers = problem.columns.payload[~kept, split.layer]
        kept[~kept] = side[problem.graphs.places(split.graph, numbers)]
        graphs = problem.graphs.restrict(split.graph, split.layer, side)
        sides.append((graphs, (problem.graph[kept], problem.columns.take(kept))))
    return sides


def fix_largest(problem: Subproblem) -> Side:
    """Return the side on which the divided graph with the largest fraction below 1 has that path only."""
    fractions = np.where(problem.fractions < 1.0, problem.fractions, 0.0)
    position = int(np.argmax(fractions))
    graph = int(problem.graph[position])
    graphs = problem.graphs
    depth = int(graphs.lengths[graphs.position_of[graph]])
    graphs = graphs.fix(graph, graphs.places(graph, problem.columns.payload[position, :depth]))
    kept = (problem.graph != graph) | (np.arange(fractions.size) == position)
    return graphs, (problem.graph[kept], problem.columns.take(kept))
