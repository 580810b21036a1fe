"""Contraction of layered graphs to what nearly optimal paths can do.

Where no path within the allowance enters a node, every path stays where it is. So the layers between two that can be
entered fold into one *stage* whose nodes carry the sums. This is what makes exact enumeration cheap: of the 322 epochs
of a typical instance fewer than ten remain as stages at the allowance that closes the gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from optplan.solvers.paths.batches import FloatArray, IntArray, NodeArray
from optplan.solvers.paths.layered.sweeps import NearNodes

if TYPE_CHECKING:
    from optplan.solvers.paths.layered.graphs import LayeredGraphs


@dataclass(frozen=True, eq=False)
class Stages:
    """Nodes of the contracted graphs, sorted by stage, graph and node; M in all.

    Parameters
    ----------
    starts
        (S + 1,) Where each stage begins.
    graph, node
        (M,) Whose node it is.
    value, consumption
        (M,) Summed over the layers of the stage.
    switch_value, switch_consumption
        (M,) Extra when a path enters here.
    arrival_limit
        (M,) Largest reduced cost with which a path may arrive, this stage and any switch not yet included.
    entry_limit
        (M,) The same for a path that enters, its switch not yet included; -inf where entering exceeds the allowance.
    successor
        (M,) The same node in the graph's next stage; -1 where it is not worth a look, and at the end.
    consumption_unit, value_unit
        (M,) Factors that bring any sum along a path of the node's graph into [0, 1].
    last_stage
        (G,) Index of each graph's last stage.
    block
        (N,) Which contracted layer each layer belongs to; graphs one after another.
    first_block
        (G,) The first of each graph.
    """

    starts: IntArray
    graph: IntArray
    node: IntArray
    value: FloatArray
    consumption: FloatArray
    switch_value: FloatArray
    switch_consumption: FloatArray
    arrival_limit: FloatArray
    entry_limit: FloatArray
    successor: IntArray
    consumption_unit: FloatArray
    value_unit: FloatArray
    last_stage: IntArray
    block: IntArray
    first_block: IntArray

    def stage(self, index: int) -> slice:
        """Return the nodes of a stage."""
        return slice(int(self.starts[index]), int(self.starts[index + 1]))


def contract_layers(graphs: LayeredGraphs, near: NearNodes, multiplier: float) -> Stages:
    """Fold layers that no path within the allowance can enter into the layer before.

    Parameters
    ----------
    graphs
        The graphs.
    near
        Nodes within the allowance under ``multiplier``.
    multiplier
        Weight of the consumption.

    Returns
    -------
    Stages
        The contracted graphs; their paths within the allowance are those of ``graphs``.
    """
    owner = np.repeat(np.arange(graphs.num_graphs), graphs.num_layers)
    enterable = near.enter_excess <= (near.limit - near.best)[owner[near.row]]
    # The first layer always opens a stage, as every path enters it.
    opens = np.zeros(owner.size, dtype=bool)
    opens[near.row[enterable]] = True
    block = np.cumsum(opens) - 1

    head, value, consumption = _fold_nodes(graphs, near, block)
    # By stage, within a stage still by graph and node.
    graph = owner[near.row[head]]
    first_block = block[graphs.first_row[:-1]]
    stage = block[near.row[head]] - first_block[graph]
    by_stage = np.argsort(stage, kind="stable")
    head, graph, stage = head[by_stage], graph[by_stage], stage[by_stage]
    value, consumption = value[by_stage], consumption[by_stage]
    row, node = near.row[head], near.node[head]
    switch_row = graphs.switch_row[row]
    switch_value = graphs.switch_value[switch_row, node]
    switch_consumption = graphs.switch_consumption[switch_row, node]
    arrival_limit = near.limit[graph] - near.remaining[head]
    switch = switch_value + multiplier * switch_consumption
    last_stage = np.diff(np.append(first_block, block[-1] + 1)) - 1
    return Stages(
        starts=np.searchsorted(stage, np.arange(last_stage.max() + 2)),
        graph=graph,
        node=node,
        value=value,
        consumption=consumption,
        switch_value=switch_value,
        switch_consumption=switch_consumption,
        arrival_limit=arrival_limit,
        entry_limit=np.where(enterable[head], arrival_limit - switch, -np.inf),
        successor=_find_successors(block[row] * graphs.num_nodes + node, graphs.num_nodes, stage < last_stage[graph]),
        consumption_unit=_find_units(graph, stage, consumption + switch_consumption),
        value_unit=_find_units(graph, stage, value + switch_value),
        last_stage=last_stage,
        block=block,
        first_block=first_block,
    )


def _fold_nodes(graphs: LayeredGraphs, near: NearNodes, block: IntArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return, for each node of each contracted layer, its place in ``near`` and its summed value and consumption."""
    key = block[near.row] * graphs.num_nodes + near.node
    order = np.argsort(key, kind="stable")
    run = np.flatnonzero(np.concatenate([[True], key[order][1:] != key[order][:-1]]))
    depth = np.diff(np.append(run, order.size))
    # A node that rounding lost in some layer of the block has its excess at the very limit: it is left out as a whole.
    whole = depth == np.bincount(block)[key[order[run]] // graphs.num_nodes]
    value = np.add.reduceat(graphs.value[near.row, near.node][order], run)
    consumption = np.add.reduceat(graphs.consumption[near.row, near.node][order], run)
    return order[run][whole], value[whole], consumption[whole]


def _find_units(graph: IntArray, stage: IntArray, cost: FloatArray) -> FloatArray:
    """Return, for each node, one over the greatest cost that a path of its graph can add up, given by stage, graph."""
    run = np.flatnonzero(np.concatenate([[True], (graph[1:] != graph[:-1]) | (stage[1:] != stage[:-1])]))
    greatest = np.bincount(graph[run], weights=np.maximum.reduceat(cost, run))
    return 1.0 / np.where(greatest > 0, greatest, 1.0)[graph]


def _find_successors(key: IntArray, width: int, goes_on: NDArray[np.bool_]) -> IntArray:
    """Return the position of key + width for each key where the graph goes on, else -1."""
    order = np.argsort(key)
    ranked = key[order]
    at = np.minimum(np.searchsorted(ranked, key + width), key.size - 1)
    return np.where(goes_on & (ranked[at] == key + width), order[at], -1)


def unfold_nodes(graphs: LayeredGraphs, stages: Stages, node_of_block: IntArray) -> NodeArray:
    """Return (G, E) the nodes of one path per graph, given the node of each contracted layer."""
    depth = int(graphs.num_layers.max())
    nodes = np.full((graphs.num_graphs, depth), -1, dtype=np.int32)
    inside = np.arange(depth) < graphs.num_layers[:, None]
    nodes[inside] = node_of_block[stages.block]
    return nodes
