"""Budgeted layered paths: one path per graph at least total value within one budget, with proofs.

Knows no paper. :class:`LayeredGraphs` holds the graphs; :func:`maximise_bound` and :func:`mix_paths` solve the
convexified problem at one budget, :func:`build_frontier` at all of them, :func:`solve_pure` finds the best choice of
one path per graph. The algorithms reach the graphs through :class:`PathFamily` only, so another kind of transition is
another class with the same methods.
"""

from optplan.solvers.layered.bounds import (
    BudgetShortfall,
    LagrangianBound,
    find_multiplier_range,
    fits_budget,
    maximise_bound,
)
from optplan.solvers.layered.closing import Exhaustion, PureSolution, solve_pure
from optplan.solvers.layered.effort import Effort
from optplan.solvers.layered.frontier import LayeredFrontier, LayeredPoint, build_frontier
from optplan.solvers.layered.graphs import LayeredGraphs
from optplan.solvers.layered.mixing import MixedPlan, mix_paths
from optplan.solvers.layered.paths import (
    BUDGET_TOLERANCE,
    PathBatch,
    PathFamily,
    find_least_consumption,
    find_least_value,
)

__all__ = [
    "BUDGET_TOLERANCE",
    "BudgetShortfall",
    "Effort",
    "Exhaustion",
    "LagrangianBound",
    "LayeredFrontier",
    "LayeredGraphs",
    "LayeredPoint",
    "MixedPlan",
    "PathBatch",
    "PathFamily",
    "PureSolution",
    "build_frontier",
    "find_least_consumption",
    "find_least_value",
    "find_multiplier_range",
    "fits_budget",
    "maximise_bound",
    "mix_paths",
    "solve_pure",
]
