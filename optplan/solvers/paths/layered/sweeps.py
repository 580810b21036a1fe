"""Forward and backward passes over many graphs at once.

One pass is a loop over layers; each step works on all (graph, multiplier) pairs whose graph has that layer, and costs
O(nodes) per pair because a switch costs the same wherever one comes from: the node's own cost so far, or the cheapest
of the previous layer plus the switch. Rows are laid out layer by layer, longest graphs first, so that a step reads
contiguous slices and short graphs drop out of the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from optplan.solvers.paths.batches import ROUNDING, FloatArray, IntArray, NodeArray

if TYPE_CHECKING:
    from optplan.solvers.paths.layered.graphs import LayeredGraphs

#: Numbers per working array of one block: large enough to hide NumPy's call costs, small enough for the caches.
_BLOCK_SIZE = 1 << 19


@dataclass(frozen=True, eq=False)
class Block:
    """Some of the asked (graph, multiplier) pairs, with the reduced costs of their nodes.

    Parameters
    ----------
    pairs
        (P,) Positions in the batch that was asked, graphs with more layers first.
    members
        (P,) Their graphs.
    rows
        (R,) Rows of the graphs' arrays, layer after layer, within a layer in the order of ``pairs``.
    starts
        (E + 1,) Where each layer begins in ``rows``.
    cost
        (R, K) Reduced cost of each node.
    switch
        (R, K) or, where the graphs have one row of switch costs each, (P, K): reduced cost of entering a node.
    """

    pairs: IntArray
    members: IntArray
    rows: IntArray
    starts: list[int]
    cost: FloatArray
    switch: FloatArray

    def layer(self, index: int) -> slice:
        """Return the rows of a layer."""
        return slice(self.starts[index], self.starts[index + 1])

    def switch_of(self, index: int) -> FloatArray:
        """Return the reduced switch costs into a layer."""
        if self.switch.shape[0] == self.pairs.size:
            return self.switch[: self.starts[index + 1] - self.starts[index]]
        return self.switch[self.layer(index)]


def split_blocks(graphs: LayeredGraphs, members: IntArray, multipliers: FloatArray) -> Iterator[Block]:
    """Yield the asked pairs in blocks of bounded size.

    Parameters
    ----------
    graphs
        The graphs.
    members, multipliers
        (P,) The graph and the multiplier of each pair.

    Yields
    ------
    Block
        Together they hold every pair once.
    """
    lengths = graphs.num_layers[members]
    order = np.argsort(-lengths, kind="stable")
    limit = max(1, _BLOCK_SIZE // graphs.num_nodes)
    part = (np.cumsum(lengths[order]) - lengths[order]) // limit
    cuts = np.flatnonzero(np.diff(part)) + 1
    for pairs in np.split(order, cuts):
        if pairs.size:
            yield _make_block(graphs, pairs, members[pairs], multipliers[pairs])


def _make_block(graphs: LayeredGraphs, pairs: IntArray, members: IntArray, multipliers: FloatArray) -> Block:
    """Gather and weigh the rows of some pairs, given longest first."""
    lengths = graphs.num_layers[members]
    depth = int(lengths[0])
    active = np.searchsorted(-lengths, -np.arange(depth), side="left")
    starts = np.concatenate([[0], np.cumsum(active)])
    layers = np.repeat(np.arange(depth), active)
    slots = np.arange(layers.size) - starts[layers]
    rows = graphs.first_row[members][slots] + layers

    cost = np.take(graphs.consumption, rows, axis=0)
    cost *= multipliers[slots][:, None]
    cost += np.take(graphs.value, rows, axis=0)
    if graphs.switches_once:
        switch_rows, weights = graphs.switch_row[graphs.first_row[members]], multipliers
    else:
        switch_rows, weights = graphs.switch_row[rows], multipliers[slots]
    switch = np.take(graphs.switch_consumption, switch_rows, axis=0)
    switch *= weights[:, None]
    switch += np.take(graphs.switch_value, switch_rows, axis=0)
    return Block(pairs, members, rows, starts.tolist(), cost, switch)


def find_shortest_paths(graphs: LayeredGraphs, members: IntArray, multipliers: FloatArray) -> NodeArray:
    """Return the nodes of a path of least value + multiplier * consumption for each pair.

    Parameters
    ----------
    graphs
        The graphs.
    members, multipliers
        (P,) The graph and the multiplier of each pair.

    Returns
    -------
    NodeArray
        (P, E) Node in each layer, arbitrary beyond a graph's last layer. Ties: stay, then the lowest index.
    """
    depth = int(graphs.num_layers[members].max(initial=1))
    nodes = np.zeros((members.size, depth), dtype=np.int32)
    for block in split_blocks(graphs, members, multipliers):
        nodes[block.pairs, : len(block.starts) - 1] = _trace(block, _advance(block))
    return nodes


def _advance(block: Block) -> FloatArray:
    """Turn the block's node costs into costs of the best path so far, in place; return (R,) the least of each row."""
    reach = block.cost
    least = np.empty((reach.shape[0], 1))
    current = reach[block.layer(0)]
    current += block.switch_of(0)
    np.min(current, axis=1, keepdims=True, out=least[block.layer(0)])
    for index in range(1, len(block.starts) - 1):
        rows = block.layer(index)
        before, size = block.starts[index - 1], rows.stop - rows.start
        arrival = least[before : before + size] + block.switch_of(index)
        np.minimum(arrival, reach[before : before + size], out=arrival)
        current = reach[rows]
        current += arrival
        np.min(current, axis=1, keepdims=True, out=least[rows])
    return least[:, 0]


