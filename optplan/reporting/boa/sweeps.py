"""What a solver reaches at each of many budgets, beside the best possible: how its paper would draw a frontier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from optplan.contracts import FrontierPoint, Result, Solution


@dataclass(frozen=True)
class SweepPoint:
    """One solver at one budget.

    Parameters
    ----------
    best
        The frontier's point at this budget: a proven bound for every plan, mixed ones included.
    result
        What the solver found; it may have no plan.
    """

    best: FrontierPoint
    result: Result[Solution]

    @property
    def above(self) -> float | None:
        """How far the solver's plan is above the frontier, as a fraction; None without a plan."""
        return None if self.result.objective is None else self.result.objective / self.best.objective - 1.0

    def to_json_data(self) -> dict[str, Any]:
        """Return plain data: the budget, and what is known of the plan without its decisions."""
        kept = ("status", "termination", "objective", "bound", "bound_proof", "measures", "solve_seconds")
        known = self.result.to_json_data()
        return {
            "solver": self.result.solver,
            "budget": self.best.budget,
            **{field: known.get(field) for field in kept},
            "gap": self.result.gap,
            "frontier": self.best.objective,
            "above_frontier": self.above,
        }
