"""Closing a gap by division: what is open of it, the incumbent, and where a better one is looked for.

Subproblems (:mod:`~optplan.solvers.paths.branching`) are divided by the split that raises the bound most, the one of
least bound first. Those with little left between their bound and the incumbent are enumerated instead.
"""

from __future__ import annotations

import heapq
import math
from abc import abstractmethod

import numpy as np

from optplan.solvers.limits import ROUNDING
from optplan.solvers.paths.bounds import LinkedBound
from optplan.solvers.paths.branching import (
    Region,
    Side,
    Subproblem,
    find_splits,
    fix_largest,
    list_sides,
    solve_subproblem,
)
from optplan.solvers.paths.effort import Effort
from optplan.solvers.paths.families import FloatArray, IntArray, PathBatch, keep_limits
from optplan.solvers.paths.gap import GapClosing, relative_gap
from optplan.solvers.paths.incumbents import KnownPaths, choose_paths, find_nearest
from optplan.solvers.paths.switching.graphs import LinkedGraphs
from optplan.solvers.paths.switching.trails import Trails

#: Subproblems are enumerated within this fraction of the incumbent's value at first.
_NEAR = 6e-3
#: Splits of a subproblem that are tried, to take the best, for so many subproblems; the first splits matter most.
_MOST_SPLITS = 4
_TRIED = 50
#: After so many subproblems an incumbent is looked for: by fixing at most so many paths in turn, and among all paths
#: known when they have grown by a factor.
_RHYTHM = 10
_DEPTH = 20
_REGROWN = 1.15


