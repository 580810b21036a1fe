"""What some best path never does where it is charged how long each thing was held: release late, or get early.

Every option *needs* a least node, and may be taken at greater ones, too. Holding more than that, in *excess*, pays off
only where it is needed again later: else releasing it, and getting it again, may cost more than holding it. Let no
charge rise when something is held for a shorter time, and what is charged for two times together cover what is charged
for their sum, as a price for every second and a minimum charge do; and let times be random, if they are, in the same
way on every path. Some best path then keeps three rules, since a path that breaks one can be mended:

1. *Who holds an excess in a layer releases nothing after it*, nor ends with it. Otherwise let that layer hold less, by
   what is released of the excess. Where that was held before, it is released a layer earlier. Where it was got for this
   layer, it is not got at all: whatever was to be released for it later takes its place, and the time for which that is
   held now is covered by the two before. Growing by less takes no longer.

Where the graph is even, growing is an event that takes the same time for any size. Then:

2. *An excess that was got waits*: until it is needed nothing is got on top. Otherwise let it come with what is got on
   top: there is growth then anyway, and perhaps one event fewer.
3. *Growth is for an option that needs more than was held.* Otherwise let it come a layer later; by the first rule
   nothing is released in between. Where the next layer grows, too, the two become one.

No mending raises value or consumption, nor makes any path later; each lets less be held in all layers together, so that
mending ends.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optplan.solvers.paths.families import IntArray
from optplan.solvers.paths.held.graphs import HeldGraph

#: What a label may do next: anything; stay or grow; stay. And what no label may have done.
FREE, KEEPING, WAITING, FORBIDDEN = 0, 1, 2, 3


class ExchangeRules:
    """The rules on one graph; without its ``needed`` every step is allowed.

    Parameters
    ----------
    graph
        The graph.
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
        """Say whether labels may move from their nodes to others; the arrays broadcast.

        Parameters
        ----------
        state
            Of each label, as :meth:`run` returns it.
        """
        allowed: NDArray[np.bool_] = (state == FREE) | (target == node) | ((state == KEEPING) & (target > node))
        return allowed

    def run(self, layer: int, state: IntArray, before: IntArray, options: IntArray) -> IntArray:
        """Return the states (L,) of labels after options, ``FORBIDDEN`` where a rule is broken.

        Parameters
        ----------
        layer
            That of the options.
        state, before
            (L,) State and node in the layer before; ``FREE`` and -1 before the first.
        options
            (L,) The options taken.
        """
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
