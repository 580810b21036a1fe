"""Graphs whose nodes remember which groups of nodes a path has been in.

Where limits bind, a best mixture gives a small fraction of a graph to what is left of a limit: a path that never leaves
one group, or visits another for a layer. Which groups a path visits at all is what divides such mixtures best, and that
is no matter of one layer. With a node for each set of groups visited so far it is one of the last layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from optplan.contracts.judgement import PathCosts
from optplan.schema import FloatArray, IntArray
from optplan.solvers.paths.families import PathBatch
from optplan.solvers.paths.switching.graphs import LinkedGraphs

#: Most groups of one graph, and most numbers of all entries, with which sets of groups are kept.
_MOST_GROUPS = 4
_MOST_ENTRIES = 3_000_000


@dataclass(frozen=True, eq=False)
class Trails:
    """Graphs with a node for each node of others and each set of groups visited up to it.

    Parameters
    ----------
    graphs
        The graphs.
    node, kind, visited
        For each graph (K,) by its nodes' numbers: the node of the other graph, its group, and the set of groups visited
        as a sum of powers of two.
    """

    graphs: LinkedGraphs
    node: tuple[IntArray, ...]
    kind: tuple[IntArray, ...]
    visited: tuple[IntArray, ...]

    def enter(self, graph: IntArray, columns: PathBatch) -> PathBatch:
        """Return paths (P,) of the other graphs as paths of these."""
        payload = np.full(columns.payload.shape, -1, dtype=np.int32)
        for number in np.unique(graph).tolist():
            rows = np.flatnonzero(graph == number)
            depth = int(self.graphs.lengths[self.graphs.position_of[number]])
            nodes = columns.payload[rows, :depth]
            kinds = np.zeros(int(self.node[number].max()) + 1, dtype=np.intp)
            kinds[self.node[number]] = self.kind[number]
            visited = np.bitwise_or.accumulate(1 << kinds[nodes], axis=1)
            known = np.full((int(self.visited[number].max()) + 1, kinds.size), -1)
            known[self.visited[number], self.node[number]] = np.arange(self.node[number].size)
            payload[rows, :depth] = known[visited, nodes]
        return PathBatch(columns.value, columns.consumption, payload)

    def leave(self, plan: PathBatch) -> PathBatch:
        """Return one path per graph as paths of the other graphs."""
        payload = np.array(
            [np.where(row >= 0, node[row], -1) for node, row in zip(self.node, plan.payload, strict=True)],
            dtype=np.int32,
        )
        return PathBatch(plan.value, plan.consumption, payload)


def follow_trails(costs: Sequence[PathCosts], kinds: Sequence[IntArray], limits: FloatArray) -> Trails | None:
    """Lay out graphs that remember the groups visited; None where that would be too large.

    Parameters
    ----------
    costs
        What the steps of the other graphs' paths cost.
    kinds
        (K,) for each graph, the group of each node; from 0 on.
    limits
        (L,) As for :meth:`LinkedGraphs.from_costs`.
    """
    if max(int(kind.max()) for kind in kinds) >= _MOST_GROUPS or max(int(kind.max()) for kind in kinds) == 0:
        return None
    expanded, parts = [], []
    for graph, kind in zip(costs, kinds, strict=True):
        sets = np.arange(1, 1 << (int(kind.max()) + 1))
        visited, node = np.nonzero((sets[:, None] >> kind) & 1)
        visited = sets[visited]
        parts.append((node, kind[node], visited))
        expanded.append(_expand(graph, *parts[-1]))
    groups, nodes = max(graph.num_groups for graph in expanded), max(len(graph.labels) for graph in expanded)
    if groups * nodes * len(expanded) > _MOST_ENTRIES:
        return None
    family = LinkedGraphs.from_costs(expanded, limits)
    blocked = np.zeros(family.enter_value.shape, dtype=np.bool_)
    for number, (_, kind, visited) in enumerate(parts):
        place = family.places(number, np.arange(kind.size, dtype=np.int32))
        _, first = np.unique(expanded[number].group, return_index=True)
        may = (visited[first][:, None] | (1 << kind)) == visited
        own = np.ones(blocked.shape[1:], dtype=np.bool_)
        own[np.arange(first.size)[:, None], place] = ~may
        rows = [int(family.position_of[number])]
        if not family.enters_once:
            rows = (family.starts[: len(costs[number].run_value)] + rows[0]).tolist()
        blocked[rows] = own
        closed = np.zeros(family.run_value.shape[1], dtype=np.bool_)
        closed[place[visited == (1 << kind)]] = True
        family = family.restrict(number, 0, closed)
    family = replace(family, blocked=blocked)
    return Trails(family, *(tuple(part[which] for part in parts) for which in range(3)))


def _expand(graph: PathCosts, node: IntArray, kind: IntArray, visited: IntArray) -> PathCosts:
    """Return the costs of a graph with a group for each pair of a set and a group in it."""
    pairs, group = np.unique(visited * _MOST_GROUPS + kind, return_inverse=True)
    left = pairs % _MOST_GROUPS if graph.num_groups > 1 else np.zeros(pairs.size, dtype=np.intp)
    alike = graph.enter_value.strides[-2] == 0 and graph.enter_consumption.strides[-2] == 0
    layers = slice(0, 1) if alike else slice(None)
    enter_value = graph.enter_value[:, layers][left][..., node]
    enter_consumption = graph.enter_consumption[:, :, layers][:, left][..., node]
    if alike:
        shape = (*enter_value.shape[:1], len(graph.run_value), node.size)
        enter_value = np.broadcast_to(enter_value, shape)
        enter_consumption = np.broadcast_to(enter_consumption, (len(graph.limits), *shape))
    return PathCosts(
        name=graph.name,
        labels=tuple(str(number) for number in range(node.size)),
        group=group.ravel(),
        limits=graph.limits,
        run_value=graph.run_value[:, node],
        run_consumption=graph.run_consumption[:, :, node],
        enter_value=enter_value,
        enter_consumption=enter_consumption,
    )
