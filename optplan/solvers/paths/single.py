"""One path per graph within one budget: the exact optimum, by closing the gap above the Lagrangian bound.

The paths within the allowance are merged to the best plan (:mod:`~optplan.solvers.paths.gap`); before that, the slack
of the budget is filled by replacing one or two paths at a time, which often closes the gap alone. Enumeration above a
Lagrangian bound is that of Carlyle, Royset and Wood (Networks 52, 2008); here for many graphs that share a budget.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from optplan.progress import Stopwatch
from optplan.solvers.limits import ROUNDING, most_within
from optplan.solvers.paths.effort import Effort, OutOfEffortError
from optplan.solvers.paths.families import IntArray, ListedFamily, PathSets
from optplan.solvers.paths.gap import GapClosing
from optplan.solvers.paths.pareto_merge import MergeTarget, merge_path_sets
from optplan.solvers.paths.single_dual import BudgetShortfall, LagrangianBound, fits_budget, maximise_bound
from optplan.solvers.paths.solutions import PureSolution
from optplan.solvers.paths.swaps import fill_slack

#: First allowance, as a fraction of the gap and divided by the number of graphs (many graphs have many alternatives).
_FIRST_FRACTION = 1.0 / 16.0
#: First allowance as a fraction of the gap that is wanted, if that is more.
_FIRST_OF_WANTED = 1.0 / 8.0
#: How much greater the first allowance may be where the optimum is supposed further off: two rounds are saved at most,
#: as one that is too great takes long.
_MOST_AHEAD = 16.0
#: Growth of the allowance from round to round.
_GROWTH = 4.0
#: With so many graphs that have alternatives, a choice is sought among some totals of each merge before exhaustion:
#: at first among so many, and where that does not close the gap among more.
_MANY_GRAPHS, _MOST_KEPT = 24, (512, 2048)


@dataclass(frozen=True)
class Near:
    """Where the search of a problem that differs little has ended.

    Parameters
    ----------
    multiplier
        That attained the bound.
    allowance
        Within which the optimum lay, as a fraction of the value; 0 where nothing had to be enumerated.
    """

    multiplier: float
    allowance: float = 0.0


def solve_pure(
    family: ListedFamily,
    budget: float,
    *,
    gap: float = 1e-6,
    effort: Effort | None = None,
    near: Near | None = None,
) -> PureSolution | BudgetShortfall:
    """Return the best choice of one path per graph, or the proof that none keeps the budget.

    Parameters
    ----------
    budget
        Limit on the sum of the consumptions.
    gap
        Stop when (value - bound) / value is at most this; 0 asks for the optimum itself.
    effort
        Limits on time, labels and pairs, and who listens; no time limit when None. A limit ends the search with the
        best plan so far and the bound proven so far.
    near
        Where to begin; it saves time, and the value found is the same within the gap.

    Returns
    -------
    PureSolution | BudgetShortfall
        A plan always, when one exists.

    Raises
    ------
    UsageError
        When the budget is not a number.

    Notes
    -----
    Enumeration above a Lagrangian bound, as in Carlyle, Royset and Wood, "Lagrangian relaxation and enumeration for
    solving constrained shortest-path problems", Networks 52, 2008; here for many graphs under one budget, with Pareto
    sets instead of single paths.
    """
    spent = effort if effort is not None else Effort(Stopwatch())
    lagrangian = maximise_bound(family, budget, effort=spent, near=None if near is None else near.multiplier)
    if isinstance(lagrangian, BudgetShortfall):
        return lagrangian
    search = _Closing(family, lagrangian, gap, spent)
    spent.passes += lagrangian.passes
    stopped_by = None
    try:
        search.run(0.0 if near is None else near.allowance)
    except OutOfEffortError as stop:
        stopped_by = stop.limit
    return search.conclude(stopped_by)


class _Closing(GapClosing):
    """The state of closing one gap under one limit."""

    def __init__(self, family: ListedFamily, lagrangian: LagrangianBound, gap: float, effort: Effort) -> None:
        linked = lagrangian.multiplier * lagrangian.budget if lagrangian.multiplier > 0 else 0.0
        rounding = ROUNDING * (lagrangian.under.total_value + 2.0 * linked)
        super().__init__(lagrangian.bound, np.array([lagrangian.multiplier]), rounding, gap, effort)
        self.family = family
        self.lagrangian = lagrangian
        self.incumbent = lagrangian.under

    @property
    def value(self) -> float:
        """The incumbent's value."""
        return self.incumbent.total_value

    def run(self, supposed: float) -> None:
        """Enumerate within growing allowances until the gap is closed or a limit is met.

        Parameters
        ----------
        supposed
            Fraction of the value within which the optimum is supposed to lie; 0 where nothing is known of it.
        """
        self.report("bound")
        first = (self.value - self.least) * _FIRST_FRACTION / self.family.num_graphs
        first = max(first, min(supposed * self.value, _MOST_AHEAD * first))
        self.grow(max(first, self.gap * self.value * _FIRST_OF_WANTED), _GROWTH)

    def enumerate_within(self, allowance: float) -> bool:
        """Improve the incumbent within an allowance and, where the merge is completed, the bound."""
        paths = self.family.find_path_sets(self.multipliers, allowance, self.effort)
        base, filled = self._fill(paths)
        self._offer(paths, filled)
        if self.closed:
            return True
        if np.count_nonzero(np.diff(paths.starts) > 1) >= _MANY_GRAPHS:
            if self._merge_some(paths, base, allowance):
                return True
            # Exhaustion need not go further than the wanted gap asks for.
            allowance = min(allowance, self.value * (1.0 - self.gap) - self.least + self.rounding)
        self._merge(paths, base, allowance)
        self.note_covered(allowance)
        return True

    def _merge_some(self, paths: PathSets, base: IntArray, allowance: float) -> bool:
        """Offer the best choices among more and more totals; return whether that closes the gap."""
        for most_kept in _MOST_KEPT:
            self._merge(paths, base, allowance, most_kept=most_kept)
            if self.closed:
                return True
        return False

    def _merge(self, paths: PathSets, base: IntArray, allowance: float, *, most_kept: int | None = None) -> None:
        """Offer the best choice within an allowance; of some choices only, where not all totals are kept."""
        value, consumption = paths.add_up(base)
        target = MergeTarget(
            self.multipliers,
            most_consumption=most_within(np.array([self.lagrangian.budget])),
            most_value=self.value,
            most_reduced_cost=value + float(self.multipliers @ consumption) + allowance + self.rounding,
            most_kept=most_kept,
        )
        best = merge_path_sets(paths, target, self.effort)
        if best is not None:
            self._offer(paths, best)

    def _fill(self, paths: PathSets) -> tuple[IntArray, IntArray]:
        """Return the choice of least reduced cost, and the choice that replacements make of it."""
        reduced_cost = paths.value + paths.consumption @ self.multipliers
        least = np.minimum.reduceat(reduced_cost, paths.starts[:-1])
        tied = np.flatnonzero(reduced_cost <= np.repeat(least + self.rounding, np.diff(paths.starts)))
        first = np.searchsorted(tied, paths.starts)
        lean, rich = tied[first[:-1]], tied[first[1:] - 1]
        limit = most_within(self.lagrangian.budget)
        choice = lean.copy()
        slack = limit - math.fsum(paths.used[lean].tolist())
        steps = paths.used[rich] - paths.used[lean]
        for graph in np.argsort(-steps, kind="stable")[: np.count_nonzero(steps)].tolist():
            if steps[graph] <= slack:
                choice[graph] = rich[graph]
                slack -= float(steps[graph])
        least_gain = max(self.rounding, 0.1 * self.gap * self.lagrangian.bound)
        return lean, fill_slack(paths, choice, limit, least_gain)

    def _offer(self, paths: PathSets, choice: IntArray) -> None:
        """Take a choice as the incumbent when it keeps the budget and is better."""
        value = math.fsum(paths.value[choice].tolist())
        if value >= self.value:
            return
        if not fits_budget(math.fsum(paths.used[choice].tolist()), self.lagrangian.budget):
            return
        plan = paths.trace(choice)
        if fits_budget(plan.total_used, self.lagrangian.budget):
            self.incumbent = plan

    def conclude(self, stopped_by: str | None) -> PureSolution:
        """Return what is known now."""
        return PureSolution(
            paths=self.incumbent,
            bound=self.bound,
            lagrangian=self.lagrangian,
            exhaustion=self.exhaustion,
            proven=self.closed,
            stopped_by=stopped_by,
            passes=self.effort.passes,
            labels=self.effort.labels,
            pairs=self.effort.pairs,
        )
