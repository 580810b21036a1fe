"""What BOA's reports and frontiers show beside a result: the frontier, and what solvers reach at its budgets."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from optplan.contracts import Frontier, FrontierPoint, Instance, Result, Solution
from optplan.errors import InfeasibleError, UnsupportedError
from optplan.formulations.boa.data.instance import BUDGET, BoaInstance
from optplan.reporting.boa.figures import SweepPoint
from optplan.reporting.presenters import Others
from optplan.reporting.trying import NEAR, solve_others
from optplan.solving import frontier, solve
from optplan.units import Amount

#: Steps at most between the budgets that are solved for, and how far apart their ends count as at least, as a share.
_MOST_STEPS, _LEAST_SPAN = 36, 1e-3


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


def gather_others(instance: BoaInstance, background: Frontier | None) -> Others:
    """Solve for round budgets as far as more of it buys something; for few around the own one where each takes long."""
    own = instance.limit_as_given(BUDGET)[0]
    if background is None or instance.further_limits or instance.most_gpus is not None:
        return solve_others(instance, BUDGET, [own * step for step in NEAR])
    least, most = (own / instance.limits[BUDGET] * background.budgets[[0, -1]]).tolist()
    wanted = max(most - least, _LEAST_SPAN * most) / _MOST_STEPS
    unit = 10.0 ** math.floor(math.log10(wanted))
    step = next(unit * factor for factor in (1.0, 2.0, 5.0, 10.0) if unit * factor >= wanted)
    rounds = range(math.floor(least / step) + 1, math.ceil(most / step) + 1)
    return solve_others(instance, BUDGET, [least, *(step * number for number in rounds)])


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
