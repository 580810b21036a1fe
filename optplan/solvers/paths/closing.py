"""One path per graph within several limits: the exact optimum, by closing the gap above the Lagrangian bound.

Enumeration within growing allowances (:mod:`~optplan.solvers.paths.gap`) comes first. Where several limits bind, the
best pure plan may be several percent above the bound, too far to enumerate; then the rest is done by branching, with
enumeration where a subproblem has little left between its bound and the incumbent. Where kinds of nodes are known,
levels by blocks (:mod:`optplan.solvers.paths.levels.sieve`) come first, and branching only where these are too large.
Graphs of one layer are branched on before all that, in one linear program (:mod:`optplan.solvers.paths.choosing`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from optplan.solvers.limits import ROUNDING, most_within
from optplan.solvers.paths.bounds import LinkedBound, LinkedShortfall, maximise_bound
from optplan.solvers.paths.branch_price import BranchAndPrice
from optplan.solvers.paths.branching import Region
from optplan.solvers.paths.choosing import ChoiceSearch, find_choices
from optplan.solvers.paths.dividing import DivisionClosing
from optplan.solvers.paths.effort import Effort, OutOfEffortError
from optplan.solvers.paths.families import FloatArray, NodeArray, PathBatch, PathSets
from optplan.solvers.paths.incumbents import KnownPaths, choose_paths
from optplan.solvers.paths.levels.blocks import PROHIBITIVE, BlockGraph
from optplan.solvers.paths.levels.memory import Memory
from optplan.solvers.paths.levels.sieve import Sieve
from optplan.solvers.paths.merging import MergeTarget, merge_path_sets
from optplan.solvers.paths.run_problem import RunProblem
from optplan.solvers.paths.solutions import LinkedSolution
from optplan.solvers.paths.switching.graphs import LinkedGraphs
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
#: Subproblems that are split before graphs are tried whose nodes remember their trails: their passes take longer.
_PLAIN = 260
#: Parts that branch and price may look at.
_MOST_PARTS = 200_000


def solve_pure(
    graphs: LinkedGraphs,
    *,
    gap: float = 1e-6,
    effort: Effort | None = None,
    max_branches: int = 2_000,
    follow: Callable[[], Trails | None] | None = None,
    blocks: Callable[[], Sequence[BlockGraph] | None] | None = None,
    runs: Callable[[], RunProblem | None] | None = None,
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
    runs
        Makes the same graphs for branch and price; None where they are too large.
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
    search = _Closing(graphs, lagrangian, gap, spent, follow, laid_out, runs, memory)
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


class _Closing(DivisionClosing):
    """The state of closing one gap under several limits: by enumeration, by levels, and then by division."""

    def __init__(
        self,
        graphs: LinkedGraphs,
        lagrangian: LinkedBound,
        gap: float,
        effort: Effort,
        follow: Callable[[], Trails | None] | None,
        blocks: Sequence[BlockGraph] | None = None,
        runs: Callable[[], RunProblem | None] | None = None,
        memory: Memory | None = None,
    ) -> None:
        super().__init__(graphs, lagrangian, gap, effort)
        self.follow = follow
        self.memory = memory
        #: Levels by blocks, once they have begun; None where kinds of nodes are not known.
        self.sieve: Sieve | None = None
        self.blocks = blocks
        #: Branch and price, once it has begun.
        self.runs = runs
        self.pricing: BranchAndPrice | None = None
        #: What divisions of the given graphs proved, before those with trails were divided anew.
        self.earlier: tuple[float, Region | None] = (-math.inf, None)

    @property
    def beyond(self) -> float:
        """What divisions and levels prove so far; -inf without any."""
        levels = -math.inf if self.sieve is None else self.sieve.bound
        return max(self.divided, self.earlier[0], levels, -math.inf if self.pricing is None else self.pricing.bound)

    def run(self, max_branches: int) -> str | None:
        """Close the gap by enumeration and then by branching; return what limit ended it, if any."""
        self._try_plans()
        # Where earlier problems left plans, a choice among few paths is hardly ever better.
        if self.incumbent is None:
            self._try_known()
        self.report("bound")
        # With what earlier problems left, levels are the quicker way from the start.
        steps = [self._enumerate_all, self._try_runs if self.memory is None else self._try_levels]
        for step in [self._try_choices, *(steps if self.memory is None or self.blocks is None else reversed(steps))]:
            if not self.closed:
                step()
        if not self.closed:  # what comes first may be too large
            (self._try_levels if self.memory is None else self._try_runs)()
        if self.closed or self.pricing is not None:
            return None
        self._start(self.graphs)
        first = max_branches if self.follow is None else min(max_branches, _PLAIN)
        stopped_by = self._search(first)
        if stopped_by is None or self.follow is None or first == max_branches:
            return stopped_by
        trails = self.follow()
        if trails is not None:
            self.earlier = max((self.divided, self.region), self.earlier, key=lambda proven: proven[0])
            graph, columns = self._known.join()
            self.trails, self._known = trails, KnownPaths(graph, trails.enter(graph, columns))
            self.open, self.pruned, self.region, self.started = [], math.inf, None, self.branches
            self._start(trails.graphs)
        return self._search(max_branches)

    def _try_choices(self) -> None:
        """Close the gap between choices in one linear program, where all graphs have one layer and not many nodes."""
        choices = find_choices(self.graphs) if self.graphs.limits.size > 1 else None
        if choices is None:
            return
        graph, columns = choices
        limits = self.graphs.limits
        self.effort.charge_pass()  # without time HiGHS may still find a plan of few choices, or not
        chosen = choose_paths(graph, columns.value, columns.consumption, limits, self.gap, self.effort.stopwatch)
        if chosen is not None:
            self._offer(columns.take(chosen))
        if self.incumbent is None or self.closed:
            return
        search = ChoiceSearch(self.graphs, choices, self.incumbent, self.gap, self.rounding, self.effort)
        try:
            search.run()
        finally:
            self._offer(search.plan)
            self.earlier, self.branches = (search.bound, search.region), search.branches
            self.report("branches")

    def _try_levels(self) -> None:
        """Close the gap by levels, if they are not too large."""
        seen = self.lagrangian
        if self.blocks is None or not seen.bound > 0.0 or self.pricing is not None:
            return
        limits = self.graphs.limits
        self.sieve = Sieve(self.blocks, limits, seen.bound, seen.multipliers, self.effort, self.memory, self._narrow)
        try:
            self.sieve.run(self.value, self.gap)
        except OutOfEffortError as stop:
            if stop.limit == "time":
                raise
        finally:
            if self.sieve.plan is not None:
                self._offer(self._write_plan(self.sieve.plan))
            self.sieve.memory.note_rows(self.sieve.rows.weights)

    def _try_runs(self) -> None:
        """Close the gap by branch and price, where the graphs are known by runs."""
        problem = None if self.runs is None or self.graphs.limits.size == 1 else self.runs()
        if problem is None or not self.lagrangian.bound > 0.0:
            return
        self.pricing = BranchAndPrice(
            problem, self.lagrangian.bound, self.gap, self.effort, self.value, lambda _: self.report("branches")
        )
        try:
            self.pricing.run(_MOST_PARTS)
        finally:
            self.branches += self.pricing.branches
            if self.pricing.plan is not None:
                self._offer(self._follow(self.pricing.plan))

    def _follow(self, plan: NodeArray) -> PathBatch:
        """Return nodes (G, E) as a plan."""
        places = np.zeros((self.graphs.num_graphs, self.graphs.num_layers), dtype=np.int32)
        for graph, nodes in enumerate(plan):
            depth = int(self.graphs.lengths[self.graphs.position_of[graph]])
            places[graph, :depth] = self.graphs.places(graph, nodes[:depth])
        return self.graphs.follow(np.arange(self.graphs.num_graphs), places)

    def _narrow(self, ceiling: float) -> list[BlockGraph]:
        """Return the graphs with the nodes that plans up to a value can have, as far as these are few."""
        assert self.blocks is not None
        assert self.sieve is not None
        through = self.graphs.find_costs_through(self.multipliers)
        allowance = ceiling - self.least + self.rounding
        narrowed = []
        for number, graph in enumerate(self.blocks):
            own = through[self.graphs.positions == self.graphs.position_of[number]]
            places = (own <= own[0].min() * (1.0 + ROUNDING) + allowance).any(axis=0)
            narrowed.append(self.sieve.memory.narrow(graph, self.graphs.numbers(number, places)))
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
        few = (self.blocks is not None or self.runs is not None) and self.sieve is None
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
        by_rows = self.sieve is not None and self.sieve.bound >= bound - self.rounding
        at_first, earlier = self.earlier
        goes_back = at_first > self.divided
        rows = None if self.sieve is None or not by_rows or by_parts or on_exhaustion else self.sieve.rows.weights
        return LinkedSolution(
            paths=self.incumbent,
            bound=bound,
            lagrangian=self.lagrangian,
            exhaustion=self.exhaustion if on_exhaustion else None,
            region=None if by_parts or not self.branches else earlier if goes_back else self.region,
            trails=None if goes_back else self.trails,
            rows=rows,
            part=self.pricing.root if by_parts and self.pricing is not None else None,
            proven=self.closed or bound == math.inf,
            stopped_by=stopped_by,
            passes=self.effort.passes,
            labels=self.effort.labels,
            pairs=self.effort.pairs,
            branches=self.branches,
        )
