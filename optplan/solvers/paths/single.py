"""One path per graph within one budget: the Lagrangian bound, the mixed plan that attains it, and the pure optimum.

For a multiplier mu >= 0, L(mu) = sum of the graphs' least reduced costs - mu * budget bounds every plan within the
budget from below, mixed plans included. L is concave and piecewise linear; each plan seen so far is a line above it.
The multiplier at which the best line from either side of the budget intersect is tried next, until no plan lies below
the intersection: then L is at its maximum there, exactly, without a tolerance on mu (Handler and Zang, "A dual
algorithm for the constrained shortest path problem", Networks 10, 1980).

The gap above it is closed by merging the paths within the allowance to the best plan
(:mod:`~optplan.solvers.paths.search`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from optplan.errors import UsageError
from optplan.progress import Stopwatch
from optplan.solvers.limits import LIMIT_TOLERANCE, ROUNDING, is_within, most_within
from optplan.solvers.paths import TUNING
from optplan.solvers.paths.choices import MergeTarget, merge_path_sets
from optplan.solvers.paths.families import (
    GraphFamily,
    ListedFamily,
    Mixture,
    PathBatch,
    PathSets,
    find_least_consumption,
    find_least_value,
    split_graph,
)
from optplan.solvers.paths.search import Effort, Finding, GapClosing, OutOfEffortError


@dataclass(frozen=True, eq=False)
class BudgetShortfall:
    """Proof that no plan keeps the budget."""

    #: The budget asked for.
    budget: float
    #: The path of least consumption of each graph; their total exceeds the budget.
    least: PathBatch

    @property
    def least_budget(self) -> float:
        """The least budget for which a plan exists."""
        return self.least.total_used


@dataclass(frozen=True, eq=False)
class LagrangianBound:
    """The greatest Lagrangian bound at a budget."""

    #: The budget asked for.
    budget: float
    #: A multiplier that attains the bound; 0 where the budget does not bind.
    multiplier: float
    #: L(multiplier): no plan within the budget has less value.
    bound: float
    #: Paths of least reduced cost that keep the budget (up to :data:`LIMIT_TOLERANCE`).
    under: PathBatch
    #: Paths of least reduced cost that exceed the budget; None where it does not bind.
    over: PathBatch | None
    #: Shortest-path passes that it took.
    passes: int
    #: Whether the bound is the greatest one; False only when time ran out. Then it is the best one so far, and the
    #: paths on either side are best at multipliers of their own.
    attained: bool = True


def maximise_bound(
    family: GraphFamily, budget: float, *, effort: Effort | None = None, near: float | None = None
) -> LagrangianBound | BudgetShortfall:
    """Return the greatest Lagrangian bound, with paths on either side of the budget, or that no plan keeps it."""
    # Some mixture of them attains it (:func:`mix_paths`). ``near`` is a multiplier near which the best one is supposed.
    if math.isnan(budget):
        raise UsageError("the budget is not a number")
    passes, begun = 0, None
    if near is not None and near > 0.0:
        begun, passes = _enclose(family, budget, near)
    if begun is not None:
        under, over, best_multiplier, best = begun
    else:
        under = find_least_consumption(family)
        if not is_within(under.total_used, budget):
            return BudgetShortfall(budget, under)
        over, best = find_least_value(family)
        passes += 4
        if is_within(over.total_used, budget):
            return LagrangianBound(budget, 0.0, best, over, None, passes)
        best_multiplier = 0.0
    while effort is None or not effort.stopwatch.expired:
        multiplier, line = _intersect(under, over)
        trial, reduced_cost = _follow_best(family, multiplier)
        passes += 1
        bound = reduced_cost - multiplier * budget
        if reduced_cost >= line - ROUNDING * (line + multiplier * budget):
            return LagrangianBound(budget, multiplier, bound, under, over, passes)
        if bound > best:
            best, best_multiplier = bound, multiplier
        if is_within(trial.total_used, budget):
            under = trial
        else:
            over = trial
    return LagrangianBound(budget, best_multiplier, best, under, over, passes, attained=False)


def _enclose(
    family: GraphFamily, budget: float, near: float
) -> tuple[tuple[PathBatch, PathBatch, float, float] | None, int]:
    """Look for paths on either side of the budget at multipliers around one; return its bound, and the passes."""
    graphs, tried = np.arange(family.num_graphs), near * np.array(TUNING.around)
    # All at once: a sweep takes about as long for several multipliers as for one.
    every = family.best_paths(np.repeat(tried, graphs.size)[:, None], np.tile(graphs, tried.size))
    under = over = None
    multiplier, bound = near, -math.inf
    for place, each in enumerate(tried.tolist()):
        trial = every.take(graphs + place * graphs.size)
        reached = math.fsum(trial.weigh(np.array([each])).tolist()) - each * budget
        if reached > bound:
            multiplier, bound = each, reached
        if not is_within(trial.total_used, budget):
            over = trial
        elif under is None:
            under = trial
    if under is None or over is None:
        return None, tried.size
    return (under, over, multiplier, bound), tried.size


def find_multiplier_range(
    family: GraphFamily, bound: LagrangianBound, *, effort: Effort | None = None
) -> tuple[float, float]:
    """Return the value lost, inf if infeasible, and gained per unit when the budget shrinks or grows a little."""
    spent = effort if effort is not None else Effort()
    # Both sides are best at the multiplier, so it is the slope between them, and of everything strictly inside.
    corner = bound.under
    if not is_within(bound.budget, corner.total_used):
        return bound.multiplier, bound.multiplier
    spent.charge_pass()
    far = find_least_consumption(family)
    less = math.inf
    while far.total_used < corner.total_used * (1.0 - LIMIT_TOLERANCE):
        spent.charge_pass()
        less, line = _intersect(far, corner)
        trial, reduced_cost = _follow_best(family, less)
        if trial.total_used <= far.total_used or reduced_cost >= line * (1.0 - ROUNDING):
            break
        far = trial
    return less, bound.multiplier


def _intersect(under: PathBatch, over: PathBatch) -> tuple[float, float]:
    """Return the multiplier at which two plans have the same reduced cost, and that reduced cost."""
    step = over.total_used - under.total_used
    multiplier = max(0.0, (under.total_value - over.total_value) / step)
    return multiplier, under.total_value + multiplier * under.total_used


def _follow_best(family: GraphFamily, multiplier: float) -> tuple[PathBatch, float]:
    """Return each graph's best path under a multiplier, and the sum of their reduced costs, exactly rounded."""
    multipliers = np.array([multiplier])
    paths = family.best_paths(multipliers)
    return paths, math.fsum(paths.weigh(multipliers).tolist())


