"""Pareto label setting on held graphs: every undominated path within given cuts.

A label is a beginning of a path with its consumption and value. It is dropped when the least that can follow exceeds a
cut, or when another label at the same node has no more of either, whatever is still to be charged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from optplan.solvers.held.charges import Charge, Charges, find_undominated_charged, no_charge
from optplan.solvers.held.sweeps import Cut
from optplan.solvers.layered.effort import Effort
from optplan.solvers.layered.pareto import expand_ranges
from optplan.solvers.layered.paths import ROUNDING, FloatArray, IntArray

if TYPE_CHECKING:
    from optplan.solvers.held.graphs import HeldGraph

#: Pairs of a label and a node that are looked at in one go; bounds the memory.
_PAIRS_AT_ONCE = 1 << 19
#: Targets that share what may come to them from above.
_TARGETS_AT_ONCE = 1 << 6


@dataclass(frozen=True, eq=False)
class HeldPaths:
    """Undominated paths, by increasing consumption and so by decreasing value.

    Parameters
    ----------
    value, consumption
        (P,) With all charges.
    options
        (P, J) The option taken in each layer.
    """

    value: FloatArray
    consumption: FloatArray
    options: IntArray


@dataclass(frozen=True, eq=False)
class _Labels:
    """Beginnings of paths; all arrays (L,).

    Parameters
    ----------
    node
        Where they are.
    value, consumption
        Sums of the steps so far, without charges.
    charge
        On top.
    """

    node: IntArray
    value: FloatArray
    consumption: FloatArray
    charge: Charge

    @property
    def low_value(self) -> FloatArray:
        """(L,) Value with what is settled."""
        return self.value + self.charge.settled_value

    @property
    def low_consumption(self) -> FloatArray:
        """(L,) Consumption with what is settled."""
        return self.consumption + self.charge.settled_consumption

    def take(self, positions: IntArray) -> _Labels:
        """Return the labels at some positions, in that order."""
        return _Labels(
            self.node[positions], self.value[positions], self.consumption[positions], self.charge.take(positions)
        )

    def undominated(self, *, anywhere: bool = False) -> IntArray:
        """Return the positions of labels that no other at the same node (or anywhere) is certain to dominate."""
        segment = np.zeros_like(self.node) if anywhere else self.node
        return find_undominated_charged(segment, self.low_consumption, self.low_value, self.charge)


def find_paths(graph: HeldGraph, cuts: tuple[Cut, ...], effort: Effort, charges: Charges | None = None) -> HeldPaths:
    """Return every undominated path within all cuts.

    Parameters
    ----------
    graph
        The graph.
    cuts
        What paths are wanted; without any, all are.
    effort
        Charged for each layer's labels.
    charges
        What paths pay beyond the sums of their steps; then the cuts hold for the sums with it.

    Returns
    -------
    HeldPaths
        None at all when no path is within the cuts.

    Raises
    ------
    OutOfEffortError
        When a limit of ``effort`` is met.
    """
    search = _Search(graph, cuts, effort, charges)
    for layer in range(graph.num_layers):
        search.advance(layer)
    return search.conclude()


class _Search:
    """Labels of the layer reached, and where they came from."""

    def __init__(self, graph: HeldGraph, cuts: tuple[Cut, ...], effort: Effort, charges: Charges | None) -> None:
        self.graph = graph
        self.cuts = cuts
        self.effort = effort
        self.charges = charges
        nowhere = np.empty(0)
        self.labels = _Labels(np.empty(0, dtype=np.intp), nowhere, nowhere, no_charge(0))
        #: By layer, (L,) the option of each label and the position of the label before.
        self.history: list[tuple[IntArray, IntArray]] = []
        self.kept = 0

    def advance(self, layer: int) -> None:
        """Replace the labels by those of the next layer."""
        options = self.graph.options(layer)
        alive = np.ones(options.stop - options.start, dtype=bool)
        for cut in self.cuts:
            alive &= cut.through(layer) <= cut.limit
        usable = options.start + np.flatnonzero(alive)
        targets, first = np.unique(self.graph.node[usable], return_index=True)
        parent, slot = self._arrive(layer, targets) if layer else (np.full(targets.size, -1), np.arange(targets.size))
        arrived = self._add_steps(layer, parent, targets[slot])
        if layer and self.charges is None:
            kept = arrived.undominated()
            parent, slot, arrived = parent[kept], slot[kept], arrived.take(kept)
        # Every arrival takes every usable option of its node.
        counts = np.diff(np.append(first, usable.size))
        owner, position = expand_ranges(first[slot], counts[slot])
        option = usable[position]
        self._keep(layer, option, parent[owner], self._run(arrived.take(owner), option, parent[owner]))

    def conclude(self) -> HeldPaths:
        """Return the paths of the labels that no other dominates anywhere."""
        best = self.labels.undominated(anywhere=True)
        # Of paths whose consumptions are equal but for rounding, the last is the one of least value.
        consumption = self.labels.low_consumption[best]
        best = best[np.append(np.diff(consumption) > ROUNDING * consumption[1:], True)[: best.size]]
        labels = self.labels.take(best)
        return HeldPaths(labels.low_value, labels.low_consumption, self._trace(best))

    def _arrive(self, layer: int, targets: IntArray) -> tuple[IntArray, IntArray]:
        """Return the (label, position of its target) pairs within the cuts, by target."""
        parents, slots = [np.empty(0, dtype=np.intp)], [np.empty(0, dtype=np.intp)]
        for block, candidates in self._pair_up(layer, targets):
            for piece in np.array_split(block, 1 + block.size * candidates.size // _PAIRS_AT_ONCE):
                slot, position = np.nonzero(self._is_inside(layer, candidates, targets[piece]))
                parents.append(candidates[position])
                slots.append(piece[slot])
                self.effort.charge_labels(0, self.kept + sum(part.size for part in parents))
        return np.concatenate(parents), np.concatenate(slots)

    def _pair_up(self, layer: int, targets: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield blocks of targets (positions), each with the labels that may come to one of them.

        Whatever is above a whole block may shrink to all of it, so that the undominated among them will do.
        """
        labels, node = self.labels, self.labels.node
        growing = np.ones(node.size, dtype=bool)
        for cut in self.cuts:
            least = self._weigh(cut, labels) + cut.sweep.least_growing(layer)[node]
            growing &= least <= cut.limit
        growers = np.flatnonzero(growing)
        hub, upper = np.empty(0, dtype=np.intp), node.size
        for block in np.array_split(np.arange(targets.size), 1 + targets.size // _TARGETS_AT_ONCE)[::-1]:
            if not block.size:
                continue
            lowest, above = np.searchsorted(node, [targets[block[0]], targets[block[-1]] + 1])
            hub = np.concatenate([hub, np.arange(above, upper)])
            hub = hub[labels.take(hub).undominated(anywhere=True)]
            upper = above
            yield block, np.concatenate([growers[growers < lowest], np.arange(lowest, above), hub])

    def _is_inside(self, layer: int, candidates: IntArray, targets: IntArray) -> NDArray[np.bool_]:
        """Return (targets, candidates) whether a label that comes to a target stays within the cuts."""
        labels = self.labels.take(candidates)
        value, consumption = self.graph.growth.between(labels.node[None, :], targets[:, None])
        value, consumption = value + labels.low_value, consumption + labels.low_consumption
        inside = np.ones(value.shape, dtype=bool)
        for cut in self.cuts:
            ahead = cut.sweep.ahead[layer, targets][:, None]
            inside &= cut.sweep.weigh(value, consumption) + ahead <= cut.limit
        return inside

    def _weigh(self, cut: Cut, labels: _Labels) -> FloatArray:
        """Return the cost of labels under a cut's weights."""
        return cut.sweep.weigh(labels.low_value, labels.low_consumption)

    def _add_steps(self, layer: int, parent: IntArray, node: IntArray) -> _Labels:
        """Return labels that have come to a node, not run there yet."""
        if not layer:
            start = self.graph.start_value[node], self.graph.start_consumption[node]
            return _Labels(node, *start, no_charge(node.size))
        before = self.labels.take(parent)
        value, consumption = self.graph.growth.between(before.node, node)
        return _Labels(node, before.value + value, before.consumption + consumption, before.charge)

    def _run(self, arrived: _Labels, option: IntArray, parent: IntArray) -> _Labels:
        """Return the labels after their options; charges are made anew, as they depend on how a path began."""
        value, consumption = (
            arrived.value + self.graph.value[option],
            arrived.consumption + self.graph.consumption[option],
        )
        charge = arrived.charge
        if self.charges is not None:
            charge = self.charges.charge(np.column_stack([self._trace(parent), option]))
        return _Labels(arrived.node, value, consumption, charge)

    def _keep(self, layer: int, option: IntArray, parent: IntArray, labels: _Labels) -> None:
        """Make labels the current ones, without those beyond a cut or dominated."""
        inside = np.ones(option.size, dtype=bool)
        for cut in self.cuts:
            inside &= self._weigh(cut, labels) + cut.sweep.rest[layer, labels.node] <= cut.limit
        within = np.flatnonzero(inside)
        best = within[labels.take(within).undominated()]
        self.labels = labels.take(best)
        self.history.append((option[best], parent[best]))
        self.kept += best.size
        self.effort.charge_labels(best.size, self.kept)

    def _trace(self, position: IntArray) -> IntArray:
        """Return the options (L, j) of the current labels at some positions."""
        path = np.empty((position.size, len(self.history)), dtype=np.intp)
        current = position
        for layer in range(len(self.history) - 1, -1, -1):
            option, parent = self.history[layer]
            path[:, layer] = option[current]
            current = parent[current]
        return path
