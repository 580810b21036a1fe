"""Listing the paths of one block that several rows of multipliers leave open, by the number of their switches.

A path is a chain of segments in which it stays where it is. Sums along a segment are differences of prefix sums, so
the search goes from switch to switch instead of from layer to layer, and all labels with as many switches are extended
at once: first to the layers in which they may leave, then to the nodes that they may enter. Every row knows the least
that is to come, and a label goes when it exceeds what any row allows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optplan.contracts.judgement import weigh
from optplan.solvers.paths.dominance import find_undominated_vectors
from optplan.solvers.paths.effort import Effort
from optplan.solvers.paths.families import FloatArray, IntArray
from optplan.solvers.paths.levels.blocks import BlockGraph

#: Numbers that are compared at once.
_CHUNK = 1 << 18
#: Numbers of several rows that are compared at once: more are sooner compared row by row, with those that are left.
_AT_ONCE = 1 << 15
#: Of more paths than this only those are left out that some of the best dominate; all would take longer than it saves.
_MOST_FILTERED = 600
_CHAMPIONS = 48


@dataclass(frozen=True, eq=False)
class _Labels:
    """Paths that have just entered a node, its own costs from there on not included.

    ``parent`` and ``place`` say from which label of the generation before, ``layer``, ``node`` and ``visited`` (a
    position among the sets) what was entered, ``sums`` (M, D) what that has cost.
    """

    parent: IntArray
    layer: IntArray
    node: IntArray
    visited: IntArray
    sums: FloatArray


@dataclass(frozen=True, eq=False)
class PathList:
    """Some paths of one block: their sums (P, D), and how they came about."""

    graph: BlockGraph
    nodes: IntArray
    sums: FloatArray
    generation: IntArray
    label: IntArray
    trail: list[_Labels]

    @property
    def num_labels(self) -> int:
        """How many labels it took."""
        return sum(labels.node.size for labels in self.trail)

    def trace(self, place: int) -> NDArray[np.int16]:
        """Return the nodes (E,) of a path, as the whole graph counts them."""
        path = np.empty(self.graph.num_layers, dtype=np.int16)
        end, label = self.graph.num_layers, int(self.label[place])
        for generation in range(int(self.generation[place]), -1, -1):
            labels = self.trail[generation]
            start = int(labels.layer[label])
            path[start:end] = self.graph.origin[self.nodes[labels.node[label]]]
            end, label = start, int(labels.parent[label])
        return path


def _find_better(sums: FloatArray) -> IntArray:
    """Return the places of paths (P, D) that are not dominated; of many paths some that are may be among them."""
    scaled = sums / np.maximum(sums.max(axis=0, initial=0.0), 1e-300)
    places = np.arange(len(sums))
    if places.size > _MOST_FILTERED:
        champions = np.argsort(scaled.sum(axis=1), kind="stable")[:_CHAMPIONS]
        for champion in champions.tolist():
            best, others = scaled[champion], scaled[places]
            undercut = (best <= others).all(axis=1) & (best < others).any(axis=1)
            places = places[~undercut]
    if places.size > _MOST_FILTERED:
        return places
    return np.asarray(places[find_undominated_vectors(np.zeros(places.size, dtype=np.intp), scaled[places])])


@dataclass(frozen=True, eq=False)
class _Outlook:
    """What one row knows of a block.

    ``entering`` (E, S, G, K) is the least that leaving a group in a state to enter a node of a layer costs, to the end;
    ``leaving`` (S, G, E + 1) the same of the best node, 0 for the end where that is allowed; ``paid`` (K, E + 1) what
    staying at a node from the first layer to another costs; ``least`` the least sum of a path.
    """

    weights: FloatArray
    entering: FloatArray
    leaving: FloatArray
    paid: FloatArray
    least: float


@dataclass(frozen=True, eq=False)
class _View:
    """What rows (R, D) know of a block, and what each of them allows (R,)."""

    outlooks: list[_Outlook]
    weights: FloatArray
    most: FloatArray


class BlockSearch:
    """One block of a graph, with what rows know of it.

    Parameters
    ----------
    graph
        The graph.
    block
        Which kinds the paths visit, as a sum of powers of two.
    """

    def __init__(self, graph: BlockGraph, block: int) -> None:
        self.graph = graph
        self.nodes = np.flatnonzero((block >> graph.kind) & 1)
        self._sets = np.array([part for part in range(1, block + 1) if part & ~block == 0])
        kind = graph.kind[self.nodes]
        # Groups without nodes are never left.
        groups, self._group = np.unique(graph.group[self.nodes], return_inverse=True)
        #: The set after entering a node (S, K), the first set, and where a node cannot be held (S, K).
        self._after = np.searchsorted(self._sets, self._sets[:, None] | (1 << kind))
        self._first = np.searchsorted(self._sets, 1 << kind)
        self._barred = np.where(((self._sets[:, None] >> kind) & 1) > 0, 0.0, np.inf)
        self._steps = graph.steps[:, :, self.nodes]
        self._entries = graph.entries[:, groups][..., self.nodes]
        nothing = np.zeros((len(self._steps), 1, self.nodes.size))
        self._prefix = np.concatenate([nothing, self._steps.cumsum(axis=1)], axis=1)
        self._outlooks: dict[bytes, _Outlook] = {}
        #: How many numbers are kept.
        self.num_known = 0

    def forget(self) -> None:
        """Keep nothing of what rows know."""
        self._outlooks.clear()
        self.num_known = 0

    def _look_back(self, weights: FloatArray) -> None:
        """Compute what rows (R, D) know."""
        run, enter = weigh(weights, self._steps), weigh(weights, self._entries)
        rows, layers, width = run.shape
        last, sets, groups = enter.shape[2] - 1, self._sets.size, enter.shape[1]
        columns = np.arange(width)
        entering = np.empty((rows, layers, sets, groups, width))
        leaving = np.full((rows, sets, groups, layers + 1), np.inf)
        leaving[:, -1, :, -1] = 0.0
        runs = (run[:, :, None] + self._barred).transpose(1, 0, 2, 3)
        after = (self._after * width + columns).ravel()
        left = (np.arange(sets)[:, None] * groups + self._group).ravel()
        remaining = np.where((np.arange(sets) == sets - 1)[:, None], runs[-1], np.inf)
        for layer in range(layers - 1, -1, -1):
            onward = entering[:, layer]
            coming = remaining.reshape(rows, -1).take(after, axis=1).reshape(rows, sets, 1, width)
            np.add(coming, enter[:, None, :, min(layer, last)], out=onward)
            least = onward.min(axis=3)
            leaving[..., layer] = least
            if layer:
                least = least.reshape(rows, -1).take(left, axis=1).reshape(remaining.shape)
                np.minimum(remaining, least, out=remaining)
                remaining += runs[layer - 1]
        begun = entering[:, 0, self._first, self._group, columns].min(axis=1)
        paid = np.ascontiguousarray(weigh(weights, self._prefix).transpose(0, 2, 1))
        for row, each in enumerate(weights):
            found = _Outlook(each, entering[row], leaving[row], paid[row], float(begun[row]))
            self._outlooks[each.tobytes()] = found
            self.num_known += found.entering.size

    def list_paths(self, weights: FloatArray, most: FloatArray, effort: Effort, *, whole: bool = True) -> PathList:
        """List the paths whose weighted sums are at most what each row allows.

        Parameters
        ----------
        weights
            (R, D) Of value and consumptions, from 0 on.
        most
            (R,) By row, what rounding may add included.
        effort
            Limits on labels and time.
        whole
            Whether paths that others dominate are listed, too.

        Raises
        ------
        OutOfEffortError
            When there are more labels than one may keep, or time ran out.
        """
        fresh = np.array([row for row in weights if row.tobytes() not in self._outlooks])
        if fresh.size:
            self._look_back(fresh)
        view = _View([self._outlooks[row.tobytes()] for row in weights], weights, most)
        trail, found, kept = [self._begin(view)], [], 0
        while trail[-1].node.size:
            labels = trail[-1]
            kept += labels.node.size
            effort.charge_labels(labels.node.size, kept)
            ended, further = self._extend(labels, view, kept, effort)
            found.append((len(trail) - 1, *ended))
            trail.append(further)
        generation = np.concatenate([np.full(labels.size, number) for number, labels, _ in found] or [np.empty(0, int)])
        label = np.concatenate([labels for _, labels, _ in found] or [np.empty(0, int)])
        sums = np.concatenate([each for _, _, each in found] or [np.empty((0, weights.shape[1]))])
        best = np.arange(label.size) if whole else _find_better(sums)
        return PathList(self.graph, self.nodes, sums[best], generation[best], label[best], trail)

    def _begin(self, view: _View) -> _Labels:
        node = np.arange(self.nodes.size)
        for row, limit in zip(view.outlooks, view.most.tolist(), strict=True):
            node = node[row.entering[0, self._first[node], self._group[node], node] <= limit]
        sums = self._entries[:, self._group[node], 0, node].T
        return _Labels(np.full(node.size, -1), np.zeros(node.size, dtype=np.intp), node, self._first[node], sums)

    def _extend(
        self, labels: _Labels, view: _View, kept: int, effort: Effort
    ) -> tuple[tuple[IntArray, FloatArray], _Labels]:
        """Return the labels that may stay to the end, with their sums, and those with one more switch."""
        which, layer, sums = self._find_exits(labels, view)
        ends = layer == self.graph.num_layers
        ended = which[ends], sums[ends]
        which, layer, sums = which[~ends], layer[~ends], sums[~ends]
        visited, group = labels.visited[which], self._group[labels.node[which]]
        effort.charge_labels(0, kept + layer.size)
        place, node = self._find_entries(layer, visited, group, sums, view, kept, effort)
        differs = labels.node[which[place]] != node
        place, node = place[differs], node[differs]
        layer = layer[place]
        entry = self._entries[:, group[place], np.minimum(layer, self._entries.shape[2] - 1), node].T
        return ended, _Labels(which[place], layer, node, self._after[visited[place], node], sums[place] + entry)

    def _find_exits(self, labels: _Labels, view: _View) -> tuple[IntArray, IntArray, FloatArray]:
        """Return which labels may leave, or end, at which layer, and their sums (M, D) by then."""
        first_row = view.outlooks[0]
        state = labels.visited * first_row.leaving.shape[1] + self._group[labels.node]
        later = np.arange(self.graph.num_layers + 1)
        before = labels.sums - self._prefix[:, labels.layer, labels.node].T
        leaving, spent = first_row.leaving.reshape(-1, later.size), before @ first_row.weights
        found = [(state[:0], state[:0], labels.sums[:0])]
        step = max(1, _CHUNK // later.size)
        for first in range(0, labels.node.size, step):
            part = slice(first, first + step)
            costs = first_row.paid[labels.node[part]] + leaving[state[part]]
            which, layer = np.nonzero(
                (costs <= (view.most[0] - spent[part])[:, None]) & (later > labels.layer[part, None])
            )
            which += first
            sums = before[which] + self._prefix[:, layer, labels.node[which]].T
            onward = state[which] * later.size + layer
            fits = _fit(sums, onward, [row.leaving for row in view.outlooks], view)
            found.append((which[fits], layer[fits], sums[fits]))
        which, layer, sums = (np.concatenate(each) for each in zip(*found, strict=True))
        return which, layer, sums

    def _find_entries(
        self,
        layer: IntArray,
        visited: IntArray,
        group: IntArray,
        sums: FloatArray,
        view: _View,
        kept: int,
        effort: Effort,
    ) -> tuple[IntArray, IntArray]:
        """Return which leavers may enter which node."""
        first_row = view.outlooks[0]
        _, sets, groups, width = first_row.entering.shape
        state = (layer * sets + visited) * groups + group
        entering, spent = first_row.entering.reshape(-1, width), sums @ first_row.weights
        found = [(layer[:0], layer[:0])]
        step = max(1, _CHUNK // width)
        for first in range(0, layer.size, step):
            part = slice(first, first + step)
            which, node = np.nonzero(entering[state[part]] <= (view.most[0] - spent[part])[:, None])
            which += first
            fits = _fit(sums[which], state[which] * width + node, [row.entering for row in view.outlooks], view)
            kept += fits.size
            effort.charge_labels(0, kept)
            found.append((which[fits], node[fits]))
        return np.concatenate([each[0] for each in found]), np.concatenate([each[1] for each in found])


def _fit(sums: FloatArray, place: IntArray, onward: list[FloatArray], view: _View) -> IntArray:
    """Return which sums (M, D) rows after the first let be, with the least that each has to come at a place (M,)."""
    fits, row = np.arange(place.size), 1
    while row < len(view.most) and fits.size:
        some = slice(row, row + max(1, _AT_ONCE // fits.size))
        least = np.array([each.take(place) for each in onward[some]])
        open_ones = (view.weights[some] @ sums.T + least <= view.most[some, None]).all(axis=0)
        if not open_ones.all():
            fits, sums, place = fits[open_ones], sums[open_ones], place[open_ones]
        row = some.stop
    return fits
