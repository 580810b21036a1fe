"""The whole trade-off between budget and value of the convexified problem.

Every graph's lower convex hull of (consumption, value) comes from recursive secants: the multiplier at which two
neighbouring points tie finds a point below their chord, or proves that there is none. All chords of one depth, of all
graphs, are one batch. One sort of all hull segments by slope merges the graphs, and every budget and every inverse
query is a look-up.

The recursion is that of Eisner and Severance, "Mathematical techniques for efficient record segmentation in large
shared databases", Journal of the ACM 23, 1976; the merge is the Minkowski sum of convex curves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optplan.errors import UsageError
from optplan.solvers.limits import LIMIT_TOLERANCE, ROUNDING, is_within
from optplan.solvers.paths.families import (
    FloatArray,
    GraphFamily,
    IntArray,
    Mixture,
    PathBatch,
    find_least_consumption,
    find_least_value,
    join_batches,
    split_graph,
)
from optplan.solvers.paths.single import BudgetShortfall


@dataclass(frozen=True, eq=False)
class LayeredPoint:
    """The optimum of the convexified problem at one budget."""

    #: The budget; at the far end the consumption of the plan of least value.
    budget: float
    #: The optimum, which is also the Lagrangian bound for any multiplier between the two.
    value: float
    #: Value lost per unit when the budget shrinks, gained when it grows; +inf where it cannot shrink, 0 where growth
    #: gains nothing. They differ at breakpoints only.
    less_multiplier: float
    more_multiplier: float
    #: How many segments of the frontier lie at lesser budgets.
    segment: int
    #: The graph that is split between its path and the next; None at breakpoints.
    mixed_graph: int | None
    #: Share of the next path.
    fraction: float


@dataclass(frozen=True, eq=False)
class LayeredFrontier:
    """Optimum of the convexified problem as a function of the budget."""

    #: (S + 1,) Breakpoints; the one increases, the other decreases, convex.
    consumption: FloatArray
    value: FloatArray
    #: (S,) Minus the slope of each segment, not increasing.
    multiplier: FloatArray
    #: (S,) The graph whose path changes along each segment.
    owner: IntArray
    #: The hull paths of all graphs, each graph's by increasing consumption.
    paths: PathBatch
    #: (G + 1,) Where each graph's hull paths begin.
    starts: IntArray

    def at(self, budget: float) -> LayeredPoint | BudgetShortfall:
        """Return the optimum at a budget, the last breakpoint's beyond it, or the proof that no plan keeps it."""
        if np.isnan(budget):
            raise UsageError("the budget is not a number")
        if not is_within(float(self.consumption[0]), budget):
            return BudgetShortfall(budget, self.paths.take(self.starts[:-1]))
        segment = int(np.searchsorted(self.consumption, budget * (1.0 + ROUNDING), side="right")) - 1
        segment = max(0, segment)
        rest = budget - float(self.consumption[segment])
        return self._locate(segment, rest)

    def for_value(self, value: float) -> LayeredPoint | None:
        """Return the least budget whose optimum is no greater than a value; None when nothing reaches it."""
        if np.isnan(value):
            raise UsageError("the value is not a number")
        last = float(self.value[-1])
        if value < last - LIMIT_TOLERANCE * abs(last):
            return None
        # Values decrease, so from behind they are in order for the bisection.
        segment = self.value.size - int(np.searchsorted(self.value[::-1], value * (1.0 - ROUNDING))) - 1
        if segment < 0:
            return self._locate(0, 0.0)
        if segment >= self.multiplier.size:
            return self._locate(segment, 0.0)
        return self._locate(segment, (float(self.value[segment]) - value) / float(self.multiplier[segment]))

    def plan_at(self, point: LayeredPoint) -> Mixture:
        """Return the paths of a point of this frontier."""
        position = self.starts[:-1] + np.bincount(self.owner[: point.segment], minlength=self.starts.size - 1)
        paths = self.paths.take(position)
        graph = 0 if point.mixed_graph is None else point.mixed_graph
        other = position[graph] + (0 if point.mixed_graph is None else 1)
        return split_graph(paths, graph, self.paths.take(np.array([other])), point.fraction)

    def _locate(self, segment: int, rest: float) -> LayeredPoint:
        """Return the point that lies ``rest`` of consumption into a segment."""
        base = float(self.consumption[segment])
        less = float(self.multiplier[segment - 1]) if segment > 0 else np.inf
        if segment == self.multiplier.size:
            return LayeredPoint(base, float(self.value[segment]), less, 0.0, segment, None, 0.0)
        more = float(self.multiplier[segment])
        value = float(self.value[segment])
        if rest <= ROUNDING * base:
            return LayeredPoint(base, value, less, more, segment, None, 0.0)
        fraction = rest / float(self.consumption[segment + 1] - self.consumption[segment])
        return LayeredPoint(
            base + rest, value - more * rest, more, more, segment, int(self.owner[segment]), min(1.0, fraction)
        )


