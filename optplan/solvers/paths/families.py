"""The seam between the algorithms of this package and what they choose from: who answers pricing problems.

The bounds need of each graph only its best path under given multipliers, so anything that can answer that question is a
:class:`GraphFamily`: layered graphs (:class:`~optplan.solvers.paths.switching.LinkedGraphs`), sizes held
(:class:`~optplan.solvers.paths.held_graphs.HeldGraph`), and so on. With several limits it is a :class:`PathFamily`; the
closing of a gap asks for all paths within an allowance, of a :class:`ListedFamily`. A path comes with its value, its
consumption of each limit, and a payload by which its family knows it again; the algorithms look at the numbers only and
hand the payload back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from optplan.solvers.limits import ROUNDING

if TYPE_CHECKING:
    from optplan.solvers.paths.search import Effort

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
NodeArray = NDArray[np.int32]

#: Consumption (or value) given up, as a fraction, to end a frontier at a vertex rather than at rounding noise.
END_TOLERANCE = 1e-10
#: A multiplier so large (its inverse: so small) that one criterion decides and the other only breaks exact ties.
PROHIBITIVE = 1e150


@dataclass(frozen=True, eq=False)
class PathBatch:
    """Paths of some graphs, one after another."""

    #: (P,) Value of each path, finite and at least 0.
    value: FloatArray
    #: (P, L) Consumption of each limit, finite and at least 0.
    consumption: FloatArray
    #: (P, ...) What the family needs to know the paths again, such as (P, E) the node in each layer.
    payload: NDArray[Any]

    @property
    def used(self) -> FloatArray:
        """(P,) Consumption of the first limit, for algorithms that know one only."""
        return self.consumption[:, 0]

    @cached_property
    def total_value(self) -> float:
        """Sum of the values, exactly rounded, hence the same in every order of the graphs."""
        return math.fsum(self.value.tolist())

    @cached_property
    def total_consumption(self) -> FloatArray:
        """(L,) Sums of the consumptions, exactly rounded."""
        return np.array([math.fsum(column) for column in self.consumption.T.tolist()])

    @cached_property
    def total_used(self) -> float:
        """Sum of the consumptions of the first limit, exactly rounded."""
        return math.fsum(self.used.tolist())

    def weigh(self, multipliers: FloatArray, value_weight: float = 1.0) -> FloatArray:
        """Return (P,) value_weight * value + multipliers . consumption."""
        return np.asarray(value_weight * self.value + self.consumption @ multipliers)

    def take(self, positions: IntArray | NDArray[np.bool_]) -> PathBatch:
        """Return the paths at some positions, in that order."""
        return PathBatch(self.value[positions], self.consumption[positions], self.payload[positions])

    def choose(self, other: PathBatch, chosen: NDArray[np.bool_]) -> PathBatch:
        """Return ``other``'s path where ``chosen`` (P,) holds and this batch's path elsewhere."""
        return PathBatch(
            np.where(chosen, other.value, self.value),
            np.where(chosen[:, None], other.consumption, self.consumption),
            np.where(chosen[:, None], other.payload, self.payload),
        )


@dataclass(frozen=True, eq=False)
class PathSets:
    """Undominated paths of every graph within an allowance, graph after graph."""

    #: (G + 1,) Where each graph's paths begin.
    starts: IntArray
    #: (M,) Of each path.
    value: FloatArray
    #: (M, L) Of each path. With one limit, a graph's paths are by increasing consumption and decreasing value.
    consumption: FloatArray
    #: Returns the chosen paths themselves, given (G,) one position in 0..M-1 per graph.
    trace: Callable[[IntArray], PathBatch]

    def add_up(self, chosen: IntArray) -> tuple[float, FloatArray]:
        """Return total value and consumptions (L,) of some paths (P,), exactly rounded."""
        paths = PathBatch(self.value[chosen], self.consumption[chosen], chosen)
        return paths.total_value, paths.total_consumption

    @property
    def used(self) -> FloatArray:
        """(M,) Consumption of the first limit, for algorithms that know one only."""
        return self.consumption[:, 0]


class GraphFamily(Protocol):
    """Graphs in each of which one path is to be chosen.

    All numbers are finite and at least 0; every graph has at least one path. The same multipliers always give the same
    paths: ties are settled by the data alone.
    """

    @property
    def num_graphs(self) -> int:
        """How many graphs there are: G, at least 1."""

    def best_paths(
        self, multipliers: FloatArray, members: IntArray | None = None, *, value_weight: float = 1.0
    ) -> PathBatch:
        """Return paths of least value_weight * value + multipliers . consumption; all weights are at least 0.

        ``multipliers`` are (L,), or (P, L) for the paths of ``members`` (P,): graphs, repetitions allowed; every graph
        once, in their order, when None.
        """


class PathFamily(GraphFamily, Protocol):
    """Graphs that are linked by limits on the total consumptions."""

    @property
    def limits(self) -> FloatArray:
        """(L,) For each limit the most that the total consumption may be: finite and above 0."""


class ListedFamily(GraphFamily, Protocol):
    """Graphs whose paths can be listed within an allowance, too."""

    def find_path_sets(
        self, multipliers: FloatArray, allowance: float, effort: Effort, members: IntArray | None = None
    ) -> PathSets:
        """Return every graph's undominated paths whose reduced cost is within ``allowance`` of the graph's least.

        ``multipliers`` (L,) weigh the consumptions in the reduced cost; the allowance is in units of value. Of
        ``members`` (P,) only where they are given.
        """

    def keep(self, graph: int, path: PathBatch) -> Self:
        """Return the family with one path of a graph only."""


def find_least_consumption(family: GraphFamily) -> PathBatch:
    """Return each graph's path of least consumption of the one limit; of those, up to rounding, one of least value."""
    strict = family.best_paths(np.array([PROHIBITIVE]))
    # Equal consumptions differ by rounding once they are sums, so ties are settled by a second, finite multiplier:
    # it gives up at most END_TOLERANCE of the consumption. A consumption of exactly zero has no rounding.
    return _settle_ties(family, strict, 1.0 / END_TOLERANCE)


