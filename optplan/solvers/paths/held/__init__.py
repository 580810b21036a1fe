"""Budgeted paths over sizes held: staying and shrinking are free, growing costs. One path of least value, with proofs.

Knows no paper. :class:`HeldGraph` is a family for the Lagrangian bounds and frontiers of
:mod:`optplan.solvers.paths`; :func:`solve_held` closes the gap that they leave, also where paths cost more than the
sums of their steps (:class:`Charges`); :func:`find_pareto_set` gives the whole trade-off.
"""

from optplan.solvers.paths.held.charges import Charges, exchange_charges
from optplan.solvers.paths.held.closing import HeldShortfall, HeldSolution, find_least, solve_held
from optplan.solvers.paths.held.graphs import HeldGraph
from optplan.solvers.paths.held.labels import find_pareto_set

__all__ = [
    "Charges",
    "HeldGraph",
    "HeldShortfall",
    "HeldSolution",
    "exchange_charges",
    "find_least",
    "find_pareto_set",
    "solve_held",
]
