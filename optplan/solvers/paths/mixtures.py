"""Mixtures: several paths of one graph, each with a fraction.

Between two neighbouring points of the convexified problem the optimum is a mixture. Under one limit several graphs may
have two best paths at the same multiplier; taking the richer one graph after another reaches any consumption in between
with at most one graph split, as in the linear relaxation of the multiple-choice knapsack (Sinha and Zoltners,
Operations Research 27, 1979).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from optplan.solvers.paths.families import FloatArray, IntArray, PathBatch, join_batches
from optplan.solvers.paths.single_dual import LagrangianBound


@dataclass(frozen=True, eq=False)
class Mixture:
    """A path for each graph, except that some graphs follow several with a fraction each.

    Parameters
    ----------
    graph
        (C,) Whose path it is; in increasing order, each graph at least once.
    fraction
        (C,) Above 0; those of a graph add up to 1. At most as many graphs' paths are extra as limits bind.
    columns
        (C,) The paths.
    value
        Sum of the values, weighted by the fractions.
    consumption
        (L,) Sums of the consumptions, weighted by the fractions.
    """

    graph: IntArray
    fraction: FloatArray
    columns: PathBatch
    value: float
    consumption: FloatArray


def mix_columns(graph: IntArray, fraction: FloatArray, columns: PathBatch) -> Mixture:
    """Return a mixture with its totals.

    Parameters
    ----------
    graph, fraction, columns
        (C,) As in :class:`Mixture`.
    """
    value = math.fsum((fraction * columns.value).tolist())
    totals = [math.fsum(column) for column in (fraction[:, None] * columns.consumption).T.tolist()]
    return Mixture(graph, fraction, columns, value, np.array(totals))


def split_graph(paths: PathBatch, graph: int, other: PathBatch, fraction: float) -> Mixture:
    """Return the mixture in which a fraction of one graph follows another path, and all else one path.

    Parameters
    ----------
    paths
        G paths.
    other
        Its second path, as a batch of one.
    fraction
        Share of ``other``; at 0 and 1 there is one path per graph.
    """
    graphs = np.arange(paths.value.size)
    if fraction >= 1.0:
        paths = paths.choose(other, graphs == graph)
    if not 0.0 < fraction < 1.0:
        return mix_columns(graphs, np.ones(graphs.size), paths)
    shares = np.insert(np.ones(graphs.size), graph + 1, fraction)
    shares[graph] = 1.0 - fraction
    order = np.insert(graphs, graph + 1, graphs.size)
    return mix_columns(np.insert(graphs, graph + 1, graph), shares, join_batches([paths, other]).take(order))


def mix_paths(bound: LagrangianBound) -> Mixture:
    """Return the optimal mixed plan behind a Lagrangian bound; its value equals the bound.

    Parameters
    ----------
    bound
        From :func:`~optplan.solvers.paths.single_dual.maximise_bound`.

    Returns
    -------
    Mixture
        Uses the budget up exactly, unless the budget does not bind. Where the bound was not attained the plan keeps the
        budget and need not be optimal.
    """
    under, over = bound.under, bound.over
    if over is None:
        return split_graph(under, 0, under.take(np.zeros(1, dtype=np.intp)), 0.0)
    # All these paths are best at the multiplier, so any choice among them has the same reduced cost. In a bound that
    # was not attained the paths over the budget are best at a lesser multiplier: dearer in no graph, and quicker.
    richer = over.used > under.used
    lean, rich = over.choose(under, richer), under.choose(over, richer)
    steps = rich.used - lean.used
    order = np.argsort(-steps, kind="stable")
    used = np.cumsum(steps[order])
    slack = max(0.0, bound.budget - lean.total_used)
    full = int(np.searchsorted(used, slack, side="right"))
    upgraded = np.zeros(steps.size, dtype=bool)
    upgraded[order[:full]] = True
    paths = lean.choose(rich, upgraded)
    if full == steps.size:
        return split_graph(paths, 0, paths.take(np.zeros(1, dtype=np.intp)), 0.0)
    graph = int(order[full])
    rest = bound.budget - paths.total_used
    fraction = rest / float(steps[graph]) if steps[graph] > 0 else 0.0
    return split_graph(paths, graph, rich.take(np.array([graph])), fraction)
