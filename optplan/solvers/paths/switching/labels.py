"""Pareto label setting: every undominated path within an allowance of the least reduced cost.

A label is a partial path with its value and its consumptions. It is dropped when its reduced cost plus the least of the
rest exceeds the allowance, or when another label at the same node has no more of anything. What entering a node costs
depends on the group left only, so one Pareto set per graph and group of the previous stage, the *hub*, serves all nodes
that can be entered from it. All graphs advance together, one stage per step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optplan.solvers.paths.dominance import find_undominated_vectors, weigh_criteria
from optplan.solvers.paths.effort import Effort
from optplan.solvers.paths.families import FloatArray, IntArray, PathBatch, PathSets
from optplan.solvers.paths.skyline import expand_ranges, find_undominated, skip_clearly_dominated
from optplan.solvers.paths.switching.layers import LinkedLayers
from optplan.solvers.paths.switching.stages import Stages, contract_layers, unfold_nodes

Labels32 = NDArray[np.int32]


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

    def take(self, positions: IntArray) -> _Labels:
        """Return the labels at some positions, in that order."""
        return _Labels(self.slot[positions], self.value[positions], self.consumption[positions], self.parent[positions])


def find_path_sets(graphs: LinkedLayers, multipliers: FloatArray, allowance: float, effort: Effort) -> PathSets:
    """Return every graph's undominated paths within an allowance; see :meth:`LinkedLayers.find_path_sets`."""
    effort.charge_pass()
    stages = contract_layers(graphs, multipliers, allowance)
    setting = (_Skyline if multipliers.size == 1 else _Vectors)(graphs, stages, multipliers, effort)
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
        done = np.flatnonzero(stages.last_stage[stages.graph[labels.slot]] == index)
        finals.append((labels.take(done), done))
    slot = np.concatenate([part.slot for part, _ in finals])
    value = np.concatenate([part.value for part, _ in finals])
    consumption = np.concatenate([part.consumption for part, _ in finals])
    ends = _Labels(slot, value, consumption, np.concatenate([done for _, done in finals]))
    graph = graphs.order[stages.graph[slot]]
    best = setting.filter(graph, ends)
    graph, ends = graph[best], ends.take(best)

    def trace(chosen: IntArray) -> PathBatch:
        nodes = unfold_nodes(stages, _trace_stages(stages, history, ends.parent[chosen][graphs.order]))
        return graphs.follow(np.arange(graphs.num_graphs), nodes[graphs.position_of])

    starts = np.searchsorted(graph, np.arange(graphs.num_graphs + 1))
    return PathSets(starts, ends.value, ends.consumption, trace)


class _Setting:
    """What the steps of one label setting have in common, whatever labels are compared by."""

    def __init__(self, graphs: LinkedLayers, stages: Stages, multipliers: FloatArray, effort: Effort) -> None:
        self.stages = stages
        self.multipliers = multipliers
        self.effort = effort
        groups = graphs.num_groups
        #: (M,) The hub that each node belongs to, and how many hubs there are.
        self.hub = stages.graph * groups + stages.group
        self.num_hubs = graphs.num_graphs * groups
        #: The ways into nodes that are worth a look, by node: the node, the hub left and the limit; and by stage.
        self.way_slot, left = np.nonzero(stages.entry_limit > -np.inf)
        self.way_hub = stages.graph[self.way_slot] * groups + left
        self.way_limit = stages.entry_limit[self.way_slot, left]
        self.way_starts = np.searchsorted(self.way_slot, stages.starts)
        #: Keys of different hubs must not overlap even where all excesses are zero.
        self.spread = float((stages.limit - stages.best).max()) or 1.0

    def filter(self, segment: IntArray, labels: _Labels) -> IntArray:
        """Return the positions of labels that no other of their segment dominates, by segment."""
        raise NotImplementedError

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
        # Both parts are sorted by node, so that a sort by node merges two runs.
        slot = np.concatenate([target[stays], entered])
        parent = np.concatenate([stays, enters])
        left = stages.group[labels.slot[enters]]
        value = labels.value[parent] + stages.value[slot]
        value[stays.size :] += stages.enter_value[entered, left]
        consumption = labels.consumption[parent] + stages.consumption[slot]
        consumption[stays.size :] += stages.enter_consumption[entered, left]
        advanced = _Labels(slot, value, consumption, parent)
        return advanced.take(self.filter(slot - stages.stage(index).start, advanced))

    def _enter_from_hubs(self, index: int, labels: _Labels, cost: FloatArray) -> tuple[IntArray, IntArray]:
        """Return the (label, node) pairs of entering within the allowance, by node."""
        ways = slice(*self.way_starts[index : index + 2])
        slots, wanted_hub, limit = self.way_slot[ways], self.way_hub[ways], self.way_limit[ways]
        loosest = np.full(self.num_hubs, -np.inf)
        np.maximum.at(loosest, wanted_hub, limit)
        hub_of_label = self.hub[labels.slot]
        usable = np.flatnonzero(cost <= loosest[hub_of_label])
        if not usable.size:
            return usable, usable
        usable = usable[self._gather(hub_of_label[usable], labels.take(usable))]
        hub, paid = hub_of_label[usable], cost[usable]
        # One search serves all hubs when each has its own range of keys; the limits of a hub lie within the spread of
        # its cheapest label. A hub without labels has an infinite least: what is wanted of it clips to before its keys.
        least = np.full(loosest.size, np.inf)
        np.minimum.at(least, hub, paid)
        height = np.minimum(paid - least[hub], 2.0 * self.spread)
        wanted = np.clip(limit - least[wanted_hub], -self.spread, 2.0 * self.spread)
        first, behind = self._find_windows(hub, height, wanted_hub, wanted)
        owner, position = expand_ranges(first, np.maximum(behind - first, 0))
        accepted = paid[position] <= limit[owner]
        return usable[position[accepted]], slots[owner[accepted]]

    def _gather(self, hub: IntArray, labels: _Labels) -> IntArray:
        """Return the positions of labels that no other of their hub dominates, in the order that windows need."""
        raise NotImplementedError

    def _find_windows(
        self, hub: IntArray, height: FloatArray, wanted_hub: IntArray, wanted: FloatArray
    ) -> tuple[IntArray, IntArray]:
        """Return where the labels of a hub begin and end that hold all those that are no higher than wanted."""
        raise NotImplementedError


