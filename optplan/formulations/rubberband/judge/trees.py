"""What certificates prove about RubberBand's plans, and the judge of trees.

Nothing in a certificate closes anything: the judge lists the beginnings of plans itself, and closes those that another
one beats or from which no plan is better than claimed. There are four rules.

``rubberband-labels``
    For deadlines kept with a confidence. The content is ``points``, how many points the grid has to which times are
    rounded down. About the objective: no plan that keeps the deadline so often costs less than ``bound``. With the
    deadline as ``limit``: no plan completes before ``bound`` with that probability. Plans count whose probability falls
    short of the confidence by up to 1e-6, which is what its evaluation may be off.
``rubberband-charges``
    For budgets, where minimum charges come on top of what multipliers bound. The content is empty. No plan keeps the
    budget; or, with the budget as ``limit``: none costs less than ``bound``.

``rubberband-both``
    For a deadline and a budget at once. The content is ``limit``, one of the two, with ``multiplier`` of the other and
    ``allowance``: plans that keep the other were enumerated so far above the dual bound of least ``limit``, and need
    that much of it at least. So no plan keeps both; or, with that limit as ``limit`` of the certificate, ``bound`` is
    the least of it; or, with the other one and no bound, no value of that one helps.

``rubberband-both-chance``
    For a budget that is kept with a confidence, alone or together with a deadline; see
    :mod:`optplan.formulations.rubberband.judge.both_walks`. Fewer plans keep both than the deadline alone, so that
    what ``rubberband-labels`` proves about that holds for both, too.

Bounds hold to a relative 1e-9.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from optplan.contracts.judgement import RefutedError
from optplan.contracts.result import BoundProof, TreeCertificate
from optplan.formulations.rubberband.data.instance import BUDGET, DEADLINE, Objective, RubberBandInstance
from optplan.formulations.rubberband.data.rules import BOTH, BOTH_CHANCE, CHARGES, LABELS
from optplan.formulations.rubberband.judge.both_walks import check_both_chance, read_points
from optplan.formulations.rubberband.judge.bracket_walks import BracketWalks
from optplan.formulations.rubberband.judge.duality import dual_bound, least_within
from optplan.formulations.rubberband.judge.timed_walks import TimedWalks
from optplan.formulations.rubberband.judge.tolerances import PROBABILITY_TOLERANCE, TOLERANCE
from optplan.schema import FloatArray

if TYPE_CHECKING:
    from optplan.progress import Stopwatch

#: Most points of a grid.
_MOST_POINTS = 4096
#: An amount of a limit that no plan reaches: seconds, or US dollars.
_UNLIMITED = 1e15


def list_proofs(instance: RubberBandInstance) -> frozenset[BoundProof]:
    """Return the kinds of certificate that prove anything: none about the mean where a quantile is asked for."""
    if _asks_for_quantile(instance):
        return frozenset({BoundProof.TREE})
    of_means = frozenset({BoundProof.LAGRANGIAN, BoundProof.ENUMERATED})
    has_trees = _has_charged_budget(instance) or instance.ceiling is not None
    return of_means | {BoundProof.TREE} if has_trees else of_means


def check_tree(instance: RubberBandInstance, certificate: TreeCertificate, stopwatch: Stopwatch) -> None:
    """Raise unless a certificate proves its claim; see the module's text."""
    if certificate.limit not in ("", *instance.limits):
        raise RefutedError(f"there is no limit {certificate.limit!r}")
    if instance.asks_for_both:
        if certificate.rule == LABELS and instance.objective is Objective.COST and not certificate.limit:
            # Fewer plans keep both than the deadline alone.
            _check_labels(instance.without_ceiling(), certificate, stopwatch)
            return
        if certificate.rule != BOTH_CHANCE:
            raise RefutedError(f"{certificate.rule!r} proves nothing about a probability that the budget is kept")
        check_both_chance(instance, certificate, stopwatch)
    elif certificate.rule == BOTH and instance.ceiling is not None:
        _check_both(instance, certificate, stopwatch)
    elif certificate.limit == instance.ceiling_name:
        # Without that limit, too, no plan keeps the other.
        check_tree(instance.without_ceiling(), certificate.replace(limit=""), stopwatch)
    elif certificate.rule == LABELS and _asks_for_quantile(instance):
        _check_labels(instance, certificate, stopwatch)
    elif certificate.rule == CHARGES and _has_charged_budget(instance):
        _check_charges(instance, certificate, stopwatch)
    else:
        raise RefutedError(f"{certificate.rule!r} is no rule that proves anything here")


