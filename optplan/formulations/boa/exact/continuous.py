"""Problem (1), and (7) without quotas, on the sorted-slopes engine: one budget, and the whole frontier.

With one GPU type tables enter by the lower-left hull of (k / s, 1 / s), on which a real width between two vertices
stands for a fraction of the jobs at each of the two; Amdahl and power law enter by their closed forms. With several
types, or interruptions, the points of all types enter together, and fractions are branches of the solution. Goodput
curves have no closed form and enter as tables at the allowed whole widths. Closed forms on several types, and quotas,
are the business of :mod:`optplan.formulations.boa.exact.typed_choices`.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from optplan.contracts import (
    Answer,
    BoundProof,
    Frontier,
    FrontierPoint,
    LagrangianCertificate,
    ShadowPrice,
    SolveRequest,
    Termination,
)
from optplan.contracts.result import status_of
from optplan.errors import InfeasibleError
from optplan.formulations.boa.data.instance import BUDGET, BoaInstance, BoaSolution
from optplan.formulations.boa.exact.answers import certify_bound
from optplan.formulations.boa.exact.feasibility import UNIT_WORDS, infeasible_answer, least_budget
from optplan.formulations.boa.exact.orders import in_order

if TYPE_CHECKING:
    from optplan.solvers import slopes

#: Points that a frontier's drawing has at most; queries between them are exact.
_DRAWN_POINTS = 1000


@in_order
def solve_sorted_slopes(instance: BoaInstance, request: SolveRequest) -> Answer[BoaSolution]:
    """Solve problem (1), or (7) with tables and without quotas, exactly.

    With a Lagrangian certificate and one-sided shadow prices.

    Raises
    ------
    UnsupportedError
        When several types meet closed forms.
    """
    from optplan.formulations.boa.exact.choices import state_choices
    from optplan.solvers import slopes

    budget = instance.budget_amount()
    stated = state_choices(instance)
    found = slopes.solve_budget(stated.blocks, budget)
    if isinstance(found, slopes.OutOfReach):
        return infeasible_answer(instance, *least_budget(instance))
    certificate = certify_bound(instance, found.bound, found.multiplier_right)
    return Answer(
        status=status_of(found.value, certificate.bound, request.gap),
        termination=Termination.COMPLETED,
        solution=stated.write_solution(found.choices),
        objective=found.value,
        bound=min(certificate.bound, found.value),
        bound_proof=BoundProof.LAGRANGIAN,
        certificates=(certificate,),
        shadow_prices={BUDGET: price_of(instance, found.multiplier_left, found.multiplier_right)},
    )


def build_continuous_frontier(instance: BoaInstance) -> Frontier:
    """Compute the whole frontier of problem (1), or of (7) with tables and without quotas.

    Parameters
    ----------
    instance
        Problem continuous; its budget is ignored.

    Returns
    -------
    Frontier
        Piecewise linear where all speedups are tables; with closed forms every query is an exact search.
    """
    from optplan.formulations.boa.exact.choices import state_choices
    from optplan.solvers import slopes

    start = time.perf_counter()
    stated = state_choices(instance)
    line = slopes.trace_frontier(stated.blocks)
    curve = line.curve(_DRAWN_POINTS)

    def at(budget: float) -> FrontierPoint:
        point = line.at(budget)
        if isinstance(point, slopes.OutOfReach):
            raise InfeasibleError(too_little(instance, point.least, budget))
        return _write_point(instance, point)

    def budget_for(objective_s: float) -> FrontierPoint:
        point = line.for_value(objective_s)
        if isinstance(point, slopes.OutOfReach):
            raise InfeasibleError(too_fast(point.least, objective_s))
        return _write_point(instance, point)

    def solution_at(budget: float) -> BoaSolution:
        found = line.select(budget)
        if isinstance(found, slopes.OutOfReach):
            raise InfeasibleError(too_little(instance, found.least, budget))
        return stated.write_solution(found.choices)

    return Frontier(
        **instance.origin(),
        budget_unit=instance.budget_unit.value,
        objective_unit="s",
        budgets=curve.consumption,
        objectives=curve.value,
        at=at,
        budget_for=budget_for,
        solution_at=solution_at,
        exact_between=not stated.any_smooth and curve.consumption.size == line.consumption.size,
        solve_seconds=time.perf_counter() - start,
    )


def price_of(instance: BoaInstance, less: float, more: float, limit: str = BUDGET) -> ShadowPrice:
    """Return the shadow price of a limit; infinite on the side on which nothing is feasible becomes None."""
    # Where the two are the same, rounding may turn their order.
    ends = (max(less, more), more)
    return ShadowPrice(less=ends[0] if math.isfinite(less) else None, more=ends[1], unit=instance.price_unit(limit))


def _write_point(instance: BoaInstance, point: slopes.SlopesPoint) -> FrontierPoint:
    return FrontierPoint(
        budget=point.consumption,
        objective=point.value,
        shadow_price=price_of(instance, point.multiplier_left, point.multiplier_right),
        certificate=LagrangianCertificate(multipliers={BUDGET: point.multiplier_right}, bound=point.value),
    )


def too_little(instance: BoaInstance, least: float, budget: float) -> str:
    """Say that a frontier does not reach down to a budget."""
    unit = UNIT_WORDS.get(instance.budget_unit, str(instance.budget_unit))
    return f"the frontier starts at a budget of {least:.6g} {unit}; got {budget:.6g}"


def too_fast(least_s: float, asked_s: float) -> str:
    """Say that no budget reaches a mean completion time."""
    return f"no budget brings the mean completion time below {least_s:.6g} s; got {asked_s:.6g} s"
