"""Forward and backward sweeps over many layered graphs at once.

A sweep is a loop over layers; each step works on all (graph, multipliers) pairs whose graph has that layer. From layer
to layer a path stays, or enters a node from the cheapest node of some group: O(groups x nodes) per pair. Rows are laid
out layer by layer, longest graphs first, so that a step reads contiguous slices and short graphs drop out of the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from optplan.solvers.limits import ROUNDING
from optplan.solvers.paths.families import FloatArray, IntArray, NodeArray
from optplan.solvers.paths.switching.layers import LinkedLayers

#: Numbers per working array of one block: large enough to hide NumPy's call costs, small enough for the caches.
_BLOCK_SIZE = 1 << 19
#: Nodes of a layer of all pairs up to which it is quicker to find for all nodes where their best paths come from.
_MOST_LISTED = 800


@dataclass(frozen=True, eq=False)
class Block:
    """Some of the asked (graph, multipliers) pairs, with the reduced costs of their nodes.

    Parameters
    ----------
    pairs
        (P,) Which of the asked pairs, graphs with more layers first.
    rows
        (R,) Rows of the graphs' arrays, layer after layer, within a layer in the order of ``pairs``.
    starts
        Where each layer begins in ``rows``; one more than there are layers.
    run
        (R, K) Reduced cost of being at each node; +inf where it may not be used.
    enter
        (R, F, K) or, where entering costs the same in all layers, (P, F, K): reduced cost of entering a node from
        another one of each group; +inf where that may not be.
    group_of
        (K,) Group of each node.
    """

    pairs: IntArray
    rows: IntArray
    starts: list[int]
    run: FloatArray
    enter: FloatArray
    group_of: IntArray

    @property
    def num_layers(self) -> int:
        """How many layers the longest graph has."""
        return len(self.starts) - 1

    def layer(self, index: int) -> slice:
        """Return the rows of a layer."""
        return slice(self.starts[index], self.starts[index + 1])

    def before(self, index: int) -> slice:
        """Return the rows of the layer before of the graphs that have a layer."""
        start = self.starts[index - 1]
        return slice(start, start + self.starts[index + 1] - self.starts[index])

    def entering(self, index: int) -> FloatArray:
        """Return the reduced costs (rows, F, K) of entering a layer."""
        if self.enter.shape[0] == self.pairs.size:
            return self.enter[: self.starts[index + 1] - self.starts[index]]
        return self.enter[self.layer(index)]

    def beginning(self) -> FloatArray:
        """Return the reduced costs (P, K) of entering the first layer: as from each node's own group."""
        enter = self.entering(0)
        return enter[:, 0] if enter.shape[1] == 1 else enter[:, self.group_of, np.arange(self.group_of.size)]

    def by_group(self, costs: FloatArray) -> FloatArray:
        """Return costs (rows, K) of nodes as (rows, F, K / F)."""
        return costs.reshape(costs.shape[0], self.enter.shape[1], -1)


