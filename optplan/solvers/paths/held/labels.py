"""Pareto label setting on held graphs: every undominated path within given cuts.

A label is a beginning of a path with its consumption and value. It is dropped when the least that can follow exceeds a
cut, or when another label at the same node has no more of either, whatever is still to be charged. Where paths are
charged on top, only those are looked at that keep the rules of :mod:`optplan.solvers.paths.held.thrift`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from optplan.solvers.limits import ROUNDING
from optplan.solvers.paths.effort import Effort
from optplan.solvers.paths.families import FloatArray, IntArray
from optplan.solvers.paths.held.charges import (
    Charge,
    Charges,
    find_undominated_charged,
    join_charges,
    no_charge,
    skip_dominated_from_above,
)
from optplan.solvers.paths.held.layers import HeldLayers
from optplan.solvers.paths.held.sweeps import Cut, CutBundle
from optplan.solvers.paths.held.thrift import FORBIDDEN, FREE, Thrift
from optplan.solvers.paths.skyline import expand_ranges

#: Pairs of a label and a node, under each cut, that are looked at in one go; bounds the memory.
_NUMBERS_AT_ONCE = 1 << 20
#: Labels that are charged in one go, and whole paths that are charged exactly.
_CHARGED_AT_ONCE = 1 << 14
_SETTLED_AT_ONCE = 1 << 5
#: Targets that share what may come to them from above.
_TARGETS_AT_ONCE = 1 << 6


@dataclass(frozen=True, eq=False)
class HeldPaths:
    """Paths, by increasing consumption.

    Parameters
    ----------
    value, consumption
        (P,) Of each path.
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
    state
        What they may do next.
    """

    node: IntArray
    value: FloatArray
    consumption: FloatArray
    charge: Charge
    state: IntArray

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
            self.node[positions],
            self.value[positions],
            self.consumption[positions],
            self.charge.take(positions),
            self.state[positions],
        )

    def undominated(self, *, anywhere: bool = False) -> IntArray:
        """Return the positions of labels that no other in the same state and node (or anywhere) is sure to dominate."""
        segment = np.zeros_like(self.node) if anywhere else self.node * FORBIDDEN + self.state
        return find_undominated_charged(segment, self.low_consumption, self.low_value, self.charge)


def find_paths(graph: HeldLayers, cuts: tuple[Cut, ...], effort: Effort, charges: Charges | None = None) -> HeldPaths:
    """Return every undominated path within all cuts.

    Parameters
    ----------
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
    found = find_candidates(graph, cuts, effort, charges)
    value, consumption = found.value, found.consumption
    if charges is not None:
        value, consumption = settle_costs(graph, found.options, charges, effort)
    best = find_undominated_charged(np.zeros(value.size, dtype=np.intp), consumption, value, no_charge(value.size))
    # Of paths whose consumptions are equal but for rounding, the last is the one of least value.
    best = best[np.append(np.diff(consumption[best]) > ROUNDING * consumption[best][1:], True)[: best.size]]
    return HeldPaths(value[best], consumption[best], found.options[best])


def find_candidates(
    graph: HeldLayers, cuts: tuple[Cut, ...], effort: Effort, charges: Charges | None = None
) -> HeldPaths:
    """Return the paths within all cuts among which every undominated one is.

    Parameters
    ----------
    graph, cuts, effort, charges
        As for :func:`find_paths`.

    Returns
    -------
    HeldPaths
        With lower ends of their costs; without charges, the costs themselves.

    Raises
    ------
    OutOfEffortError
        When a limit of ``effort`` is met.
    """
    search = _Search(graph, cuts, effort, charges)
    for layer in range(graph.num_layers):
        search.advance(layer)
        if not search.labels.node.size:
            return HeldPaths(np.empty(0), np.empty(0), np.empty((0, graph.num_layers), dtype=np.intp))
    return search.conclude()


