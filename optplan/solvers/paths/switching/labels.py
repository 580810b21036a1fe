"""Pareto label setting with several limits: every undominated path within an allowance of the least reduced cost.

A label is a partial path with its value and its consumptions. It is dropped when its reduced cost plus the least of the
rest exceeds the allowance, or when another label at the same node has no more of anything. What entering a node costs
depends on the group left only, so one Pareto set per graph and group of the previous stage, the *hub*, serves all nodes
that can be entered from it. All graphs advance together, one stage per step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optplan.solvers.paths.batches import FloatArray, IntArray
from optplan.solvers.paths.dominance import find_undominated_vectors, weigh_criteria
from optplan.solvers.paths.effort import Effort
from optplan.solvers.paths.families import ColumnBatch
from optplan.solvers.paths.skyline import expand_ranges
from optplan.solvers.paths.switching.graphs import LinkedGraphs
from optplan.solvers.paths.switching.stages import Stages, contract_layers, unfold_nodes

Labels32 = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class PathSets:
    """Undominated paths of every graph within an allowance, graph after graph.

    Parameters
    ----------
    starts
        (G + 1,) Where each graph's paths begin.
    value
        (M,) Of each path.
    consumption
        (M, L) Of each path.
    trace
        Returns the chosen paths themselves, given (G,) one position in 0..M-1 per graph.
    """

    starts: IntArray
    value: FloatArray
    consumption: FloatArray
    trace: Callable[[IntArray], ColumnBatch]


@dataclass(frozen=True, eq=False)
class _Labels:
    """Labels of one stage, by node.

    Parameters
    ----------
    slot
        (M,) Position of the node in the stages' arrays.
    value, consumption
        (M,), (M, L) So far, the node's own stage included.
    parent
        (M,) Position in the labels of the stage before.
    """

    slot: IntArray
    value: FloatArray
    consumption: FloatArray
    parent: IntArray


def find_path_sets(graphs: LinkedGraphs, multipliers: FloatArray, allowance: float, effort: Effort) -> PathSets:
    """Return every graph's undominated paths within the allowance of its least reduced cost.

    Parameters
    ----------
    graphs
        The graphs.
    multipliers
        (L,) Weights of the consumptions.
    allowance
        In units of value.
    effort
        Charged for a pass and for each stage's labels.

    Returns
    -------
    PathSets
        At least one path per graph. Very large sets may hold dominated paths, too.

    Raises
    ------
    OutOfEffortError
        When a limit of ``effort`` is met.
    """
    effort.charge_pass()
    stages = contract_layers(graphs, multipliers, allowance)
    setting = _Setting(graphs, stages, multipliers, effort)
    labels = setting.start()
    history: list[tuple[Labels32, Labels32]] = []
    finals: list[tuple[_Labels, IntArray]] = []
    kept = 0
    for index in range(stages.starts.size - 1):
        if index:
            labels = setting.advance(index, labels)
        history.append((labels.slot.astype(np.int32), labels.parent.astype(np.int32)))
        kept += labels.slot.size
        effort.charge_labels(labels.slot.size, kept)
        finals.append((labels, np.flatnonzero(stages.last_stage[stages.graph[labels.slot]] == index)))
    slot = np.concatenate([labels.slot[done] for labels, done in finals])
    value = np.concatenate([labels.value[done] for labels, done in finals])
    consumption = np.concatenate([labels.consumption[done] for labels, done in finals])
    ends = np.concatenate([done for _, done in finals])
    graph = graphs.order[stages.graph[slot]]
    best = setting.filter(graph, value, consumption)
    graph, ends = graph[best], ends[best]

    def trace(chosen: IntArray) -> ColumnBatch:
        current = ends[chosen][graphs.order]
        return graphs.follow(unfold_nodes(stages, _trace_stages(stages, history, current)))

    starts = np.searchsorted(graph, np.arange(graphs.num_graphs + 1))
    return PathSets(starts, value[best], consumption[best], trace)


class _Setting:
    """What the steps of one label setting have in common."""

    def __init__(self, graphs: LinkedGraphs, stages: Stages, multipliers: FloatArray, effort: Effort) -> None:
        self.stages = stages
        self.multipliers = multipliers
        self.effort = effort
        self.num_groups = graphs.num_groups
        #: Keys of different hubs must not overlap even where all excesses are zero.
        self.spread = float((stages.limit - stages.best).max()) or 1.0
        #: What a limit is worth in all, so that sums over criteria make sense.
        self.weights = weigh_criteria(float(stages.best.sum()), graphs.limits)

    def filter(self, segment: IntArray, value: FloatArray, consumption: FloatArray) -> IntArray:
        """Return the positions of labels that no other of their segment dominates, by segment."""
        return find_undominated_vectors(segment, np.concatenate([value[:, None], consumption * self.weights], axis=1))

    def start(self) -> _Labels:
        """Return the labels of the first stage: every node, entered as from its own group."""
        stages = self.stages
        slot = np.arange(*stages.stage(0).indices(stages.graph.size))
        group = stages.group[slot]
        return _Labels(
            slot,
            stages.enter_value[slot, group] + stages.value[slot],
            stages.enter_consumption[slot, group] + stages.consumption[slot],
            np.full(slot.size, -1),
        )

    def advance(self, index: int, labels: _Labels) -> _Labels:
        """Return the labels of stage ``index`` from those of the stage before."""
        stages = self.stages
        cost = labels.value + labels.consumption @ self.multipliers
        target = stages.successor[labels.slot]
        stays = np.flatnonzero((target >= 0) & (cost <= stages.arrival_limit[target]))
        enters, entered = self._enter_from_hubs(index, labels, cost)
        slot = np.concatenate([target[stays], entered])
        parent = np.concatenate([stays, enters])
        left = stages.group[labels.slot[enters]]
        value = labels.value[parent] + stages.value[slot]
        value[stays.size :] += stages.enter_value[entered, left]
        consumption = labels.consumption[parent] + stages.consumption[slot]
        consumption[stays.size :] += stages.enter_consumption[entered, left]
        best = self.filter(slot, value, consumption)
        return _Labels(slot[best], value[best], consumption[best], parent[best])

    def _enter_from_hubs(self, index: int, labels: _Labels, cost: FloatArray) -> tuple[IntArray, IntArray]:
        """Return the (label, node) pairs of entering within the allowance."""
        stages, groups = self.stages, self.num_groups
        rows = stages.stage(index)
        place, left = np.nonzero(stages.entry_limit[rows] > -np.inf)
        slots = rows.start + place
        wanted_hub = stages.graph[slots] * groups + left
        limit = stages.entry_limit[slots, left]
        loosest = np.full(stages.last_stage.size * groups, -np.inf)
        np.maximum.at(loosest, wanted_hub, limit)
        hub_of_label = stages.graph[labels.slot] * groups + stages.group[labels.slot]
        usable = np.flatnonzero(cost <= loosest[hub_of_label])
        if not usable.size:
            return usable, usable
        usable = usable[self.filter(hub_of_label[usable], labels.value[usable], labels.consumption[usable])]
        usable = usable[np.lexsort((cost[usable], hub_of_label[usable]))]
        hub = hub_of_label[usable]
        # Each node accepts the cheapest labels of a hub, up to its limit. One search finds how many for all hubs at
        # once when each has its own range of keys; the limits of a hub lie within the spread of its cheapest label.
        least = np.full(loosest.size, np.inf)
        np.minimum.at(least, hub, cost[usable])
        apart = 4.0 * self.spread
        keys = hub * apart + np.minimum(cost[usable] - least[hub], 2.0 * self.spread)
        # A hub without labels has an infinite least cost: what is wanted of it clips to before its range.
        wanted = np.clip(limit - least[wanted_hub] + 1e-9 * self.spread, -self.spread, 2.0 * self.spread)
        first = np.searchsorted(hub, wanted_hub)
        behind = np.searchsorted(keys, wanted_hub * apart + wanted, side="right")
        sizes = np.maximum(behind - first, 0)
        self.effort.charge_pairs(int(sizes.sum()))
        owner, position = expand_ranges(first, sizes)
        label = usable[position]
        # Where a path would enter the node that it is at, it stays.
        accepted = (cost[label] <= limit[owner]) & (stages.node[labels.slot[label]] != stages.node[slots[owner]])
        return label[accepted], slots[owner[accepted]]


def _trace_stages(stages: Stages, history: list[tuple[Labels32, Labels32]], current: IntArray) -> IntArray:
    """Return (G, S) the node of every stage on the paths that end in the given labels, one per graph by position."""
    node = np.zeros((current.size, len(history)), dtype=np.intp)
    current = current.copy()
    for index in range(len(history) - 1, -1, -1):
        slot, parent = history[index]
        graphs = np.flatnonzero(stages.last_stage >= index)
        here = current[graphs]
        node[graphs, index] = stages.node[slot[here]]
        current[graphs] = parent[here]
    return node
