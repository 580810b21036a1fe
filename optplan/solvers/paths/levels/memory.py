"""What problems that share graphs know of these: a graph's least sums under rows, its lists, and the rows themselves.

A problem that differs in one graph begins with the rows of those before it that lie near its own multipliers. Nothing
has to be computed again for the graphs that are the same; and plans found before are plans of it, too, where they use
no node that it forbids.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from optplan.contracts.judgement import PathCosts
from optplan.solvers.paths.families import FloatArray, IntArray, PathBatch, join_batches
from optplan.solvers.paths.levels.blocks import BlockGraph, layer_blocks
from optplan.solvers.paths.levels.segments import BlockSearch

#: Rows of earlier problems that one begins with, and how far from its multipliers: the difference of what limits are
#: worth, relative to the bound.
_MOST_ROWS = 12
_FURTHEST = 0.3
#: A graph is narrowed where that leaves at most this fraction of its nodes: the others keep what is known of them.
_FEW = 0.5
#: Numbers kept by searches.
_MOST_KNOWN = 20_000_000


class Memory:
    """What is known of graphs, and of the problems that they were in. One problem alone has one of its own."""

    def __init__(self) -> None:
        #: Nodes (G, E) of the plans of earlier problems, -1 beyond the last layer.
        self.plans: list[NDArray[np.int32]] = []
        self._graphs: dict[int, tuple[PathCosts, BlockGraph]] = {}
        self._searches: dict[tuple[BlockGraph, int], BlockSearch] = {}
        self._sweeps: dict[BlockGraph, dict[bytes, tuple[FloatArray, FloatArray]]] = {}
        self._rows: dict[bytes, FloatArray] = {}
        self._narrow: dict[tuple[BlockGraph, bytes], BlockGraph] = {}
        self._columns: dict[tuple[int, bytes], tuple[BlockGraph, IntArray, PathBatch]] = {}

    def lay_out(self, costs: Sequence[PathCosts], kinds: Sequence[IntArray]) -> list[BlockGraph] | None:
        """Lay out graphs by blocks as :func:`layer_blocks` does; costs that were laid out before are the same graph."""
        graphs = layer_blocks(costs, kinds)
        if graphs is None:
            return None
        return [self._recall(each, graph) for each, graph in zip(costs, graphs, strict=True)]

    def _recall(self, costs: PathCosts, graph: BlockGraph) -> BlockGraph:
        # What forbidden nodes cost depends on the other graphs.
        if np.isinf(costs.run_value).any():
            return graph
        return self._graphs.setdefault(id(costs), (costs, graph))[1]

    def search(self, graph: BlockGraph, block: int) -> BlockSearch:
        """Return the search of a block."""
        if (graph, block) not in self._searches:
            self._searches[graph, block] = BlockSearch(graph, block)
        if sum(search.num_known for search in self._searches.values()) > _MOST_KNOWN:
            for search in self._searches.values():
                search.forget()
        return self._searches[graph, block]

    def sweep(
        self, graph: BlockGraph, weights: FloatArray, sweep: Callable[[FloatArray], tuple[FloatArray, FloatArray]]
    ) -> tuple[FloatArray, FloatArray]:
        """Return least sums (B, S) and the paths' sums (B, S, D) under rows (B, D); ``sweep`` finds what is not known.

        Parameters
        ----------
        graph
            Whose paths.
        weights
            (B, D) The rows.
        sweep
            Finds both for rows that are not known.
        """
        known = self._sweeps.setdefault(graph, {})
        fresh = np.array([row for row in weights if row.tobytes() not in known])
        if fresh.size:
            least, sums = sweep(fresh)
            known.update((row.tobytes(), (each, own)) for row, each, own in zip(fresh, least, sums, strict=True))
        found = [known[row.tobytes()] for row in weights]
        return np.array([each[0] for each in found]), np.array([each[1] for each in found])

    def narrow(self, graph: BlockGraph, nodes: IntArray) -> BlockGraph:
        """Return a graph with some nodes only, where these are few."""
        if nodes.size > _FEW * graph.kind.size:
            return graph
        key = graph, nodes.tobytes()
        if key not in self._narrow:
            self._narrow[key] = graph.narrow(nodes)
        return self._narrow[key]

    def note_columns(self, graphs: Sequence[BlockGraph], graph: IntArray, columns: PathBatch) -> None:
        """Take down the paths (C,) in the mixture of a problem, and of which of its graphs they are."""
        for place, number in enumerate(graph.tolist()):
            key = number, columns.payload[place].tobytes()
            if key not in self._columns:
                own = np.array([place])
                self._columns[key] = graphs[number], graph[own], columns.take(own)

    def find_columns(self, graphs: Sequence[BlockGraph]) -> list[tuple[IntArray, PathBatch]]:
        """Return the paths taken down of the graphs of a problem, and of which of these each is."""
        known = [(owner, columns) for graph, owner, columns in self._columns.values() if graphs[owner[0]] is graph]
        if not known:
            return []
        return [(np.concatenate([owner for owner, _ in known]), join_batches([columns for _, columns in known]))]

    def note_rows(self, weights: FloatArray) -> None:
        """Take down the rows (R, D) of a problem that is done, and forget what no other one needs."""
        self._rows.update((row.tobytes(), row) for row in weights)
        lasting = {graph for _, graph in self._graphs.values()}
        self._narrow = {key: graph for key, graph in self._narrow.items() if key[0] in lasting}
        self._columns = {key: known for key, known in self._columns.items() if known[0] in lasting}
        lasting |= set(self._narrow.values())
        self._sweeps = {graph: known for graph, known in self._sweeps.items() if graph in lasting}
        self._searches = {key: search for key, search in self._searches.items() if key[0] in lasting}

    def note_plan(self, nodes: NDArray[np.int32]) -> None:
        """Take down the plan (G, E) of a problem."""
        if not any(np.array_equal(nodes, plan) for plan in self.plans):
            self.plans.append(nodes)

    def find_near(self, multipliers: FloatArray, limits: FloatArray, bound: float) -> FloatArray:
        """Return (N, D) the rows of earlier problems that lie nearest to multipliers (L,) of a problem with a bound."""
        rows = np.array([row for row in self._rows.values() if row[0] == 1.0])
        if not rows.size:
            return np.empty((0, limits.size + 1))
        distance = (np.abs(rows[:, 1:] - multipliers) * limits).sum(axis=1) / bound
        nearest = np.argsort(distance, kind="stable")[:_MOST_ROWS]
        return np.asarray(rows[nearest[distance[nearest] <= _FURTHEST]])
