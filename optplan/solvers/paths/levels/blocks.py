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

from optplan.contracts.judgement import PathCosts, weigh
from optplan.solvers.paths.families import FloatArray, IntArray

#: Most kinds of nodes of one graph: their sets are twice as many with each.
MOST_KINDS = 4
#: Nodes that may not be used cost this many times what any plan without them does.
PROHIBITIVE = 16.0


@dataclass(frozen=True, eq=False)
class _States:
    """A node held, and the set of kinds visited with it: what a sweep keeps apart.

    Parameters
    ----------
    sets
        (S',) The sets that there are, as sums of powers of two.
    set, group, node
        (C,) Of each state, by set, then by group.
    pair
        (C,) Set and kind of each state, as one number Q.
    own, smaller
        (Q,) Which sets may have been visited before: the same, or that without the kind; S' for the empty one.
    parts, part_set, part_group
        (P,) Where the states of a set and group begin, and which these are.
    """

    sets: IntArray
    set: IntArray
    group: IntArray
    node: IntArray
    pair: IntArray
    own: IntArray
    smaller: IntArray
    parts: IntArray
    part_set: IntArray
    part_group: IntArray

    @classmethod
    def of_nodes(cls, group: IntArray, kind: IntArray) -> _States:
        """List the states of nodes of some groups (K,) and kinds (K,)."""
        present = int(np.bitwise_or.reduce(1 << kind))
        sets = np.array([part for part in range(1, present + 1) if part & ~present == 0])
        which, node = np.nonzero((sets[:, None] >> kind) & 1)
        order = np.lexsort((node, group[node], which))
        which, node = which[order], node[order]
        pairs, pair = np.unique(which * (kind.max() + 1) + kind[node], return_inverse=True)
        own, last = np.divmod(pairs, kind.max() + 1)
        without = sets[own] & ~(1 << last)
        smaller = np.where(without == 0, sets.size, np.searchsorted(sets, without))
        part = which * (group.max() + 1) + group[node]
        parts = np.flatnonzero(np.concatenate([[True], part[1:] != part[:-1]]))
        return cls(sets, which, group[node], node, pair.ravel(), own, smaller, parts, which[parts], group[node[parts]])

    @cached_property
    def sources(self) -> tuple[IntArray, IntArray]:
        """(G, Q) The part of the states of each group with the own set, and with the smaller one; P where none is."""
        part = np.full((int(self.group.max()) + 1, self.sets.size + 1), self.parts.size)
        part[self.part_group, self.part_set] = np.arange(self.parts.size)
        return part[:, self.own], part[:, self.smaller]

    def find_least(self, reach: FloatArray) -> FloatArray:
        """Return (B, S') the least sums by set, given those of the states (B, C)."""
        return np.asarray(np.minimum.reduceat(reach, self._starts, axis=1))

    def find_ends(self, reach: FloatArray) -> IntArray:
        """Return (B, S') the states of the least sums."""
        ends = np.append(self._starts[1:], self.set.size)
        bounds = zip(self._starts.tolist(), ends.tolist(), strict=True)
        return np.stack([first + reach[:, first:end].argmin(axis=1) for first, end in bounds], axis=1)

    @cached_property
    def _starts(self) -> IntArray:
        return np.searchsorted(self.set, np.arange(self.sets.size))


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
    origin
        (K,) Which nodes these are of the graph that this one is a part of.
    num_kinds
        Of that graph.
    """

    steps: FloatArray
    entries: FloatArray
    group: IntArray
    kind: IntArray
    origin: IntArray
    num_kinds: int

    @classmethod
    def from_costs(cls, costs: PathCosts, kind: IntArray, prohibitive: float) -> BlockGraph:
        """Take a graph's costs; nodes whose value is +inf may not be used, and get a prohibitive one."""
        steps = np.concatenate([costs.run_value[None], costs.run_consumption])
        entries = np.concatenate([costs.enter_value[None], costs.enter_consumption])
        if bool((entries == entries[:, :, :1]).all()):
            entries = entries[:, :, :1]
        steps[0][np.isinf(steps[0])] = prohibitive
        return cls(steps, entries, costs.group, kind, np.arange(kind.size), int(kind.max()) + 1)

    def narrow(self, nodes: IntArray) -> BlockGraph:
        """Return the graph with some nodes only; its kinds keep their numbers."""
        return BlockGraph(
            np.ascontiguousarray(self.steps[..., nodes]),
            np.ascontiguousarray(self.entries[..., nodes]),
            self.group[nodes],
            self.kind[nodes],
            self.origin[nodes],
            self.num_kinds,
        )

    @property
    def num_layers(self) -> int:
        """How many layers there are: E."""
        return int(self.steps.shape[1])

    @property
    def num_sets(self) -> int:
        """How many sets of kinds there are, the empty one not counted; set s stands at s - 1."""
        return (1 << self.num_kinds) - 1

    @cached_property
    def _states(self) -> _States:
        return _States.of_nodes(self.group, self.kind)

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
        states = self._states
        own, smaller = states.sources
        costs = self.steps, self.entries[:, : len(own)]
        run, enter = (weigh(weights, each).take(states.node, axis=-1) for each in costs)
        batch, layers, width = run.shape
        last, count = enter.shape[2] - 1, states.sets.size
        reach = np.empty((layers, batch, width))
        moved = np.zeros((layers, batch, width), dtype=np.bool_)
        #: The least sum before each layer by part of the states; the last stands for none.
        best = np.full((layers, batch, states.parts.size + 1), np.inf)
        first = enter[:, states.group, 0, np.arange(width)] + run[:, 0]
        reach[0] = np.where(states.smaller[states.pair] == count, first, np.inf)
        entries, runs = np.ascontiguousarray(enter.transpose(2, 0, 1, 3)), np.ascontiguousarray(run.transpose(1, 0, 2))
        for layer in range(1, layers):
            earlier, now, parts = reach[layer - 1], reach[layer], best[layer]
            np.minimum.reduceat(earlier, states.parts, axis=1, out=parts[:, :-1])
            lead = np.minimum(parts.take(own, axis=1), parts.take(smaller, axis=1))
            coming = lead.take(states.pair, axis=2)
            coming += entries[min(layer, last)]
            least = np.minimum.reduce(coming, axis=1)
            np.less(least, earlier, out=moved[layer])
            np.minimum(least, earlier, out=now)
            now += runs[layer]
        nodes = self._trace(reach, moved, best, enter)
        least = np.full((batch, self.num_sets), np.inf)
        least[:, states.sets - 1] = states.find_least(reach[-1])
        sums = np.zeros((batch, self.num_sets, self.steps.shape[0]))
        sums[:, states.sets - 1] = self.add_up(nodes.reshape(-1, layers)).reshape(batch, count, -1)
        whole = np.zeros((batch, self.num_sets, layers), dtype=np.int16)
        whole[:, states.sets - 1] = nodes
        return least, sums, whole

    def _trace(
        self, reach: FloatArray, moved: NDArray[np.bool_], best: FloatArray, enter: FloatArray
    ) -> NDArray[np.int16]:
        """Return the paths (B, S', E) that :meth:`sweep` found, from the end to the beginning, switch by switch."""
        states, (layers, batch, _) = self._states, reach.shape
        count, last = states.sets.size, enter.shape[2] - 1
        row, state = np.repeat(np.arange(batch), count), states.find_ends(reach[-1]).ravel()
        nodes = np.empty((batch * count, layers), dtype=np.int16)
        whose, until, later = np.arange(row.size), np.full(row.size, layers), np.arange(layers)
        while whose.size:
            came = moved[:, row, state].T & (later < until[:, None])
            since = np.where(came.any(axis=1), layers - 1 - came[:, ::-1].argmax(axis=1), 0)
            held = (later >= since[:, None]) & (later < until[:, None])
            place, layer = np.nonzero(held)
            nodes[whose[place], layer] = states.node[state[place]]
            goes_on = since > 0
            whose, row, state, until = whose[goes_on], row[goes_on], state[goes_on], since[goes_on]
            pair, each = states.pair[state], np.arange(whose.size)
            own, smaller = (best[until, row, parts[:, pair]].T for parts in states.sources)
            group = (np.minimum(own, smaller) + enter[row, :, np.minimum(until, last), state]).argmin(axis=1)
            stays = own[each, group] <= smaller[each, group]
            source = np.where(stays, states.own[pair], states.smaller[pair])
            fits = (states.set == source[:, None]) & (states.group == group[:, None])
            state = np.where(fits, reach[until - 1, row], np.inf).argmin(axis=1)
        return nodes.reshape(batch, count, layers)

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
