"""Every multiplier vector ever tried, each a bound on all plans by blocks, and the best multipliers for some blocks.

A *row* is a vector of weights w of value and consumptions, with the least weighted sum m_i(S, w) of each graph's paths
in each block S. Plans within the limits b and of at most a value U have weighted sums of at most w0 U + w . b, so part
of a plan can be given up as soon as any row says that the rest takes it beyond.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from optplan.solvers.limits import most_within
from optplan.solvers.paths.effort import Effort
from optplan.solvers.paths.engine import pass_choices, run_engine, start_engine
from optplan.solvers.paths.families import FloatArray, IntArray
from optplan.solvers.paths.levels.blocks import BlockGraph
from optplan.solvers.paths.levels.memory import Memory

if TYPE_CHECKING:
    pass

#: Numbers by layer that are swept at once, and the fewest rows.
_AT_ONCE = 4_096
_BATCH = 8
#: By how much more than the rounding of the sums a plan has to be beyond a row to be given up, relatively.
_SLACK = 1e-12
#: Rows whose weights differ by less than this fraction of the largest are the same.
_SAME = 1e-9
#: What a unit of a limit is worth at most, as a multiple of the bound by the limit.
_DEAREST = 50.0


class Rows:
    """The rows so far, and the paths by which they were found.

    Parameters
    ----------
    graphs
        The graphs.
    limits
        (L,) What total consumptions may be.
    effort
        Charged for every sweep.
    memory
        Keeps what sweeps find.
    """

    def __init__(self, graphs: Sequence[BlockGraph], limits: FloatArray, effort: Effort, memory: Memory) -> None:
        self.graphs = list(graphs)
        self._memory = memory
        self.most = most_within(limits)
        self.effort = effort
        self.weights = np.empty((0, limits.size + 1))
        #: Least sums (R, 1 + S) by graph and block; where a graph was not swept yet 0, which is always true. The first
        #: is that of any block.
        self.least: list[FloatArray] = [np.empty((0, 1 + graph.num_sets)) for graph in graphs]
        #: Known paths (P, D) by graph and block, each once.
        self.columns: dict[tuple[int, int], FloatArray] = {}
        self._known: dict[tuple[int, int], dict[bytes, FloatArray]] = {}
        #: Linear programs so far.
        self.programs = 0
        self._engine = start_engine(presolve="off", solver="simplex")

    def __len__(self) -> int:
        return len(self.weights)

    def right(self, ceiling: float) -> FloatArray:
        """Return (R,) the weighted sums that plans up to a value have at most."""
        room = self.weights[:, 0] * ceiling + self.weights[:, 1:] @ self.most
        return np.asarray(room * (1.0 + _SLACK))

    def has(self, weights: FloatArray) -> bool:
        """Whether a row is one of those known, but for rounding."""
        return bool((np.abs(self.weights - weights).max(axis=1) < _SAME * weights.max()).any())

    def add(self, weights: FloatArray, swept: Sequence[int] | None = None) -> None:
        """Append rows (B, D), swept for some graphs only, or for all."""
        start = len(self.weights)
        self.weights = np.concatenate([self.weights, weights])
        for number, graph in enumerate(self.graphs):
            new = np.zeros((len(weights), 1 + graph.num_sets))
            self.least[number] = np.concatenate([self.least[number], new])
        for number in range(len(self.graphs)) if swept is None else swept:
            self._sweep(number, np.arange(start, len(self.weights)))

    def narrow(self, graphs: Sequence[BlockGraph]) -> None:
        """Go over to graphs of which some have other nodes: of these nothing is known until they are swept."""
        for number, graph in enumerate(graphs):
            if graph is not self.graphs[number]:
                self.graphs[number] = graph
                self.least[number][:] = 0.0
                for block in range(1, graph.num_sets + 1):
                    self.columns.pop((number, block), None)
                    self._known.pop((number, block), None)

    def complete(self, graphs: Sequence[int] | None = None) -> None:
        """Sweep for some graphs, or for all, what was swept for others only."""
        for number in range(len(self.graphs)) if graphs is None else graphs:
            self._sweep(number, np.flatnonzero(self.least[number][:, 0] == 0.0))

    def _sweep(self, number: int, rows: IntArray) -> None:
        graph = self.graphs[number]
        batch = max(_BATCH, _AT_ONCE // (graph.num_sets * graph.kind.size))
        for first in range(0, rows.size, batch):
            part = rows[first : first + batch]
            least, sums = self._memory.sweep(self.graphs[number], self.weights[part], partial(self._find, number))
            self.least[number][part, 1:] = least
            self.least[number][part, 0] = least.min(axis=1)
            for block in range(least.shape[1]):
                fits = np.isfinite(least[:, block])
                self._keep(number, block + 1, sums[fits, block])

    def _find(self, number: int, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        self.effort.charge_pass()
        return self.graphs[number].sweep(weights)[:2]

    def _keep(self, number: int, block: int, sums: FloatArray) -> None:
        known = self._known.setdefault((number, block), {})
        before = len(known)
        known.update((row.tobytes(), row) for row in sums)
        if len(known) > before:
            self.columns[number, block] = np.array(list(known.values()))

    def find_weights(
        self, blocks: Sequence[tuple[int, int]], sums: FloatArray, ceiling: float
    ) -> tuple[float, FloatArray]:
        """Find the multipliers that bound best what goes on from some sums by paths of some blocks, by those known.

        Parameters
        ----------
        blocks
            Graph and block of each path that is to come.
        sums
            (D,) Value and consumptions so far.
        ceiling
            A value beyond which nothing is of interest.

        Returns
        -------
        bound : float
            What the best mixture of known paths amounts to, or, where they keep no limits, a number beyond the ceiling.
        weights : FloatArray
            (D,) The first is 1.
        """
        self.programs += 1
        known = [self.columns[block] for block in blocks]
        owner = np.repeat(np.arange(len(known)), [len(each) for each in known])
        value, weights = self._mix(owner, np.concatenate(known), self.most - sums[1:], ceiling)
        return float(sums[0]) + value, weights

    def _mix(self, owner: IntArray, costs: FloatArray, room: FloatArray, ceiling: float) -> tuple[float, FloatArray]:
        """Solve the linear program of one mixture per owner within some room; return its value and multipliers."""
        # What exceeds a limit costs so much that it is never worth while, and the program has a solution.
        entries = costs[:, 1:] / self.most
        pass_choices(self._engine, owner, costs[:, 0] / ceiling, entries, room / self.most, dearest=_DEAREST)
        run_engine(self._engine)
        prices = np.maximum(0.0, -np.asarray(self._engine.getSolution().row_dual)[int(owner[-1]) + 1 :])
        value = float(self._engine.getInfo().objective_function_value) * ceiling
        return value, np.append(1.0, prices * ceiling / self.most)
