"""Layered graphs in which staying is free and switching costs, by the group of the node left where that matters.

A path takes one node per layer. Being at a node costs value and consumption of each limit, and so does coming to it
from another node; what coming costs may depend on the *group* of the node left. Every path enters its first node, as
from that node's own group. With layers as epochs, nodes as (GPU type, width) pairs and groups as GPU types this is
elastic training on several types of GPU.

All graphs are laid out in one set of arrays, layer after layer with the longest graphs first, so that a sweep reads
contiguous rows and short graphs drop out of the end. The nodes of a layer are sorted by group, each group padded to
the same number of them, so that the best node of each group is the minimum along one axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from optplan.contracts.judgement import PathCosts
from optplan.errors import DataError
from optplan.solvers.limits import ROUNDING
from optplan.solvers.paths import TUNING
from optplan.solvers.paths.families import FloatArray, IntArray, NodeArray, PathBatch, PathSets
from optplan.solvers.paths.kernel import LayeredCosts, PathSearch
from optplan.solvers.paths.search import Effort


@dataclass(frozen=True, eq=False)
class LinkedGraphs:
    """G layered graphs with L limits, F groups of W nodes each and N layers in all; K = F * W nodes in a layer."""

    #: (L,) For each limit the most that the total consumption may be.
    limits: FloatArray
    #: (N, K) Value of each node.
    run_value: FloatArray
    #: (L, N, K) Consumption of each node.
    run_consumption: FloatArray
    #: (M, F, K) Extra value of entering a node from another one of each group; M is N, or G where it is the same in all
    #: layers of a graph.
    enter_value: FloatArray
    #: (L, M, F, K) The same, of each limit.
    enter_consumption: FloatArray
    #: (N, K) Whether a node does not exist or may not be used.
    closed: NDArray[np.bool_]
    #: (G, K) The node's number in the graph as it was given, by position of the graph.
    columns: IntArray
    #: (G,) The graph at each position: longest first.
    order: IntArray
    #: (E + 1,) Where each layer's rows begin; row ``starts[j] + p`` is layer j of the graph at position p.
    starts: IntArray

    @classmethod
    def from_costs(cls, graphs: Sequence[PathCosts], limits: FloatArray | None = None) -> Self:
        """Lay out graphs that may differ in layers, nodes and groups.

        Costs are finite numbers from 0 on, and copied; a run value of +inf closes a node. ``limits`` (L,) are in the
        order of the graphs' own, finite and above 0; None where they are said elsewhere. Raises DataError when there is
        no graph, or the limits do not fit the graphs.
        """
        if not graphs:
            raise DataError("graphs", "there are none", "give at least one graph")
        wanted = (len(graphs[0].limits),)
        if limits is not None and (limits.shape != wanted or not np.all((limits > 0) & (limits < np.inf))):
            problem = f"got {limits.tolist()}; {wanted[0]} finite numbers above zero are needed"
            raise DataError("limits", problem, "leave out what limits nothing")
        limits = np.full(wanted, np.inf) if limits is None else limits.copy()
        lengths = np.array([len(graph.run_value) for graph in graphs])
        order = np.argsort(-lengths, kind="stable")
        active = np.searchsorted(-lengths[order], -np.arange(lengths.max()), side="left")
        starts = np.concatenate([[0], np.cumsum(active)])
        columns = _place_nodes([graphs[graph] for graph in order.tolist()])
        stack = _Stack(columns.reshape(len(graphs), -1), starts, order.size, columns.shape[1])
        entries = [cost for graph in graphs for cost in (graph.enter_value, graph.enter_consumption)]
        per_layer = any(each.strides[-2] != 0 and bool(np.any(each != each[..., :1, :])) for each in entries)
        run_value = np.zeros((int(starts[-1]), columns[0].size))
        run_consumption = np.zeros((limits.size, *run_value.shape))
        enter_value = np.zeros((len(run_value) if per_layer else len(graphs), columns.shape[1], columns[0].size))
        enter_consumption = np.zeros((limits.size, *enter_value.shape))
        for position, graph in enumerate(graphs[number] for number in order.tolist()):
            stack.fill(run_value, position, graph.run_value)
            stack.fill_entries(enter_value, position, graph.enter_value)
            for limit in range(limits.size):
                stack.fill(run_consumption[limit], position, graph.run_consumption[limit])
                stack.fill_entries(enter_consumption[limit], position, graph.enter_consumption[limit])
        flat, closed = stack.columns, np.isinf(run_value)
        run_value[closed] = 0.0
        if (flat < 0).any():
            closed |= flat[np.arange(len(closed)) - starts[:-1].repeat(active)] < 0
        return cls(limits, run_value, run_consumption, enter_value, enter_consumption, closed, flat, order, starts)

    @property
    def num_graphs(self) -> int:
        """How many graphs there are."""
        return self.order.size

    @property
    def num_groups(self) -> int:
        """How many groups the nodes of a layer fall into."""
        return int(self.enter_value.shape[1])

    @property
    def num_layers(self) -> int:
        """How many layers the longest graph has."""
        return self.starts.size - 1

    @cached_property
    def lengths(self) -> IntArray:
        """(G,) Layers of the graph at each position."""
        return np.asarray((np.diff(self.starts) > np.arange(self.num_graphs)[:, None]).sum(axis=1))

    @cached_property
    def position_of(self) -> IntArray:
        """(G,) Position of each graph."""
        return np.asarray(np.argsort(self.order))

    def places(self, graph: int, numbers: NodeArray) -> IntArray:
        """Return where nodes of a graph stand in its layers, given their numbers."""
        columns = self.columns[self.position_of[graph]]
        place = np.full(int(columns.max()) + 1, -1)
        place[columns[columns >= 0]] = np.flatnonzero(columns >= 0)
        return np.asarray(place[numbers])

    def follow(self, members: IntArray, nodes: NodeArray) -> PathBatch:
        """Return the sums along given paths.

        ``members`` (P,) are their graphs, ``nodes`` (P, E) the places in each layer, ignored beyond a graph's layers.
        """
        positions = self.position_of[members]
        inside = np.arange(nodes.shape[1]) < self.lengths[positions][:, None]
        return self._add_up(positions, np.where(inside, nodes, -1).astype(np.int32))

    def _add_up(self, positions: IntArray, places: NodeArray) -> PathBatch:
        """Return the sums along paths of the graphs at some positions, given (P, E) places, -1 beyond the last."""
        value, consumption = np.empty(positions.size), np.empty((positions.size, self.limits.size))
        self.costs.add_up_paths(positions, places, value, consumption)
        if self.num_groups > 1:
            places = np.where(places < 0, -1, self.columns[positions[:, None], places]).astype(np.int32)
        return PathBatch(value, consumption, places)

    @cached_property
    def costs(self) -> LayeredCosts:
        """The same numbers as the kernel has them."""
        return LayeredCosts(
            np.ascontiguousarray(self.run_value),
            np.ascontiguousarray(self.run_consumption),
            np.ascontiguousarray(self.enter_value),
            np.ascontiguousarray(self.enter_consumption),
            np.ascontiguousarray(self.closed).view(np.uint8),
            np.ascontiguousarray(self.starts),
            np.ascontiguousarray(self.lengths),
        )

    def best_paths(
        self, multipliers: FloatArray, members: IntArray | None = None, *, value_weight: float = 1.0
    ) -> PathBatch:
        """Return paths of least value_weight * value + multipliers . consumption; O(layers * F * K) each.

        ``multipliers`` are (L,), or (P, L) for the paths of ``members`` (P,); the payload is (P, E) the node in each
        layer, -1 beyond the last. Ties go to staying over entering, then to the lowest group left, then to the lowest
        node of the group; so they do not depend on which other graphs are asked along.
        """
        positions = self.position_of if members is None else self.position_of[members]
        weights = np.empty((positions.size, self.limits.size))
        weights[:] = multipliers
        depth = self.num_layers if members is None else int(self.lengths[positions].max(initial=1))
        nodes = np.empty((positions.size, depth), dtype=np.int32)
        nodes.fill(-1)
        self.costs.find_best_nodes(positions, weights, value_weight, nodes)
        return self._add_up(positions, nodes)

    def find_path_sets(
        self, multipliers: FloatArray, allowance: float, effort: Effort, members: IntArray | None = None
    ) -> PathSets:
        """Return every graph's undominated paths within the allowance of its least reduced cost, or those of some.

        The allowance is in units of value; every graph has one path at least.
        """
        effort.charge_pass()
        graphs = np.arange(self.num_graphs) if members is None else members
        weights = np.ascontiguousarray(multipliers)
        search = PathSearch(
            self.costs, self.position_of[graphs], weights, self._find_completion_bounds(weights), allowance, ROUNDING
        )
        done, kept = False, 0
        while not done:
            done = search.run(TUNING.label_steps)
            effort.charge_labels(search.num_kept - kept, search.num_kept)
            kept = search.num_kept
        found = np.asarray(search.ends)[: search.num_ends]
        label = np.asarray(search.ends_label)[: search.num_ends]

        def trace(chosen: IntArray) -> PathBatch:
            nodes: NodeArray = np.zeros((graphs.size, self.num_layers), dtype=np.int32)
            for place, end in enumerate(label[chosen].tolist()):
                search.trace(end, place, nodes[place])
            return self.follow(graphs, nodes)

        return PathSets(np.array(search.ends_of), found[:, 1].copy(), found[:, 2:].copy(), trace)

    def keep(self, graph: int, path: PathBatch) -> Self:
        """Return the graphs with one path of a graph only."""
        position, layers = self.position_of[graph], np.arange(self.lengths[self.position_of[graph]])
        rows, closed = self.starts[layers] + position, self.closed.copy()
        closed[rows] = True
        closed[rows, self.places(graph, path.payload[0, layers])] = False
        return replace(self, closed=closed)

    def _find_completion_bounds(self, multipliers: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the least costs to the end (N, K) and (N, F); kept, as allowances grow at the same multipliers."""
        if self._completion_bounds and np.array_equal(self._completion_bounds[0][0], multipliers):
            return self._completion_bounds[0][1]
        completion = np.empty(self.run_value.shape), np.empty((len(self.run_value), self.num_groups))
        self.costs.find_completion_bounds(multipliers, *completion)
        self._completion_bounds[:] = [(multipliers.copy(), completion)]
        return completion

    @cached_property
    def _completion_bounds(self) -> list[tuple[FloatArray, tuple[FloatArray, FloatArray]]]:
        return []


