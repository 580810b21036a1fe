"""The least mean completion time, and the least GPU-hours, of any policy that runs some jobs: both by weak duality.

A job that holds GPUs in whatever way makes, at a price of GPU-hours, no less than the least path through its epochs:
within an epoch time and GPU-hours are linear in the work done at each width, so changes in its midst, waiting, and
starting anew only add. So the sum over jobs of the least path at any price, less the price of the GPU-hours held, is no
more than the sum of completion times. It is concave in the price; the largest is on the frontier of mixed plans of the
instance with the jobs in place of arrivals, and the GPU-hours that a mean needs at least are read off the same one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from optplan.contracts.judgement import PathCosts
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.exact.costs import cost_steps
from optplan.formulations.boa.laws.bands import apply_speeds, find_bands
from optplan.lab.audits.courses import relax
from optplan.lab.audits.records import AuditBound, Measured
from optplan.schema import FloatArray, IntArray
from optplan.solvers.paths.families import PathBatch
from optplan.solvers.paths.frontier import LayeredFrontier, build_frontier
from optplan.solvers.paths.single import BudgetShortfall
from optplan.solvers.paths.switching import LinkedGraphs
from optplan.units import SECONDS_PER_HOUR

#: Sizes of a class that are told apart at most, and at least, and steps of all graphs together that are aimed at.
_MOST_SIZES, _LEAST_SIZES, _STEPS = 64, 9, 3_000_000


class Sizes(NamedTuple):
    """Sizes (S,) relative to the mean of a class, and how many jobs stand for each (S,)."""

    sizes: FloatArray
    weights: FloatArray


def gather_sizes(instance: BoaInstance, by_class: Mapping[str, FloatArray]) -> dict[str, Sizes]:
    """Return by class with jobs the sizes told apart, given those of all its jobs (n,)."""
    options = {name: instance.options(name).widths.size for name in instance.classes if by_class[name].size}
    steps = sum(instance.classes[name].num_epochs * widths for name, widths in options.items())
    most = min(max(_LEAST_SIZES, _STEPS // max(steps, 1)), _MOST_SIZES)
    return {name: _tell_apart(by_class[name], most) for name in options}


def _tell_apart(sizes: FloatArray, most: int) -> Sizes:
    """Return the sizes there are; where these are too many, some by ratio, with jobs between two as shares of both."""
    known, counts = np.unique(sizes, return_counts=True)
    if known.size <= most:
        return Sizes(known, counts.astype(float))
    positive = known[known > 0.0]
    grid = np.geomspace(positive[0], positive[-1], most)
    grid[[0, -1]] = positive[[0, -1]]
    grid = np.union1d(known[:1], grid)
    left = np.clip(np.searchsorted(grid, sizes, side="right") - 1, 0, grid.size - 2)
    share = (sizes - grid[left]) / (grid[left + 1] - grid[left])
    shares = np.bincount(left, 1.0 - share, grid.size) + np.bincount(left + 1, share, grid.size)
    weights = np.asarray(shares, dtype=np.float64)
    kept = weights > 0.0
    return Sizes(np.asarray(grid[kept]), np.asarray(weights[kept]))


@dataclass(frozen=True, eq=False)
class LeastFrontier:
    """What policies can have at best: mean completion time by GPU-hours of all jobs."""

    pauses: bool
    num_jobs: float
    names: tuple[str, ...]  #: Of the classes.
    owner: IntArray  #: (G,) Of which class each graph is: one for each size.
    graphs: LinkedGraphs
    line: LayeredFrontier

    def bound_mean(self, gpu_hours: float) -> AuditBound | None:
        """Bound the mean completion time with so many GPU-hours; None where no policy has so few."""
        point = self.line.at(gpu_hours)
        if isinstance(point, BudgetShortfall):
            return None
        return self._bound("mean_jct_s", gpu_hours, point.more_multiplier)

    def bound_gpu_hours(self, mean_jct_s: float) -> AuditBound | None:
        """Bound the GPU-hours of a mean completion time; None where no policy has so little."""
        point = self.line.for_value(mean_jct_s)
        if point is None:
            return None
        return self._bound("gpu_hours", mean_jct_s, 1.0 / point.less_multiplier)

    def find_least(self, of: Measured) -> AuditBound:
        """Bound what there is least of, whatever the other is."""
        return self._bound(of, 0.0, 0.0)

    def best_gpus(self, price: float) -> dict[str, float]:
        """Return by class the GPUs of its jobs, on average over time, on least paths at a price of GPU-hours."""
        paths = self.graphs.best_paths(np.array([price]))
        hours = np.bincount(self.owner, paths.value) * self.num_jobs / SECONDS_PER_HOUR
        return dict(zip(self.names, (np.bincount(self.owner, paths.used) / hours).tolist(), strict=True))

    def _bound(self, of: Measured, given: float, price: float) -> AuditBound:
        if of == "mean_jct_s":
            each = self.graphs.best_paths(np.array([price])).weigh(np.array([price]))
        else:
            paths: PathBatch = self.graphs.best_paths(np.array([1.0]), value_weight=price)
            each = paths.weigh(np.array([1.0]), price)
        least = np.bincount(self.owner, each).tolist()
        return AuditBound(
            of=of,
            pauses=self.pauses,
            given=given,
            bound=float(sum(least)) - price * given,
            price=price,
            least=dict(zip(self.names, least, strict=True)),
        )


def build_least_frontier(instance: BoaInstance, sizes: Mapping[str, Sizes], *, pauses: bool) -> LeastFrontier:
    """Build the frontier of jobs of some sizes by class, every speed at the most favourable end of its band."""
    jobs = {name: float(each.weights.sum()) for name, each in sizes.items()}
    if not pauses:  # then what a job takes grows with its size, and all are as good as so many mean ones
        sizes = {name: Sizes(s @ w[:, None] / w.sum(), np.array([w.sum()])) for name, (s, w) in sizes.items()}
    relaxed = relax(instance, jobs, pauses=pauses)
    favoured = apply_speeds(relaxed, {name: band.spread(np.ones(1)) for name, band in find_bands(relaxed).items()})
    costs = [_scale(graph, *pair) for graph in cost_steps(favoured) for pair in _shares(sizes[graph.name])]
    graphs = LinkedGraphs.from_costs(costs)
    owner = np.repeat(np.arange(len(sizes)), [each.sizes.size for each in sizes.values()])
    return LeastFrontier(pauses, relaxed.total_rate_per_hour, tuple(sizes), owner, graphs, build_frontier(graphs))


def _shares(sizes: Sizes) -> list[tuple[float, float]]:
    return list(zip(sizes.sizes.tolist(), (sizes.weights / sizes.weights.sum()).tolist(), strict=True))


def _scale(costs: PathCosts, size: float, share: float) -> PathCosts:
    """Return the costs of a share of the jobs, of some size: running takes that much longer, pauses do not."""
    entering = costs.enter_value[:, :1] * share, costs.enter_consumption[:, :, :1] * share
    return replace(
        costs,
        run_value=costs.run_value * (size * share),
        run_consumption=costs.run_consumption * (size * share),
        enter_value=np.broadcast_to(entering[0], costs.enter_value.shape),
        enter_consumption=np.broadcast_to(entering[1], costs.enter_consumption.shape),
    )


def list_favoured(instance: BoaInstance, sizes: Mapping[str, Sizes]) -> tuple[str, ...]:
    """List the classes whose speedups are not exact, so that bounds take the upper ends of their bands."""
    bands = find_bands(relax(instance, {name: float(each.weights.sum()) for name, each in sizes.items()}, pauses=False))
    return tuple(name for name, band in bands.items() if band.up.any())