def settle_costs(
    graph: HeldLayers, options: IntArray, charges: Charges | None, effort: Effort
) -> tuple[FloatArray, FloatArray]:
    """Return value and consumption of whole paths (P, J), charges included.

    Parameters
    ----------
    options
        The option taken in each layer.
    charges
        What paths pay beyond the sums of their steps.
    effort
        Its clock is looked at between pieces.

    Raises
    ------
    OutOfEffortError
        When time runs out.
    """
    sums = graph.follow(options)
    if charges is None:
        return sums.value, sums.used
    pieces: list[tuple[FloatArray, FloatArray]] = []
    for piece in np.array_split(options, 1 + len(options) // _SETTLED_AT_ONCE):
        if pieces:  # the first always, so that whoever has little time gets an answer at all
            effort.charge_labels(0, 0)
        pieces.append(charges.settle(piece))
    more_value, more_consumption = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    return sums.value + more_value, sums.used + more_consumption


class _Search:
    """Labels of the layer reached, and where they came from."""

    def __init__(self, graph: HeldLayers, cuts: tuple[Cut, ...], effort: Effort, charges: Charges | None) -> None:
        self.graph = graph
        self.cuts = CutBundle(cuts, graph.num_nodes)
        self.effort = effort
        self.charges = charges
        nowhere = np.empty(0)
        nobody = np.empty(0, dtype=np.intp)
        self.labels = _Labels(nobody, nowhere, nowhere, no_charge(0), nobody)
        self.thrift = None if charges is None else Thrift(graph)
        #: By layer, (L,) the option of each label and the position of the label before.
        self.history: list[tuple[IntArray, IntArray]] = []
        self.kept = 0

    def advance(self, layer: int) -> None:
        """Replace the labels by those of the next layer."""
        options = self.graph.options(layer)
        usable = options.start + np.flatnonzero(self.cuts.keeps_options(options))
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
        ran = self._run(layer, parent[owner], arrived.take(owner), option)
        within = self._find_inside(layer, ran)
        self._keep(layer, option[within], parent[owner[within]], ran.take(within))

    def conclude(self) -> HeldPaths:
        """Return the paths of the labels that no other is certain to dominate."""
        left = self.labels.undominated(anywhere=True)
        labels = self.labels.take(left)
        return HeldPaths(labels.low_value, labels.low_consumption, self._trace(left))

    def _arrive(self, layer: int, targets: IntArray) -> tuple[IntArray, IntArray]:
        """Return the (label, position of its target) pairs within the cuts, by target."""
        parents, slots = [np.empty(0, dtype=np.intp)], [np.empty(0, dtype=np.intp)]
        for block, candidates in self._pair_up(layer, targets):
            numbers = block.size * candidates.size * max(self.cuts.count, 1)
            for piece in np.array_split(block, 1 + numbers // _NUMBERS_AT_ONCE):
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
        growing = self.cuts.keep(labels.low_value, labels.low_consumption, self.cuts.least_growing(layer)[:, node])
        growers = np.flatnonzero(growing)
        hub, upper = np.empty(0, dtype=np.intp), node.size
        for block in np.array_split(np.arange(targets.size), 1 + targets.size // _TARGETS_AT_ONCE)[::-1]:
            if not block.size:
                continue
            lowest, above = np.searchsorted(node, [targets[block[0]], targets[block[-1]] + 1])
            upper_labels = np.arange(above, upper)
            hub = np.concatenate([hub, upper_labels[labels.state[upper_labels] == FREE]])
            hub = hub[labels.take(hub).undominated(anywhere=True)]
            upper = above
            yield block, np.concatenate([growers[growers < lowest], np.arange(lowest, above), hub])

    def _is_inside(self, layer: int, candidates: IntArray, targets: IntArray) -> NDArray[np.bool_]:
        """Return (targets, candidates) whether a label that comes to a target stays within the cuts."""
        labels = self.labels.take(candidates)
        value, consumption = self.graph.growth.between(labels.node[None, :], targets[:, None])
        value, consumption = value + labels.low_value, consumption + labels.low_consumption
        inside = self.cuts.keep(value, consumption, self.cuts.ahead(layer)[:, targets][:, :, None])
        if self.thrift is not None:
            inside &= self.thrift.may_move(labels.state, labels.node, targets[:, None])
        return inside

    def _add_steps(self, layer: int, parent: IntArray, node: IntArray) -> _Labels:
        """Return labels that have come to a node, not run there yet."""
        if not layer:
            start = self.graph.start_value[node], self.graph.start_consumption[node]
            return _Labels(node, *start, no_charge(node.size), np.zeros_like(node))
        before = self.labels.take(parent)
        value, consumption = self.graph.growth.between(before.node, node)
        return _Labels(node, before.value + value, before.consumption + consumption, before.charge, before.state)

    def _run(self, layer: int, parent: IntArray, arrived: _Labels, option: IntArray) -> _Labels:
        """Return labels after their options, charges still as before."""
        value = arrived.value + self.graph.value[option]
        consumption = arrived.consumption + self.graph.consumption[option]
        state = arrived.state
        if self.thrift is not None:
            before = self.labels.node[parent] if layer else parent
            state = self.thrift.run(layer, state, before, option)
        return _Labels(arrived.node, value, consumption, arrived.charge, state)

    def _find_inside(self, layer: int, labels: _Labels) -> IntArray:
        """Return the positions of labels after a layer that stay within the cuts and the rules."""
        rest = self.cuts.rest(layer)[:, labels.node]
        inside = self.cuts.keep(labels.low_value, labels.low_consumption, rest) & (labels.state != FORBIDDEN)
        return np.flatnonzero(inside)

    def _keep(self, layer: int, option: IntArray, parent: IntArray, labels: _Labels) -> None:
        """Make labels the current ones, charged anew, without those beyond a cut or dominated."""
        if self.charges is not None:
            # Charges depend on how a path began, so they are not sums of what the steps add.
            paths = np.column_stack([self._trace(parent), option])
            pieces = []
            for piece in np.array_split(paths, 1 + len(paths) // _CHARGED_AT_ONCE):
                pieces.append(self.charges.charge(piece))
                self.effort.charge_labels(0, self.kept)
            labels = replace(labels, charge=join_charges(pieces))
            within = self._find_inside(layer, labels)
            option, parent, labels = option[within], parent[within], labels.take(within)
        best = labels.undominated()
        if self.charges is None and self.graph.more_is_no_dearer:
            left = labels.take(best)
            best = best[skip_dominated_from_above(left.node, left.consumption, left.value)]
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
