"""Layered graphs linked by several limits, as a family for the algorithms of :mod:`optplan.solvers.paths`."""

from __future__ import annotations

import numpy as np

from optplan.solvers.paths.effort import Effort
from optplan.solvers.paths.families import FloatArray, IntArray, PathBatch, PathSets
from optplan.solvers.paths.switching.labels import find_path_sets
from optplan.solvers.paths.switching.layers import LinkedLayers
from optplan.solvers.paths.switching.sweeps import find_best_nodes


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
        return self.follow(asked, find_best_nodes(self, members, multipliers, value_weight))

    def find_path_sets(self, multipliers: FloatArray, allowance: float, effort: Effort) -> PathSets:
        """Return every graph's undominated paths within the allowance of its least reduced cost.

        Parameters
        ----------
        multipliers
            (L,) Weights of the consumptions.
        allowance
            In units of value.
        effort
            Charged for a pass and for each stage's labels.

        Returns
        -------
        PathSets
            At least one path per graph. Of several limits, very large sets may hold dominated paths, too.

        Raises
        ------
        OutOfEffortError
            When a limit of ``effort`` is met.
        """
        return find_path_sets(self, multipliers, allowance, effort)
