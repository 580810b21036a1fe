"""Pareto label setting: every undominated path within an allowance of the least reduced cost.

A label is a partial path with its (consumption, value). It is dropped when its reduced cost plus the least of the rest
exceeds the allowance, or when another label at the same node has no more of either. As a switch costs the same from
wherever one comes, one Pareto set over a graph's whole previous stage, the *hub*, serves all nodes that can be entered.
All graphs advance together, one stage per step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from optplan.solvers.paths.batches import FloatArray, IntArray, PathBatch
from optplan.solvers.paths.effort import Effort
from optplan.solvers.paths.layered.stages import Stages, contract_layers, unfold_nodes
from optplan.solvers.paths.layered.sweeps import find_near_nodes
from optplan.solvers.paths.skyline import ParetoPaths, expand_ranges, find_undominated, skip_clearly_dominated

if TYPE_CHECKING:
    from optplan.solvers.paths.layered.graphs import LayeredGraphs

Labels32 = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class _Labels:
    """Labels of one stage, by node and increasing consumption.

    Parameters
    ----------
    slot
        (L,) Position of the node in the stages' arrays.
    consumption, value
        (L,) So far, the node's own stage included.
    parent
        (L,) Position in the labels of the stage before.
    """

    slot: IntArray
    consumption: FloatArray
    value: FloatArray
    parent: IntArray


def find_pareto_paths(graphs: LayeredGraphs, multiplier: float, allowance: float, effort: Effort) -> ParetoPaths:
    """Return every graph's undominated paths within the allowance of its least reduced cost.

    Parameters
    ----------
    graphs
        The graphs.
    multiplier
        Weight of the consumption.
    allowance
        In units of value.
    effort
        Charged for a pass and for each stage's labels.

    Returns
    -------
    ParetoPaths
        At least one path per graph.

    Raises
    ------
    OutOfEffortError
        When a limit of ``effort`` is met.
    """
    effort.charge_pass()
    near = find_near_nodes(graphs, multiplier, allowance)
    stages = contract_layers(graphs, near, multiplier)
    # Keys of different graphs must not overlap even where all excesses are zero.
    spread = float((near.limit - near.best).max()) or 1.0
    labels = _start(stages)
    history: list[tuple[Labels32, Labels32]] = []
    finals: list[tuple[IntArray, FloatArray, FloatArray, IntArray]] = []
    kept = 0
    for index in range(stages.starts.size - 1):
        if index:
            labels = _advance(stages, index, labels, multiplier, spread)
        history.append((labels.slot.astype(np.int32), labels.parent.astype(np.int32)))
        kept += labels.slot.size
        effort.charge_labels(labels.slot.size, kept)
        done = np.flatnonzero(stages.last_stage[stages.graph[labels.slot]] == index)
        finals.append((labels.slot[done], labels.consumption[done], labels.value[done], done))
    slot, consumption, value, label = (np.concatenate(parts) for parts in zip(*finals, strict=True))
    best = _filter(stages, stages.graph[slot], slot, consumption, value)
    graph, label = stages.graph[slot[best]], label[best]

    def trace(chosen: IntArray) -> PathBatch:
        nodes = unfold_nodes(graphs, stages, _trace_blocks(stages, history, label[chosen]))
        return graphs.follow(np.arange(graphs.num_graphs), nodes, multiplier)

    starts = np.searchsorted(graph, np.arange(graphs.num_graphs + 1))
    return ParetoPaths(starts, consumption[best], value[best], trace)


def _start(stages: Stages) -> _Labels:
    """Return the labels of the first stage: every node, entered."""
    first = stages.stage(0)
    return _Labels(
        np.arange(first.start, first.stop),
        stages.switch_consumption[first] + stages.consumption[first],
        stages.switch_value[first] + stages.value[first],
        np.full(first.stop, -1),
    )


def _advance(stages: Stages, index: int, labels: _Labels, multiplier: float, spread: float) -> _Labels:
    """Return the labels of stage ``index`` from those of the stage before."""
    reduced_cost = labels.value + multiplier * labels.consumption
    target = stages.successor[labels.slot]
    stays = np.flatnonzero((target >= 0) & (reduced_cost <= stages.arrival_limit[target]))
    enters, entered = _enter_from_hub(stages, index, labels, reduced_cost, spread)
    stayed = target[stays]
    # Both parts are sorted by node and consumption, so the sort inside merges two runs.
    slot = np.concatenate([stayed, entered])
    parent = np.concatenate([stays, enters])
    consumption = labels.consumption[parent] + stages.consumption[slot]
    consumption[stays.size :] += stages.switch_consumption[entered]
    value = labels.value[parent] + stages.value[slot]
    value[stays.size :] += stages.switch_value[entered]
    best = _filter(stages, slot - stages.stage(index).start, slot, consumption, value)
    return _Labels(slot[best], consumption[best], value[best], parent[best])


def _enter_from_hub(
    stages: Stages, index: int, labels: _Labels, reduced_cost: FloatArray, spread: float
) -> tuple[IntArray, IntArray]:
    """Return the (label, node) pairs of entering within the allowance, by node and increasing consumption."""
    rows = stages.stage(index)
    slots = rows.start + np.flatnonzero(stages.entry_limit[rows] > -np.inf)
    limit, target_graph = stages.entry_limit[slots], stages.graph[slots]
    loosest = np.full(stages.last_stage.size, -np.inf)
    np.maximum.at(loosest, target_graph, limit)
    label_graph = stages.graph[labels.slot]
    usable = np.flatnonzero(reduced_cost <= loosest[label_graph])
    if not usable.size:
        return usable, usable
    usable = usable[skip_clearly_dominated(label_graph[usable], labels.consumption[usable], labels.value[usable])]
    slot = labels.slot[usable]
    hub = usable[_filter(stages, stages.graph[slot], slot, labels.consumption[usable], labels.value[usable])]
    graph, cost = label_graph[hub], reduced_cost[hub]

    # The labels that a node accepts lie between the first and the last of its graph's hub below its limit. Running
    # minima from both ends find these two by bisection, for all graphs at once once each has its own range of keys.
    base = np.full(stages.last_stage.size, np.inf)
    np.minimum.at(base, graph, cost)
    apart = 4.0 * spread
    height = np.minimum(cost - base[graph], 2.0 * spread)
    # A graph without a hub label has an infinite base: its limit clips to the empty side.
    wanted = np.clip(limit - base[target_graph], -spread, 2.0 * spread)
    from_left = np.maximum.accumulate(graph * apart - height)
    from_right = np.minimum.accumulate((graph * apart + height)[::-1])[::-1]
    first = np.searchsorted(from_left, target_graph * apart - wanted, side="left")
    behind = np.searchsorted(from_right, target_graph * apart + wanted, side="right")
    owner, position = expand_ranges(first, np.maximum(behind - first, 0))
    accepted = cost[position] <= limit[owner]
    return hub[position[accepted]], slots[owner[accepted]]


def _filter(stages: Stages, segment: IntArray, slot: IntArray, consumption: FloatArray, value: FloatArray) -> IntArray:
    """Return the positions of labels that no other of their segment dominates, by segment and consumption."""
    return find_undominated(segment, consumption * stages.consumption_unit[slot], value * stages.value_unit[slot])


def _trace_blocks(stages: Stages, history: list[tuple[Labels32, Labels32]], label: IntArray) -> IntArray:
    """Return the node of every contracted layer on the paths that end in the given labels, one per graph."""
    node_of_block = np.empty(int((stages.first_block + stages.last_stage).max()) + 1, dtype=np.intp)
    current = label.copy()
    for index in range(len(history) - 1, -1, -1):
        slot, parent = history[index]
        graphs = np.flatnonzero(stages.last_stage >= index)
        here = current[graphs]
        node_of_block[stages.first_block[graphs] + index] = stages.node[slot[here]]
        current[graphs] = parent[here]
    return node_of_block
