"""Paths linked by several limits: one path per graph, or a mixture, at least total value, with proofs.

Knows no paper. :class:`LinkedGraphs` holds layered graphs; the algorithms reach them, or whatever else answers with a
best path under given multipliers, through :class:`LinkedFamily` only. :func:`maximise_bound` solves the convexified
problem with its shadow prices, or proves that the limits cannot be kept; :func:`solve_pure` finds the best choice of
one path per graph.
"""

from optplan.solvers.limits import LIMIT_TOLERANCE
from optplan.solvers.paths.bounds import (
    Futility,
    LinkedBound,
    LinkedShortfall,
    Mixture,
    PriceRange,
    Relaxation,
    find_price_range,
    find_relaxations,
    maximise_bound,
)
from optplan.solvers.paths.branching import Region, Split
from optplan.solvers.paths.closing import Exhaustion, LinkedSolution, solve_pure
from optplan.solvers.paths.families import ColumnBatch, LinkedFamily, join_columns, keep_limits
from optplan.solvers.paths.switching.graphs import LinkedGraphs
from optplan.solvers.paths.switching.trails import Trails, follow_trails

__all__ = [
    "LIMIT_TOLERANCE",
    "ColumnBatch",
    "Exhaustion",
    "Futility",
    "LinkedBound",
    "LinkedFamily",
    "LinkedGraphs",
    "LinkedShortfall",
    "LinkedSolution",
    "Mixture",
    "PriceRange",
    "Region",
    "Relaxation",
    "Split",
    "Trails",
    "find_price_range",
    "find_relaxations",
    "follow_trails",
    "join_columns",
    "keep_limits",
    "maximise_bound",
    "solve_pure",
]
