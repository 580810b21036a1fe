"""Forward and backward sweeps over linked graphs.

A sweep is a loop over layers; each step works on all graphs that have that layer. From layer to layer a path stays, or
enters a node from the cheapest node of some group, so a step costs O(groups x nodes) per graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from optplan.solvers.paths.batches import ROUNDING, FloatArray, IntArray, NodeArray

if TYPE_CHECKING:
    from optplan.solvers.paths.switching.graphs import LinkedGraphs


def find_best_nodes(graphs: LinkedGraphs, run: FloatArray, enter: FloatArray) -> NodeArray:
    """Return (G, E) the places of each graph's best path, by position, arbitrary beyond a graph's layers.

    Ties go to staying, then to the lowest group left, then to the lowest node of the group.

    Parameters
    ----------
    graphs
        The graphs.
    run, enter
        From :meth:`~optplan.solvers.paths.switching.graphs.LinkedGraphs.weigh`; ``run`` is overwritten.
    """
    return _trace(graphs, _advance(graphs, run, enter), enter)


def _advance(graphs: LinkedGraphs, run: FloatArray, enter: FloatArray) -> FloatArray:
    """Turn the nodes' costs (N, K) into the costs of the best paths so far, in place."""
    starts, groups = graphs.starts.tolist(), graphs.num_groups
    once = graphs.enters_once
    run[: starts[1]] += enter[: starts[1], graphs.group_of, np.arange(run.shape[1])]
    for layer in range(1, len(starts) - 1):
        start, end, before = starts[layer], starts[layer + 1], starts[layer - 1]
        size = end - start
        reach = run[before : before + size]
        coming = reach.reshape(size, groups, -1).min(axis=2)[:, :, None] + (enter[:size] if once else enter[start:end])
        least = coming.min(axis=1) if groups > 1 else coming[:, 0]
        np.minimum(least, reach, out=least)
        run[start:end] += least
    return run


def _trace(graphs: LinkedGraphs, reach: FloatArray, enter: FloatArray) -> NodeArray:
    """Return (G, E) the places of the best paths, from the costs that :func:`_advance` left."""
    starts = graphs.starts.tolist()
    ends = reach.argmin(axis=1)
    source = _find_sources(graphs, reach, enter)
    nodes = np.zeros((graphs.num_graphs, graphs.num_layers), dtype=np.int32)
    slots = np.arange(graphs.num_graphs)
    current = np.empty(0, dtype=np.intp)
    for layer in range(graphs.num_layers - 1, -1, -1):
        start, end = starts[layer], starts[layer + 1]
        if current.size:
            current = source[starts[layer + 1] - starts[1] + slots[: current.size], current]
        # Graphs whose last layer this is join at the end of the slice.
        if current.size < end - start:
            current = np.concatenate([current, ends[start + current.size : end]])
        nodes[: end - start, layer] = current
    return nodes


def _find_sources(graphs: LinkedGraphs, reach: FloatArray, enter: FloatArray) -> NodeArray:
    """Return, for the rows from the second layer on, the place (N - G, K) from which the best path to a node comes."""
    rows = np.arange(graphs.num_graphs, reach.shape[0])
    before = graphs.starts[graphs.layers[rows] - 1] + graphs.positions[rows]
    shaped = reach.reshape(reach.shape[0], graphs.num_groups, -1)
    # The best node of each group in each row, and the cost of the best path to it.
    cheapest = shaped.argmin(axis=2)
    least = np.take_along_axis(shaped, cheapest[:, :, None], axis=2)[:, :, 0][before]
    cheapest = (cheapest + shaped.shape[2] * np.arange(graphs.num_groups))[before]
    entry = graphs.positions[rows] if graphs.enters_once else rows
    best = reach[before]
    source = np.tile(np.arange(reach.shape[1], dtype=np.int32), (rows.size, 1))
    for group in range(graphs.num_groups):
        coming = least[:, group, None] + enter[entry, group]
        better = coming < best
        np.copyto(best, coming, where=better)
        np.copyto(source, cheapest[:, group, None], where=better, casting="same_kind")
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


def find_near_nodes(graphs: LinkedGraphs, run: FloatArray, enter: FloatArray, allowance: float) -> NearNodes:
    """Return the nodes on paths whose cost exceeds the graph's least by at most the allowance.

    Parameters
    ----------
    graphs
        The graphs.
    run, enter
        From :meth:`~optplan.solvers.paths.switching.graphs.LinkedGraphs.weigh`.
    allowance
        In units of cost.
    """
    remaining = _retreat(graphs, run, enter)
    stay, arrival = _arrive(graphs, run, enter)
    through = remaining + np.minimum(stay, arrival.min(axis=1))
    best = through[: graphs.num_graphs].min(axis=1)
    limit = best * (1.0 + ROUNDING) + allowance
    row, node = np.nonzero(through <= limit[graphs.positions][:, None])
    return NearNodes(row, node, remaining[row, node], arrival[row, :, node], best, limit)


def _retreat(graphs: LinkedGraphs, run: FloatArray, enter: FloatArray) -> FloatArray:
    """Return (N, K) the least cost from each node, its own included, to the end."""
    remaining = run.copy()
    starts = graphs.starts.tolist()
    for layer in range(len(starts) - 3, -1, -1):
        later = remaining[starts[layer + 1] : starts[layer + 2]]
        onwards = (later[:, None, :] + enter[graphs.enters(layer + 1)]).min(axis=2)[:, graphs.group_of]
        remaining[starts[layer] : starts[layer] + later.shape[0]] += np.minimum(later, onwards)
    return remaining


def _arrive(graphs: LinkedGraphs, run: FloatArray, enter: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the least costs of staying (N, K) and of coming from each group (N, F, K), own costs not included."""
    starts, groups = graphs.starts.tolist(), graphs.num_groups
    stay = np.full(run.shape, np.inf)
    arrival = np.full((run.shape[0], groups, run.shape[1]), np.inf)
    nodes = np.arange(run.shape[1])
    arrival[: starts[1], graphs.group_of, nodes] = enter[graphs.enters(0)][:, graphs.group_of, nodes]
    for layer in range(1, len(starts) - 1):
        rows = slice(starts[layer], starts[layer + 1])
        before = slice(starts[layer - 1], starts[layer - 1] + rows.stop - rows.start)
        reach = np.minimum(stay[before], arrival[before].min(axis=1)) + run[before]
        stay[rows] = reach
        least = reach.reshape(reach.shape[0], groups, -1).min(axis=2)
        arrival[rows] = least[:, :, None] + enter[graphs.enters(layer)]
    return stay, arrival
