"""One path per graph within several limits: the exact optimum, by closing the gap above the Lagrangian bound.

Enumeration within growing allowances (:mod:`~optplan.solvers.paths.search`) comes first. Where several limits bind, the
best pure plan may be several percent above the bound, too far to enumerate; then branch and price
(:mod:`~optplan.solvers.paths.branch_price`) does the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from optplan.solvers.limits import ROUNDING, is_within, most_within
from optplan.solvers.paths import TUNING
from optplan.solvers.paths.branch_price import BranchAndPrice
from optplan.solvers.paths.choices import MergeTarget, choose_paths, find_nearest, merge_path_sets
from optplan.solvers.paths.families import FloatArray, IntArray, NodeArray, PathBatch, PathSets
from optplan.solvers.paths.linked_dual import LinkedBound, LinkedShortfall, maximise_bound
from optplan.solvers.paths.run_problem import Part, RunProblem
from optplan.solvers.paths.search import Effort, Finding, GapClosing, OutOfEffortError, relative_gap
from optplan.solvers.paths.switching import LinkedGraphs


@dataclass(frozen=True, eq=False, kw_only=True)
class LinkedSolution(Finding):
    """A solution under several limits."""

    #: G paths that keep the limits; None where none was found.
    paths: PathBatch | None
    #: The bound of the convexified problem, which holds for mixed plans too.
    lagrangian: LinkedBound
    #: All choices, divided by branch and price so that each part proves ``bound``; None where it rests on something
    #: else.
    part: Part | None
    #: Parts that branch and price looked at.
    branches: int


def solve_pure(
    graphs: LinkedGraphs,
    *,
    gap: float = 1e-6,
    effort: Effort | None = None,
    runs: Callable[[], RunProblem | None] = lambda: None,
    enumerate_first: bool = True,
    most_parts: int = TUNING.most_parts,
) -> LinkedSolution | LinkedShortfall:
    """Return the best choice of one path per graph, or the proof that not even mixtures keep the limits.

    Paths are returned wherever any were found. ``runs`` makes the same graphs for branch and price; None where they are
    too large: then what enumeration leaves open stays open. Plans near the bound are enumerated first unless
    ``enumerate_first`` is False. The search stops when (value - bound) / value is at most ``gap``; 0 asks for the
    optimum itself.
    """
    spent = effort if effort is not None else Effort()
    lagrangian = maximise_bound(graphs, effort=spent)
    if isinstance(lagrangian, LinkedShortfall):
        return lagrangian
    search = _Closing(graphs, lagrangian, gap, spent)
    try:
        search.choose_known()
        # Of many choices among nodes more lie near the bound than of paths, and are more to list for whoever checks it.
        if enumerate_first and graphs.num_layers > 1 and not search.closed:
            search.enumerate_all()
        problem = None if search.closed else runs()
        if problem is not None:
            search.branch(problem, most_parts)
    except OutOfEffortError as stop:
        return search.conclude(stop.limit)
    return search.conclude(None)


class _Closing(GapClosing):
    """The state of closing one gap under several limits: by enumeration, and then by branch and price."""

    def __init__(self, graphs: LinkedGraphs, lagrangian: LinkedBound, gap: float, effort: Effort) -> None:
        linked = float(lagrangian.multipliers @ lagrangian.limits)
        rounding = ROUNDING * (lagrangian.bound + 2.0 * linked)
        super().__init__(lagrangian.bound, lagrangian.multipliers, rounding, gap, effort)
        self.graphs = graphs
        self.lagrangian = lagrangian
        self.incumbent: PathBatch | None = None
        #: Branch and price, once it has begun.
        self.pricing: BranchAndPrice | None = None

    @property
    def value(self) -> float:
        """The incumbent's value; +inf without one."""
        return math.inf if self.incumbent is None else self.incumbent.total_value

    @property
    def beyond(self) -> float:
        """What branch and price proves so far; -inf before it has begun."""
        return -math.inf if self.pricing is None else self.pricing.bound

    def choose_known(self) -> None:
        """Look for an incumbent among the paths of the Lagrangian bound."""
        columns = self.lagrangian.columns
        chosen = self._choose(self.lagrangian.graph, columns.value, columns.consumption)
        if chosen is not None:
            self._offer(columns.take(chosen))
        self.report("bound")

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
        if plan.total_value < self.value and is_within(plan.total_consumption, self.graphs.limits):
            self.incumbent = plan

    def branch(self, problem: RunProblem, most: int) -> None:
        """Close the gap by branch and price."""
        # Of a limit that mixtures can do without the bound is nothing: then a path gives the size of values, if any.
        unit = self.lagrangian.bound or float(self.lagrangian.columns.value.max()) or 1.0
        self.pricing = BranchAndPrice(problem, unit, self.gap, self.effort, self.value, self._tell)
        try:
            self.pricing.run(most)
        finally:
            self._tell(self.pricing)

    def _tell(self, pricing: BranchAndPrice) -> None:
        """Take branch and price's incumbent, and tell the listener."""
        if pricing.plan is not None:
            self._offer(follow_plan(self.graphs, pricing.plan))
        self.report("branches")

    def enumerate_all(self) -> None:
        """Enumerate all graphs within growing allowances as long as that is quick."""
        scale = self.least if self.least > 0 else float(self.lagrangian.columns.value.max())
        allowance = max(
            scale * TUNING.first_of_bound / self.graphs.num_graphs, self.gap * scale * TUNING.first_of_wanted
        )
        # Without an incumbent there may be no plan at all, which branching finds out better.
        self.grow(allowance, TUNING.slow_growth, most_unfounded=scale)

    def enumerate_within(self, allowance: float) -> bool:
        """Look at all plans within an allowance; return whether that was quick."""
        most_value = min(self.least + allowance, self.value) + self.rounding
        quick = Effort(self.effort.stopwatch, TUNING.few_labels)
        try:
            paths = self.graphs.find_path_sets(self.multipliers, allowance, quick)
            if self.value - most_value > allowance:
                self._try_sets(paths)
            most_consumption, most_value = most_within(self.graphs.limits), min(most_value, self.value + self.rounding)
            most_reduced_cost = most_value + float(self.multipliers @ most_consumption)
            target = MergeTarget(self.multipliers, most_consumption, most_value, most_reduced_cost)
            best = merge_path_sets(paths, target, quick)
        except OutOfEffortError as stop:
            if stop.limit == "time":
                raise
            return False
        finally:
            self.effort.passes += quick.passes
            self.effort.labels += quick.labels
            self.effort.pairs += quick.pairs
        if best is not None:
            self._offer(paths.trace(best))
        self.note_covered(allowance)
        return True

    def _try_sets(self, paths: PathSets) -> None:
        """Look for an incumbent among path sets, whose excesses may add up to more than the allowance."""
        owner = np.repeat(np.arange(self.graphs.num_graphs), np.diff(paths.starts))
        chosen = self._choose(owner, paths.value, paths.consumption)
        if chosen is not None and math.fsum(paths.value[chosen].tolist()) < self.value:
            self._offer(paths.trace(chosen))

    def conclude(self, stopped_by: str | None) -> LinkedSolution:
        """Return what is known now."""
        bound = self.bound
        on_exhaustion = self.exhaustion is not None and (
            self.exhaustion.optimum is not None or bound <= self.lagrangian.bound + self.exhaustion.allowance
        )
        by_parts = self.pricing is not None and self.pricing.bound >= bound - self.rounding
        known = self.sum_up(stopped_by) | {
            "exhaustion": self.exhaustion if on_exhaustion else None,
            "proven": self.closed or bound == math.inf,
        }
        return LinkedSolution(
            paths=self.incumbent,
            lagrangian=self.lagrangian,
            part=self.pricing.root if by_parts and self.pricing is not None else None,
            branches=0 if self.pricing is None else self.pricing.branches,
            **known,
        )


def follow_plan(graphs: LinkedGraphs, plan: NodeArray) -> PathBatch:
    """Return nodes (G, E) as paths with their sums."""
    places = np.zeros((graphs.num_graphs, graphs.num_layers), dtype=np.int32)
    for graph, nodes in enumerate(plan):
        depth = int(graphs.lengths[graphs.position_of[graph]])
        places[graph, :depth] = graphs.places(graph, nodes[:depth])
    return graphs.follow(np.arange(graphs.num_graphs), places)