class _Skyline(_Setting):
    """One limit: labels compare by value and one consumption, in one sort; they are by node and consumption."""

    def __init__(self, graphs: LinkedLayers, stages: Stages, multipliers: FloatArray, effort: Effort) -> None:
        super().__init__(graphs, stages, multipliers, effort)
        self.value_unit = _find_units(stages, stages.value + stages.enter_value.max(axis=1))
        self.unit = _find_units(stages, stages.consumption[:, 0] + stages.enter_consumption[:, :, 0].max(axis=1))

    def filter(self, segment: IntArray, labels: _Labels) -> IntArray:
        """Return the positions of labels that no other of their segment dominates, by segment and consumption."""
        slot = labels.slot
        return find_undominated(
            segment, labels.consumption[:, 0] * self.unit[slot], labels.value * self.value_unit[slot]
        )

    def _gather(self, hub: IntArray, labels: _Labels) -> IntArray:
        clear = skip_clearly_dominated(hub, labels.consumption[:, 0], labels.value)
        return clear[self.filter(hub[clear], labels.take(clear))]

    def _find_windows(
        self, hub: IntArray, height: FloatArray, wanted_hub: IntArray, wanted: FloatArray
    ) -> tuple[IntArray, IntArray]:
        # From the first to the last label that is low enough; running minima from both ends find these two.
        apart = 4.0 * self.spread
        from_left = np.maximum.accumulate(hub * apart - height)
        from_right = np.minimum.accumulate((hub * apart + height)[::-1])[::-1]
        first = np.searchsorted(from_left, wanted_hub * apart - wanted, side="left")
        return first, np.searchsorted(from_right, wanted_hub * apart + wanted, side="right")


class _Vectors(_Setting):
    """Several limits: labels compare in every criterion; those of a hub are by reduced cost."""

    def __init__(self, graphs: LinkedLayers, stages: Stages, multipliers: FloatArray, effort: Effort) -> None:
        super().__init__(graphs, stages, multipliers, effort)
        #: What a limit is worth in all, so that sums over criteria make sense.
        self.weights = weigh_criteria(float(stages.best.sum()), graphs.limits)

    def filter(self, segment: IntArray, labels: _Labels) -> IntArray:
        """Return the positions of labels that no other of their segment dominates, by segment."""
        criteria = np.concatenate([labels.value[:, None], labels.consumption * self.weights], axis=1)
        return find_undominated_vectors(segment, criteria)

    def _enter_from_hubs(self, index: int, labels: _Labels, cost: FloatArray) -> tuple[IntArray, IntArray]:
        label, slot = super()._enter_from_hubs(index, labels, cost)
        self.effort.charge_pairs(label.size)
        # Where a path would enter the node that it is at, it stays; such pairs are not worth a comparison.
        moves = self.stages.node[labels.slot[label]] != self.stages.node[slot]
        return label[moves], slot[moves]

    def _gather(self, hub: IntArray, labels: _Labels) -> IntArray:
        best = self.filter(hub, labels)
        cost = labels.value[best] + labels.consumption[best] @ self.multipliers
        return best[np.lexsort((cost, hub[best]))]

    def _find_windows(
        self, hub: IntArray, height: FloatArray, wanted_hub: IntArray, wanted: FloatArray
    ) -> tuple[IntArray, IntArray]:
        apart, little = 4.0 * self.spread, 1e-9 * self.spread
        behind = np.searchsorted(hub * apart + height, wanted_hub * apart + wanted + little, side="right")
        return np.searchsorted(hub, wanted_hub), behind


def _find_units(stages: Stages, cost: FloatArray) -> FloatArray:
    """Return for each node one over the greatest cost that a path of its graph can add up, given the nodes' (M,)."""
    stage = np.repeat(np.arange(stages.starts.size - 1), np.diff(stages.starts))
    key = stage * stages.last_stage.size + stages.graph
    first = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
    greatest = np.bincount(stages.graph[first], weights=np.maximum.reduceat(cost, first))
    return np.asarray(1.0 / np.where(greatest > 0, greatest, 1.0)[stages.graph])


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
