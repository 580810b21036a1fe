"""Budgeted layered paths: one path per graph at least total value within one budget, with proofs.

Knows no paper. :class:`LayeredGraphs` holds the graphs; :func:`maximise_bound` and :func:`mix_paths` solve the
convexified problem at one budget, :func:`build_frontier` at all of them, :func:`solve_pure` finds the best choice of
one path per graph. The algorithms reach the graphs through :class:`PathFamily` only, so another kind of transition is
another class with the same methods.
"""

from optplan.solvers.paths.batches import (
    BUDGET_TOLERANCE,
    PathBatch,
    PathFamily,
    find_least_consumption,
    find_least_value,
)
from optplan.solvers.paths.effort import Effort
from optplan.solvers.paths.frontier import LayeredFrontier, LayeredPoint, build_frontier
from optplan.solvers.paths.layered.closing import Exhaustion, PureSolution, solve_pure
from optplan.solvers.paths.layered.graphs import LayeredGraphs
from optplan.solvers.paths.mixing import MixedPlan, mix_paths
from optplan.solvers.paths.secants import (
    BudgetShortfall,
    LagrangianBound,
    find_multiplier_range,
    fits_budget,
    maximise_bound,
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
