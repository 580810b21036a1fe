"""The whole trade-off between a limit and the objective, as a look-up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from optplan.contracts.instance import Instance, Solution
from optplan.contracts.result import LagrangianCertificate, ShadowPrice
from optplan.errors import UsageError
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
    origin
        What it was made by, a function of a module, and of which instance. With that a frontier can be pickled; its
        points go along, and the first query after unpickling makes the rest anew.
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
    origin: tuple[Callable[[Instance], Frontier], Instance] | None = field(default=None, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the points and the origin.

        Raises
        ------
        UsageError
            When the origin is not known.
        """
        if self.origin is None:
            raise UsageError("this frontier does not know its origin, so it cannot be pickled; optplan.frontier's can")
        queries = {"at", "budget_for", "solution_at"}
        return _revive, ({each.name: getattr(self, each.name) for each in fields(self) if each.name not in queries},)

    def points(self) -> list[FrontierPoint]:
        """Return every breakpoint with its certificate, from the least budget on."""
        return [self.at(float(budget)) for budget in self.budgets]


@dataclass(frozen=True)
class _Remake:
    """Makes a frontier again when it is first asked."""

    make: Callable[[Instance], Frontier]
    instance: Instance

    @cached_property
    def _frontier(self) -> Frontier:
        return self.make(self.instance)

    def at(self, budget: float) -> FrontierPoint:
        return self._frontier.at(budget)

    def budget_for(self, objective: float) -> FrontierPoint:
        return self._frontier.budget_for(objective)

    def solution_at(self, budget: float) -> Solution:
        return self._frontier.solution_at(budget)


def _revive(known: dict[str, Any]) -> Frontier:
    """Make a frontier of what was pickled of it."""
    remake = _Remake(*known["origin"])
    return Frontier(**known, at=remake.at, budget_for=remake.budget_for, solution_at=remake.solution_at)