class DivisionClosing(GapClosing):
    """The state of closing one gap by division: incumbent, open subproblems, work.

    Parameters
    ----------
    graphs
        The graphs and their limits.
    lagrangian
        Their bound, and the paths that attain it.
    gap
        Relative gap at which to stop.
    effort
        Limits, and who listens.
    """

    def __init__(self, graphs: LinkedGraphs, lagrangian: LinkedBound, gap: float, effort: Effort) -> None:
        linked = float(lagrangian.multipliers @ lagrangian.limits)
        rounding = ROUNDING * (lagrangian.bound + 2.0 * linked)
        super().__init__(lagrangian.bound, lagrangian.multipliers, rounding, gap, effort)
        self.graphs = graphs
        self.lagrangian = lagrangian
        #: The graphs that are branched on, where these are not the given ones.
        self.trails: Trails | None = None
        self.incumbent: PathBatch | None = None
        self.open: list[tuple[float, int, Subproblem]] = []
        #: The least bound of the subproblems that were given up for it; +inf where none was.
        self.pruned = math.inf
        self.branches = self.started = 0
        #: All choices, divided as far as the search came; None before it began.
        self.region: Region | None = None
        self._near = _NEAR
        self._known = KnownPaths(lagrangian.graph, lagrangian.columns)

    @abstractmethod
    def _enumerate(self, graphs: LinkedGraphs, multipliers: FloatArray, allowance: float, most_value: float) -> bool:
        """Find the best plan of at most a value; return whether all such plans were covered within the quick limits."""

    @property
    def value(self) -> float:
        """The incumbent's value; +inf without one."""
        return math.inf if self.incumbent is None else self.incumbent.total_value

    @property
    def divided(self) -> float:
        """What the division proves so far; -inf without one."""
        if self.region is None or not self.branches:
            return -math.inf
        return min(self.pruned, self.open[0][0] if self.open else math.inf)

    @property
    def cutoff(self) -> float:
        """From here on a bound is as good as the incumbent."""
        return self.value * (1.0 - self.gap) - self.rounding if self.incumbent is not None else math.inf

    def _start(self, graphs: LinkedGraphs) -> None:
        """Open the first subproblem, and look for an incumbent below it."""
        self._push(graphs, self._known.joined)
        if self.open:
            self._dive(self.open[0][2])

    def _search(self, max_branches: int) -> str | None:
        """Branch until the gap is closed; return what limit ended it, if any."""
        while self.open and not self.closed:
            if self.branches >= max_branches:
                return "branches"
            problem = self.open[0][2]
            if problem.bound >= self.cutoff:
                break
            # It stays among the open ones until all is known about its sides, lest the clock ends it half-way.
            if not self._settle(problem):
                self._branch(problem)
            self.report("branches")
        return None

    def _settle(self, problem: Subproblem) -> bool:
        """Close a subproblem without splitting it where that is quick; return whether it was."""
        if problem.is_pure:
            self._offer(problem.plan)
            self._close(problem.bound)
            return True
        allowance = self.value - problem.bound + self.rounding
        if self.incumbent is None or allowance > self._near * self.value:
            return False
        done = self._enumerate(problem.graphs, problem.multipliers, allowance, self.value + self.rounding)
        if done:
            problem.region.listed = True
            self._close(self.value)
            self._near = max(self._near, 1.5 * allowance / self.value)
        else:
            self._near = 0.7 * allowance / self.value
        return done

    def _branch(self, problem: Subproblem) -> None:
        """Replace the first open subproblem by the two sides of the split that raises the bound most."""
        best_score, best = -math.inf, []
        for split in find_splits(problem, self.trails)[: _MOST_SPLITS if self.branches - self.started < _TRIED else 1]:
            found = [self._solve(side, problem.bound) for side in list_sides(problem, split)]
            # What reaches the cutoff gains no more by being far above it.
            ceiling = min(self.cutoff, 2.0 * problem.bound)
            gains = [max(min(bound, ceiling) - problem.bound, self.rounding) for bound, _, _ in found]
            if gains[0] * gains[1] > best_score:
                best_score, best = gains[0] * gains[1], found
                problem.region.split, problem.region.parts = split, (found[0][1], found[1][1])
        if not best:  # a mixture that no layer divides is pure but for rounding
            self._offer(problem.plan)
            self._close(problem.bound)
            return
        heapq.heappop(self.open)
        self.branches += 1
        for number, (bound, _, side) in enumerate(best):
            if side is None:
                self.pruned = min(self.pruned, bound)
            else:
                heapq.heappush(self.open, (bound, 2 * self.branches + number, side))
        if self.branches % _RHYTHM == 0 and self.open:
            self._dive(self.open[0][2])

    def _solve(self, side: Side, least: float) -> tuple[float, Region, Subproblem | None]:
        """Return a side's bound, at least that of the whole, and the subproblem unless it is given up."""
        graphs, known = side
        bound, region, problem = solve_subproblem(graphs, self.lagrangian.limits, known, self.cutoff, self.effort)
        if problem is not None:
            fresh = np.arange(known[0].size, problem.graph.size)
            self._known.add(problem.graph[fresh], problem.columns.take(fresh))
        return max(bound, least), region, problem

    def _dive(self, problem: Subproblem) -> None:
        """Look for an incumbent by fixing one path after another, and among all paths known."""
        found: Subproblem | None = problem
        for _ in range(_DEPTH):
            if found is None or found.is_pure:
                break
            found = self._solve(fix_largest(found), found.bound)[2]
        if found is not None and found.is_pure:
            self._offer(found.plan)
        if self._known.growth >= _REGROWN:
            self._try_known()

    def _push(self, graphs: LinkedGraphs, known: tuple[IntArray, PathBatch]) -> None:
        """Open the first subproblem."""
        bound, self.region, problem = solve_subproblem(graphs, self.lagrangian.limits, known, math.inf, self.effort)
        if problem is None:
            self.pruned = min(self.pruned, bound)
        else:
            self.open.append((bound, 0, problem))

    def _close(self, bound: float) -> None:
        """Take the first open subproblem away; nothing below the bound is left in it."""
        heapq.heappop(self.open)
        self.branches += 1
        self.pruned = min(self.pruned, bound)

    def _try_known(self) -> None:
        """Look for an incumbent among all paths known."""
        graph, columns = self._known.join()
        chosen = self._choose(graph, columns.value, columns.consumption)
        if chosen is not None:
            self._offer(columns.take(chosen))

    def _choose(self, graph: IntArray, value: FloatArray, consumption: FloatArray) -> IntArray | None:
        """Return a good choice among the paths of least excess, or None."""
        near = find_nearest(graph, value + consumption @ self.multipliers)
        # A tenth of what is open is near enough: better choices may come with other paths.
        gap = max(self.gap, 1e-5 if self.incumbent is None else 0.1 * relative_gap(self.value, self.bound))
        limits, stopwatch = self.lagrangian.limits, self.effort.stopwatch
        chosen = choose_paths(graph[near], value[near], consumption[near], limits, gap, stopwatch)
        return None if chosen is None else near[chosen]

    def _offer(self, plan: PathBatch) -> None:
        """Take a plan as the incumbent when it keeps the limits and is better."""
        if plan.total_value < self.value and keep_limits(plan.total_consumption, self.graphs.limits):
            self.incumbent = plan if self.trails is None else self.trails.leave(plan)
