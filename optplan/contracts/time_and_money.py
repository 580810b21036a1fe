"""What is asked of one job or search: least cost or least time, within a deadline, a budget, both or neither."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from optplan.errors import UnsupportedError, UsageError, nearest_name_hint
from optplan.units import Amount

#: The limits' names in shadow prices and relaxations.
DEADLINE = "deadline"
BUDGET = "budget"


class Objective(StrEnum):
    """What is made least."""

    COST = "cost"
    TIME = "time"


class Problem(StrEnum):
    """Which of the two problems is asked."""

    CHEAPEST = "cheapest"
    FASTEST = "fastest"


class TimeAndMoney:
    """What follows from the fields ``objective``, ``deadline_s`` and ``budget`` of an instance that has them."""

    if TYPE_CHECKING:
        name: str
        objective: Objective
        deadline_s: float | None
        budget: Amount | None

    @property
    def problem(self) -> StrEnum:
        """Which problem is asked."""
        return Problem.FASTEST if self.objective is Objective.TIME else Problem.CHEAPEST

    def fields_of_problem(self, problem: str) -> dict[str, object]:
        """Return the fields to change so that another problem is asked."""
        if problem not in list(Problem):
            raise UsageError(f"problem: got {problem!r}; {nearest_name_hint(problem, list(Problem))}")
        return {"objective": Objective.TIME if problem == Problem.FASTEST else Objective.COST}

    @property
    def objective_unit(self) -> str:
        """US dollars, or seconds."""
        return "usd" if self.objective is Objective.COST else "s"

    @property
    def limit_name(self) -> str:
        """The name of the limit that is traded against the objective."""
        return DEADLINE if self.objective is Objective.COST else BUDGET

    def traded_limit(self, asked: str) -> tuple[str, str]:
        """Return the name and the unit of the limit that a frontier is by."""
        if asked not in ("", self.limit_name):
            message = f"the frontier of the objective {self.objective.value} is by {self.limit_name}, not by {asked}"
            raise UnsupportedError(message)
        return self.limit_name, "s" if self.objective is Objective.COST else "usd"

    @property
    def limits(self) -> dict[str, float]:
        """The limits by name: the deadline in seconds, the budget in US dollars; those that there are."""
        found = {}
        if self.deadline_s is not None:
            found[DEADLINE] = self.deadline_s
        if self.budget is not None:
            found[BUDGET] = self.budget.value
        return found

    def limit_as_given(self, limit: str) -> tuple[float, str]:
        """Return a limit as the instance's own fields state it, and the unit there."""
        if limit == DEADLINE and self.deadline_s is not None:
            return self.deadline_s, "s"
        if limit == BUDGET and self.budget is not None:
            return self.budget.value, self.budget.unit.value
        example = "--deadline 20min or deadline_s=1200" if limit == DEADLINE else "--budget 25usd or budget='25usd'"
        raise UsageError(f"instance {self.name!r} has no {limit}; give one, as in {example}")

    def price_unit(self, limit: str) -> str:
        """Return the unit of a limit's shadow price."""
        return f"{self.objective_unit} per {'s' if limit == DEADLINE else 'usd'} of {limit}"
