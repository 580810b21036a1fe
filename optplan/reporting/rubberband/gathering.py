"""What a search's report shows beside its result: the best cluster of constant size, and the frontier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optplan.contracts import Instance, ParetoFrontier, Result, Solution
from optplan.errors import UnsupportedError
from optplan.reporting.presenters import Others
from optplan.reporting.rubberband.words import require_search
from optplan.reporting.trying import solve_others
from optplan.solving import choose_solver, pareto, solve

#: The solver that an elastic plan is set beside.
_STATIC = "static"
#: Seconds that the frontier may take; what it has by then is shown, and said to be partial.
_FRONTIER_LIMIT_S = 10.0


@dataclass(frozen=True)
class Background:
    """The frontier, and the best cluster of constant size where no other plan is shown."""

    frontier: ParetoFrontier
    static: Result[Solution] | None = None


def gather_background(instance: Instance, result: Result[Solution], rivals: Sequence[Result[Solution]]) -> Background:
    """Solve what the report shows; without rivals the plan is set beside the best cluster of constant size."""
    static = None if rivals else _solve_static(instance, result)
    # A frontier is of expected times and costs, with a confidence, too: what is asked for keeps some room before them.
    means = require_search(instance).replace(confidence=None)
    return Background(pareto(means, time_limit_s=_FRONTIER_LIMIT_S), static)


def gather_others(instance: Instance, background: Background) -> Others | None:
    """Solve for the limit at each plan of the frontier, where plans change."""
    found = background.frontier
    if found.limit_name not in instance.limits:
        return None
    is_exact = found.exact and require_search(instance).confidence is None  # with one, plans change elsewhere
    return solve_others(instance, found.limit_name, [point.limit for point in found.points], exact=is_exact)


def _solve_static(instance: Instance, result: Result[Solution]) -> Result[Solution] | None:
    """Return what the best cluster of constant size reaches, where that solver takes the instance and finds one."""
    if result.solution is None or result.solver == _STATIC:
        return None
    try:
        choose_solver(instance, _STATIC)
    except UnsupportedError:
        return None
    found = solve(instance, solver=_STATIC)
    return found if found.solution is not None else None
