"""Mixed plans: fractions of two paths of one graph, one path of every other.

Between two neighbouring points of the convexified problem the optimum is a mixture. Several graphs may have two best
paths at the same multiplier; taking the richer one graph after another reaches any consumption in between with at most
one graph split.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optplan.solvers.paths.families import PathBatch
from optplan.solvers.paths.secants import LagrangianBound


@dataclass(frozen=True, eq=False)
class MixedPlan:
    """One path per graph, except that one graph may be split between two.

    Parameters
    ----------
    paths
        G paths; that of ``mixed_graph`` has the share 1 - ``fraction``.
    mixed_graph
        The graph that is split; None when none is.
    other
        The second path of that graph, as a batch of one.
    fraction
        Share of ``other``, between 0 and 1; 0 when no graph is split.
    value, consumption
        Sums, weighted by the shares.
    """

    paths: PathBatch
    mixed_graph: int | None
    other: PathBatch | None
    fraction: float
    value: float
    consumption: float


def split_graph(paths: PathBatch, graph: int, other: PathBatch, fraction: float) -> MixedPlan:
    """Return the plan in which a fraction of one graph follows another path.

    Parameters
    ----------
    paths
        G paths.
    graph
        The graph to split.
    other
        Its second path, as a batch of one.
    fraction
        Share of ``other``; at 0 and 1 the plan has one path per graph.
    """
    if fraction <= 0.0:
        return MixedPlan(paths, None, None, 0.0, paths.total_value, paths.total_used)
    if fraction >= 1.0:
        chosen = np.arange(paths.value.size) == graph
        return split_graph(paths.choose(other, chosen), graph, other, 0.0)
    value = paths.total_value + fraction * float(other.value[0] - paths.value[graph])
    consumption = paths.total_used + fraction * float(other.used[0] - paths.used[graph])
    return MixedPlan(paths, graph, other, fraction, value, consumption)


def mix_paths(bound: LagrangianBound) -> MixedPlan:
    """Return the optimal mixed plan behind a Lagrangian bound; its value equals the bound.

    Parameters
    ----------
    bound
        From :func:`~optplan.solvers.paths.secants.maximise_bound`.

    Returns
    -------
    MixedPlan
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
