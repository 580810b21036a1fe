"""BOA's frontier; with closed forms at real widths, points of the convex program, and every query is solved.

A closed form uses least at its least width and is quickest at its largest, so the ends are those of whole widths.
"""

from __future__ import annotations

import time
from functools import lru_cache
from typing import cast

import numpy as np

from optplan.contracts import Answer, Frontier, FrontierPoint, LagrangianCertificate, SolveRequest
from optplan.errors import InfeasibleError, UnsupportedError
from optplan.formulations.boa.data.instance import BUDGET, BoaInstance, BoaSolution, Problem
from optplan.formulations.boa.exact.costs import describe
from optplan.formulations.boa.exact.feasibility import too_little
from optplan.formulations.boa.exact.layered_paths import build_layered_frontier
from optplan.formulations.boa.exact.linked_frontier import Ends, build_linked_frontier, find_ends
from optplan.formulations.boa.exact.paths import price_at
from optplan.progress import Stopwatch
from optplan.solvers.limits import LIMIT_TOLERANCE
from optplan.units import Amount


def build_frontier(instance: BoaInstance, stopwatch: Stopwatch | None = None) -> Frontier:
    """Compute the whole frontier of mixed plans, whatever the budget, as far as time allows; breakpoints are pure."""
    if instance.commits:
        why = "a bill with committed GPUs is no sum over jobs, so its plans have no frontier to be computed at once"
        raise UnsupportedError(f"{why}; leave commitments out, or solve for one budget after the other")
    features = describe(instance).features
    if "real-widths" in features:
        return _build_curved_frontier(instance, stopwatch or Stopwatch())
    if features <= {"gpu-types", "whole-nodes", "most-gpus"}:
        return build_layered_frontier(instance)
    return build_linked_frontier(instance, stopwatch or Stopwatch())


def _find_ends(instance: BoaInstance) -> Ends:
    if instance.quotas:
        return find_ends(instance)
    line = build_layered_frontier(instance.replace(problem=Problem.WHOLE))
    return Ends(float(line.budgets[0]), float(line.budgets[-1]), float(line.objectives[-1]))


def _build_curved_frontier(instance: BoaInstance, stopwatch: Stopwatch) -> Frontier:
    """Compute points of the frontier with closed forms at real widths."""
    # Loaded on use, as the program is: other frontiers need none of it.
    from optplan.formulations.boa.models.conic import solve_conic

    start = time.perf_counter()
    ends = _find_ends(instance)

    @lru_cache(maxsize=1024)
    def solve_at(budget: float) -> Answer[BoaSolution]:
        return solve_conic(instance.replace(budget=Amount(budget, instance.budget_unit)), SolveRequest())

    def locate(budget: float) -> Answer[BoaSolution]:
        if budget < ends.least * (1.0 - LIMIT_TOLERANCE):
            raise InfeasibleError(too_little(instance, ends.least, budget))
        return solve_at(min(max(budget, ends.least), ends.most))

    def at(budget: float) -> FrontierPoint:
        objective, certificate = value_at(budget), proof_at(budget)
        price = price_at(instance, BUDGET, certificate.multipliers)
        if budget <= ends.least * (1.0 + LIMIT_TOLERANCE):
            price = price.replace(less=None)
        elif budget > ends.most * (1.0 + LIMIT_TOLERANCE):
            price = price.replace(less=0.0)
        if budget >= ends.most * (1.0 - LIMIT_TOLERANCE):
            price = price.replace(more=0.0)
        budget = min(budget, ends.most)
        return FrontierPoint(budget=budget, objective=objective, shadow_price=price, certificate=certificate)

    def value_at(budget: float) -> float:
        return float(locate(budget).objective or np.inf)

    def proof_at(budget: float) -> LagrangianCertificate:
        (certificate,) = locate(budget).certificates
        assert isinstance(certificate, LagrangianCertificate)
        return certificate

    def budget_for(objective_s: float) -> FrontierPoint:
        return at(ends.find_budget(objective_s, points, lambda b: (value_at(b), proof_at(b).multipliers[BUDGET])))

    budgets, objectives = points = ends.draw(value_at, stopwatch)
    return Frontier(
        **instance.origin(),
        budget_unit=instance.budget_unit.value,
        objective_unit="s",
        budgets=budgets,
        objectives=objectives,
        at=at,
        budget_for=budget_for,
        solution_at=lambda budget: cast(BoaSolution, locate(budget).solution),
        exact_between=False,
        solve_seconds=time.perf_counter() - start,
    )