@dataclass(frozen=True, eq=False)
class _Stack:
    """Where the graphs' numbers go: ``columns`` (G, K) by position, rows from ``starts``, G and F."""

    columns: IntArray
    starts: IntArray
    num_graphs: int
    num_groups: int

    def fill(self, target: FloatArray, position: int, table: FloatArray) -> None:
        """Write (E, K) numbers of one graph into rows."""
        rows = self.starts[: len(table)] + position
        if self.num_groups == 1:  # nodes stand where their numbers say
            target[rows, : table.shape[1]] = table
            return
        places = np.flatnonzero(self.columns[position] >= 0)
        target[rows[:, None], places] = table[:, self.columns[position, places]]

    def fill_entries(self, target: FloatArray, position: int, table: FloatArray) -> None:
        """Write (F, E, K) numbers of one graph into entries; where it has one group, for all groups."""
        if self.num_groups == 1 and target.shape[0] == self.num_graphs:
            target[position, :, : table.shape[2]] = table[:, 0]
            return
        places = np.flatnonzero(self.columns[position] >= 0)
        chosen = table[:, :, self.columns[position, places]]
        groups = np.arange(len(table)) if len(table) > 1 else np.arange(self.num_groups)
        if target.shape[0] == self.num_graphs:
            target[position, groups[:, None], places] = chosen[:, 0]
        else:
            rows = self.starts[: table.shape[1]] + position
            target[rows[:, None, None], groups[:, None], places] = chosen.transpose(1, 0, 2)


def _place_nodes(graphs: Sequence[PathCosts]) -> IntArray:
    """Return (G, F, W) which node of each graph stands at each place; -1 where none does."""
    num_groups = max(graph.num_groups for graph in graphs)
    if num_groups == 1:
        sizes = np.array([graph.group.size for graph in graphs])
        numbers = np.arange(sizes.max())
        return np.where(numbers < sizes[:, None], numbers, -1)[:, None]
    counts = [np.bincount(graph.group, minlength=graph.num_groups) for graph in graphs]
    width = max(int(count.max()) for count in counts)
    columns = np.full((len(graphs), num_groups, width), -1, dtype=np.intp)
    for position, graph in enumerate(graphs):
        for group in range(graph.num_groups):
            members = np.flatnonzero(graph.group == group)
            columns[position, group, : members.size] = members
    return columns
