"""Layered graphs whose nodes are sizes: shrinking and staying are free, growing costs.

A path takes one *option* in each layer; an option belongs to a node, of which there may be several. The nodes are
sizes in increasing order, the same in all layers. With nodes as instances held, layers as stages of a search and
options as ways of running a stage, this is the elastic cluster of RubberBand. The passes are those of
:mod:`optplan.solvers.paths.kernel`, to which every node is a group of its own with the one option that is best under
the multipliers asked about.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optplan.solvers.paths import TUNING
from optplan.solvers.paths.families import FloatArray, IntArray, PathBatch
from optplan.solvers.paths.kernel import LayeredCosts


@dataclass(frozen=True, eq=False)
class HeldGraph:
    """One graph of J layers, K nodes in each, and O options in all; a cost is a value and a consumption."""

    #: (2, K) Of the first node.
    start: FloatArray
    #: Returns (2, ...) what coming from nodes to greater ones costs, given both in arrays of one shape.
    growth: Callable[[IntArray, IntArray], FloatArray]
    #: (2, O) Of each option; layer after layer, within a layer by node.
    cost: FloatArray
    #: (O,) Node of each option. A node without an option in a layer cannot be taken there.
    node: IntArray
    #: (J + 1,) First option of each layer; the last entry is O.
    first_option: IntArray
    #: (O,) The least node at which each option could be taken, where that is known and charges are as
    #: :class:`ExchangeRules` wants them; None otherwise.
    needed: IntArray | None = None
    #: Whether growing takes as long by any number of nodes, and what it costs is linear in the sizes; then, charges
    #: left aside, some best path takes needed nodes only.
    even: bool = False

    @classmethod
    def from_layers(
        cls,
        start: ArrayLike,
        growth: Callable[[IntArray, IntArray], FloatArray],
        layers: Sequence[tuple[ArrayLike, ArrayLike, ArrayLike]],
    ) -> Self:
        """Build from (node, value, consumption) arrays of each layer's options, in any order but within a node."""
        nodes, costs = [], []
        for node, *cost in layers:
            order = np.argsort(node, kind="stable")
            nodes.append(np.asarray(node, dtype=np.intp)[order])
            costs.append(np.asarray(cost, dtype=np.float64)[:, order])
        first = np.cumsum([0] + [node.size for node in nodes])
        return cls(
            np.asarray(start, dtype=np.float64), growth, np.concatenate(costs, axis=1), np.concatenate(nodes), first
        )

    @property
    def num_graphs(self) -> int:
        """One: this is a family of a single graph for the algorithms of :mod:`optplan.solvers.paths`."""
        return 1

    @property
    def num_nodes(self) -> int:
        """How many nodes a layer has."""
        return int(self.start.shape[-1])

    @property
    def num_layers(self) -> int:
        """How many layers there are."""
        return self.first_option.size - 1

    def options(self, layer: int) -> slice:
        """Return the options of a layer."""
        return slice(int(self.first_option[layer]), int(self.first_option[layer + 1]))

    def grow(self, before: IntArray, after: IntArray) -> FloatArray:
        """Return (2, ...) the costs of steps between nodes, 0 where they do not grow; inputs broadcast."""
        if self.num_nodes <= TUNING.few_nodes:
            grown = np.take(self.enter.reshape(2, -1), before * self.num_nodes + after, axis=1)
        else:
            before, after = np.broadcast_arrays(before, after)
            grown = self.growth(before, after)
        return np.where(after > before, grown, 0.0)

    def exchanged(self) -> Self:
        """Return the same graph with value and consumption in each other's place."""

        def exchange(before: IntArray, after: IntArray) -> FloatArray:
            return self.growth(before, after)[::-1]

        return replace(self, start=self.start[::-1], growth=exchange, cost=self.cost[::-1])

    def keep(self, options: IntArray) -> Self:
        """Return the same graph with some of its options only, given in increasing order; other nodes go, too."""
        nodes = self.list_nodes(options)

        def grow(before: IntArray, after: IntArray) -> FloatArray:
            return self.growth(nodes[before], nodes[after])

        return replace(
            self,
            start=self.start[:, nodes],
            growth=grow,
            cost=self.cost[:, options],
            node=np.searchsorted(nodes, self.node[options]),
            first_option=np.searchsorted(options, self.first_option),
            needed=None if self.needed is None else np.searchsorted(nodes, self.needed[options]),
        )

    def list_nodes(self, options: IntArray) -> IntArray:
        """List the nodes that some options are at or need."""
        return np.unique(self.node[options] if self.needed is None else [self.node[options], self.needed[options]])

    def follow(self, options: IntArray) -> PathBatch:
        """Return the sums along given paths, the option (P, J) taken in each layer."""
        nodes = self.node[options]
        sums = self.start[:, nodes[:, 0]] + self.cost[:, options[:, 0]]
        for layer in range(1, self.num_layers):
            sums = sums + self.grow(nodes[:, layer - 1], nodes[:, layer]) + self.cost[:, options[:, layer]]
        return PathBatch(sums[0], sums[1][:, None], options)

    def best_paths(
        self, multipliers: FloatArray, members: IntArray | None = None, *, value_weight: float = 1.0
    ) -> PathBatch:
        """Return a path (P, J) of least value_weight * value + multiplier * consumption for each multiplier."""
        # Ties go to staying over growing and shrinking, then to the lowest node and option.
        graph, own = self._plain
        weights = np.broadcast_to(multipliers, (1 if members is None else members.size, 1))
        paths = np.empty((len(weights), self.num_layers), dtype=np.intp)
        nodes = np.empty((1, self.num_layers), dtype=np.int32)
        for path, weight in zip(paths, weights, strict=True):
            _, best, costs = graph._choose(value_weight, float(weight[0]))
            costs.find_best_nodes(np.zeros(1, dtype=np.intp), np.array([weight]), value_weight, nodes)
            path[:] = own[best[np.arange(self.num_layers), nodes[0]]]
        return self.follow(paths)

    def bound_costs_through(self, weights: tuple[float, float]) -> FloatArray:
        """Return (O,) lower bounds of :meth:`find_costs_through`, which take a look at needed nodes only."""
        # Costs are linear in a size that is neither needed nor held before or after: the needed ones beside it bound
        # it.
        graph, own = self._plain
        plain = graph.find_costs_through(weights)
        if graph is self:
            return plain
        nodes, (layer, node) = self.list_nodes(own), np.divmod(self._place, self.num_nodes)
        through = np.full((self.num_layers, self.num_nodes), np.inf)
        np.minimum.at(through, (layer[own], node[own]), plain)
        below = nodes[np.maximum(np.searchsorted(nodes, node, side="right") - 1, 0)]
        above = nodes[np.minimum(np.searchsorted(nodes, node), nodes.size - 1)]
        bound: FloatArray = np.minimum(through[layer, below], through[layer, above])
        bound[own] = plain
        return bound

    def find_costs_through(self, weights: tuple[float, float]) -> FloatArray:
        """Return (O,) the least weighted cost of a path through each option; one of the weights of both costs is 1."""
        if weights[0] != 1.0:
            return self.exchanged().find_costs_through(weights[::-1])
        run, best, costs = self._choose(*weights)
        through = np.empty((self.num_layers, self.num_nodes))
        costs.find_costs_through(np.array(weights[1:]), through)
        layer, node = np.divmod(self._place, self.num_nodes)
        return np.asarray(through[layer, node] + (run - run[best[layer, node]]))

    def find_completion_bounds(self, weights: tuple[float, float]) -> tuple[FloatArray, FloatArray]:
        """Return (J, K) the least weighted costs of each node's own option with what follows, and of that alone."""
        if weights[0] != 1.0:
            return self.exchanged().find_completion_bounds(weights[::-1])
        ahead, onwards = np.empty((self.num_layers, self.num_nodes)), np.empty((self.num_layers, self.num_nodes))
        self._choose(*weights)[2].find_completion_bounds(np.array(weights[1:]), ahead, onwards)
        return ahead, np.append(np.minimum(ahead, onwards)[1:], np.zeros((1, self.num_nodes)), axis=0)

    @cached_property
    def enter(self) -> FloatArray:
        """(2, K, K) The costs of coming from each node to each other one; on the diagonal, of the first node."""
        enter, nodes = np.zeros((2, self.num_nodes, self.num_nodes)), np.arange(self.num_nodes)
        before, after = np.triu_indices(self.num_nodes, 1)
        enter[:, before, after] = self.growth(before, after)
        enter[:, nodes, nodes] = self.start
        return enter

    @cached_property
    def more_is_no_dearer(self) -> bool:
        """Whether who is at a greater node can do all that others can, at no more cost, from there on."""
        return bool((np.triu(np.diff(self.enter, axis=1), 2) <= 0.0).all())

    @cached_property
    def _place(self) -> IntArray:
        """(O,) The number of the layer and node of each option."""
        return np.repeat(np.arange(self.num_layers), np.diff(self.first_option)) * self.num_nodes + self.node

    @cached_property
    def _begins(self) -> NDArray[np.intp]:
        """(S,) The first option of each node that has one."""
        return np.flatnonzero(np.diff(self._place, prepend=-1))

    @cached_property
    def _plain(self) -> tuple[HeldGraph, IntArray]:
        """The graph with the nodes that best paths take, charges left aside, and the numbers of its options."""
        kept = np.arange(self.node.size)
        if self.even and self.needed is not None:
            kept = np.flatnonzero(np.isin(self.node, self.needed))
        return (self if kept.size == self.node.size else self.keep(kept)), kept

    def _choose(self, value_weight: float, weight: float) -> tuple[FloatArray, IntArray, LayeredCosts]:
        """Weigh all options (O,), find the best of each node (J, K), -1 where there is none, and hand these on."""
        run, begins = value_weight * self.cost[0] + weight * self.cost[1], self._begins
        if begins.size == run.size:
            return run, *self._only
        least = np.minimum.reduceat(run, begins)
        tied = np.flatnonzero(run == np.repeat(least, np.diff(begins, append=run.size)))
        return run, *self._hand_on(tied[np.searchsorted(self._place[tied], self._place[begins])])

    @cached_property
    def _only(self) -> tuple[IntArray, LayeredCosts]:
        """The options where every node has one at most."""
        return self._hand_on(self._begins)

    def _hand_on(self, chosen: IntArray) -> tuple[IntArray, LayeredCosts]:
        """Hand the kernel one option (S,) of each node that has some; and return them by node (J, K)."""
        best = np.full((self.num_layers, self.num_nodes), -1)
        best.flat[self._place[chosen]] = chosen
        value, consumption = (np.where(best >= 0, cost[best], 0.0) for cost in self.cost)
        costs = LayeredCosts(
            value,
            consumption[None],
            self.enter[0][None],
            self.enter[1][None, None],
            (best < 0).view(np.uint8),
            np.arange(self.num_layers + 1),
            np.array([self.num_layers]),
        )
        return best, costs


