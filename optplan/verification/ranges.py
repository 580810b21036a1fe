"""Ranges of answers: what the plan, the best plan and its bound come to in each truth, derived again."""

from __future__ import annotations

import math

import numpy as np

from optplan.contracts import (
    BoundProof,
    EnumeratedCertificate,
    Evaluation,
    Instance,
    LagrangianCertificate,
)
from optplan.contracts.ranges import AnswerRange, Truth
from optplan.errors import OptplanError
from optplan.verification.bounds import BoundJudge
from optplan.verification.findings import ROUNDING, TOLERANCE, UNCHECKED, Findings

_SAME = "the plan's figure in this truth must equal the one recomputed from the decisions and the bands of speedups"


def check_range(found: Findings, claimed: AnswerRange) -> None:
    """Derive again what the plan, the best one that was found and the bound of all come to in each truth."""
    if found.evaluation is None:
        found.fail("range", "", "a result without a plan that can be evaluated has no range")
        return
    for place, (truth, end) in enumerate(zip(claimed.truths, (1.0, -1.0), strict=False)):
        if {shift for by_type in truth.shifts.values() for shift in by_type.values()} != {end}:
            message = "the first truth must have the upper ends of all bands, and the second the lower ones"
            found.fail("range", f"truths[{place}].shifts", message)
    before = len(found.checks)
    for place, truth in enumerate(claimed.truths):
        try:
            instance = found.formulation.judge_truth(found.instance, truth.shifts)
        except ValueError as error:
            found.fail("range", f"truths[{place}].shifts", str(error))
            continue
        if instance is None:
            found.never_checked.append("range: what the answer is in other truths within the errors of speedups")
            return
        _check_truth(found, truth, instance, f"truths[{place}]")
    if all(check.holds for check in found.checks[before:]):
        _check_rest(found, claimed)


def _check_truth(found: Findings, truth: Truth, instance: Instance, place: str) -> None:
    own = found.formulation.evaluate(instance, found.result.solution)
    figures = [("objective", truth.objective, own.objective)]
    for name in sorted(truth.consumption.keys() | own.consumption.keys()):
        figures += [(name, truth.consumption.get(name, math.nan), own.consumption.get(name, math.nan))]
    for name, claimed, recomputed in figures:
        found.compare("range", f"{place} {name}", claimed, recomputed, TOLERANCE * max(1.0, abs(recomputed)), _SAME)
    plans = [own.objective] if _keeps(own) else []
    if truth.plan:
        try:
            judged = found.formulation.evaluate(instance, found.formulation.solution_type.parse(truth.plan))
        except OptplanError as error:
            found.fail("range", f"{place} plan", f"its decisions cannot be read: {error}")
            return
        broken = [check.message for check in judged.checks if not check.holds]
        if broken:
            found.fail("range", f"{place} plan", f"its decisions do not keep everything: {broken[0]}")
        plans += [judged.objective] if _keeps(judged) else []
    if (truth.best_objective is None) != (not plans):
        found.fail("range", f"{place} best", "an objective, and a plan that comes to it, are needed: both or neither")
    elif plans:
        best, message = min(plans), "the best objective must be that of the best plan given, or of the result's own"
        found.compare("range", f"{place} best", truth.best_objective or 0.0, best, TOLERANCE * abs(best), message)
    _check_bound(found, truth, instance, place, own)


def _keeps(evaluation: Evaluation) -> bool:
    return all(check.holds for check in evaluation.checks)


def _check_bound(found: Findings, truth: Truth, instance: Instance, place: str, own: Evaluation) -> None:
    """Derive the bound at its multipliers, as one of a result is, or that no plan keeps the limits."""
    true = Findings(found.formulation, instance, found.result, found.stopwatch, evaluation=own)
    claim = f"range: the bound of {place}"
    try:
        if truth.best_bound is None:
            _check_none(true, place)
        elif true.names_all_limits("range", f"{place} bound", truth.multipliers):
            _derive_bound(true, truth, truth.best_bound)
    except UNCHECKED as error:
        true.leave(f"{claim},", error)
    if true.unlisted:  # whoever searches may list more than a judge does
        found.on_trust.append(f"{claim} rests on a search")
        return
    found.checks += [check.replace(family="range", index=f"{place} bound") for check in true.checks]
    found.on_trust += [f"{claim}, {trusted}" for trusted in true.on_trust]


def _derive_bound(true: Findings, truth: Truth, bound: float) -> None:
    multipliers = dict(truth.multipliers)
    certificate: LagrangianCertificate | EnumeratedCertificate = LagrangianCertificate(
        multipliers=multipliers, bound=bound
    )
    if BoundProof.ENUMERATED in true.accepted:
        allowance = max(0.0, bound - true.dual(multipliers))
        certificate = EnumeratedCertificate(multipliers=multipliers, allowance=allowance, optimum=None, bound=bound)
    true.result = true.result.model_copy(update={"certificates": (certificate,)})
    BoundJudge(true).check_certificates()


def _check_none(true: Findings, place: str) -> None:
    """Check that no plan keeps the limits: that some limit is less than any plan needs of it."""
    for limit, amount in true.limits.items():
        weights = np.array([float(name == limit) for name in true.limits])
        least: float = sum(true.formulation.least_consumption(true.instance, weights, true.stopwatch).values())
        if least > amount * (1.0 + TOLERANCE - ROUNDING):
            true.at_most("range", place, amount, least, 0.0, "where no plan keeps the limits some limit is too low")
            return
    if len(true.limits) > 1:  # several together may be
        true.on_trust.append("that no plan keeps all limits")
    else:
        true.fail("range", place, "there are plans that keep the limit")


def _check_rest(found: Findings, claimed: AnswerRange) -> None:
    """Compare the rest of a range with what follows from its truths."""
    try:
        derived = found.formulation.derive_range(found.instance, found.result, claimed)
    except ValueError:
        message = f"the truths must be those that the result's seed, {found.result.seed}, chooses"
        found.fail("range", "truths", message)
        return
    for field, own in derived:
        if field == "measurements":
            continue
        message = f"{field} must be what the result, its seed and the plans of the truths say"
        if getattr(claimed, field) == own:
            found.hold("range", field, message)
        else:
            found.fail("range", field, message)
    names, own_names = (
        [(one.subject, one.gpu_type, one.gpus) for one in each.measurements] for each in (claimed, derived)
    )
    if names != own_names:
        found.fail("range", "measurements", "the measurements must be those that can be worth anything, first the most")
        return
    for one, own in zip(claimed.measurements, derived.measurements, strict=True):
        message = "what a measurement is worth must be what follows from the certificate's multipliers"
        found.compare("range", f"worth of {one.subject}", one.worth, own.worth, TOLERANCE * own.worth, message)
