"""What branch and price searches: graphs laid out by runs on one kind of nodes, and how a part of all plans is divided.

One side of a division holds a range of a layer's nodes, as special ordered sets are divided (Beale and Tomlin, "Special
facilities in a general mathematical programming system for non-convex problems using ordered sets of variables", 1970).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optplan.contracts.judgement import PathCosts
from optplan.solvers.limits import most_within
from optplan.solvers.paths.families import FloatArray, IntArray, NodeArray
from optplan.solvers.paths.runs import RunGraphs

#: Graphs and limits, and steps of one pass over all graphs, for which a part is still quick.
_MOST_ROWS = 150
_MOST_STEPS = 30_000_000


@dataclass(frozen=True, eq=False)
class RunProblem:
    """Graphs by kinds of nodes, and the limits that link them."""

    #: With all nodes open.
    graphs: RunGraphs
    #: (G + 1,) Where each graph's rows begin, (G, F + 1) where the nodes of each kind do.
    starts: IntArray
    kinds: IntArray
    #: (L,) What all paths together may consume.
    limits: FloatArray


def state_runs(
    graphs: Sequence[PathCosts], kinds: Sequence[IntArray], own: Sequence[IntArray], limits: FloatArray
) -> RunProblem | None:
    """Lay out graphs by kinds of nodes.

    None where that would be too large, nodes of a kind are no neighbours, or entries differ from layer to layer.

    ``kinds`` (K,) by graph,: the kind of each node. ``own`` (F,) by graph,: the limit that only nodes of each kind
    consume; -1 where there is none.
    """
    steps_of_a_pass = sum(costs.run_value.size * len(costs.run_value) for costs in graphs)
    if len(graphs) + limits.size > _MOST_ROWS or steps_of_a_pass > _MOST_STEPS:
        return None
    width = max(costs.run_value.shape[1] for costs in graphs)
    groups = max(costs.num_groups for costs in graphs)
    most = max(int(kind.max()) for kind in kinds) + 1
    starts = np.concatenate([[0], np.cumsum([len(costs.run_value) for costs in graphs])]).astype(np.intp)
    size = 1 + limits.size
    steps = np.zeros((size, int(starts[-1]), width))
    entries = np.zeros((size, len(graphs), most if groups > 1 else 1, width))
    bounds = np.zeros((len(graphs), most + 1), dtype=np.intp)
    owns = np.full((len(graphs), most), -1, dtype=np.intp)
    closed = np.ones(steps.shape[1:], dtype=np.uint8)
    used = np.zeros((len(graphs), most, limits.size), dtype=np.uint8)
    for g, (costs, kind) in enumerate(zip(graphs, kinds, strict=True)):
        rows, nodes = slice(int(starts[g]), int(starts[g + 1])), kind.size
        step = np.concatenate([costs.run_value[None], costs.run_consumption])
        entry = np.concatenate([costs.enter_value[None], costs.enter_consumption])
        if np.any(np.diff(kind) < 0) or not bool((entry == entry[:, :, :1]).all()):
            return None
        finite = np.isfinite(step[0])
        steps[:, rows, :nodes] = np.where(finite, step, 0.0)
        closed[rows, :nodes] = ~finite
        entries[:, g, :, :nodes] = entry[:, :1, 0] if costs.num_groups == 1 else 0.0
        if costs.num_groups > 1:
            entries[:, g, : costs.num_groups, :nodes] = entry[:, :, 0]
        bounds[g] = np.searchsorted(kind, np.arange(most + 1))
        owns[g, : own[g].size] = own[g]
        for h in range(most):
            inside = slice(int(bounds[g, h]), int(bounds[g, h + 1]))
            use = steps[1:, rows, inside].any(axis=(1, 2)) | entries[1:, g, :, inside].any(axis=(1, 2))
            used[g, h] = use
    found = RunGraphs(steps, entries, starts, bounds, owns, used, most_within(limits))
    np.asarray(found.closed)[:] = closed
    return RunProblem(found, starts, bounds, limits)


#: Graph, layer, first node and that behind the last: what one side holds there, and the other does not.
Split = tuple[int, int, int, int]


def list_splits(
    owner: IntArray, nodes: NodeArray, levels: FloatArray, starts: IntArray, kinds: IntArray
) -> list[Split]:
    """List divisions of a mixture, by kinds and within kinds; those nearest to halves come first.

    ``owner``, ``nodes``, ``levels`` (C,), (C, E), (C,): the mixture's paths: their graphs, their nodes and how much of
    each there is. ``starts``, ``kinds`` (G + 1,): where each graph's rows begin, (G, F + 1) where the nodes of each
    kind do.
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
