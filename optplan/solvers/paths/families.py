"""The seam between the algorithms of this package and what they choose from.

The bounds need of each graph only its best path under given multipliers, so anything that can answer that question may
be linked: layered graphs (:class:`~optplan.solvers.paths.switching.graphs.LinkedGraphs`), choices in closed form, and
so on. A *column* is one path of one graph: its value, its consumption of each limit, and a payload by which its family
knows it again. The algorithms look at the numbers only and hand the payload back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from optplan.solvers.limits import is_within
from optplan.solvers.paths.batches import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class ColumnBatch:
    """Paths of some graphs, one after another.

    Parameters
    ----------
    value
        (P,) Value of each path, finite and at least 0.
    consumption
        (P, L) Consumption of each limit, finite and at least 0.
    payload
        (P, ...) What the family needs to know the paths again, such as (P, E) the node in each layer.
    """

    value: FloatArray
    consumption: FloatArray
    payload: NDArray[Any]

    @property
    def total_value(self) -> float:
        """Sum of the values, exactly rounded, hence the same in every order of the graphs."""
        return math.fsum(self.value.tolist())

    @property
    def total_consumption(self) -> FloatArray:
        """(L,) Sums of the consumptions, exactly rounded."""
        return np.array([math.fsum(column) for column in self.consumption.T.tolist()])

    def weigh(self, multipliers: FloatArray, value_weight: float = 1.0) -> FloatArray:
        """Return (P,) value_weight * value + multipliers . consumption."""
        return np.asarray(value_weight * self.value + self.consumption @ multipliers)

    def take(self, positions: IntArray | NDArray[np.bool_]) -> ColumnBatch:
        """Return the paths at some positions, in that order."""
        return ColumnBatch(self.value[positions], self.consumption[positions], self.payload[positions])


class LinkedFamily(Protocol):
    """Graphs in each of which one path is to be chosen, linked by limits on the total consumptions.

    Notes
    -----
    All numbers are finite and at least 0; every graph has at least one path. The same multipliers always give the same
    paths: ties are settled by the data alone.
    """

    @property
    def num_graphs(self) -> int:
        """How many graphs there are: G, at least 1."""

    @property
    def limits(self) -> FloatArray:
        """(L,) For each limit the most that the total consumption may be: finite and above 0."""

    def best_paths(self, multipliers: FloatArray, *, value_weight: float = 1.0) -> ColumnBatch:
        """Return for each graph a path of least value_weight * value + multipliers . consumption.

        Parameters
        ----------
        multipliers
            (L,) Weights of the consumptions, at least 0.
        value_weight
            Weight of the value, at least 0; with 0 only consumption counts.

        Returns
        -------
        ColumnBatch
            G paths, in the order of the graphs.
        """


def join_columns(batches: Sequence[ColumnBatch]) -> ColumnBatch:
    """Return the columns of several batches of one family, one after another."""
    return ColumnBatch(
        np.concatenate([batch.value for batch in batches]),
        np.concatenate([batch.consumption for batch in batches]),
        np.concatenate([batch.payload for batch in batches]),
    )


def keep_limits(consumption: FloatArray, limits: FloatArray) -> bool:
    """Return whether total consumptions (L,) keep the limits, as :mod:`optplan.solvers.limits` defines it."""
    return is_within(consumption, limits)
