"""One path per graph within several limits: the exact optimum, by closing the gap above the Lagrangian bound.

Enumeration within growing allowances (:mod:`~optplan.solvers.paths.gap`) comes first. Where several limits bind, the
best pure plan may be several percent above the bound, too far to enumerate; then the rest is done by branching, with
enumeration where a subproblem has little left between its bound and the incumbent. Where kinds of nodes are known,
levels by blocks (:mod:`optplan.solvers.paths.levels.sieve`) come first, and branching only where these are too large.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from optplan.solvers.limits import ROUNDING, most_within
from optplan.solvers.paths.bounds import LinkedBound, LinkedShortfall, maximise_bound
from optplan.solvers.paths.branching import (
    Region,
    Side,
    Subproblem,
    find_splits,
    fix_largest,
    list_sides,
    solve_subproblem,
)
from optplan.solvers.paths.effort import Effort, OutOfEffortError
from optplan.solvers.paths.families import FloatArray, IntArray, PathBatch, PathSets, keep_limits
from optplan.solvers.paths.gap import GapClosing, relative_gap
from optplan.solvers.paths.incumbents import KnownPaths, choose_paths, find_nearest
from optplan.solvers.paths.levels.blocks import PROHIBITIVE, BlockGraph
from optplan.solvers.paths.levels.memory import Memory
from optplan.solvers.paths.levels.sieve import Sieve
from optplan.solvers.paths.merging import MergeTarget, merge_path_sets
from optplan.solvers.paths.solutions import LinkedSolution
from optplan.solvers.paths.switching.graphs import LinkedGraphs
from optplan.solvers.paths.switching.sweeps import find_near_nodes
from optplan.solvers.paths.switching.trails import Trails

#: First allowance, as a fraction of the bound, divided by the number of graphs.
_FIRST_FRACTION = 1e-3
#: First allowance as a fraction of the gap that is wanted, if that is more.
_FIRST_OF_WANTED = 0.125
#: Growth of the allowance from round to round.
_GROWTH = 2.0
#: Labels that one enumeration may keep before branching is the better way.
_MOST_LABELS = 40_000
#: The same before levels are tried, which are the better way much sooner.
_FEW_LABELS = 5_000
#: Subproblems are enumerated within this fraction of the incumbent's value at first.
_NEAR = 6e-3
#: Subproblems that are split before graphs are tried whose nodes remember their trails: their passes take longer.
_PLAIN = 260
#: Splits of a subproblem that are tried, to take the best, for so many subproblems; the first splits matter most.
_MOST_SPLITS = 4
_TRIED = 50
#: After so many subproblems an incumbent is looked for: by fixing at most so many paths in turn, and among all paths
#: known when they have grown by a factor.
_RHYTHM = 10
_DEPTH = 20
_REGROWN = 1.15


def solve_pure(
    graphs: LinkedGraphs,
    *,
    gap: float = 1e-6,
    effort: Effort | None = None,
    max_branches: int = 2_000,
    follow: Callable[[], Trails | None] | None = None,
    blocks: Callable[[], Sequence[BlockGraph] | None] | None = None,
    memory: Memory | None = None,
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
    max_branches
        Subproblems that may be split.
    follow
        Makes the same graphs with nodes that remember their trails, for branching.
    blocks
        Makes the same graphs with kinds of nodes, for levels by blocks; None where there are too many kinds.
    memory
        What is known from problems with most of the same graphs, laid out by it; what this one finds is added. With it
        levels are quick, and there is less enumeration before.

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
    laid_out = None if blocks is None or graphs.limits.size == 1 else blocks()
    known = [] if memory is None or laid_out is None else memory.find_columns(laid_out)
    lagrangian = maximise_bound(graphs, effort=spent, known=known)
    if isinstance(lagrangian, LinkedShortfall):
        return lagrangian
    search = _Closing(graphs, lagrangian, gap, spent, follow, laid_out, memory)
    try:
        stopped_by = search.run(max_branches)
    except OutOfEffortError as stop:
        stopped_by = stop.limit
    if memory is not None and search.incumbent is not None:
        memory.note_plan(search.incumbent.payload)
    mixture = lagrangian.mixture
    if memory is not None and laid_out is not None and mixture is not None:
        memory.note_columns(laid_out, mixture.graph, mixture.columns)
    return search.conclude(stopped_by)


class _Closing(GapClosing):
    """The state of closing one gap under several limits: incumbent, what was covered, open subproblems, work."""

    def __init__(
        self,
        graphs: LinkedGraphs,
        lagrangian: LinkedBound,
        gap: float,
        effort: Effort,
        follow: Callable[[], Trails | None] | None,
        blocks: Sequence[BlockGraph] | None = None,
        memory: Memory | None = None,
    ) -> None:
        linked = float(lagrangian.multipliers @ lagrangian.limits)
        rounding = ROUNDING * (lagrangian.bound + 2.0 * linked)
        super().__init__(lagrangian.bound, lagrangian.multipliers, rounding, gap, effort)
        self.graphs = graphs
        self.follow = follow
        self.memory = memory
        #: Levels by blocks, once they have begun; None where kinds of nodes are not known.
        self.sieve: Sieve | None = None
        self.blocks = blocks
        #: The graphs that are branched on, where these are not the given ones.
        self.trails: Trails | None = None
        self.lagrangian = lagrangian
        self.incumbent: PathBatch | None = None
        self.open: list[tuple[float, int, Subproblem]] = []
        #: The least bound of the subproblems that were given up for it; +inf where none was.
        self.pruned = math.inf
        self.branches = self.started = 0
        #: All choices, divided as far as the search came; None before it began.
        self.region: Region | None = None
        #: What the division of the given graphs proved, before those with trails were divided anew.
        self.earlier: tuple[float, Region | None] = (-math.inf, None)
        self._near = _NEAR
        self._known = KnownPaths(lagrangian.graph, lagrangian.columns)

    @property
    def value(self) -> float:
        """The incumbent's value; +inf without one."""
        return math.inf if self.incumbent is None else self.incumbent.total_value

    @property
    def beyond(self) -> float:
        """What divisions and levels prove so far; -inf without any."""
        return max(self.divided, self.earlier[0], -math.inf if self.sieve is None else self.sieve.bound)

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

    def run(self, max_branches: int) -> str | None:
        """Close the gap by enumeration and then by branching; return what limit ended it, if any."""
        self._try_known()
        self._try_plans()
        self.report("bound")
        # With what earlier problems left, levels are the quicker way from the start.
        steps = [self._enumerate_all, self._try_levels]
        for step in steps if self.memory is None or self.blocks is None else reversed(steps):
            if not self.closed:
                step()
        if self.closed:
            return None
        self._start(self.graphs)
        first = max_branches if self.follow is None else min(max_branches, _PLAIN)
        stopped_by = self._search(first)
        if stopped_by is None or self.follow is None or first == max_branches:
            return stopped_by
        trails = self.follow()
        if trails is not None:
            self.earlier = self.divided, self.region
            graph, columns = self._known.join()
            self.trails, self._known = trails, KnownPaths(graph, trails.enter(graph, columns))
            self.open, self.pruned, self.region, self.started = [], math.inf, None, self.branches
            self._start(trails.graphs)
        return self._search(max_branches)

    def _start(self, graphs: LinkedGraphs) -> None:
        """Open the first subproblem, and look for an incumbent below it."""
        self._push(graphs, self._known.joined)
        if self.open:
            self._dive(self.open[0][2])

    def _try_levels(self) -> None:
        """Close the gap by levels, if they are not too large."""
        seen = self.lagrangian
        if self.blocks is None or not seen.bound > 0.0:
            return
        narrow = None if self.memory is None else self._narrow
        limits = self.graphs.limits
        self.sieve = Sieve(self.blocks, limits, seen.bound, seen.multipliers, self.effort, self.memory, narrow)
        try:
            self.sieve.run(self.value, self.gap)
        except OutOfEffortError as stop:
            if stop.limit == "time":
                raise
        finally:
            if self.sieve.plan is not None:
                self._offer(self._write_plan(self.sieve.plan))
            self.sieve.memory.note_rows(self.sieve.rows.weights)

    def _narrow(self, ceiling: float) -> list[BlockGraph]:
        """Return the graphs with the nodes that plans up to a value can have, as far as these are few."""
        assert self.blocks is not None
        assert self.memory is not None
        near = find_near_nodes(self.graphs, self.multipliers, ceiling - self.least + self.rounding)
        owner = self.graphs.order[self.graphs.positions[near.row]]
        narrowed = []
        for number, graph in enumerate(self.blocks):
            places = np.zeros(self.graphs.run_value.shape[1], dtype=np.bool_)
            places[near.node[owner == number]] = True
            narrowed.append(self.memory.narrow(graph, self.graphs.numbers(number, places)))
        return narrowed

    def _try_plans(self) -> None:
        """Look for an incumbent among the plans of earlier problems."""
        if self.memory is None or self.blocks is None:
            return
        for nodes in self.memory.plans:
            plan = self._write_plan([row[: graph.num_layers] for row, graph in zip(nodes, self.blocks, strict=True)])
            if plan.total_value < PROHIBITIVE * self.least:  # else it uses a node that is forbidden here
                self._offer(plan)

    def _write_plan(self, plan: Sequence[NDArray[np.int16] | NDArray[np.int32]]) -> PathBatch:
        """Return nodes (E,) of each graph as a plan."""
        assert self.blocks is not None
        sums = np.array([graph.add_up(nodes[None])[0] for graph, nodes in zip(self.blocks, plan, strict=True)])
        payload = np.full((len(plan), self.graphs.num_layers), -1, dtype=np.int32)
        for row, nodes in zip(payload, plan, strict=True):
            row[: nodes.size] = nodes
        return PathBatch(sums[:, 0], sums[:, 1:], payload)

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

    def _enumerate_all(self) -> None:
        """Enumerate all graphs within growing allowances as long as that is quick."""
        scale = self.least if self.least > 0 else float(self.lagrangian.columns.value.max())
        allowance = max(scale * _FIRST_FRACTION / self.graphs.num_graphs, self.gap * scale * _FIRST_OF_WANTED)
        # Without an incumbent there may be no plan at all, which branching finds out better.
        self.grow(allowance, _GROWTH, most_unfounded=scale)

    def enumerate_within(self, allowance: float) -> bool:
        """Look at all plans within an allowance; return whether that was quick."""
        most_value = min(self.least + allowance, self.value) + self.rounding
        done = self._enumerate(self.graphs, self.multipliers, allowance, most_value)
        if done:
            self.note_covered(allowance)
        return done

    def _enumerate(self, graphs: LinkedGraphs, multipliers: FloatArray, allowance: float, most_value: float) -> bool:
        """Find the best plan of at most a value; return whether all such plans were covered within the quick limits."""
        few = self.blocks is not None and self.sieve is None
        quick = Effort(self.effort.stopwatch, _FEW_LABELS if few else _MOST_LABELS)
        try:
            paths = graphs.find_path_sets(multipliers, allowance, quick)
            if self.value - most_value > allowance:
                self._try_sets(paths)
            most_consumption, most_value = most_within(self.graphs.limits), min(most_value, self.value + self.rounding)
            most_reduced_cost = most_value + float(multipliers @ most_consumption)
            target = MergeTarget(multipliers, most_consumption, most_value, most_reduced_cost)
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
        return True

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

    def _try_sets(self, paths: PathSets) -> None:
        """Look for an incumbent among path sets, whose excesses may add up to more than the allowance."""
        owner = np.repeat(np.arange(self.graphs.num_graphs), np.diff(paths.starts))
        chosen = self._choose(owner, paths.value, paths.consumption)
        if chosen is not None and math.fsum(paths.value[chosen].tolist()) < self.value:
            self._offer(paths.trace(chosen))

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

    def conclude(self, stopped_by: str | None) -> LinkedSolution:
        """Return what is known now."""
        bound = self.bound
        on_exhaustion = self.exhaustion is not None and (
            self.exhaustion.optimum is not None or bound <= self.lagrangian.bound + self.exhaustion.allowance
        )
        by_rows = self.sieve is not None and self.sieve.bound >= bound - self.rounding
        at_first, earlier = self.earlier
        goes_back = at_first > self.divided
        return LinkedSolution(
            paths=self.incumbent,
            bound=bound,
            lagrangian=self.lagrangian,
            exhaustion=self.exhaustion if on_exhaustion else None,
            region=(earlier if goes_back else self.region) if self.branches else None,
            trails=None if goes_back else self.trails,
            rows=self.sieve.rows.weights if by_rows and self.sieve is not None and not on_exhaustion else None,
            proven=self.closed or bound == math.inf,
            stopped_by=stopped_by,
            passes=self.effort.passes,
            labels=self.effort.labels,
            pairs=self.effort.pairs,
            branches=self.branches,
        )