def _trace(block: Block, least: FloatArray) -> NodeArray:
    """Return (P, E) the nodes of the best paths, from the costs that :func:`_advance` left."""
    reach, depth = block.cost, len(block.starts) - 1
    cheapest = np.argmin(reach, axis=1)
    nodes = np.zeros((block.pairs.size, depth), dtype=np.int32)
    current = np.empty(0, dtype=np.intp)
    for index in range(depth - 1, -1, -1):
        rows = block.layer(index)
        size = rows.stop - rows.start
        if current.size:
            slots = np.arange(current.size)
            stays = reach[rows.start + slots, current] <= (
                least[rows.start : rows.start + current.size] + block.switch_of(index + 1)[slots, current]
            )
            current = np.where(stays, current, cheapest[rows.start : rows.start + current.size])
        # Graphs whose last layer this is join at the end of the slice.
        current = np.concatenate([current, cheapest[rows.start + current.size : rows.start + size]])
        nodes[:size, index] = current
    return nodes


@dataclass(frozen=True, eq=False)
class NearNodes:
    """The nodes through which a path of nearly least reduced cost leads, sorted by graph, layer and node.

    Parameters
    ----------
    row
        (M,) Row of the graphs' arrays.
    node
        (M,) Node.
    remaining
        (M,) Least reduced cost from being at the node, its own cost included, to the end.
    enter_excess
        (M,) How far the best path that enters the node there exceeds the graph's best path.
    best
        (G,) Least reduced cost of each graph.
    limit
        (G,) Largest reduced cost of a path that is worth a look: best + allowance, and a little for rounding.
    """

    row: IntArray
    node: IntArray
    remaining: FloatArray
    enter_excess: FloatArray
    best: FloatArray
    limit: FloatArray


def find_near_nodes(graphs: LayeredGraphs, multiplier: float, allowance: float) -> NearNodes:
    """Return the nodes that lie on a path whose reduced cost exceeds the graph's least by at most the allowance.

    Parameters
    ----------
    graphs
        The graphs.
    multiplier
        Weight of the consumption.
    allowance
        In units of value.

    Returns
    -------
    NearNodes
        All nodes of all graphs that are worth a look.
    """
    members = np.arange(graphs.num_graphs)
    best, limit = np.empty(members.size), np.empty(members.size)
    found: list[tuple[IntArray, IntArray, FloatArray, FloatArray]] = []
    for block in split_blocks(graphs, members, np.full(members.size, multiplier)):
        remaining = _retreat(block)
        stay, enter = _arrive(block)
        layers = np.repeat(np.arange(len(block.starts) - 1), np.diff(block.starts))
        owner = block.members[np.arange(layers.size) - np.asarray(block.starts)[layers]]
        through = remaining + np.minimum(stay, enter)
        best[block.members] = through[block.layer(0)].min(axis=1)
        limit[block.members] = best[block.members] * (1.0 + ROUNDING) + allowance
        rows, nodes = np.nonzero(through <= limit[owner][:, None])
        left = remaining[rows, nodes]
        found.append((block.rows[rows], nodes, left, left + enter[rows, nodes] - best[owner[rows]]))
    row, node, remaining, enter_excess = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.argsort(row * graphs.num_nodes + node)
    return NearNodes(row[order], node[order], remaining[order], enter_excess[order], best, limit)


def _retreat(block: Block) -> FloatArray:
    """Return (R, K) the least cost from each node, its own included, to the end."""
    remaining = block.cost.copy()
    for index in range(len(block.starts) - 3, -1, -1):
        later = remaining[block.layer(index + 1)]
        enter = (later + block.switch_of(index + 1)).min(axis=1, keepdims=True)
        start = block.starts[index]
        remaining[start : start + later.shape[0]] += np.minimum(later, enter)
    return remaining


def _arrive(block: Block) -> tuple[FloatArray, FloatArray]:
    """Return (R, K) the least costs of the ways to each node, its own cost not included: staying, and entering."""
    stay = np.full(block.cost.shape, np.inf)
    enter = np.empty(block.cost.shape)
    enter[block.layer(0)] = block.switch_of(0)
    for index in range(1, len(block.starts) - 1):
        rows = block.layer(index)
        start, size = block.starts[index - 1], rows.stop - rows.start
        before = slice(start, start + size)
        reach = np.minimum(stay[before], enter[before])
        reach += block.cost[before]
        stay[rows] = reach
        np.add(reach.min(axis=1, keepdims=True), block.switch_of(index), out=enter[rows])
    return stay, enter
