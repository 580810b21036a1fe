"""Pareto label setting on held graphs: every undominated path within given cuts.

A label is a beginning of a path with its value and consumption. It is dropped when the least that can follow exceeds a
cut, or when another label at the same node has no more of either, whatever is still to be charged. Options through
which no path is within the cuts go first. Where paths are charged on top, only those are looked at that keep the rules
of :mod:`optplan.solvers.paths.held.exchange_dominance`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from optplan.solvers.limits import ROUNDING
from optplan.solvers.paths.effort import Effort
from optplan.solvers.paths.families import FloatArray, IntArray
from optplan.solvers.paths.held.charges import Charges, find_undominated_charged, skip_dominated_from_above
from optplan.solvers.paths.held.exchange_dominance import FORBIDDEN, FREE, ExchangeRules
from optplan.solvers.paths.held.graphs import HeldGraph
from optplan.solvers.paths.pareto_sets import expand_ranges

#: Pairs of a label and a node, under each cut, that are looked at in one go; bounds the memory.
_NUMBERS_AT_ONCE = 1 << 20
#: Labels that are charged in one go, and whole paths that are charged exactly.
_CHARGED_AT_ONCE = 1 << 14
_SETTLED_AT_ONCE = 1 << 5
#: Targets that share what may come to them from above.
_TARGETS_AT_ONCE = 1 << 6


@dataclass(frozen=True)
class Cut:
    """Paths wanted: those whose cost, under weights of value and consumption of which one is 1, is within a limit."""

    weights: tuple[float, float]
    limit: float


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
    """Beginnings of paths.

    Parameters
    ----------
    node
        (L,) Where they are.
    sums
        (2, L) Value and consumption of the steps so far, without charges.
    charge
        (2, L) What is settled and what is still open on top; None where nothing is charged.
    state
        (L,) What they may do next.
    """

    node: IntArray
    sums: FloatArray
    charge: tuple[FloatArray, FloatArray] | None
    state: IntArray

    @property
    def low(self) -> FloatArray:
        """(2, L) Costs with what is settled."""
        return self.sums if self.charge is None else self.sums + self.charge[0]

    def take(self, positions: IntArray) -> _Labels:
        """Return the labels at some positions, in that order."""
        charge = None if self.charge is None else (self.charge[0][:, positions], self.charge[1][:, positions])
        return _Labels(self.node[positions], self.sums[:, positions], charge, self.state[positions])

    def undominated(self, *, anywhere: bool = False) -> IntArray:
        """Return the positions of labels that no other in the same state and node (or anywhere) is sure to dominate."""
        segment = np.zeros_like(self.node) if anywhere else self.node * FORBIDDEN + self.state
        return find_undominated_charged(segment, self.low, None if self.charge is None else self.charge[1])


def find_pareto_set(
    graph: HeldGraph, effort: Effort, charges: Charges | None = None, cuts: tuple[Cut, ...] = ()
) -> HeldPaths:
    """Return every undominated path within all cuts.

    Parameters
    ----------
    effort
        Charged for each layer's labels.
    charges
        What paths pay beyond the sums of their steps; then the cuts hold for the sums with it.
    cuts
        What paths are wanted; without any, all are.

    Returns
    -------
    HeldPaths
        None at all when no path is within the cuts.

    Raises
    ------
    OutOfEffortError
        When a limit of ``effort`` is met.
    """
    found = find_candidates(graph, effort, charges, cuts)
    costs = np.array([found.value, found.consumption])
    if charges is not None:
        costs = settle_costs(graph, found.options, charges, effort)
    best = find_undominated_charged(np.zeros(costs.shape[1], dtype=np.intp), costs, None)
    value, consumption = costs[:, best]
    # Of paths whose consumptions are equal but for rounding, the last is the one of least value.
    last = np.append(np.diff(consumption) > ROUNDING * consumption[1:], True)[: best.size]
    return HeldPaths(value[last], consumption[last], found.options[best[last]])


def find_candidates(graph: HeldGraph, effort: Effort, charges: Charges | None, cuts: tuple[Cut, ...]) -> HeldPaths:
    """Return the paths within all cuts among which every undominated one is.

    Parameters
    ----------
    graph, effort, charges, cuts
        As for :func:`find_pareto_set`.

    Returns
    -------
    HeldPaths
        With lower ends of their costs; without charges, the costs themselves.

    Raises
    ------
    OutOfEffortError
        When a limit of ``effort`` is met.
    """
    nothing = HeldPaths(np.empty(0), np.empty(0), np.empty((0, graph.num_layers), dtype=np.intp))
    left, own = graph, np.arange(graph.node.size)
    for find in (HeldGraph.bound_costs_through, HeldGraph.find_costs_through) if cuts else ():
        kept = np.flatnonzero(find(left, cuts[0].weights) <= cuts[0].limit)
        if np.any(np.diff(np.searchsorted(kept, left.first_option)) == 0):
            return nothing
        left, own = left.keep(kept), own[kept]
    search = _Search(left, own, effort, charges, cuts)
    for layer in range(graph.num_layers):
        search.advance(layer)
        if not search.labels.node.size:
            return nothing
    return search.conclude()


def settle_costs(graph: HeldGraph, options: IntArray, charges: Charges | None, effort: Effort) -> FloatArray:
    """Return (2, P) value and consumption of whole paths (P, J), charges included.

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
    followed = graph.follow(options)
    sums = np.array([followed.value, followed.used])
    if charges is None:
        return sums
    pieces: list[FloatArray] = []
    for piece in np.array_split(options, 1 + len(options) // _SETTLED_AT_ONCE):
        if pieces:  # the first always, so that whoever has little time gets an answer at all
            effort.charge_labels(0, 0)
        pieces.append(charges.settle(piece))
    return sums + np.concatenate(pieces, axis=1)


class _Search:
    """Labels of the layer reached, and where they came from.

    Parameters
    ----------
    graph
        What the cuts leave of a graph.
    own
        (O,) The numbers of its options in that graph, by which they are charged.
    """

    def __init__(
        self, graph: HeldGraph, own: IntArray, effort: Effort, charges: Charges | None, cuts: tuple[Cut, ...]
    ) -> None:
        self.graph, self.own, self.effort, self.charges = graph, own, effort, charges
        self.weights = np.array([cut.weights for cut in cuts]).reshape(-1, 2)
        rests = np.array([cut.limit - np.array(graph.find_completion_bounds(cut.weights)) for cut in cuts])
        #: (C, J, K) How much labels may cost that come to a node, and after its option, for each cut to be kept.
        self.coming, self.leaving = rests.reshape(-1, 2, graph.num_layers, graph.num_nodes).swapaxes(0, 1)
        nobody, nothing = np.empty(0, dtype=np.intp), np.empty((2, 0))
        self.labels = _Labels(nobody, nothing, None, nobody)
        self.rules = None if charges is None else ExchangeRules(graph)
        #: By layer, (L,) the option of each label and the position of the label before.
        self.history: list[tuple[IntArray, IntArray]] = []
        self.kept = 0

    def advance(self, layer: int) -> None:
        """Replace the labels by those of the next layer."""
        options = self.graph.options(layer)
        targets, first, counts = np.unique(self.graph.node[options], return_index=True, return_counts=True)
        parent, slot = self._arrive(layer, targets) if layer else (np.full(targets.size, -1), np.arange(targets.size))
        arrived = self._step(layer, parent, targets[slot])
        if layer and self.charges is None:
            kept = arrived.undominated()
            parent, slot, arrived = parent[kept], slot[kept], arrived.take(kept)
        # Every arrival takes every option of its node.
        owner, option = expand_ranges(options.start + first[slot], counts[slot])
        ran = self._run(layer, parent[owner], arrived.take(owner), option)
        within = self._find_inside(layer, ran)
        self._keep(layer, option[within], parent[owner[within]], ran.take(within))

    def conclude(self) -> HeldPaths:
        """Return the paths of the labels that no other is certain to dominate."""
        left = self.labels.undominated(anywhere=True)
        value, consumption = self.labels.low[:, left]
        return HeldPaths(value, consumption, self._trace(left))

    def _arrive(self, layer: int, targets: IntArray) -> tuple[IntArray, IntArray]:
        """Return the (label, position of its target) pairs within the cuts, by target."""
        parents, slots = [np.empty(0, dtype=np.intp)], [np.empty(0, dtype=np.intp)]
        for block, candidates in self._pair_up(targets):
            numbers = block.size * candidates.size * max(len(self.weights), 1)
            for piece in np.array_split(block, 1 + numbers // _NUMBERS_AT_ONCE):
                slot, position = np.nonzero(self._may_come(layer, candidates, targets[piece]))
                parents.append(candidates[position])
                slots.append(piece[slot])
                self.effort.charge_labels(0, self.kept + sum(part.size for part in parents))
        return np.concatenate(parents), np.concatenate(slots)

    def _pair_up(self, targets: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield blocks of targets (positions), each with the labels that may come to one of them.

        Whatever is above a whole block may shrink to all of it, so that the undominated among them will do.
        """
        labels, node = self.labels, self.labels.node
        above, upper = np.empty(0, dtype=np.intp), node.size
        for block in np.array_split(np.arange(targets.size), 1 + targets.size // _TARGETS_AT_ONCE)[::-1]:
            beyond = np.arange(np.searchsorted(node, targets[block[-1]] + 1), upper)
            above = np.concatenate([above, beyond[labels.state[beyond] == FREE]])
            above = above[labels.take(above).undominated(anywhere=True)]
            upper = upper - beyond.size
            yield block, np.concatenate([np.arange(upper), above])

    def _may_come(self, layer: int, candidates: IntArray, targets: IntArray) -> NDArray[np.bool_]:
        """Return (targets, candidates) whether labels that come to targets may keep the cuts and the rules."""
        labels = self.labels.take(candidates)
        costs = labels.low[:, None, :] + self.graph.grow(labels.node, targets[:, None])
        allowed = np.ones(costs.shape[1:], dtype=np.bool_)
        for weights, most in zip(self.weights, self.coming[:, layer, targets], strict=True):
            allowed &= weights[0] * costs[0] + weights[1] * costs[1] <= most[:, None]
        if self.rules is not None:
            allowed &= self.rules.may_move(labels.state, labels.node, targets[:, None])
        return allowed

    def _step(self, layer: int, parent: IntArray, node: IntArray) -> _Labels:
        """Return labels that have come to a node, not run there yet."""
        if not layer:
            return _Labels(node, self.graph.start[:, node], None, np.zeros_like(node))
        before = self.labels.take(parent)
        return replace(before, node=node, sums=before.sums + self.graph.grow(before.node, node))

    def _run(self, layer: int, parent: IntArray, arrived: _Labels, option: IntArray) -> _Labels:
        """Return labels after their options, charges still as before."""
        state = arrived.state
        if self.rules is not None:
            state = self.rules.run(layer, state, self.labels.node[parent] if layer else parent, option)
        return replace(arrived, sums=arrived.sums + self.graph.cost[:, option], state=state)

    def _find_inside(self, layer: int, labels: _Labels) -> IntArray:
        """Return the positions of labels after a layer that stay within the cuts and the rules."""
        within = (self.weights @ labels.low <= self.leaving[:, layer, labels.node]).all(axis=0)
        return np.flatnonzero(within & (labels.state != FORBIDDEN))

    def _keep(self, layer: int, option: IntArray, parent: IntArray, labels: _Labels) -> None:
        """Make labels the current ones, charged anew, without those beyond a cut or dominated."""
        if self.charges is not None:
            # Charges depend on how a path began, so they are not sums of what the steps add.
            paths = self.own[np.column_stack([self._trace(parent, numbered=False), option])]
            pieces = []
            for piece in np.array_split(paths, 1 + len(paths) // _CHARGED_AT_ONCE):
                pieces.append(self.charges.charge(piece))
                self.effort.charge_labels(0, self.kept)
            settled, still_open = (np.concatenate(parts, axis=1) for parts in zip(*pieces, strict=True))
            labels = replace(labels, charge=(settled, still_open))
            within = self._find_inside(layer, labels)
            option, parent, labels = option[within], parent[within], labels.take(within)
        best = labels.undominated()
        if self.charges is None and self.graph.more_is_no_dearer:
            best = best[skip_dominated_from_above(labels.node[best], labels.low[:, best])]
        self.labels = labels.take(best)
        self.history.append((option[best], parent[best]))
        self.kept += best.size
        self.effort.charge_labels(best.size, self.kept)

    def _trace(self, position: IntArray, *, numbered: bool = True) -> IntArray:
        """Return the options (L, j) of the current labels at some positions."""
        path = np.empty((position.size, len(self.history)), dtype=np.intp)
        current = position
        for layer in range(len(self.history) - 1, -1, -1):
            option, parent = self.history[layer]
            path[:, layer] = option[current]
            current = parent[current]
        return self.own[path] if numbered else path
