"""The check of a range: what the result's own plan amounts to in each of its truths, and which truths these are."""

from __future__ import annotations

import math

from optplan.contracts.ranges import AnswerRange, Truth
from optplan.verification.findings import TOLERANCE, Findings

_SAME = "the plan's figure in this truth must equal the one recomputed from the decisions and the bands of speedups"


def check_range(found: Findings, claimed: AnswerRange) -> None:
    """Evaluate the plan in each truth again; what the best plan comes to there, no certificate says."""
    if found.evaluation is None:
        found.fail("range", "", "a result without a plan that can be evaluated has no range")
        return
    for place, (truth, end) in enumerate(zip(claimed.truths, (1.0, -1.0), strict=False)):
        if {shift for by_type in truth.shifts.values() for shift in by_type.values()} != {end}:
            message = "the first truth must have the upper ends of all bands, and the second the lower ones"
            found.fail("range", f"truths[{place}].shifts", message)
    if all(_check_truth(found, truth, f"truths[{place}]") for place, truth in enumerate(claimed.truths)):
        found.never_checked.append("range: the best plans of other truths within the errors of speedups")
    else:
        found.never_checked.append("range: what the answer is in other truths within the errors of speedups")


def _check_truth(found: Findings, truth: Truth, place: str) -> bool:
    """Check one truth; False where the plan cannot be evaluated in it."""
    evaluation = found.formulation.judge_truth(found.instance, found.result.solution, truth.shifts)
    if evaluation is None:
        return False
    figures = [("objective", truth.objective, evaluation.objective)]
    used = evaluation.consumption
    for name in sorted(truth.consumption.keys() | used.keys()):
        figures += [(name, truth.consumption.get(name, math.nan), used.get(name, math.nan))]
    for name, claimed, recomputed in figures:
        found.compare("range", f"{place} {name}", claimed, recomputed, TOLERANCE * max(1.0, abs(recomputed)), _SAME)
    plans = [] if truth.best_objective is None else [truth.best_objective]
    plans += [evaluation.objective] if all(check.holds for check in evaluation.checks) else []
    if plans:
        bound = math.inf if truth.best_bound is None else truth.best_bound  # none: no plan is said to keep the limits
        message = "no bound can lie above the objective of a plan that keeps the limits, such as the result's own"
        found.at_most("range", f"{place} best", bound, min(plans), TOLERANCE * abs(min(plans)), message)
    return True
