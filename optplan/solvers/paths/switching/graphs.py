"""Layered graphs linked by several limits, as a family for the algorithms of :mod:`optplan.solvers.paths`."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from optplan.solvers.limits import ROUNDING
from optplan.solvers.paths.effort import Effort
from optplan.solvers.paths.families import FloatArray, IntArray, NodeArray, PathBatch, PathSets
from optplan.solvers.paths.kernel import PathSearch
from optplan.solvers.paths.switching.layers import LinkedLayers

#: Steps of label setting between two looks at the limits: about 1 ms where the kernel is compiled.
_WORK = 100_000


class LinkedGraphs(LinkedLayers):
    """Graphs as :class:`~optplan.solvers.paths.switching.layers.LinkedLayers`: their best and undominated paths."""

    def best_paths(
        self, multipliers: FloatArray, members: IntArray | None = None, *, value_weight: float = 1.0
    ) -> PathBatch:
        """Return paths of least value_weight * value + multipliers . consumption; O(layers * F * K) each.

        Ties go to staying over entering, then to the lowest group left, then to the lowest node of the group; so they
        do not depend on which other graphs are asked along.

        Parameters
        ----------
        multipliers
            (L,) Weights of the consumptions, at least 0; or (P, L), a row for each asked path.
        members
            (P,) Which graph each path is wanted of, repetitions allowed; every graph once when None.
        value_weight
            Weight of the value, at least 0.

        Returns
        -------
        PathBatch
            P paths; the payload is (P, E) the node in each layer, -1 beyond the last.
        """
        asked = np.arange(self.num_graphs) if members is None else members
        positions = self.position_of[asked]
        weights = np.ascontiguousarray(np.broadcast_to(multipliers, (asked.size, self.limits.size)))
        depth = int(self.lengths[positions].max(initial=1))
        nodes = np.zeros((asked.size, depth), dtype=np.int32)
        self.costs.find_best_nodes(positions, weights, value_weight, nodes)
        return self.follow(asked, nodes)

    def find_costs_through(self, multipliers: FloatArray) -> FloatArray:
        """Return (N, K) the least value + multipliers . consumption of a path through each node; infinite where none.

        Parameters
        ----------
        multipliers
            (L,) Weights of the consumptions.
        """
        through = np.empty(self.run_value.shape)
        self.costs.find_costs_through(np.ascontiguousarray(multipliers), through)
        return through

    def find_path_sets(self, multipliers: FloatArray, allowance: float, effort: Effort) -> PathSets:
        """Return every graph's undominated paths within the allowance of its least reduced cost.

        Parameters
        ----------
        multipliers
            (L,) Weights of the consumptions.
        allowance
            In units of value.
        effort
            Charged for a pass and for labels.

        Returns
        -------
        PathSets
            At least one path per graph.

        Raises
        ------
        OutOfEffortError
            When a limit of ``effort`` is met.
        """
        effort.charge_pass()
        weights = np.ascontiguousarray(multipliers)
        search = PathSearch(
            self.costs, self.position_of, weights, self._find_completion_bounds(weights), allowance, ROUNDING
        )
        done, kept = False, 0
        while not done:
            done = search.run(_WORK)
            effort.charge_labels(search.num_kept - kept, search.num_kept)
            kept = search.num_kept
        found = np.asarray(search.ends)[: search.num_ends]
        label = np.asarray(search.ends_label)[: search.num_ends]

        def trace(chosen: IntArray) -> PathBatch:
            nodes: NodeArray = np.zeros((self.num_graphs, self.num_layers), dtype=np.int32)
            for graph, end in enumerate(label[chosen].tolist()):
                search.trace(end, graph, nodes[graph])
            return self.follow(np.arange(self.num_graphs), nodes)

        return PathSets(np.array(search.ends_of), found[:, 1].copy(), found[:, 2:].copy(), trace)

    def _find_completion_bounds(self, multipliers: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the least costs to the end (N, K) and (N, F); kept, as allowances grow at the same multipliers."""
        if self._completion_bounds and np.array_equal(self._completion_bounds[0][0], multipliers):
            return self._completion_bounds[0][1]
        completion = np.empty(self.run_value.shape), np.empty((len(self.run_value), self.num_groups))
        self.costs.find_completion_bounds(multipliers, *completion)
        self._completion_bounds[:] = [(multipliers.copy(), completion)]
        return completion

    @cached_property
    def _completion_bounds(self) -> list[tuple[FloatArray, tuple[FloatArray, FloatArray]]]:
        return []