def mix_paths(bound: LagrangianBound) -> Mixture:
    """Return the mixed plan behind a Lagrangian bound, optimal where that was attained, the budget used up."""
    # Taking the richer one of two best paths graph after graph reaches any consumption with at most one graph split, as
    # in the multiple-choice knapsack (Sinha and Zoltners, Operations Research 27, 1979).
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


@dataclass(frozen=True, eq=False, kw_only=True)
class PureSolution(Finding):
    """A solution under one budget, where there is a plan always when one exists."""

    #: G paths that keep the budget.
    paths: PathBatch
    #: The bound of the convexified problem, which holds for mixed plans too.
    lagrangian: LagrangianBound

    @property
    def value(self) -> float:
        """Sum of the values."""
        return self.paths.total_value


def solve_pure(
    family: ListedFamily, budget: float, *, gap: float = 1e-6, effort: Effort | None = None, near: float | None = None
) -> PureSolution | BudgetShortfall:
    """Return the best choice of one path per graph, to a gap, or the proof that none keeps the budget."""
    # ``near`` is a multiplier to begin at: it saves time, and the value found is the same within the gap.
    spent = effort if effort is not None else Effort(Stopwatch())
    lagrangian = maximise_bound(family, budget, effort=spent, near=near)
    if isinstance(lagrangian, BudgetShortfall):
        return lagrangian
    search = _Closing(family, lagrangian, gap, spent)
    spent.passes += lagrangian.passes
    stopped_by = None
    try:
        search.run()
    except OutOfEffortError as stop:
        stopped_by = stop.limit
    return search.conclude(stopped_by)