def find_least_value(family: GraphFamily) -> tuple[PathBatch, float]:
    """Return each graph's path of least value, among those (up to rounding) one of least consumption; and the least.

    The least is the sum of the least values themselves.
    """
    strict = family.best_paths(np.array([1.0 / PROHIBITIVE]))
    return _settle_ties(family, strict, ROUNDING), strict.total_value


def _settle_ties(family: GraphFamily, strict: PathBatch, share: float) -> PathBatch:
    """Return the paths that are best where all of a strict one's consumption counts a share of its value."""
    blurred = np.flatnonzero((strict.used > 0) & (strict.value > 0))
    if not blurred.size:
        return strict
    multipliers, source = share * strict.value[blurred] / strict.used[blurred], np.arange(strict.value.size)
    settled = family.best_paths(multipliers[:, None], blurred)
    if blurred.size == source.size:
        return settled
    source[blurred] = source.size + np.arange(blurred.size)
    return join_batches([strict, settled]).take(source)


def join_batches(batches: Sequence[PathBatch]) -> PathBatch:
    """Return the paths of several batches of one family, one after another."""
    payloads = [batch.payload for batch in batches]
    depth = max(payload.shape[1] for payload in payloads)
    if any(payload.shape[1] < depth for payload in payloads):
        payloads = [np.pad(each, ((0, 0), (0, depth - each.shape[1])), constant_values=-1) for each in payloads]
    return PathBatch(
        np.concatenate([batch.value for batch in batches]),
        np.concatenate([batch.consumption for batch in batches]),
        np.concatenate(payloads),
    )


@dataclass(frozen=True, eq=False)
class Mixture:
    """A path for each graph, except that some graphs follow several with a fraction each."""

    #: (C,) Whose path it is; in increasing order, each graph at least once.
    graph: IntArray
    #: (C,) Above 0; those of a graph add up to 1. At most as many graphs' paths are extra as limits bind.
    fraction: FloatArray
    #: (C,) The paths.
    columns: PathBatch
    #: Sum of the values, weighted by the fractions.
    value: float
    #: (L,) Sums of the consumptions, weighted by the fractions.
    consumption: FloatArray


def mix_columns(graph: IntArray, fraction: FloatArray, columns: PathBatch) -> Mixture:
    """Return a mixture (C,), as in :class:`Mixture`, with its totals."""
    value = math.fsum((fraction * columns.value).tolist())
    totals = [math.fsum(column) for column in (fraction[:, None] * columns.consumption).T.tolist()]
    return Mixture(graph, fraction, columns, value, np.array(totals))


def split_graph(paths: PathBatch, graph: int, other: PathBatch, fraction: float) -> Mixture:
    """Return the mixture in which a fraction of one graph follows another path, and all else one path.

    ``paths`` are of G graphs, ``other`` is a batch of one; at fractions of 0 and 1 there is one path per graph.
    """
    graphs = np.arange(paths.value.size)
    if fraction >= 1.0:
        paths = paths.choose(other, graphs == graph)
    if not 0.0 < fraction < 1.0:
        return mix_columns(graphs, np.ones(graphs.size), paths)
    order = np.concatenate([graphs[: graph + 1], [graphs.size], graphs[graph + 1 :]])
    shares = np.ones(order.size)
    shares[graph : graph + 2] = 1.0 - fraction, fraction
    owners = np.where(order == graphs.size, graph, order)
    return mix_columns(owners, shares, join_batches([paths, other]).take(order))
