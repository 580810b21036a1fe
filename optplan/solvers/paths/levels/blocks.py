"""A graph's paths by the exact set of kinds of nodes that they visit: least sums of each set, and listing one set.

Where limits bind, the best mixture gives a small fraction of a graph to what is left of a limit: to a path that visits
a kind of nodes for a layer, or never leaves one. Among the paths of one *block*, those that visit exactly the same
kinds, that does not happen, so bounds by blocks are much nearer to what pure plans can do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from optplan.contracts.judgement import PathCosts
from optplan.solvers.paths.families import FloatArray, IntArray

#: Most kinds of nodes of one graph: their sets are twice as many with each.
MOST_KINDS = 4
#: Nodes that may not be used cost this many times what any plan without them does.
PROHIBITIVE = 16.0


@dataclass(frozen=True, eq=False)
class BlockGraph:
    """One graph with kinds of nodes; K nodes in each of E layers, G groups, D = 1 + L criteria: value and limits.

    Parameters
    ----------
    steps
        (D, E, K) What being at a node costs.
    entries
        (D, G, E, K) What coming to a node from each group costs; (D, G, 1, K) where all layers are alike.
    group
        (K,) Group of each node.
    kind
        (K,) Kind of each node, from 0 on.
    """

    steps: FloatArray
    entries: FloatArray
    group: IntArray
    kind: IntArray

    @classmethod
    def from_costs(cls, costs: PathCosts, kind: IntArray, prohibitive: float) -> BlockGraph:
        """Take a graph's costs; nodes whose value is +inf may not be used, and get a prohibitive one."""
        steps = np.concatenate([costs.run_value[None], costs.run_consumption])
        entries = np.concatenate([costs.enter_value[None], costs.enter_consumption])
        if bool((entries == entries[:, :, :1]).all()):
            entries = entries[:, :, :1]
        steps[0][np.isinf(steps[0])] = prohibitive
        return cls(steps, entries, costs.group, kind)

    @property
    def num_layers(self) -> int:
        """How many layers there are: E."""
        return int(self.steps.shape[1])

    @property
    def num_sets(self) -> int:
        """How many sets of kinds there are, the empty one not counted; set s stands at s - 1."""
        return int((1 << (int(self.kind.max()) + 1)) - 1)

    @cached_property
    def _places(self) -> tuple[NDArray[np.bool_], IntArray]:
        """Whether a node may be held having visited a set (S, K), and which set (S, F) was visited before a kind."""
        sets, kinds = np.arange(1, self.num_sets + 1), np.arange(int(self.kind.max()) + 1)
        before = (sets[:, None] & ~(1 << kinds)) - 1
        before[before < 0] = self.num_sets
        return ((sets[:, None] >> self.kind) & 1).astype(bool), before

    @cached_property
    def _members(self) -> list[IntArray]:
        return [np.flatnonzero(self.group == group) for group in range(self.entries.shape[1])]

    def sweep(self, weights: FloatArray) -> tuple[FloatArray, FloatArray, NDArray[np.int16]]:
        """Find a path of least weighted sum in each block, for several weights at once.

        Parameters
        ----------
        weights
            (B, D) Of value and consumptions.

        Returns
        -------
        least : FloatArray
            (B, S) The least weighted sums; +inf where a block has no path.
        sums : FloatArray
            (B, S, D) Value and consumptions of the paths.
        nodes : ndarray
            (B, S, E) The paths.
        """
        run, enter = np.tensordot(weights, self.steps, 1), np.tensordot(weights, self.entries, 1)
        batch, layers, width = run.shape
        allowed, before = self._places
        num_sets, last = self.num_sets, enter.shape[2] - 1
        single = allowed & (before[:, self.kind] == num_sets)
        reach = np.full((layers, batch, num_sets, width), np.inf)
        first = enter[:, self.group, 0, np.arange(width)] + run[:, 0]
        reach[0] = np.where(single, first[:, None], np.inf)
        may = np.where(((np.arange(1, num_sets + 1)[:, None] >> np.arange(before.shape[1])) & 1) > 0, 0.0, np.inf)
        leads = np.empty((layers, enter.shape[1], *reach.shape[1:3], before.shape[1]))
        padded = np.full((batch, num_sets + 1), np.inf)
        for layer in range(1, layers):
            earlier = reach[layer - 1]
            now = reach[layer]
            now[:] = earlier
            for group, members in enumerate(self._members):
                own = earlier if members.size == width else earlier[:, :, members]
                padded[:, :-1] = own.min(axis=2, initial=np.inf)
                lead = np.minimum(padded[:, :-1, None], padded[:, before]) + may
                leads[layer, group] = lead
                coming = lead[:, :, self.kind]
                coming += enter[:, group, min(layer, last), None]
                np.minimum(now, coming, out=now)
            now += run[:, layer, None]
        least = reach[-1].min(axis=2)
        nodes = self._trace(reach, leads, enter, before)
        return least, self.add_up(nodes.reshape(-1, layers)).reshape(batch, num_sets, -1), nodes

    def _trace(self, reach: FloatArray, leads: FloatArray, enter: FloatArray, before: IntArray) -> NDArray[np.int16]:
        """Return the paths (B, S, E) that :meth:`sweep` found, from the end to the beginning."""
        layers, batch, num_sets, _ = reach.shape
        row, last = np.repeat(np.arange(batch), num_sets), enter.shape[2] - 1
        visited = np.tile(np.arange(num_sets), batch)
        node = reach[-1].argmin(axis=2).ravel()
        nodes = np.empty((layers, node.size), dtype=np.int16)
        for layer in range(layers - 1, -1, -1):
            nodes[layer] = node
            if not layer:
                break
            coming = leads[layer][:, row, visited, self.kind[node]].T + enter[row, :, min(layer, last), node]
            moved = np.flatnonzero(coming.min(axis=1) < reach[layer - 1, row, visited, node])
            if not moved.size:
                continue
            whose, group, own = row[moved], coming[moved].argmin(axis=1), visited[moved]
            smaller = before[own, self.kind[node[moved]]]
            found = []
            for candidates in (own, np.where(smaller == num_sets, own, smaller)):
                costs = np.where(self.group == group[:, None], reach[layer - 1, whose, candidates], np.inf)
                place = costs.argmin(axis=1)
                found.append((costs[np.arange(moved.size), place], place))
            better = found[1][0] < found[0][0]
            node[moved] = np.where(better, found[1][1], found[0][1])
            visited[moved] = np.where(better, smaller, own)
        return nodes.T.reshape(batch, num_sets, layers)

    def add_up(self, nodes: NDArray[np.int16] | NDArray[np.int32]) -> FloatArray:
        """Return (P, D) value and consumptions of paths (P, E)."""
        layers, last = np.arange(self.num_layers), self.entries.shape[2] - 1
        left = np.concatenate([nodes[:, :1], nodes[:, :-1]], axis=1)
        entered = nodes != left
        entered[:, 0] = True
        costs = self.entries[:, self.group[left], np.minimum(layers, last), nodes] * entered
        return np.asarray((self.steps[:, layers, nodes] + costs).sum(axis=2).T)


def layer_blocks(costs: Sequence[PathCosts], kinds: Sequence[IntArray]) -> list[BlockGraph] | None:
    """Lay out graphs by blocks; None where there are no kinds, or too many."""
    most = max(int(kind.max()) for kind in kinds)
    if not 0 < most < MOST_KINDS:
        return None
    dearest = sum(
        float(np.where(np.isinf(each.run_value), 0.0, each.run_value).max(axis=1).sum())
        + len(each.run_value) * float(each.enter_value.max())
        for each in costs
    )
    return [BlockGraph.from_costs(each, kind, PROHIBITIVE * dearest) for each, kind in zip(costs, kinds, strict=True)]
