"""Layered graphs whose nodes are sizes, as a family for the algorithms of :mod:`optplan.solvers.paths`."""

from __future__ import annotations

import numpy as np

from optplan.solvers.limits import ROUNDING
from optplan.solvers.paths.effort import Effort
from optplan.solvers.paths.families import FloatArray, IntArray, PathBatch, PathSets
from optplan.solvers.paths.held.labels import find_paths
from optplan.solvers.paths.held.layers import HeldLayers
from optplan.solvers.paths.held.sweeps import Cut, Sweep


class HeldGraph(HeldLayers):
    """A graph of :class:`~optplan.solvers.paths.held.layers.HeldLayers`, with its best and its undominated paths."""

    def best_paths(
        self, multipliers: FloatArray, members: IntArray | None = None, *, value_weight: float = 1.0
    ) -> PathBatch:
        """Return a path of least value_weight * value + multiplier * consumption for each multiplier.

        Ties go to staying over growing and shrinking, then to the lowest node and option.

        Parameters
        ----------
        multipliers
            (1,) At least 0; or (P, 1), a row for each asked path.
        members
            (P,) Zeros, one per asked path; one path when None.
        value_weight
            Weight of the value, at least 0.

        Returns
        -------
        PathBatch
            P paths; the payload is (P, J) their options.
        """
        weights = np.broadcast_to(multipliers, (1 if members is None else members.size, 1))[:, 0]
        paths = [Sweep(self, value_weight, weight).best_path() for weight in weights.tolist()]
        return self.follow(np.array(paths, dtype=np.intp).reshape(weights.size, self.num_layers))

    def find_path_sets(self, multipliers: FloatArray, allowance: float, effort: Effort) -> PathSets:
        """Return the undominated paths within ``allowance`` of the least reduced cost.

        Parameters
        ----------
        multipliers
            (1,) Weight of the consumption in the reduced cost.
        allowance
            In units of value.
        effort
            Charged for a pass and for each layer's labels.

        Raises
        ------
        OutOfEffortError
            When a limit of ``effort`` is met.
        """
        effort.charge_pass()
        sweep = Sweep(self, 1.0, float(multipliers[0]))
        found = find_paths(self, (Cut(sweep, sweep.best + allowance + ROUNDING * abs(sweep.best)),), effort)

        def trace(chosen: IntArray) -> PathBatch:
            return self.follow(found.options[chosen])

        return PathSets(np.array([0, found.value.size]), found.value, found.consumption[:, None], trace)
