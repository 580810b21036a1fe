"""Batches of paths, and the seam between the algorithms and the graphs they run on.

Bounds, frontiers, mixtures and the closing of the gap need three operations of a family of graphs and nothing else;
:class:`PathFamily` names them. :class:`~optplan.solvers.paths.layered.graphs.LayeredGraphs` (switching costs the same
from wherever one comes) is one such family. A family with other transitions, such as growth that costs by both widths
and shrinking that is free, is another class with these three methods. Several budgets make the multiplier a vector:
fold all but one of them into ``value`` for fixed multipliers and search over those outside.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from optplan.solvers.limits import LIMIT_TOLERANCE
from optplan.solvers.limits import ROUNDING as LIMIT_ROUNDING

if TYPE_CHECKING:
    from optplan.solvers.paths.effort import Effort
    from optplan.solvers.paths.skyline import ParetoPaths

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
NodeArray = NDArray[np.int32]

#: A plan whose consumption exceeds the budget by at most this fraction of the budget keeps it.
BUDGET_TOLERANCE = LIMIT_TOLERANCE
#: Two reduced costs that differ by less than this fraction of their scale are the same number.
ROUNDING = LIMIT_ROUNDING
#: Consumption (or value) given up, as a fraction, to end a frontier at a vertex rather than at rounding noise.
END_TOLERANCE = 1e-10
#: A multiplier so large (its inverse: so small) that one criterion decides and the other only breaks exact ties.
PROHIBITIVE = 1e150


@dataclass(frozen=True, eq=False)
class PathBatch:
    """One path each for a sequence of graphs.

    Parameters
    ----------
    value
        (P,) Sum of the values along each path.
    consumption
        (P,) Sum of the consumptions along each path.
    reduced_cost
        (P,) value + multiplier * consumption under the multiplier that the path was asked for.
    nodes
        (P, E) Node in each layer; -1 beyond a graph's last layer.
    """

    value: FloatArray
    consumption: FloatArray
    reduced_cost: FloatArray
    nodes: NodeArray

    @property
    def total_value(self) -> float:
        """Sum of the values, exactly rounded, hence the same in every order of the graphs."""
        return math.fsum(self.value.tolist())

    @property
    def total_consumption(self) -> float:
        """Sum of the consumptions, exactly rounded."""
        return math.fsum(self.consumption.tolist())

    @property
    def total_reduced_cost(self) -> float:
        """Sum of the reduced costs, exactly rounded."""
        return math.fsum(self.reduced_cost.tolist())

    def take(self, positions: IntArray) -> PathBatch:
        """Return the paths at some positions, in that order."""
        return PathBatch(
            self.value[positions], self.consumption[positions], self.reduced_cost[positions], self.nodes[positions]
        )

    def choose(self, other: PathBatch, chosen: NDArray[np.bool_]) -> PathBatch:
        """Return ``other``'s path where ``chosen`` (P,) holds and this batch's path elsewhere."""
        return PathBatch(
            np.where(chosen, other.value, self.value),
            np.where(chosen, other.consumption, self.consumption),
            np.where(chosen, other.reduced_cost, self.reduced_cost),
            np.where(chosen[:, None], other.nodes, self.nodes),
        )


class PathFamily(Protocol):
    """Graphs in each of which one path is to be chosen."""

    @property
    def num_graphs(self) -> int:
        """How many graphs there are."""

    def shortest_paths(self, multiplier: float | FloatArray, members: IntArray | None = None) -> PathBatch:
        """Return a path of least value + multiplier * consumption.

        Parameters
        ----------
        multiplier
            One number, or one per asked graph.
        members
            (P,) Which graph each path is wanted of, repetitions allowed; every graph once when None.
        """

    def pareto_paths(self, multiplier: float, allowance: float, effort: Effort) -> ParetoPaths:
        """Return, per graph, the undominated paths whose reduced cost is within ``allowance`` of the graph's least.

        Parameters
        ----------
        multiplier
            Weight of the consumption in the reduced cost.
        allowance
            In units of value.
        effort
            To be charged; raises when a limit is met.
        """


def find_least_consumption(family: PathFamily) -> PathBatch:
    """Return each graph's path of least consumption; among those (up to rounding) one of least value.

    Parameters
    ----------
    family
        The graphs.

    Returns
    -------
    PathBatch
        ``reduced_cost`` holds the least consumptions themselves.
    """
    strict = family.shortest_paths(PROHIBITIVE)
    # Equal consumptions differ by rounding once they are sums, so ties are settled by a second, finite multiplier:
    # it gives up at most END_TOLERANCE of the consumption. A consumption of exactly zero has no rounding.
    blurred = np.flatnonzero((strict.consumption > 0) & (strict.value > 0))
    paths = strict
    if blurred.size:
        multipliers = strict.value[blurred] / (END_TOLERANCE * strict.consumption[blurred])
        paths = _replace(strict, blurred, family.shortest_paths(multipliers, blurred))
    return PathBatch(paths.value, paths.consumption, strict.consumption, paths.nodes)


def find_least_value(family: PathFamily) -> PathBatch:
    """Return each graph's path of least value; among those (up to rounding) one of least consumption.

    Parameters
    ----------
    family
        The graphs.

    Returns
    -------
    PathBatch
        ``reduced_cost`` holds the least values themselves.
    """
    strict = family.shortest_paths(1.0 / PROHIBITIVE)
    blurred = np.flatnonzero((strict.consumption > 0) & (strict.value > 0))
    paths = strict
    if blurred.size:
        multipliers = ROUNDING * strict.value[blurred] / strict.consumption[blurred]
        paths = _replace(strict, blurred, family.shortest_paths(multipliers, blurred))
    return PathBatch(paths.value, paths.consumption, strict.value, paths.nodes)


def join_batches(batches: Sequence[PathBatch]) -> PathBatch:
    """Return the paths of several batches, of graphs of one family, one after another."""
    depth = max(batch.nodes.shape[1] for batch in batches)
    nodes = [np.pad(batch.nodes, ((0, 0), (0, depth - batch.nodes.shape[1])), constant_values=-1) for batch in batches]
    return PathBatch(
        np.concatenate([batch.value for batch in batches]),
        np.concatenate([batch.consumption for batch in batches]),
        np.concatenate([batch.reduced_cost for batch in batches]),
        np.concatenate(nodes),
    )


def _replace(batch: PathBatch, positions: IntArray, other: PathBatch) -> PathBatch:
    """Return ``batch`` with the paths at ``positions`` replaced by those of ``other``."""
    source = np.arange(batch.value.size)
    source[positions] = batch.value.size + np.arange(positions.size)
    return join_batches([batch, other]).take(source)