class _Closing(GapClosing):
    """The state of closing one gap under one limit."""

    def __init__(
        self,
        family: ListedFamily,
        lagrangian: LagrangianBound,
        gap: float,
        effort: Effort,
        root: _Closing | None = None,
        depth: int = 0,
    ) -> None:
        linked = lagrangian.multiplier * lagrangian.budget if lagrangian.multiplier > 0 else 0.0
        rounding = ROUNDING * (lagrangian.under.total_value + 2.0 * linked)
        super().__init__(lagrangian.bound, np.array([lagrangian.multiplier]), rounding, gap, effort)
        self.family = family
        self.lagrangian = lagrangian
        self.incumbent = lagrangian.under
        # Of a part of all plans: of how many graphs the path is given, and the search for all plans. Of that: the
        # graphs whose paths are given, one more in each part of a part, and the multipliers of the parts.
        self.depth, self.root = depth, root or self
        self.divided: list[int] = []
        self.further: list[float] = []
        self._last_labels = 0

    @property
    def value(self) -> float:
        """The value of the best of all plans found."""
        return self.root.incumbent.total_value

    def run(self) -> None:
        """Enumerate within growing allowances until the gap is closed or a limit is met."""
        self.report("bound")
        first = (self.value - self.least) * TUNING.first_of_gap / self.family.num_graphs
        self.grow(max(first, self.gap * self.value * TUNING.first_of_wanted), TUNING.growth)

    def enumerate_within(self, allowance: float) -> bool:
        """Improve the incumbent within an allowance and, where the merge is completed, the bound."""
        if self._last_labels > TUNING.labels_undivided * self.family.num_graphs and self._divide():
            return True
        before = self.effort.labels
        paths = self.family.find_path_sets(self.multipliers, allowance, self.effort)
        self._last_labels = self.effort.labels - before
        if np.count_nonzero(np.diff(paths.starts) > 1) >= TUNING.many_graphs:
            for most_kept in TUNING.some_totals:
                self._merge(paths, allowance, most_kept)
                if self.closed:
                    return True
            # Exhaustion need not go further than the wanted gap asks for.
            allowance = min(allowance, self.value * (1.0 - self.gap) - self.least + self.rounding)
        self._merge(paths, allowance)
        self.note_covered(allowance)
        return True

    def report(self, stage: str) -> None:
        """Tell the listener where the search for all plans is."""
        super(_Closing, self.root).report(stage)

    def _merge(self, paths: PathSets, allowance: float, most_kept: int | None = None) -> None:
        """Take the best choice within an allowance; of some choices only, where not all totals are kept."""
        budget, multiplier = self.lagrangian.budget, self.lagrangian.multiplier
        target = MergeTarget(
            self.multipliers,
            most_consumption=most_within(np.array([budget])),
            most_value=self.value,
            most_reduced_cost=self.least + multiplier * budget + allowance + self.rounding,
            most_kept=most_kept,
        )
        best = merge_path_sets(paths, target, self.effort)
        if best is not None:
            self._offer(paths.trace(best))

    def _offer(self, plan: PathBatch) -> None:
        """Take a plan as the incumbent when it keeps the budget and is better."""
        if plan.total_value < self.value and is_within(plan.total_used, self.lagrangian.budget):
            self.root.incumbent = plan

    def _divide(self) -> bool:
        """Close the gap for each path apart of the graph that is furthest between the two sides of the budget."""
        # Where few graphs share a budget, most of the gap is what mixed plans gain by splitting that one.
        over, root, depth = self.lagrangian.over, self.root, self.depth
        if over is None or not depth + 1 < over.used.size < TUNING.many_graphs or root.gap > TUNING.usual_gap:
            return False
        furthest = int(np.argmax(np.abs(over.used - self.lagrangian.under.used)))
        graph, excess = [*root.divided, furthest][depth], self.value - self.least + self.rounding
        quick = Effort(self.effort.stopwatch, max_labels=int(TUNING.labels_of_sides * self._last_labels))
        try:
            sets = self.family.find_path_sets(self.multipliers, excess, quick, np.array([graph]))
        except OutOfEffortError:
            return False
        self.effort.labels += quick.labels
        if len(root.further) + sets.value.size > TUNING.most_sides:
            return False
        if depth == len(root.divided):
            root.divided.append(graph)
        sides = [self._bound_side(graph, sets.trace(np.array([path]))) for path in range(sets.value.size)]
        for side in sorted(filter(None, sides), key=lambda each: each.least):
            side.run()
        self.note_covered(math.inf)
        if root is self and self.exhaustion is not None:
            further = sorted({float(f"{multiplier:.6g}") for multiplier in self.further})
            self.exhaustion = replace(self.exhaustion, divided=tuple(self.divided), further=tuple(further))
        return True

    def _bound_side(self, graph: int, path: PathBatch) -> _Closing | None:
        """Bound the plans with a path of a graph; None where there are none."""
        family = self.family.keep(graph, path)
        bound = maximise_bound(family, self.lagrangian.budget, effort=self.effort)
        if isinstance(bound, BudgetShortfall):
            return None
        self.root.further.append(bound.multiplier)
        self._offer(bound.under)
        return _Closing(family, bound, 0.0, self.effort, self.root, self.depth + 1)

    def conclude(self, stopped_by: str | None) -> PureSolution:
        """Return what is known now."""
        return PureSolution(paths=self.incumbent, lagrangian=self.lagrangian, **self.sum_up(stopped_by))
