"""What certificates prove about RubberBand's plans, and the judge of trees.

Nothing in a certificate closes anything: the judge lists the beginnings of plans itself, and closes those that another
one beats or from which no plan is better than claimed. There are two rules.

``rubberband-charges``
    For budgets, where minimum charges come on top of what multipliers bound. The content is empty. No plan keeps the
    budget; or, with the budget as ``limit``: none costs less than ``bound``.

``rubberband-both``
    For a deadline and a budget at once. The content is ``limit``, one of the two, with ``multiplier`` of the other and
    ``allowance``: plans that keep the other were enumerated so far above the dual bound of least ``limit``, and need
    that much of it at least. So no plan keeps both; or, with that limit as ``limit`` of the certificate, ``bound`` is
    the least of it; or, with the other one and no bound, no value of that one helps.

With a confidence all of this is about means, within the limits that
:func:`~optplan.formulations.rubberband.judge.duality.limit_means` derives; amounts of a limit are the instance's own.
Bounds hold to a relative 1e-9.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from optplan.contracts.judgement import JUDGE_TOLERANCE, RefutedError
from optplan.contracts.result import BoundProof, TreeCertificate
from optplan.formulations.rubberband.data.instance import BUDGET, DEADLINE, Objective, RubberBandInstance
from optplan.formulations.rubberband.data.rules import BOTH, CHARGES
from optplan.formulations.rubberband.judge.bracket_paths import BracketPaths
from optplan.formulations.rubberband.judge.duality import dual_bound, least_within, limit_means

if TYPE_CHECKING:
    from optplan.progress import Stopwatch

#: An amount of a limit that no plan reaches: seconds, or US dollars.
_UNLIMITED = 1e15


def list_proofs(instance: RubberBandInstance) -> frozenset[BoundProof]:
    """Return the kinds of certificate that prove anything: with a confidence what they prove of means."""
    of_means = frozenset({BoundProof.LAGRANGIAN, BoundProof.ENUMERATED})
    has_trees = _has_charged_budget(instance) or instance.ceiling is not None
    return of_means | {BoundProof.TREE} if has_trees else of_means


def check_tree(instance: RubberBandInstance, certificate: TreeCertificate, stopwatch: Stopwatch) -> None:
    """Raise unless a certificate proves its claim; see the module's text."""
    if certificate.limit not in ("", *instance.limits):
        raise RefutedError(f"there is no limit {certificate.limit!r}")
    instance, share = limit_means(instance, stopwatch)
    if share <= 0.0:
        raise RefutedError("durations vary so much that nothing about means proves anything about the confidence")
    if certificate.limit and certificate.bound is not None:
        certificate = certificate.replace(bound=certificate.bound / share)
    if certificate.rule == BOTH and instance.ceiling is not None:
        _check_both(instance, certificate, stopwatch)
    elif certificate.limit == instance.ceiling_name:
        # Without that limit, too, no plan keeps the other.
        check_tree(instance.without_ceiling(), certificate.replace(limit=""), stopwatch)
    elif certificate.rule == CHARGES and _has_charged_budget(instance):
        _check_charges(instance, certificate, stopwatch)
    else:
        raise RefutedError(f"{certificate.rule!r} is no rule that proves anything here")


def _has_charged_budget(instance: RubberBandInstance) -> bool:
    return instance.objective is Objective.TIME and instance.has_minimum_charges


def _check_both(instance: RubberBandInstance, certificate: TreeCertificate, stopwatch: Stopwatch) -> None:
    """Find what plans need at least of one limit, and hold it against that limit or against what is claimed."""
    least_of = certificate.content.get("limit")
    if least_of not in (DEADLINE, BUDGET):
        raise RefutedError(f"limit must be {DEADLINE} or {BUDGET}")
    is_cost = least_of == BUDGET
    asked = instance.replace(objective=Objective.COST if is_cost else Objective.TIME)
    claimed = instance.limits[least_of]
    if certificate.limit == least_of:
        claimed = _require_amount(certificate.bound)
    elif certificate.bound is not None:
        raise RefutedError(f"what a plan needs of the {least_of} bounds nothing else")
    # A bound is the least there is; what no plan keeps lies beyond the tolerance of limits, too.
    wanted = claimed * (1.0 - JUDGE_TOLERANCE) if certificate.limit == least_of else claimed * (1.0 + JUDGE_TOLERANCE)
    asked = asked.without_ceiling()
    if certificate.limit and certificate.limit != least_of:
        asked = asked.replace(**{"deadline_s" if is_cost else "budget": _UNLIMITED if is_cost else f"{_UNLIMITED}usd"})
    multipliers = {asked.limit_name: _require_weight(certificate.content, "multiplier")}
    allowance = _require_weight(certificate.content, "allowance")
    dual = dual_bound(asked, multipliers, stopwatch)
    if not min(dual + allowance, least_within(asked, multipliers, allowance, stopwatch)) >= wanted:
        raise RefutedError(f"that plans need {claimed:.9g} of the {least_of} does not follow")


def _require_weight(content: dict[str, Any], name: str) -> float:
    number = content.get(name)
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0.0 <= number < math.inf:
        raise RefutedError(f"{name} must be a number from zero on")
    return float(number)


def _check_charges(instance: RubberBandInstance, certificate: TreeCertificate, stopwatch: Stopwatch) -> None:
    """Look for plans that cost less than claimed, or no more than the budget."""
    if certificate.limit:
        most_usd = _require_amount(certificate.bound) * (1.0 - JUDGE_TOLERANCE)
    elif certificate.bound is None:
        most_usd = instance.limits[BUDGET] * (1.0 + JUDGE_TOLERANCE)
    else:
        raise RefutedError("minimum charges are divided into cases only for what a plan costs at least")
    plain = [BracketPaths(instance, bracket, stopwatch) for bracket in range(len(instance.brackets))]
    cheapest = [paths.best(1.0, 0.0).usd for paths in plain]
    least = []
    for number, paths in enumerate(plain):
        most = most_usd - (math.fsum(cheapest) - cheapest[number])
        if most <= 0.0:
            return
        least.append(paths.find_cheapest(paths.list_within(1.0, 0.0, most, math.inf, math.inf), math.inf))
    if math.fsum(least) <= most_usd:
        raise RefutedError(f"there is a plan of {math.fsum(least):.9g} usd")


def _require_amount(bound: float | None) -> float:
    if bound is None or not 0.0 < bound < math.inf:
        raise RefutedError("a bound above zero is needed")
    return bound
