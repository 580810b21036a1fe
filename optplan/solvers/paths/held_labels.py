"""Pareto label setting on held graphs: every undominated path within given cuts.

A label is a beginning of a path with its value and consumption. It is dropped when the least that can follow exceeds a
cut, or when another label at the same node has no more of either, whatever is still to be charged. Options through
which no path is within the cuts go first. Where paths are charged on top, only those are looked at that keep the rules
of :class:`~optplan.solvers.paths.held_graphs.ExchangeRules`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from optplan.solvers.limits import ROUNDING
from optplan.solvers.paths import TUNING
from optplan.solvers.paths.dominance import expand_ranges, find_undominated, scale_to_one
from optplan.solvers.paths.families import FloatArray, IntArray, PathBatch
from optplan.solvers.paths.held_graphs import FORBIDDEN, FREE, ExchangeRules, HeldGraph
from optplan.solvers.paths.search import Effort


class Charges(Protocol):
    """Costs of a path beyond the sums of its steps, each at least 0, as minimum charges on what was held too short."""

    # Known of a beginning is what is *settled*, whatever follows, and what is still *open*, at most: enough to compare
    # labels by their ends. Only paths left at the end are charged exactly.

    def charge(self, options: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return (2, L) what beginnings (L, j + 1) pay on top: settled, and open; later holdings pay for themselves."""

    def settle(self, options: IntArray) -> FloatArray:
        """Return (2, L) exactly what whole paths pay on top, given the option (L, J) taken in each layer."""


