"""The Lagrangian bound of one linking budget, and the multiplier that attains it.

For a multiplier mu >= 0, L(mu) = sum of the graphs' least reduced costs - mu * budget bounds every plan within the
budget from below, mixed plans included. L is concave and piecewise linear; each plan seen so far is a line above it.
The multiplier at which the best line from either side of the budget intersect is tried next, until no plan lies below
the intersection: then L is at its maximum there, exactly, without a tolerance on mu (Handler and Zang, Networks 10,
1980).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from optplan.errors import UsageError
from optplan.solvers.limits import LIMIT_TOLERANCE, ROUNDING, is_within
from optplan.solvers.paths.effort import Effort
from optplan.solvers.paths.families import GraphFamily, PathBatch, find_least_consumption, find_least_value

#: Multiples of a multiplier that is given at which paths are looked for.
_AROUND = (0.6, 0.8, 1.0, 1.25, 1.6)


@dataclass(frozen=True, eq=False)
class BudgetShortfall:
    """Proof that no plan keeps the budget.

    Parameters
    ----------
    budget
        The budget asked for.
    least
        The path of least consumption of each graph; their total exceeds the budget.
    """

    budget: float
    least: PathBatch

    @property
    def least_budget(self) -> float:
        """The least budget for which a plan exists."""
        return self.least.total_used


@dataclass(frozen=True, eq=False)
class LagrangianBound:
    """The greatest Lagrangian bound at a budget.

    Parameters
    ----------
    budget
        The budget asked for.
    multiplier
        A multiplier that attains the bound; 0 where the budget does not bind.
    bound
        L(multiplier): no plan within the budget has less value.
    under
        Paths of least reduced cost that keep the budget (up to :data:`LIMIT_TOLERANCE`).
    over
        Paths of least reduced cost that exceed the budget; None where it does not bind.
    passes
        Shortest-path passes that it took.
    attained
        Whether the bound is the greatest one; False only when time ran out. Then it is the best one so far, and the
        paths on either side are best at multipliers of their own.
    """

    budget: float
    multiplier: float
    bound: float
    under: PathBatch
    over: PathBatch | None
    passes: int
    attained: bool = True


def fits_budget(consumption: float, budget: float) -> bool:
    """Return whether a plan keeps the budget, as :mod:`optplan.solvers.limits` defines it."""
    return is_within(consumption, budget)


def maximise_bound(
    family: GraphFamily, budget: float, *, effort: Effort | None = None, near: float | None = None
) -> LagrangianBound | BudgetShortfall:
    """Return the greatest Lagrangian bound at a budget, or the proof that no plan keeps it.

    Parameters
    ----------
    budget
        Limit on the sum of the consumptions; +inf for none.
    effort
        Its stopwatch is looked at before every pass beyond the first four, which say whether there is a plan and what
        it would cost were the budget no object. When time runs out the best bound so far is returned.
    near
        A multiplier near which the best one is supposed, as of a problem that differs little; it saves passes.

    Returns
    -------
    LagrangianBound | BudgetShortfall
        The bound with the paths on either side of the budget, or the least consumption of each graph.

    Raises
    ------
    UsageError
        When the budget is not a number.

    Notes
    -----
    The bound is the optimum of the convexified problem: some mixture of ``under`` and ``over`` attains it
    (:func:`~optplan.solvers.paths.mixtures.mix_paths`). The method is that of Handler and Zang, "A dual algorithm for
    the constrained shortest path problem", Networks 10, 1980.
    """
    if math.isnan(budget):
        raise UsageError("the budget is not a number")
    passes, begun = 0, None
    if near is not None and near > 0.0:
        begun, passes = _enclose(family, budget, near)
    if begun is not None:
        under, over, best_multiplier, best = begun
    else:
        under = find_least_consumption(family)
        if not fits_budget(under.total_used, budget):
            return BudgetShortfall(budget, under)
        over, best = find_least_value(family)
        passes += 4
        if fits_budget(over.total_used, budget):
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
        if fits_budget(trial.total_used, budget):
            under = trial
        else:
            over = trial
    return LagrangianBound(budget, best_multiplier, best, under, over, passes, attained=False)


def _enclose(
    family: GraphFamily, budget: float, near: float
) -> tuple[tuple[PathBatch, PathBatch, float, float] | None, int]:
    """Look for paths on either side of the budget at multipliers around one.

    Returns
    -------
    tuple or None, int
        Paths that keep the budget and paths that exceed it, with a multiplier and its bound; None where they lie
        farther apart than was looked. And the passes that it took.
    """
    graphs, tried = np.arange(family.num_graphs), near * np.array(_AROUND)
    # All at once: a sweep takes about as long for several multipliers as for one.
    every = family.best_paths(np.repeat(tried, graphs.size)[:, None], np.tile(graphs, tried.size))
    under = over = None
    multiplier, bound = near, -math.inf
    for place, each in enumerate(tried.tolist()):
        trial = every.take(graphs + place * graphs.size)
        reached = math.fsum(trial.weigh(np.array([each])).tolist()) - each * budget
        if reached > bound:
            multiplier, bound = each, reached
        if not fits_budget(trial.total_used, budget):
            over = trial
        elif under is None:
            under = trial
    if under is None or over is None:
        return None, tried.size
    return (under, over, multiplier, bound), tried.size


def find_multiplier_range(
    family: GraphFamily, bound: LagrangianBound, *, effort: Effort | None = None
) -> tuple[float, float]:
    """Return the value lost per unit when the budget shrinks a little, and gained when it grows a little.

    Parameters
    ----------
    bound
        What :func:`maximise_bound` returned for them, attained.
    effort
        Limit on time, and who counts the passes.

    Returns
    -------
    tuple[float, float]
        Shadow prices of the convexified problem. They differ only where the budget is a breakpoint of its frontier;
        the first is +inf where no smaller budget is feasible, the second 0 where more budget gains nothing.

    Raises
    ------
    OutOfEffortError
        When time runs out.
    """
    spent = effort if effort is not None else Effort()
    # Both sides are best at the multiplier, so it is the slope between them, and of everything strictly inside.
    corner = bound.under
    if not fits_budget(bound.budget, corner.total_used):
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