def split_blocks(
    graphs: LinkedLayers, members: IntArray | None, multipliers: FloatArray, value_weight: float
) -> Iterator[Block]:
    """Yield the asked pairs in blocks of bounded size; together they hold every pair once.

    Parameters
    ----------
    members
        (P,) The graph of each pair; every graph once when None.
    multipliers
        (L,) Or (P, L), a row for each pair.
    """
    most = max(1, _BLOCK_SIZE // graphs.run_value.shape[1])
    if members is None and graphs.layers.size <= most and multipliers.ndim == 1:
        yield _weigh_all(graphs, multipliers, value_weight)
        return
    positions = graphs.position_of if members is None else graphs.position_of[members]
    weights = np.broadcast_to(multipliers, (positions.size, multipliers.shape[-1]))
    lengths = graphs.lengths[positions]
    order = np.argsort(-lengths, kind="stable")
    part = (np.cumsum(lengths[order]) - lengths[order]) // most
    for pairs in np.split(order, np.flatnonzero(np.diff(part)) + 1):
        if pairs.size:
            yield _make_block(graphs, pairs, positions[pairs], weights[pairs], value_weight)


def _weigh_all(graphs: LinkedLayers, multipliers: FloatArray, value_weight: float) -> Block:
    """Weigh all rows of all graphs."""
    run = value_weight * (graphs.open_value if value_weight else graphs.run_value)
    enter = value_weight * graphs.enter_value
    for limit in np.flatnonzero(multipliers).tolist():
        run += multipliers[limit] * graphs.run_consumption[limit]
        enter += multipliers[limit] * graphs.enter_consumption[limit]
    if not value_weight:
        run[graphs.closed] = np.inf
    if graphs.blocked is not None:
        enter[graphs.blocked] = np.inf
    return Block(graphs.order, np.arange(graphs.layers.size), graphs.starts.tolist(), run, enter, graphs.group_of)


def _make_block(
    graphs: LinkedLayers, pairs: IntArray, positions: IntArray, weights: FloatArray, value_weight: float
) -> Block:
    """Gather and weigh the rows of some pairs, given longest first."""
    lengths = graphs.lengths[positions]
    active = np.searchsorted(-lengths, -np.arange(int(lengths[0])), side="left")
    starts = np.concatenate([[0], np.cumsum(active)])
    layers = np.repeat(np.arange(active.size), active)
    slots = np.arange(layers.size) - starts[layers]
    rows = graphs.starts[layers] + positions[slots]
    open_value = graphs.open_value if value_weight else graphs.run_value
    run = _weigh(open_value, graphs.run_consumption, value_weight, weights[slots], rows)
    if not value_weight:
        run[graphs.closed[rows]] = np.inf
    at, whose = (positions, weights) if graphs.enters_once else (rows, weights[slots])
    enter = _weigh(graphs.enter_value, graphs.enter_consumption, value_weight, whose, at)
    if graphs.blocked is not None:
        enter[graphs.blocked[at]] = np.inf
    return Block(pairs, rows, starts.tolist(), run, enter, graphs.group_of)


def _weigh(
    value: FloatArray, consumption: FloatArray, value_weight: float, weights: FloatArray, rows: IntArray
) -> FloatArray:
    """Return the weighted sums of some rows of values and of consumptions, with weights (rows, L)."""
    total = np.take(value, rows, axis=0)
    if value_weight != 1.0:
        total *= value_weight
    for limit in np.flatnonzero(weights.any(axis=0)).tolist():
        weighted = np.take(consumption[limit], rows, axis=0)
        weighted *= weights[:, limit].reshape(-1, *[1] * (weighted.ndim - 1))
        total += weighted
    return total


def find_best_nodes(
    graphs: LinkedLayers, members: IntArray | None, multipliers: FloatArray, value_weight: float
) -> NodeArray:
    """Return the places of a path of least weighted cost for each pair.

    Parameters
    ----------
    members, multipliers, value_weight
        As in :func:`split_blocks`.

    Returns
    -------
    NodeArray
        (P, E) Place in each layer, arbitrary beyond a graph's last layer. Ties go to staying, then to the lowest group
        left, then to the lowest node of the group.
    """
    lengths = graphs.lengths if members is None else graphs.lengths[graphs.position_of[members]]
    nodes = np.zeros((lengths.size, int(lengths.max(initial=1))), dtype=np.int32)
    for block in split_blocks(graphs, members, multipliers, value_weight):
        nodes[block.pairs, : block.num_layers] = _trace(block, _advance(block))
    return nodes


def _advance(block: Block) -> FloatArray:
    """Turn the nodes' costs into costs of the best path so far, in place; return (R, F) the least of each group."""
    reach, groups = block.run, block.enter.shape[1]
    least = np.empty((reach.shape[0], groups))
    by_group = block.by_group(reach)
    reach[block.layer(0)] += block.beginning()
    np.minimum.reduce(by_group[block.layer(0)], axis=2, out=least[block.layer(0)])
    for index in range(1, block.num_layers):
        rows, before, enter = block.layer(index), block.before(index), block.entering(index)
        if groups == 1:
            arrival = least[before] + enter[:, 0]
        else:
            arrival = np.minimum.reduce(least[before][:, :, None] + enter, axis=1)
        np.minimum(arrival, reach[before], out=arrival)
        reach[rows] += arrival
        np.minimum.reduce(by_group[rows], axis=2, out=least[rows])
    return least


def _trace(block: Block, least: FloatArray) -> NodeArray:
    """Return (P, E) the places of the best paths, from the costs that :func:`_advance` left."""
    groups, size = least.shape[1], block.pairs.size
    ends = block.run.argmin(axis=1)
    cheapest = ends[:, None]
    if groups > 1:
        cheapest = block.by_group(block.run).argmin(axis=2) + block.run.shape[1] // groups * np.arange(groups)
    sources = _list_sources(block, least, cheapest) if size * block.run.shape[1] <= _MOST_LISTED else None
    nodes = np.zeros((size, block.num_layers), dtype=np.int32)
    current: IntArray = np.empty(0, dtype=np.intp)
    for index in range(block.num_layers - 1, -1, -1):
        rows, slots = block.layer(index), np.arange(current.size)
        if sources is not None and current.size:
            current = sources[block.starts[index + 1] - size + slots, current]
        elif current.size:
            before = rows.start + slots
            coming = least[before] + block.entering(index + 1)[slots, :, current]
            group = coming.argmin(axis=1) if groups > 1 else 0
            stays = block.run[before, current] <= coming[slots, group]
            current = np.where(stays, current, cheapest[before, group])
        # Graphs whose last layer this is join at the end of the slice.
        if current.size < rows.stop - rows.start:
            current = np.concatenate([current, ends[rows.start + current.size : rows.stop]])
        nodes[: current.size, index] = current
    return nodes


def _list_sources(block: Block, least: FloatArray, cheapest: IntArray) -> IntArray:
    """Return, for the rows from the second layer on, the place (R - P, K) from which the best path to a node comes."""
    starts, size = np.array(block.starts), block.pairs.size
    layers = np.repeat(np.arange(1, block.num_layers), np.diff(starts)[1:])
    slots = np.arange(size, starts[-1]) - starts[layers]
    before = starts[layers - 1] + slots
    enter = block.enter[slots] if block.enter.shape[0] == size else block.enter[size:]
    best, source = block.run[before], np.arange(block.run.shape[1])
    for group in range(least.shape[1]):
        coming = least[before, group, None] + enter[:, group]
        source = np.where(coming < best, cheapest[before, group, None], source)
        np.minimum(best, coming, out=best)
    return source


@dataclass(frozen=True, eq=False)
class NearNodes:
    """The nodes through which a path of nearly least cost leads, by row and node; M in all.

    Parameters
    ----------
    row, node
        (M,) Where each is.
    remaining
        (M,) Least cost from being at the node, its own cost included, to the end.
    arrival
        (M, F) Least cost of a path that has just entered from each group, the node's own cost not included; in the
        first layer only that from the node's own group is finite.
    best
        (G,) Least cost of each graph, by position.
    limit
        (G,) Largest cost that is worth a look: best + allowance, and a little for rounding.
    """

    row: IntArray
    node: IntArray
    remaining: FloatArray
    arrival: FloatArray
    best: FloatArray
    limit: FloatArray


def find_near_nodes(graphs: LinkedLayers, multipliers: FloatArray, allowance: float) -> NearNodes:
    """Return the nodes on paths whose reduced cost exceeds the graph's least by at most the allowance.

    Parameters
    ----------
    multipliers
        (L,) Weights of the consumptions.
    allowance
        In units of value.
    """
    best, limit = np.empty(graphs.num_graphs), np.empty(graphs.num_graphs)
    found: list[tuple[IntArray, IntArray, FloatArray, FloatArray]] = []
    for block in split_blocks(graphs, None, multipliers, 1.0):
        remaining = _retreat(block)
        stay, arrival = _arrive(block)
        through = np.minimum(stay, arrival[:, 0] if arrival.shape[1] == 1 else arrival.min(axis=1))
        through += remaining
        at = graphs.position_of[block.pairs]
        best[at] = through[block.layer(0)].min(axis=1)
        limit[at] = best[at] * (1.0 + ROUNDING) + allowance
        rows, nodes = np.nonzero(through <= limit[graphs.positions[block.rows]][:, None])
        found.append((block.rows[rows], nodes, remaining[rows, nodes], arrival[rows, :, nodes]))
    row, node, left, arrived = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.argsort(row, kind="stable") if len(found) > 1 else slice(None)
    return NearNodes(row[order], node[order], left[order], arrived[order], best, limit)


def _retreat(block: Block) -> FloatArray:
    """Return (R, K) the least cost from each node, its own included, to the end."""
    remaining = block.run.copy()
    for index in range(block.num_layers - 1, 0, -1):
        later, enter = remaining[block.layer(index)], block.entering(index)
        if enter.shape[1] == 1:
            onwards = (later + enter[:, 0]).min(axis=1, keepdims=True)
        else:
            onwards = (later[:, None, :] + enter).min(axis=2)[:, block.group_of]
        remaining[block.before(index)] += np.minimum(later, onwards)
    return remaining


def _arrive(block: Block) -> tuple[FloatArray, FloatArray]:
    """Return the least costs of staying (R, K) and of coming from each group (R, F, K), own costs not included."""
    groups = block.enter.shape[1]
    stay = np.full(block.run.shape, np.inf)
    arrival = np.empty((block.run.shape[0], groups, block.run.shape[1]))
    arrival[block.layer(0)] = np.inf
    arrival[block.layer(0), block.group_of, np.arange(block.group_of.size)] = block.beginning()
    for index in range(1, block.num_layers):
        rows, before = block.layer(index), block.before(index)
        entered = arrival[before, 0] if groups == 1 else arrival[before].min(axis=1)
        reach = np.minimum(stay[before], entered)
        reach += block.run[before]
        stay[rows] = reach
        np.add(block.by_group(reach).min(axis=2)[:, :, None], block.entering(index), out=arrival[rows])
    return stay, arrival
