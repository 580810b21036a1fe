"""The whole trade-off between a limit and the objective, as a look-up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from optplan.contracts.instance import Solution
from optplan.contracts.result import LagrangianCertificate, ShadowPrice
from optplan.schema import FloatArray, FrozenModel


class FrontierPoint(FrozenModel):
    """One point of a frontier, with its proof.

    Parameters
    ----------
    budget
        The limit, in the frontier's budget unit; at the far end the least that the best objective needs.
    objective
        The optimum of the convexified problem there.
    shadow_price
        What a little less and a little more budget would change.
    certificate
        Re-derives ``objective`` as a lower bound at this budget.
    """

    budget: float
    objective: float
    shadow_price: ShadowPrice
    certificate: LagrangianCertificate


@dataclass(frozen=True)
class Frontier:
    """Optimum of the convexified problem as a function of the budget; every query is a look-up.

    Parameters
    ----------
    formulation, instance_name, instance_hash
        Whose frontier it is.
    budget_unit, objective_unit
        Units of the two axes.
    budgets, objectives
        (N,) Breakpoints: budgets increase, objectives decrease, convex. The objective is linear in between where
        ``exact_between`` holds; otherwise it lies on or below the chord and ``at`` solves for it.
    at
        Point for a budget. Raises InfeasibleError when the budget is below the least one.
    budget_for
        Point with the least budget that reaches a wanted objective. Raises InfeasibleError when nothing reaches it.
    solution_at
        Decisions for a budget.
    exact_between
        Whether the frontier is piecewise linear.
    solve_seconds
        Wall time of making it.
    """

    formulation: str
    instance_name: str
    instance_hash: str
    budget_unit: str
    objective_unit: str
    budgets: FloatArray
    objectives: FloatArray
    at: Callable[[float], FrontierPoint]
    budget_for: Callable[[float], FrontierPoint]
    solution_at: Callable[[float], Solution]
    exact_between: bool
    solve_seconds: float = 0.0

    def points(self) -> list[FrontierPoint]:
        """Return every breakpoint with its certificate, from the least budget on."""
        return [self.at(float(budget)) for budget in self.budgets]