def _asks_for_quantile(instance: RubberBandInstance) -> bool:
    return instance.confidence is not None and instance.is_random


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
    wanted = claimed * (1.0 - TOLERANCE) if certificate.limit == least_of else claimed * (1.0 + TOLERANCE)
    asked = asked.without_ceiling()
    if certificate.limit and certificate.limit != least_of:
        asked = asked.replace(**{"deadline_s" if is_cost else "budget": _UNLIMITED if is_cost else f"{_UNLIMITED}usd"})
    if _asks_for_quantile(asked):
        _check_labels(asked, TreeCertificate(rule=LABELS, bound=claimed, content=certificate.content), stopwatch)
        return
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
        most_usd = _require_amount(certificate.bound) * (1.0 - TOLERANCE)
    elif certificate.bound is None:
        most_usd = instance.limits[BUDGET] * (1.0 + TOLERANCE)
    else:
        raise RefutedError("minimum charges are divided into cases only for what a plan costs at least")
    plain = [BracketWalks(instance, bracket, stopwatch) for bracket in range(len(instance.brackets))]
    cheapest = [walks.best(1.0, 0.0).usd for walks in plain]
    least = []
    for number, walks in enumerate(plain):
        most = most_usd - (math.fsum(cheapest) - cheapest[number])
        if most <= 0.0:
            return
        least.append(walks.find_cheapest(walks.list_within(1.0, 0.0, most, math.inf, math.inf), math.inf))
    if math.fsum(least) <= most_usd:
        raise RefutedError(f"there is a plan of {math.fsum(least):.9g} usd")


def _check_labels(instance: RubberBandInstance, certificate: TreeCertificate, stopwatch: Stopwatch) -> None:
    """Look for plans that are on time often enough and cost less than claimed."""
    points = read_points(certificate, _MOST_POINTS)
    deadline_s, bound = instance.limits[DEADLINE], math.inf
    if certificate.limit:
        deadline_s = _require_amount(certificate.bound) * (1.0 - TOLERANCE)
    elif certificate.bound is not None:
        bound = _require_amount(certificate.bound) * (1.0 - TOLERANCE)
    plain = [BracketWalks(instance, bracket, stopwatch) for bracket in range(len(instance.brackets))]
    cheapest = [walks.best(1.0, 0.0).usd for walks in plain]
    wanted = (instance.confidence or 0.0) - PROBABILITY_TOLERANCE
    offers = []
    for number, walks in enumerate(plain):
        # The others cost at least what their cheapest do, and are on time at most always.
        most_usd = bound - (math.fsum(cheapest) - cheapest[number])
        offers.append(_list_offers(walks, deadline_s, points, most_usd, wanted))
        if not len(offers[-1]):
            return
    found = _combine(offers, wanted)
    if len(found) and found[:, 0].min() < bound:
        what = f"below {bound:.9g} usd" if bound < math.inf else "at all"
        raise RefutedError(f"that no plan {what} is on time often enough does not follow on a grid of {points} points")


def _require_amount(bound: float | None) -> float:
    if bound is None or not 0.0 < bound < math.inf:
        raise RefutedError("a bound above zero is needed")
    return bound


def _list_offers(plain: BracketWalks, deadline_s: float, points: int, most_usd: float, wanted: float) -> FloatArray:
    """Return the (cost, probability) (P, 2) of a bracket's plans that may be cheap and on time."""
    near, chance = TimedWalks(plain, deadline_s, points, most_usd, wanted).list_walks()
    if most_usd == math.inf:
        return np.column_stack([np.zeros(chance.size), chance])
    usd = np.array([plain.settle_usd(near, row) for row in range(chance.size)])
    offers = np.column_stack([usd, chance])
    return offers[usd < most_usd]


def _combine(offers: list[FloatArray], wanted: float) -> FloatArray:
    """Return the (cost, probability) of all brackets together that are on time often enough."""
    found = np.array([[0.0, 1.0]])
    for some in offers:
        usd = (found[:, None, 0] + some[:, 0]).ravel()
        chance = (found[:, None, 1] * some[:, 1]).ravel()
        order = np.lexsort((-chance, usd))
        order = order[chance[order] >= wanted]
        better = chance[order] > np.append(-1.0, np.maximum.accumulate(chance[order]))[:-1]
        found = np.column_stack([usd, chance])[order[better]]
    return found