#: What a label may do next: anything; stay or grow; stay. And what no label may have done.
FREE, KEEPING, WAITING, FORBIDDEN = 0, 1, 2, 3


class ExchangeRules:
    """What some best path never does where it is charged how long each thing was held: release late, or get early.

    Every option *needs* a least node, and may be taken at greater ones, too. Holding more than that, in *excess*, pays
    off only where it is needed again later: else releasing it, and getting it again, may cost more than holding it. Let
    no charge rise when something is held for a shorter time, and what is charged for two times together cover what is
    charged for their sum, as a price for every second and a minimum charge do; and let times be random, if they are, in
    the same way on every path. Some best path then keeps three rules, since a path that breaks one can be mended:

    1. *Who holds an excess in a layer releases nothing after it*, nor ends with it. Otherwise let that layer hold less,
       by what is released of the excess. Where that was held before, it is released a layer earlier. Where it was got
       for this layer, it is not got at all: whatever was to be released for it later takes its place, and the time for
       which that is held now is covered by the two before. Growing by less takes no longer.

    Where the graph is even, growing is an event that takes the same time for any size. Then:

    2. *An excess that was got waits*: until it is needed nothing is got on top. Otherwise let it come with what is got
       on top: there is growth then anyway, and perhaps one event fewer.
    3. *Growth is for an option that needs more than was held.* Otherwise let it come a layer later; by the first rule
       nothing is released in between. Where the next layer grows, too, the two become one.

    No mending raises value or consumption, nor makes any path later; each lets less be held in all layers together, so
    that mending ends.

    Without the graph's ``needed`` every step is allowed.
    """

    def __init__(self, graph: HeldGraph) -> None:
        self.graph = graph
        self._simple = graph.even
        #: (K,) The last layer with an option that needs the node, and that needs this or a greater one.
        self._last_needed = np.full(graph.num_nodes, -1)
        if graph.needed is not None:
            for layer in range(graph.num_layers):
                own = graph.options(layer)
                needed = graph.needed[own]
                self._last_needed[needed[needed == graph.node[own]]] = layer
        self._last_needed_above = np.maximum.accumulate(self._last_needed[::-1])[::-1]

    def list_useful(self) -> IntArray:
        """List the options that a path which keeps the rules may take: the others' excess is never needed again."""
        graph = self.graph
        if graph.needed is None:
            return np.arange(graph.node.size)
        layer = np.repeat(np.arange(graph.num_layers), np.diff(graph.first_option))
        kept = self._last_needed_above[graph.node] > layer
        if self._simple:  # in the first layer, every excess is one that waits
            kept &= (layer > 0) | (self._last_needed[graph.node] > layer)
        return np.flatnonzero(kept | (graph.node == graph.needed))

    def may_move(self, state: IntArray, node: IntArray, target: IntArray) -> NDArray[np.bool_]:
        """Say whether labels may move from nodes to others, by their states; the arrays broadcast."""
        allowed: NDArray[np.bool_] = (state == FREE) | (target == node) | ((state == KEEPING) & (target > node))
        return allowed

    def run(self, layer: int, state: IntArray, before: IntArray, options: IntArray) -> IntArray:
        """Return the states (L,) of labels after options, ``FORBIDDEN`` where a rule is broken."""
        graph = self.graph
        if graph.needed is None:
            return np.zeros_like(options)
        node, needed = graph.node[options], graph.needed[options]
        grown = node > before
        waits = (grown & self._simple) | (~grown & (state == WAITING))
        after: IntArray = np.where(node == needed, FREE, np.where(waits, WAITING, KEEPING))
        broken = (after == WAITING) & (self._last_needed[node] <= layer)
        broken |= (after == KEEPING) & (self._last_needed_above[node] <= layer)
        if self._simple:
            broken |= grown & (needed <= before)
        return np.where(broken, FORBIDDEN, after)