@dataclass(frozen=True)
class _ExchangedCharges:
    """The charges of the graph with value and consumption in each other's place."""

    charges: Charges

    def charge(self, options: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return what beginnings of paths pay on top."""
        settled, still_open = self.charges.charge(options)
        return settled[::-1], still_open[::-1]

    def settle(self, options: IntArray) -> FloatArray:
        """Return exactly what whole paths pay on top."""
        return self.charges.settle(options)[::-1]


def exchange_charges(charges: Charges | None) -> Charges | None:
    """Return the charges of the graph with value and consumption in each other's place; None stays None."""
    return None if charges is None else _ExchangedCharges(charges)


def find_undominated_charged(segment: IntArray, low: FloatArray, still_open: FloatArray | None) -> IntArray:
    """Return the entries that no other of their segment (M,) is certain to dominate, by lower ends (2, M) and open."""
    if not segment.size:
        return np.empty(0, dtype=np.intp)
    if still_open is None:
        return find_undominated(segment, scale_to_one(low[1]), scale_to_one(low[0]))
    least = low.min(axis=1, keepdims=True)
    spread = (low + still_open).max(axis=1, keepdims=True) - least
    spread[spread <= 0.0] = 1.0
    scaled, high = (low - least) / spread, (low + still_open - least) / spread
    # Sets are two apart on both keys. What is open may vanish in them: then an entry is as good as certain.
    apart = np.array([-2.0, 2.0])[:, None] * segment
    (low_value, low_key), (high_value, high_key) = scaled + apart, high + apart
    certain = (low_key == high_key) & (low_value == high_value)
    known, unsure = np.flatnonzero(certain), np.flatnonzero(~certain)
    known = known[find_undominated(segment[known], scaled[1, known], scaled[0, known])]
    if not unsure.size:
        return known

    def is_dominated(these: IntArray, those: IntArray) -> NDArray[np.bool_]:
        order = those[np.argsort(high_key[those], kind="stable")]
        best = np.append(np.inf, np.minimum.accumulate(high_value[order]))
        return np.asarray(best[np.searchsorted(high_key[order], low_key[these], side="right")] <= low_value[these])

    # An unsure entry cannot dominate itself, as one of its upper ends is above the lower one; nor can two entries
    # dominate each other. So what a dominated entry dominates is dominated by one that stays, too.
    kept_unsure = unsure[~is_dominated(unsure, unsure) & ~is_dominated(unsure, known)]
    kept = np.concatenate([known[~is_dominated(known, unsure)], kept_unsure])
    return kept[np.argsort(low_key[kept], kind="stable")]


def skip_dominated_from_above(node: IntArray, low: FloatArray) -> IntArray:
    """Return the entries, (2, M) at nodes (M,), that none at a greater node dominates, by halves of the nodes."""
    rank = np.unique(node, return_inverse=True)[1]
    kept, width = np.ones(node.size, dtype=bool), 1
    value, consumption = (scale_to_one(each) for each in low) if node.size else low
    while width <= rank.max(initial=0):
        half = rank // width
        keys, heights = consumption + 2.0 * (half // 2), value - 2.0 * (half // 2)
        upper, lower = np.flatnonzero(half % 2 == 1), np.flatnonzero(half % 2 == 0)
        upper = upper[np.argsort(keys[upper], kind="stable")]
        least = np.append(np.inf, np.minimum.accumulate(heights[upper]))
        place = np.searchsorted(keys[upper], keys[lower], side="right")
        kept[lower[least[place] <= heights[lower]]] = False
        width *= 2
    return np.flatnonzero(kept)


@dataclass(frozen=True)
class Cut:
    """Paths wanted: those whose cost, under weights of value and consumption of which one is 1, is within a limit."""

    weights: tuple[float, float]
    limit: float


@dataclass(frozen=True, eq=False)
class _Labels:
    """Beginnings of paths."""

    #: (L,) Where they are.
    node: IntArray
    #: (2, L) Value and consumption of the steps so far, without charges.
    sums: FloatArray
    #: (2, L) What is settled and what is still open on top; None where nothing is charged.
    charge: tuple[FloatArray, FloatArray] | None
    #: (L,) What they may do next.
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


def find_pareto_set(graph: HeldGraph, effort: Effort, charges: Charges | None = None) -> PathBatch:
    """Return every undominated path, charges included, by increasing consumption."""
    found = find_candidates(graph, effort, charges, ())
    costs = np.array([found.value, found.used])
    if charges is not None:
        costs = settle_costs(graph, found.payload, charges, effort)
    best = find_undominated_charged(np.zeros(costs.shape[1], dtype=np.intp), costs, None)
    value, consumption = costs[:, best]
    # Of paths whose consumptions are equal but for rounding, the last is the one of least value.
    last = np.append(np.diff(consumption) > ROUNDING * consumption[1:], True)[: best.size]
    return PathBatch(value[last], consumption[last, None], found.payload[best[last]])


def find_candidates(graph: HeldGraph, effort: Effort, charges: Charges | None, cuts: tuple[Cut, ...]) -> PathBatch:
    """Return the paths within all cuts among which every undominated one is; with charges, at lower ends of costs."""
    nothing = PathBatch(np.empty(0), np.empty((0, 1)), np.empty((0, graph.num_layers), dtype=np.intp))
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
    """Return (2, P) value and consumption of whole paths (P, J), charges included; the clock is looked at."""
    followed = graph.follow(options)
    sums = np.array([followed.value, followed.used])
    if charges is None:
        return sums
    pieces: list[FloatArray] = []
    for piece in np.array_split(options, 1 + len(options) // TUNING.settled_at_once):
        if pieces:  # the first always, so that whoever has little time gets an answer at all
            effort.charge_labels(0, 0)
        pieces.append(charges.settle(piece))
    return sums + np.concatenate(pieces, axis=1)


class _Search:
    """Labels of the layer reached, and where they came from, in what the cuts leave of a graph (options ``own``)."""

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

    def conclude(self) -> PathBatch:
        """Return the paths of the labels that no other is certain to dominate."""
        left = self.labels.undominated(anywhere=True)
        value, consumption = self.labels.low[:, left]
        return PathBatch(value, consumption[:, None], self._trace(left))

    def _arrive(self, layer: int, targets: IntArray) -> tuple[IntArray, IntArray]:
        """Return the (label, position of its target) pairs within the cuts, by target."""
        parents, slots = [np.empty(0, dtype=np.intp)], [np.empty(0, dtype=np.intp)]
        for block, candidates in self._pair_up(targets):
            numbers = block.size * candidates.size * max(len(self.weights), 1)
            for piece in np.array_split(block, 1 + numbers // TUNING.pairs_at_once):
                slot, position = np.nonzero(self._may_come(layer, candidates, targets[piece]))
                parents.append(candidates[position])
                slots.append(piece[slot])
                self.effort.charge_labels(0, self.kept + sum(part.size for part in parents))
        return np.concatenate(parents), np.concatenate(slots)

    def _pair_up(self, targets: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield blocks of targets, each with undominated labels that may come to one; those above may shrink to all."""
        labels, node = self.labels, self.labels.node
        above, upper = np.empty(0, dtype=np.intp), node.size
        for block in np.array_split(np.arange(targets.size), 1 + targets.size // TUNING.targets_at_once)[::-1]:
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
            for piece in np.array_split(paths, 1 + len(paths) // TUNING.charged_at_once):
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
