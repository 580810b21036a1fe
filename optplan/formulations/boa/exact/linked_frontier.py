"""The frontier with quotas, or types that cost to leave: each point is a solve, and carries its own proof.

The optimum of mixed plans as a function of the budget is convex and piecewise linear for fixed quotas, too, but its
breakpoints are those of a linear program in several dimensions, so it is drawn from points instead of being traced.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np

from optplan.contracts import Frontier, FrontierPoint
from optplan.errors import InfeasibleError
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution
from optplan.formulations.boa.exact.continuous import too_fast, too_little
from optplan.formulations.boa.exact.costs import cost_steps
from optplan.formulations.boa.exact.feasibility import explain_shortfall, least_budget
from optplan.formulations.boa.exact.linked_limits import certify, find_price
from optplan.formulations.boa.exact.paths import write_mixture
from optplan.schema import FloatArray
from optplan.solvers.paths import bounds, families, mixing, switching
from optplan.solvers.paths.effort import Effort
from optplan.units import Amount

State = Callable[[FloatArray], families.PathFamily]

#: Points that the frontier is drawn from; queries between them are solved.
_POINTS = 60
#: A budget that is no object, as a multiple of the least.
_AMPLE = 1e6
#: Relative difference at which a wanted objective counts as reached.
_REACHED = 1e-12


class _Solver:
    """Solves one problem at many budgets."""

    def __init__(self, instance: BoaInstance, state: State) -> None:
        self.instance = instance
        self._state = state
        self._quotas = list(instance.quotas.values())
        self.solve = lru_cache(maxsize=1024)(self._solve)

    def family(self, budget: float) -> families.PathFamily:
        return self._state(np.array([budget, *self._quotas]))

    def _solve(self, budget: float) -> bounds.LinkedBound | bounds.LinkedShortfall:
        return bounds.maximise_bound(self.family(budget))

    def at_budget(self, budget: float) -> BoaInstance:
        """Return the instance with a budget, in its own unit of budgets."""
        return self.instance.replace(budget=Amount(budget, self.instance.budget_unit))

    def find_least(self) -> float:
        """Return the least budget with which the quotas can be kept.

        Raises
        ------
        InfeasibleError
            When no budget helps.
        """
        total, _ = least_budget(self.instance)
        family = self.family(0.5 * total)
        shortfall = self.solve(0.5 * total)
        if not isinstance(shortfall, bounds.LinkedShortfall):
            return 0.5 * total
        relaxation = bounds.find_relaxations(family, shortfall)[0]
        if isinstance(relaxation, bounds.Futility):
            answer = explain_shortfall(self.at_budget(_AMPLE * total), family, shortfall)
            raise InfeasibleError(answer.infeasibility.reason if answer.infeasibility else "the quotas cannot be kept")
        return relaxation.least


def build_linked_frontier(
    instance: BoaInstance,
    *,
    state: State | None = None,
    write: Callable[[mixing.Mixture], BoaSolution] | None = None,
) -> Frontier:
    """Compute points of the frontier of mixed plans; queries between them are solved, too.

    Parameters
    ----------
    instance
        Any problem; its budget and policy are ignored.
    state
        States the problem for limits (L,); None states whole widths as layered graphs.
    write
        Writes a mixture of that statement as a solution.

    Returns
    -------
    Frontier
        Budgets in ``instance.budget_unit``, objectives in seconds of (weighted) mean completion time.

    Raises
    ------
    InfeasibleError
        When no budget is enough for the quotas.
    """
    start = time.perf_counter()
    costs = cost_steps(instance) if state is None else []
    state = state or (lambda limits: switching.LinkedGraphs.from_costs(costs, limits))
    write = write or partial(write_mixture, instance)
    solver = _Solver(instance.replace(budget=None), state)
    least = solver.find_least()
    ample = solver.solve(_AMPLE * least)
    if isinstance(ample, bounds.LinkedShortfall) or ample.mixture is None:
        raise InfeasibleError(too_little(instance, least, _AMPLE * least))
    most = max(least, float(ample.mixture.consumption[0]))
    fastest_s = ample.mixture.value

    def locate(budget: float) -> tuple[bounds.LinkedBound, mixing.Mixture]:
        found = solver.solve(max(budget, least) if budget >= least * (1.0 - _REACHED) else budget)
        if isinstance(found, bounds.LinkedShortfall) or found.mixture is None:
            raise InfeasibleError(too_little(instance, least, budget))
        return found, found.mixture

    budgets = np.geomspace(least, most, _POINTS) if most > least * (1.0 + _REACHED) else np.array([least])
    objectives = np.array([locate(float(budget))[1].value for budget in budgets])

    def at(budget: float) -> FrontierPoint:
        found, mixture = locate(budget)
        asked = solver.at_budget(float(found.limits[0]))
        price = find_price(asked, solver.family(float(found.limits[0])), found, 0, Effort())
        return FrontierPoint(
            budget=budget if mixture.consumption[0] >= budget * (1.0 - _REACHED) else float(mixture.consumption[0]),
            objective=min(mixture.value, found.bound) if found.bound > 0 else mixture.value,
            shadow_price=price,
            certificate=certify(asked, found),
        )

    def budget_for(objective_s: float) -> FrontierPoint:
        if objective_s < fastest_s * (1.0 - _REACHED):
            raise InfeasibleError(too_fast(fastest_s, objective_s))
        # The drawn points are known already: the last one that is not quick enough is the nearest start.
        slow = np.flatnonzero(objectives >= objective_s)
        budget = float(budgets[slow[-1]]) if slow.size else least
        while True:
            found, mixture = locate(budget)
            excess = mixture.value - objective_s
            multiplier = float(found.multipliers[0])
            # A convex line lies above its tangents, so a step never goes too far.
            if excess <= _REACHED * objective_s or multiplier <= 0.0:
                return at(budget)
            step = excess / multiplier
            if budget + step <= budget * (1.0 + _REACHED):
                return at(budget)
            budget += step

    def solution_at(budget: float) -> BoaSolution:
        return write(locate(budget)[1])

    return Frontier(
        formulation=instance.formulation,
        instance_name=instance.name,
        instance_hash=instance.content_hash(),
        budget_unit=instance.budget_unit.value,
        objective_unit="s",
        budgets=budgets,
        objectives=objectives,
        at=at,
        budget_for=budget_for,
        solution_at=solution_at,
        exact_between=False,
        solve_seconds=time.perf_counter() - start,
    )
