"""Layered graphs linked by several limits, with entry costs that may depend on where one comes from.

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
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from optplan.contracts.judgement import PathCosts
from optplan.errors import DataError
from optplan.solvers.paths.families import FloatArray, IntArray, NodeArray, PathBatch
from optplan.solvers.paths.kernel import LayeredCosts


@dataclass(frozen=True, eq=False)
class LinkedLayers:
    """G layered graphs with L limits, F groups of W nodes each and N layers in all; K = F * W nodes in a layer.

    Parameters
    ----------
    limits
        (L,) For each limit the most that the total consumption may be.
    run_value
        (N, K) Value of each node.
    run_consumption
        (L, N, K) Consumption of each node.
    enter_value
        (M, F, K) Extra value of entering a node from another one of each group; M is N, or G where it is the same in
        all layers of a graph.
    enter_consumption
        (L, M, F, K) The same, of each limit.
    closed
        (N, K) Whether a node does not exist or may not be used.
    columns
        (G, K) The node's number in the graph as it was given, by position of the graph.
    order
        (G,) The graph at each position: longest first.
    starts
        (E + 1,) Where each layer's rows begin; row ``starts[j] + p`` is layer j of the graph at position p.
    blocked
        (M, F, K) Whether a node may not be entered from a group; None where all may.
    """

    limits: FloatArray
    run_value: FloatArray
    run_consumption: FloatArray
    enter_value: FloatArray
    enter_consumption: FloatArray
    closed: NDArray[np.bool_]
    columns: IntArray
    order: IntArray
    starts: IntArray
    blocked: NDArray[np.bool_] | None = None

    @classmethod
    def from_costs(cls, graphs: Sequence[PathCosts], limits: FloatArray | None = None) -> Self:
        """Lay out graphs that may differ in layers, nodes and groups.

        Parameters
        ----------
        graphs
            What their steps cost: finite numbers from 0 on; a run value of +inf closes a node.
        limits
            (L,) In the order of the graphs' ``limits``, finite and above 0; None where they are said elsewhere.

        Returns
        -------
        LinkedGraphs
            Copies of the numbers.

        Raises
        ------
        DataError
            When there is no graph, or the limits do not fit the graphs.
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
        per_layer = any(_enters_by_layer(graph) for graph in graphs)
        run_value = stack.rows()
        run_consumption = np.zeros((limits.size, *run_value.shape))
        enter_value = stack.entries(per_layer=per_layer)
        enter_consumption = np.zeros((limits.size, *enter_value.shape))
        for position, graph in enumerate(graphs[number] for number in order.tolist()):
            stack.fill(run_value, position, graph.run_value)
            stack.fill_entries(enter_value, position, graph.enter_value)
            for limit in range(limits.size):
                stack.fill(run_consumption[limit], position, graph.run_consumption[limit])
                stack.fill_entries(enter_consumption[limit], position, graph.enter_consumption[limit])
        flat = stack.columns
        closed = np.isinf(run_value)
        run_value[closed] = 0.0
        if (flat < 0).any():
            closed |= np.concatenate([flat[:size] < 0 for size in np.diff(starts).tolist()])
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
    def positions(self) -> IntArray:
        """(N,) Position of the graph that each row belongs to."""
        return np.arange(int(self.starts[-1])) - self.starts[self.layers]

    @cached_property
    def layers(self) -> IntArray:
        """(N,) Layer that each row is."""
        return np.repeat(np.arange(self.num_layers), np.diff(self.starts))

    @cached_property
    def lengths(self) -> IntArray:
        """(G,) Layers of the graph at each position."""
        return np.asarray(np.bincount(self.positions, minlength=self.num_graphs))

    @cached_property
    def group_of(self) -> IntArray:
        """(K,) Group of each node."""
        nodes = self.run_value.shape[1]
        return np.asarray(np.arange(nodes) // (nodes // self.num_groups))

    @property
    def enters_once(self) -> bool:
        """Whether entering a node costs the same in all layers of a graph."""
        return self.enter_value.shape[0] != self.run_value.shape[0] or self.num_layers == 1

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

        Parameters
        ----------
        members
            (P,) The graph of each path.
        nodes
            (P, E) Place in each layer; ignored beyond a graph's layers.

        Returns
        -------
        PathBatch
            The same paths with their sums.
        """
        positions = self.position_of[members]
        value, consumption = np.empty(members.size), np.empty((members.size, self.limits.size))
        taken = np.ascontiguousarray(nodes, dtype=np.int32)
        self.costs.add_up_paths(positions, taken, value, consumption)
        inside = np.arange(nodes.shape[1]) < self.lengths[positions][:, None]
        numbers = self.columns[positions[:, None], np.where(inside, taken, 0)]
        return PathBatch(value, consumption, np.where(inside, numbers, -1).astype(np.int32))

    @cached_property
    def costs(self) -> LayeredCosts:
        """The same numbers as the kernel has them."""
        none = np.zeros((0, 0, 0), dtype=np.uint8)
        return LayeredCosts(
            np.ascontiguousarray(self.run_value),
            np.ascontiguousarray(self.run_consumption),
            np.ascontiguousarray(self.enter_value),
            np.ascontiguousarray(self.enter_consumption),
            np.ascontiguousarray(self.closed).view(np.uint8),
            none if self.blocked is None else np.ascontiguousarray(self.blocked).view(np.uint8),
            np.ascontiguousarray(self.starts),
            np.ascontiguousarray(self.lengths),
        )


@dataclass(frozen=True, eq=False)
class _Stack:
    """Where the graphs' numbers go: ``columns`` (G, K) by position, rows from ``starts``, G and F."""

    columns: IntArray
    starts: IntArray
    num_graphs: int
    num_groups: int

    def rows(self) -> FloatArray:
        return np.zeros((int(self.starts[-1]), self.columns.shape[1]))

    def entries(self, *, per_layer: bool) -> FloatArray:
        rows = int(self.starts[-1]) if per_layer else self.num_graphs
        return np.zeros((rows, self.num_groups, self.columns.shape[1]))

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


def _enters_by_layer(graph: PathCosts) -> bool:
    """Return whether entering a node costs something else in some layer."""
    costs = (graph.enter_value, graph.enter_consumption)
    return any(cost.strides[-2] != 0 and bool(np.any(cost != cost[..., :1, :])) for cost in costs)
