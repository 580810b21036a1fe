"""Layered graphs: least paths, what paths amount to, every choice of paths, and graphs of networkx."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from optplan.contracts.judgement import PathCosts
from optplan.errors import MissingExtraError, UnsupportedError
from optplan.schema import FloatArray, IntArray

if TYPE_CHECKING:
    from networkx import DiGraph

#: Arcs beyond which a graph is refused: each takes about a kilobyte.
_MOST_ARCS = 1_000_000

#: Most choices that are looked at: a few arrays of this length, one for each limit among them, are the working set.
MAX_CHOICES = 4_000_000
#: What stands before the first layer, behind the last, and between those who change to another node.
START, END, CHANGE = "start", "end", "change"


def path_totals(graph: PathCosts, columns: IntArray) -> tuple[float, FloatArray]:
    """Return value and consumption (L,) of one path, given the column (E,) of the node in each layer."""
    layers = np.arange(columns.size)
    entered = np.flatnonzero(np.concatenate(([True], columns[1:] != columns[:-1])))
    left = graph.group[columns[np.maximum(entered - 1, 0)]]
    value = graph.run_value[layers, columns].sum() + graph.enter_value[left, entered, columns[entered]].sum()
    consumption = graph.run_consumption[:, layers, columns].sum(axis=1)
    consumption = consumption + graph.enter_consumption[:, left, entered, columns[entered]].sum(axis=1)
    return float(value), consumption


def least_path(run: FloatArray, enter: FloatArray, group: IntArray | None = None) -> tuple[float, IntArray]:
    """Return the least cost of a path and its columns: run (E, K), enter (F, E, K) from another node of each group."""
    layers, nodes = run.shape
    group = np.zeros(nodes, dtype=np.int64) if group is None else group
    members = [np.flatnonzero(group == number) for number in range(len(enter))]
    members = [nodes_of for nodes_of in members if nodes_of.size]
    groups = group[[nodes_of[0] for nodes_of in members]]
    come_from = np.tile(np.arange(nodes), (layers, 1))
    best = enter[group, 0, np.arange(nodes)] + run[0]
    for layer in range(1, layers):
        cheapest = np.array([nodes_of[best[nodes_of].argmin()] for nodes_of in members])
        coming = best[cheapest][:, None] + enter[groups, layer]
        source = coming.argmin(axis=0)
        entering = coming[source, np.arange(nodes)]
        moved = entering < best
        come_from[layer, moved] = cheapest[source[moved]]
        best = run[layer] + np.where(moved, entering, best)
    columns = np.empty(layers, dtype=np.int64)
    columns[-1] = best.argmin()
    for layer in range(layers - 1, 0, -1):
        columns[layer - 1] = come_from[layer, columns[layer]]
    return float(best.min()), columns


def draw_layers(graphs: Iterable[tuple[PathCosts, list[dict[str, Any]]]]) -> DiGraph:
    """Draw layered graphs side by side, with what is known of their (K,) nodes; infinite costs are not drawn."""
    # Nodes are ``(NAME, LAYER, LABEL)``, layers from 1, and "start" and "end". Who leaves a node of a group for another
    # passes a node "change" (with several groups "change.GROUP"), so that there are as many arcs as nodes.
    known = list(graphs)
    # Those of staying, those to the nodes of changes, and those from each group to each node.
    arcs = sum(len(costs.run_value) * len(costs.labels) * (2 + costs.num_groups) for costs, _ in known)
    if arcs > _MOST_ARCS:
        message = f"the graph would have {arcs:,} arcs, and {_MOST_ARCS:,} are drawn; take fewer classes or widths"
        raise UnsupportedError(message)
    try:
        import networkx
    except ImportError:
        raise MissingExtraError("networkx", "graphs") from None
    drawn = networkx.DiGraph()
    for costs, about in known:
        _draw(drawn, costs, about)
    return drawn


def _draw(drawn: DiGraph, costs: PathCosts, about: list[dict[str, Any]]) -> None:
    """Add one layered graph."""
    present = np.isfinite(costs.run_value)
    drawn.add_nodes_from([(costs.name, START), (costs.name, END)])
    before: list[int] = []
    for layer in range(len(costs.run_value)):
        own = np.flatnonzero(present[layer]).tolist()
        drawn.add_nodes_from(((costs.name, layer + 1, costs.labels[node]), about[node]) for node in own)
        if layer:
            _draw_changes(drawn, costs, layer, before, own)
        else:
            for node in own:
                drawn.add_edge(
                    (costs.name, START),
                    (costs.name, 1, costs.labels[node]),
                    **_cost(costs, 0, node, int(costs.group[node])),
                )
        before = own
    nothing = dict.fromkeys(("value", *costs.limits), 0.0)
    for node in before:
        drawn.add_edge((costs.name, len(costs.run_value), costs.labels[node]), (costs.name, END), **nothing)


def _draw_changes(drawn: DiGraph, costs: PathCosts, layer: int, before: list[int], own: list[int]) -> None:
    """Add the arcs into a layer: to the same node, and from each group to all nodes."""
    nothing = dict.fromkeys(("value", *costs.limits), 0.0)
    for group in sorted({int(costs.group[node]) for node in before}):
        tails = [(costs.name, layer, costs.labels[node]) for node in before if costs.group[node] == group]
        tail: tuple[object, ...] = tails[0]
        if len(tails) > 1:
            tail = (costs.name, layer + 1, CHANGE if costs.num_groups == 1 else f"{CHANGE}.{group}")
            drawn.add_edges_from(((each, tail) for each in tails), **nothing)
        for node in own:
            drawn.add_edge(tail, (costs.name, layer + 1, costs.labels[node]), **_cost(costs, layer, node, group))
    for node in set(before) & set(own):
        label = costs.labels[node]
        drawn.add_edge((costs.name, layer, label), (costs.name, layer + 1, label), **_cost(costs, layer, node, None))


def _cost(costs: PathCosts, layer: int, node: int, group: int | None) -> dict[str, float]:
    """Return what being at a node costs, and entering it from a group; None for staying."""
    cost = {"value": float(costs.run_value[layer, node])}
    cost |= dict(zip(costs.limits, costs.run_consumption[:, layer, node].tolist(), strict=True))
    if group is not None:
        cost["value"] += float(costs.enter_value[group, layer, node])
        for limit, amount in zip(costs.limits, costs.enter_consumption[:, group, layer, node].tolist(), strict=True):
            cost[limit] += amount
    return cost


def enumerate_choices(graphs: Sequence[PathCosts], most: FloatArray) -> tuple[tuple[IntArray, ...] | None, int]:
    """Find the paths of least total value within ``most`` (L,) by looking at all, and count these: a yardstick."""
    # Of equally good choices the first, counting columns like digits; UnsupportedError beyond :data:`MAX_CHOICES`.
    numbers = [len(graph.labels) ** len(graph.run_value) for graph in graphs]
    if math.prod(numbers) > MAX_CHOICES:
        raise refuse_to_enumerate(MAX_CHOICES, math.prod(numbers))
    value, consumption = np.zeros(1), np.zeros((most.size, 1))
    for graph in graphs:
        path_value, path_consumption = _all_paths(graph)
        value = (value[:, None] + path_value).ravel()
        consumption = (consumption[:, :, None] + path_consumption[:, None]).reshape(len(consumption), -1)
    within = np.flatnonzero((consumption <= most[:, None]).all(axis=0))
    if not within.size:
        return None, value.size
    best = np.unravel_index(within[value[within].argmin()], numbers)
    shapes = [(len(graph.labels),) * len(graph.run_value) for graph in graphs]
    return tuple(np.array(np.unravel_index(*each)) for each in zip(best, shapes, strict=True)), value.size


def refuse_to_enumerate(most: int, count: float, *, what: str = "choices", whose: str = "this problem") -> Exception:
    """Return the error that there are too many choices to look at each of them."""
    problem = f"enumeration looks at {most:,} {what} at most and {whose} has {float(count):.3g}"
    return UnsupportedError(f"{problem}; choose a solver that does not look at each of them")


def _all_paths(graph: PathCosts) -> tuple[FloatArray, FloatArray]:
    """Total value (N,) and consumption (L, N) of every path, in the order of their columns read as digits."""
    nodes = np.arange(len(graph.labels))
    value = graph.run_value[0] + graph.enter_value[graph.group, 0, nodes]
    consumption = graph.run_consumption[:, 0] + graph.enter_consumption[:, graph.group, 0, nodes]
    for layer in range(1, len(graph.run_value)):
        last = np.arange(value.size) % nodes.size
        left = graph.group[last]
        entered = last[:, None] != nodes
        value = (value[:, None] + graph.run_value[layer] + entered * graph.enter_value[left, layer]).ravel()
        steps = graph.run_consumption[:, None, layer] + entered * graph.enter_consumption[:, left, layer]
        consumption = (consumption[:, :, None] + steps).reshape(len(consumption), -1)
    return value, consumption
