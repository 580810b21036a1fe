"""Contraction of layered graphs to what nearly optimal paths can do.

Where no path within the allowance enters a node, every path stays where it is. So the layers between two that can be
entered fold into one *stage* whose nodes carry the sums. This is what makes exact enumeration cheap: of the 322 epochs
of a typical instance fewer than ten remain as stages at the allowance that closes the gap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optplan.solvers.paths.families import FloatArray, IntArray, NodeArray
from optplan.solvers.paths.switching.layers import LinkedLayers
from optplan.solvers.paths.switching.sweeps import NearNodes, find_near_nodes


@dataclass(frozen=True, eq=False)
class Stages:
    """Nodes of the contracted graphs by stage, graph and node; M in all. Graphs are known by their positions.

    Parameters
    ----------
    starts
        (S + 1,) Where each stage begins.
    graph, node, group
        (M,) Whose node it is, its place in the layer and its group.
    value
        (M,) Summed over the layers of the stage.
    consumption
        (M, L) The same, of each limit.
    enter_value
        (M, F) Extra when a path enters here from each group.
    enter_consumption
        (M, F, L) The same, of each limit.
    arrival_limit
        (M,) Largest reduced cost with which a path may arrive, this stage and any entering not yet included.
    entry_limit
        (M, F) The same for a path that enters, before it pays for that; -inf where entering exceeds the allowance.
    successor
        (M,) The same node in the graph's next stage; -1 where it is not worth a look, and at the end.
    last_stage
        (G,) Index of each graph's last stage.
    best, limit
        (G,) Least reduced cost of each graph, and the largest that is worth a look.
    block
        (G, E) Which stage each layer belongs to.
    """

    starts: IntArray
    graph: IntArray
    node: IntArray
    group: IntArray
    value: FloatArray
    consumption: FloatArray
    enter_value: FloatArray
    enter_consumption: FloatArray
    arrival_limit: FloatArray
    entry_limit: FloatArray
    successor: IntArray
    last_stage: IntArray
    best: FloatArray
    limit: FloatArray
    block: IntArray

    def stage(self, index: int) -> slice:
        """Return the nodes of a stage."""
        return slice(int(self.starts[index]), int(self.starts[index + 1]))


def contract_layers(graphs: LinkedLayers, multipliers: FloatArray, allowance: float) -> Stages:
    """Fold the layers that no path within the allowance can enter into the layer before.

    Parameters
    ----------
    multipliers
        (L,) Weights of the consumptions in the reduced cost.
    allowance
        In units of value.

    Returns
    -------
    Stages
        The contracted graphs; their paths within the allowance are those of ``graphs``.
    """
    near = find_near_nodes(graphs, multipliers, allowance)
    owner = graphs.positions[near.row]
    enterable = near.arrival + near.remaining[:, None] <= near.limit[owner][:, None]
    block = _open_stages(graphs, near, np.asarray(enterable.any(axis=1)))
    head, value, consumption = _fold_nodes(graphs, near, block)
    owner, row, node = owner[head], near.row[head], near.node[head]
    stage = block[owner, graphs.layers[row]]
    last_stage = block[np.arange(graphs.num_graphs), graphs.lengths - 1]
    entry_row = owner if graphs.enters_once else row
    enter_value = graphs.enter_value[entry_row, :, node]
    enter_consumption = graphs.enter_consumption[:, entry_row, :, node].transpose(0, 2, 1)
    arrival_limit = near.limit[owner] - near.remaining[head]
    entry_limit = arrival_limit[:, None] - (enter_value + enter_consumption @ multipliers)
    nodes = graphs.run_value.shape[1]
    key = (stage * graphs.num_graphs + owner) * nodes + node
    return Stages(
        starts=np.searchsorted(stage, np.arange(int(stage.max()) + 2)),
        graph=owner,
        node=node,
        group=graphs.group_of[node],
        value=value,
        consumption=consumption,
        enter_value=enter_value,
        enter_consumption=enter_consumption,
        arrival_limit=arrival_limit,
        entry_limit=np.where(enterable[head], entry_limit, -np.inf),
        successor=_find_successors(key, graphs.num_graphs * nodes, stage < last_stage[owner]),
        last_stage=last_stage,
        best=near.best,
        limit=near.limit,
        block=block,
    )


def _open_stages(graphs: LinkedLayers, near: NearNodes, entered: NDArray[np.bool_]) -> IntArray:
    """Return (G, E) the stage of each layer: a new one wherever a near node can be entered."""
    opens = np.zeros((graphs.num_graphs, graphs.num_layers), dtype=bool)
    opens[:, 0] = True
    rows = near.row[entered]
    opens[graphs.positions[rows], graphs.layers[rows]] = True
    return np.asarray(opens.cumsum(axis=1) - 1)


def _fold_nodes(graphs: LinkedLayers, near: NearNodes, block: IntArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return, by stage, graph and node: the first near node (M,), summed value (M,) and consumption (M, L)."""
    owner, nodes = graphs.positions[near.row], graphs.run_value.shape[1]
    stage = block[owner, graphs.layers[near.row]]
    key = (stage * graphs.num_graphs + owner) * nodes + near.node
    # Within a key by layer, as the near nodes are.
    order = np.argsort(key, kind="stable")
    runs = np.flatnonzero(np.concatenate([[True], key[order][1:] != key[order][:-1]]))
    depth = np.diff(np.append(runs, order.size))
    stages = int(block.max()) + 1
    sizes = np.bincount(graphs.positions * stages + block[graphs.positions, graphs.layers])
    head = order[runs]
    # A node that rounding lost in some layer of the stage has its excess at the very limit: it is left out as a whole.
    whole = depth == sizes[owner[head] * stages + stage[head]]
    value = np.add.reduceat(graphs.run_value[near.row, near.node][order], runs)
    consumption = np.add.reduceat(graphs.run_consumption[:, near.row, near.node][:, order], runs, axis=1)
    return head[whole], value[whole], consumption[:, whole].T.copy()


def _find_successors(key: IntArray, step: int, goes_on: NDArray[np.bool_]) -> IntArray:
    """Return the position of key + step for each of the increasing keys where the graph goes on, else -1."""
    at = np.minimum(np.searchsorted(key, key + step), key.size - 1)
    return np.where(goes_on & (key[at] == key + step), at, -1)


def unfold_nodes(stages: Stages, node_of_stage: IntArray) -> NodeArray:
    """Return (G, E) the nodes of one path per graph, given (G, S) the node in each of its stages."""
    stage = np.minimum(stages.block, stages.last_stage[:, None])
    return np.take_along_axis(node_of_stage, stage, axis=1).astype(np.int32)
