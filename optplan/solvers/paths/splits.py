"""How branch and price divides a part: the divisions of a mixture that come nearest to halves.

One side holds a range of a layer's nodes, as special ordered sets are divided (Beale and Tomlin, "Special facilities in
a general mathematical programming system for non-convex problems using ordered sets of variables", 1970).
"""

from __future__ import annotations

import numpy as np

from optplan.solvers.paths.families import FloatArray, IntArray, NodeArray

#: Graph, layer, first node and that behind the last: what one side holds there, and the other does not.
Split = tuple[int, int, int, int]
#: Stretches of layers in which what a division gains is averaged.
_STAGES = 4


def list_splits(
    owner: IntArray, nodes: NodeArray, levels: FloatArray, starts: IntArray, kinds: IntArray
) -> list[Split]:
    """List divisions of a mixture, by kinds and within kinds; those nearest to halves come first.

    Parameters
    ----------
    owner, nodes, levels
        (C,), (C, E), (C,) The mixture's paths: their graphs, their nodes and how much of each there is.
    starts, kinds
        (G + 1,) Where each graph's rows begin, (G, F + 1) where the nodes of each kind do.
    """
    found: list[tuple[float, Split]] = []
    for g in np.unique(owner).tolist():
        mine = np.flatnonzero(owner == g)
        if mine.size < 2:
            continue
        depth = int(starts[g + 1] - starts[g])
        paths, share = nodes[mine, :depth], levels[mine]
        for h in range(kinds.shape[1] - 1):
            first, behind = int(kinds[g, h]), int(kinds[g, h + 1])
            inside = (paths >= first) & (paths < behind)
            if not inside.any():
                continue
            found += [(abs(w - 0.5), (g, j, first, behind)) for j, w in _middles(share @ inside)]
            for k in np.unique(paths[inside])[:-1].tolist():
                below = (paths >= first) & (paths <= k)
                found += [(abs(w - 0.5), (g, j, first, k + 1)) for j, w in _middles(share @ below)]
    return [split for _, split in sorted(found)]


def _middles(weight: FloatArray) -> list[tuple[int, float]]:
    """Return the middle layer of each stretch of layers with the same weight strictly between 0 and 1."""
    changes = np.flatnonzero(np.abs(np.diff(weight)) > 1e-9) + 1
    starts, ends = np.concatenate([[0], changes]), np.concatenate([changes, [weight.size]])
    return [
        (int(first + end - 1) // 2, float(weight[first]))
        for first, end in zip(starts.tolist(), ends.tolist(), strict=True)
        if 1e-6 < weight[first] < 1.0 - 1e-6
    ]


class Gains:
    """What divisions have gained so far (pseudocosts): those of the same nodes in layers not far apart gain alike.

    Parameters
    ----------
    starts
        (G + 1,) Where each graph's rows begin.
    """

    def __init__(self, starts: IntArray) -> None:
        self._depths = np.diff(starts).tolist()
        #: Sum and number, by sort of division and of all.
        self._known: dict[tuple[int, ...], tuple[float, int]] = {}
        self._all = (0.0, 0)

    def note(self, split: Split, gain: float) -> None:
        """Take down what a division gained."""
        total, count = self._known.get(self._sort_of(split), (0.0, 0))
        self._known[self._sort_of(split)] = total + gain, count + 1
        self._all = self._all[0] + gain, self._all[1] + 1

    def expect(self, split: Split) -> float:
        """Return the mean gain of a sort of division, to which the mean of all counts as one more."""
        total, count = self._known.get(self._sort_of(split), (0.0, 0))
        return (total + self._all[0] / max(1, self._all[1])) / (count + 1)

    def _sort_of(self, split: Split) -> tuple[int, ...]:
        graph, layer, first, behind = split
        return graph, layer * _STAGES // self._depths[graph], first, behind
