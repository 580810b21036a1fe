"""Frontiers judged: the certificate and the decisions of every point, and what lies between two of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from optplan.contracts import Frontier, FrontierPoint, Instance, Verification
from optplan.contracts.registry import Formulation
from optplan.contracts.time_and_money import BUDGET
from optplan.formulations import formulation_of
from optplan.progress import OutOfTime, Stopwatch
from optplan.units import Amount, BudgetUnit
from optplan.verification.findings import TOLERANCE, Checks, require_made_for

#: How far the chord may lie above what certificates prove where a frontier is said to be exact between its points.
_ON_CHORD = 1e-6


@dataclass
class _Findings(Checks):
    """Checks and claims of one frontier."""

    formulation: Formulation
    instance: Instance
    stopwatch: Stopwatch


def verify_frontier(instance: Instance, frontier: Frontier, *, time_limit_s: float | None) -> Verification:
    """Check every point of a frontier, and that no plan lies below the chord of two by more than is said."""
    # What is left after ``time_limit_s`` seconds of processor time is taken on trust.
    require_made_for(instance, frontier, "frontier")
    found = _Findings(formulation_of(instance), instance, Stopwatch(time_limit_s, clock=time.thread_time))
    _check_points(found, frontier)
    return found.conclude()


def _check_points(found: _Findings, frontier: Frontier) -> None:
    points = frontier.points()
    for number, point in enumerate(points, start=1):
        index = f"point {number}"
        try:
            found.stopwatch.require()
            _check_point(found, frontier, point, index)
        except OutOfTime:
            limit_s = found.stopwatch.limit_s
            found.on_trust.append(f"points {number} to {len(points)}: not checked within {limit_s:g} s")
            return
    _check_between(found, frontier, points)


def _check_point(found: _Findings, frontier: Frontier, point: FrontierPoint, index: str) -> None:
    """Check what a point's decisions amount to at its budget, and what its certificate proves there."""
    own = found.instance.replace(budget=Amount(point.budget, BudgetUnit(frontier.budget_unit)))
    evaluation = found.formulation.evaluate(own, frontier.solution_at(point.budget))
    found.checks += [check.replace(index=f"{index} {check.index}".strip()) for check in evaluation.checks]
    message, reached = "the point's decisions must reach it", evaluation.objective
    tolerance = TOLERANCE * max(abs(point.objective), abs(reached))
    found.compare("objective", index, point.objective, reached, tolerance, message)
    multipliers = dict(point.certificate.multipliers)
    if set(multipliers) != set(own.limits):
        found.fail("certificate", index, f"multipliers must name exactly {', '.join(own.limits)}")
        return
    dual = float(found.formulation.dual_bound(own, multipliers, found.stopwatch))
    # What rounding errors are relative to: the objective, and what the multipliers weigh.
    scale = abs(point.objective) + 2.0 * sum(multipliers[limit] * amount for limit, amount in own.limits.items())
    message = "the certificate must prove that nothing is better within the budget"
    found.at_most("certificate", index, point.objective, dual, TOLERANCE * scale, message)
    message = "the certificate must not claim more than its multipliers prove"
    found.at_most("certificate", index, point.certificate.bound, dual, TOLERANCE * scale, message)
    ends = point.shadow_price
    if ends.less is not None:
        message = "a price may not rise with the budget"
        found.at_most("shadow-price", index, ends.more, ends.less, TOLERANCE * abs(max(ends.more, ends.less)), message)


def _check_between(found: _Findings, frontier: Frontier, points: Sequence[FrontierPoint]) -> None:
    """Compare the chords, which mixtures of two neighbours reach, with what the two certificates prove between them."""
    widest = 0.0
    for number, (left, right) in enumerate(pairwise(points), start=1):
        index = f"points {number} to {number + 1}"
        message = "budgets must rise, and objectives fall"
        found.at_most("order", index, left.budget, right.budget, 0.0, message)
        found.at_most("order", index, right.objective, left.objective, TOLERANCE * abs(left.objective), message)
        room = _find_room(left, right) / abs(left.objective)
        widest = max(widest, room)
        if frontier.exact_between:
            message = "between two points nothing may lie below the chord, which mixtures of the two reach"
            found.at_most("between", index, room, 0.0, _ON_CHORD, message)
    if not frontier.exact_between and len(points) > 1:
        found.never_checked.append(
            f"between two points plans lie on or below the chord, which mixtures reach: by at most {widest:.2%}"
        )


def _find_room(left: FrontierPoint, right: FrontierPoint) -> float:
    """Return by how much the chord between two points is at most above both lines that their certificates prove."""
    step = right.budget - left.budget
    if step <= 0.0:
        return 0.0
    chord = (right.objective - left.objective) / step
    steep, flat = (-point.certificate.multipliers.get(BUDGET, 0.0) for point in (left, right))
    # The lines objective + slope * (budget - own budget) of the two cross where neither proves more than the other.
    if steep >= flat:
        at = 0.0
    else:
        at = (right.objective - flat * step - left.objective) / (steep - flat)
    at = min(max(at, 0.0), step)
    lines = (left.objective + steep * at, right.objective + flat * (at - step))
    return max(0.0, left.objective + chord * at - max(lines))
