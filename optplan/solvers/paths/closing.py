"""One path per graph within several limits: the exact optimum, by closing the gap above the Lagrangian bound.

Enumeration within growing allowances (:mod:`~optplan.solvers.paths.gap`) comes first. Where several limits bind, the
best pure plan may be several percent above the bound, too far to enumerate; then branch and price
(:mod:`~optplan.solvers.paths.branch_price`) does the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from optplan.solvers.limits import ROUNDING, most_within
from optplan.solvers.paths.branch_price import BranchAndPrice
from optplan.solvers.paths.effort import Effort, OutOfEffortError
from optplan.solvers.paths.families import FloatArray, IntArray, NodeArray, PathBatch, PathSets, keep_limits
from optplan.solvers.paths.gap import GapClosing, relative_gap
from optplan.solvers.paths.incumbents import choose_paths, find_nearest
from optplan.solvers.paths.linked_dual import LinkedBound, LinkedShortfall, maximise_bound
from optplan.solvers.paths.pareto_merge import MergeTarget, merge_path_sets
from optplan.solvers.paths.run_problem import RunProblem
from optplan.solvers.paths.solutions import LinkedSolution
from optplan.solvers.paths.switching.graphs import LinkedGraphs

#: First allowance, as a fraction of the bound, divided by the number of graphs.
_FIRST_FRACTION = 1e-3
#: First allowance as a fraction of the gap that is wanted, if that is more.
_FIRST_OF_WANTED = 0.125
#: Growth of the allowance from round to round.
_GROWTH = 2.0
#: Labels that one enumeration may keep before branch and price is the better way.
_MOST_LABELS = 5_000
#: Parts that branch and price may look at.
MOST_PARTS = 200_000


def solve_pure(
    graphs: LinkedGraphs,
    *,
    gap: float = 1e-6,
    effort: Effort | None = None,
    runs: Callable[[], RunProblem | None] = lambda: None,
    enumerate_first: bool = True,
    most_parts: int = MOST_PARTS,
) -> LinkedSolution | LinkedShortfall:
    """Return the best choice of one path per graph, or the proof that not even mixtures keep the limits.

    Parameters
    ----------
    graphs
        The graphs and their limits.
    gap
        Stop when (value - bound) / value is at most this; 0 asks for the optimum itself.
    effort
        Limits on time, and who listens; no time limit when None. A limit ends the search with the best plan so far, if
        any, and the bound proven so far.
    runs
        Makes the same graphs for branch and price; None where they are too large: then what enumeration leaves open
        stays open.
    enumerate_first
        Whether plans near the bound are enumerated before branch and price begins.
    most_parts
        Parts that branch and price may look at.

    Returns
    -------
    LinkedSolution | LinkedShortfall
        Paths wherever any were found.

    Raises
    ------
    EngineError
        When HiGHS fails.

    Notes
    -----
    Enumeration above a Lagrangian bound, as in Carlyle, Royset and Wood, "Lagrangian relaxation and enumeration for
    solving constrained shortest-path problems", Networks 52, 2008; here for many graphs under several limits, with
    Pareto sets instead of single paths.
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
        if plan.total_value < self.value and keep_limits(plan.total_consumption, self.graphs.limits):
            self.incumbent = plan

    def branch(self, problem: RunProblem, most: int) -> None:
        """Close the gap by branch and price.

        Raises
        ------
        OutOfEffortError
            After ``most`` parts, or when time runs out.
        """
        # Of a limit that mixtures can do without the bound is nothing: then a path gives the size of values, if any.
        unit = self.lagrangian.bound or float(self.lagrangian.columns.value.max()) or 1.0
        self.pricing = BranchAndPrice(
            problem, unit, self.gap, self.effort, self.value, lambda _: self.report("branches")
        )
        try:
            self.pricing.run(most)
        finally:
            if self.pricing.plan is not None:
                self._offer(follow_plan(self.graphs, self.pricing.plan))
            self.report("branches")

    def enumerate_all(self) -> None:
        """Enumerate all graphs within growing allowances as long as that is quick."""
        scale = self.least if self.least > 0 else float(self.lagrangian.columns.value.max())
        allowance = max(scale * _FIRST_FRACTION / self.graphs.num_graphs, self.gap * scale * _FIRST_OF_WANTED)
        # Without an incumbent there may be no plan at all, which branching finds out better.
        self.grow(allowance, _GROWTH, most_unfounded=scale)

    def enumerate_within(self, allowance: float) -> bool:
        """Look at all plans within an allowance; return whether that was quick."""
        most_value = min(self.least + allowance, self.value) + self.rounding
        quick = Effort(self.effort.stopwatch, _MOST_LABELS)
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
        return LinkedSolution(
            paths=self.incumbent,
            bound=bound,
            lagrangian=self.lagrangian,
            exhaustion=self.exhaustion if on_exhaustion else None,
            part=self.pricing.root if by_parts and self.pricing is not None else None,
            proven=self.closed or bound == math.inf,
            stopped_by=stopped_by,
            passes=self.effort.passes,
            labels=self.effort.labels,
            pairs=self.effort.pairs,
            branches=0 if self.pricing is None else self.pricing.branches,
        )


def follow_plan(graphs: LinkedGraphs, plan: NodeArray) -> PathBatch:
    """Return nodes (G, E) as paths with their sums."""
    places = np.zeros((graphs.num_graphs, graphs.num_layers), dtype=np.int32)
    for graph, nodes in enumerate(plan):
        depth = int(graphs.lengths[graphs.position_of[graph]])
        places[graph, :depth] = graphs.places(graph, nodes[:depth])
    return graphs.follow(np.arange(graphs.num_graphs), places)