def build_frontier(family: GraphFamily) -> LayeredFrontier:
    """Return the optimum of the convexified problem for all budgets from the least consumption on."""
    return merge_hulls(*_find_hulls(family))


def merge_hulls(paths: PathBatch, owner: IntArray) -> LayeredFrontier:
    """Return the optimum for all budgets of graphs whose hulls, by ``owner`` (V,) and consumption, are known."""
    paths, owner = _straighten(paths, owner)
    starts = np.searchsorted(owner, np.arange(int(owner[-1]) + 2))
    inner = np.flatnonzero(owner[1:] == owner[:-1])
    step, drop = _measure_steps(paths, inner)
    order = np.argsort(-drop / step, kind="stable")
    first = paths.take(starts[:-1])
    return LayeredFrontier(
        consumption=first.total_used + np.concatenate([[0.0], np.cumsum(step[order])]),
        value=first.total_value - np.concatenate([[0.0], np.cumsum(drop[order])]),
        multiplier=(drop / step)[order],
        owner=owner[inner[order]],
        paths=paths,
        starts=starts,
    )


def _measure_steps(paths: PathBatch, left: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return how much consumption rises and value drops from the given paths to the ones after them."""
    return paths.used[left + 1] - paths.used[left], paths.value[left] - paths.value[left + 1]


def _find_hulls(family: GraphFamily) -> tuple[PathBatch, IntArray]:
    """Return the hull paths of all graphs, by graph and consumption, and their graphs."""
    lean, (cheap, _) = find_least_consumption(family), find_least_value(family)
    owner = np.arange(family.num_graphs)
    spans = (cheap.used > lean.used) & (cheap.value < lean.value)
    lean = lean.choose(cheap, ~spans & (cheap.value < lean.value))
    left = np.flatnonzero(spans)
    right = owner.size + np.arange(left.size)
    known = join_batches([lean, cheap.take(left)])
    owner = np.concatenate([owner, left])
    while left.size:
        rise = known.used[right] - known.used[left]
        multiplier = (known.value[left] - known.value[right]) / rise
        chord = known.value[left] + multiplier * known.used[left]
        found = family.best_paths(multiplier[:, None], owner[left])
        between = (found.used > known.used[left]) & (found.value > known.value[right])
        between &= (found.used < known.used[right]) & (found.value < known.value[left])
        new = np.flatnonzero(between & (found.value + multiplier * found.used < chord * (1.0 - ROUNDING)))
        middle = owner.size + np.arange(new.size)
        owner = np.concatenate([owner, owner[left[new]]])
        known = join_batches([known, found.take(new)])
        left, right = np.concatenate([left[new], middle]), np.concatenate([middle, right[new]])
    order = np.lexsort((known.used, owner))
    return known.take(order), owner[order]


def _straighten(paths: PathBatch, owner: IntArray) -> tuple[PathBatch, IntArray]:
    """Drop points that rounding put on or above the chord of their neighbours."""
    while True:
        inner = np.flatnonzero(owner[1:] == owner[:-1])
        step, drop = _measure_steps(paths, inner)
        slope = drop / step
        adjacent = inner[1:] == inner[:-1] + 1
        flat = inner[1:][adjacent & (slope[1:] >= slope[:-1] * (1.0 - ROUNDING))]
        if not flat.size:
            return paths, owner
        kept = np.setdiff1d(np.arange(owner.size), flat, assume_unique=True)
        paths, owner = paths.take(kept), owner[kept]
