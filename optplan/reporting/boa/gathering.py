"""What BOA's reports and frontiers show beside a result: the frontier, and what solvers reach at its budgets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from optplan.contracts import Frontier, FrontierPoint, Instance, Result, Solution
from optplan.errors import InfeasibleError, UnsupportedError
from optplan.formulations.boa.data.instance import BUDGET, BoaInstance
from optplan.reporting.boa.figures import SweepPoint
from optplan.reporting.boa.tries import choose_budgets
from optplan.reporting.presenters import Others
from optplan.reporting.trying import NEAR, solve_others
from optplan.solving import frontier, solve
from optplan.units import Amount


def gather_background(
    instance: Instance,
    result: Result[Solution],  # noqa: ARG001 - what gathering is asked with
    rivals: Sequence[Result[Solution]],  # noqa: ARG001
) -> Frontier | None:
    """Return the frontier that the plan lies on; None where there is none, or no budget is enough for other limits."""
    try:
        return frontier(instance)
    except (InfeasibleError, UnsupportedError):
        return None


def gather_others(instance: BoaInstance, background: Frontier | None) -> Others | None:
    """Solve for some budgets where none is known, its plans may break limits, or classes are too many to follow it."""
    follows = background is not None and (instance.is_mixed or len(instance.limits) == 1)
    if follows and background is not None and choose_budgets(instance, background):
        return None
    own = instance.limit_as_given(BUDGET)[0]
    return solve_others(instance, BUDGET, [own * step for step in NEAR])


def sweep_budgets(
    instance: BoaInstance,
    points: Sequence[FrontierPoint],
    solver: str,
    *,
    time_limit_s: float | None = None,
) -> Iterator[SweepPoint]:
    """Solve at the budget of each point, one after the other, each within the time limit."""
    for point in points:
        limited = instance.replace(budget=Amount(point.budget, instance.budget_unit))
        yield SweepPoint(point, solve(limited, solver=solver, ranges=False, time_limit_s=time_limit_s))
