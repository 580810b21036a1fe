"""What certificates prove about RubberBand's plans, written apart from any solver: multipliers, enumerations, trees.

A plan of one bracket is a path over instances held, with an allocation in each stage. Expected time and cost are sums
over growths and stages; minimum charges come on top of the cost and are left out of bounds, as they only add. Clusters
side by side have one completion time, the slowest's; its weight is divided among them, and the best division is part of
the bound.

Whatever keeps a limit often enough has a mean within a somewhat greater amount
(:mod:`optplan.formulations.rubberband.laws.confidence`). So what is proven of the means within that amount is proven of
the instance: its optimum is no better, and where no mean keeps it, no plan keeps the limit often enough.

Nothing in a tree closes anything: the judge lists the beginnings of plans itself, and closes those that another one
beats or from which no plan is better than claimed. There are two rules.

``rubberband-charges``
    For budgets, where minimum charges come on top of what multipliers bound. The content is empty. No plan keeps the
    budget; or, with the budget as ``limit``: none costs less than ``bound``.

``rubberband-both``
    For a deadline and a budget at once. The content is ``limit``, one of the two, with ``multiplier`` of the other and
    ``allowance``: plans that keep the other were enumerated so far above the dual bound of least ``limit``, and need
    that much of it at least. So no plan keeps both; or, with that limit as ``limit`` of the certificate, ``bound`` is
    the least of it; or, with the other one and no bound, no value of that one helps.

With a confidence all of this is about means, within the limits that :func:`limit_means` derives; amounts of a limit are
the instance's own. Bounds hold to a relative 1e-9.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from optplan.contracts.judgement import JUDGE_TOLERANCE, RefutedError
from optplan.contracts.result import BoundProof, TreeCertificate
from optplan.formulations.rubberband.data.instance import (
    BOTH,
    BUDGET,
    CHARGES,
    DEADLINE,
    Objective,
    RubberBandInstance,
    recall,
)
from optplan.formulations.rubberband.judge.bracket_paths import BracketPaths, NearPaths
from optplan.formulations.rubberband.laws.confidence import share_of_limit
from optplan.progress import Stopwatch
from optplan.schema import FloatArray


def limit_means(instance: RubberBandInstance, stopwatch: Stopwatch | None = None) -> tuple[RubberBandInstance, float]:
    """Return the problem of means that covers the instance's plans, and its share of the limits; 0 proves nothing."""
    if instance.confidence is None or not instance.is_random:
        return instance, 1.0
    share = share_of_limit(instance, (stopwatch if stopwatch is not None else Stopwatch()).require)
    return recall(instance.judge_cache, "means", lambda: instance.of_means(share) if share > 0.0 else instance), share


def dual_bound(
    instance: RubberBandInstance, multipliers: dict[str, float], stopwatch: Stopwatch | None = None
) -> float:
    """Re-derive the Lagrangian bound, the least of objective + multiplier * (consumption - limit); -inf if none."""
    instance, share = limit_means(instance, stopwatch)
    if share <= 0.0:
        return -math.inf
    least, _ = _weigh(_list_paths(instance, stopwatch), *_weights(instance, multipliers))
    return least - _price_of_limits(instance, multipliers)


def least_consumption(
    instance: RubberBandInstance, weights: FloatArray, stopwatch: Stopwatch | None = None
) -> dict[str, float]:
    """Return by part the least weighted consumption of any plan, without minimum charges; trees prove those."""
    instance, share = limit_means(instance, stopwatch)
    if share <= 0.0:
        return {"search": 0.0}
    paths, weights = _list_paths(instance, stopwatch), share * weights
    if instance.ceiling is not None:
        named = dict(zip(instance.limits, weights.tolist(), strict=True))
        return {"search": _weigh(paths, named[BUDGET], named[DEADLINE])[0]}
    if instance.objective is Objective.COST:
        least = [path.least(0.0, 1.0) for path in paths]
        slowest = int(np.argmax(least))
        return {f"bracket {slowest + 1}": float(weights[0]) * least[slowest]}
    usd = [path.least(1.0, 0.0) for path in paths]
    return {f"bracket {number}": float(weights[0]) * least for number, least in enumerate(usd, start=1)}


def least_within(
    instance: RubberBandInstance,
    multipliers: dict[str, float],
    allowance: float,
    stopwatch: Stopwatch | None = None,
) -> float:
    """Enumerate anew and return the least objective within the limits; infinity if none is in the allowance."""
    instance, share = limit_means(instance, stopwatch)
    if share <= 0.0:
        return -math.inf
    paths = _list_paths(instance, stopwatch)
    limit = instance.limits[instance.limit_name] * (1.0 + JUDGE_TOLERANCE)
    usd_weight, s_weight = _weights(instance, multipliers)
    least, division = _weigh(paths, usd_weight, s_weight)
    most = least + allowance
    ceiling = most - _price_of_limits(instance, multipliers)
    if instance.ceiling is not None:
        ceiling = min(ceiling, instance.ceiling)
    most_usd, most_s = (ceiling, limit) if instance.objective is Objective.COST else (limit, ceiling)
    shared = list(zip(paths, division, strict=True))
    parts = [path.least(usd_weight, weight) for path, weight in shared]
    # The others need at least their own parts of the weighted sum.
    near = [
        path.list_within(usd_weight, weight, most - (math.fsum(parts) - own), most_usd, most_s)
        for (path, weight), own in zip(shared, parts, strict=True)
    ]
    if instance.objective is Objective.COST:
        best = math.fsum(path.find_cheapest(some, most_s) for path, some in zip(paths, near, strict=True))
    else:
        best = _least_s(paths, near, most_usd)
    return best if best <= ceiling * (1.0 + JUDGE_TOLERANCE) else math.inf


def _weights(instance: RubberBandInstance, multipliers: dict[str, float]) -> tuple[float, float]:
    is_cost = instance.objective is Objective.COST
    return multipliers.get(BUDGET, 0.0) + is_cost, multipliers.get(DEADLINE, 0.0) + (not is_cost)


def _price_of_limits(instance: RubberBandInstance, multipliers: dict[str, float]) -> float:
    return math.fsum(multipliers[limit] * amount for limit, amount in instance.limits.items())


def _list_paths(instance: RubberBandInstance, stopwatch: Stopwatch | None) -> list[BracketPaths]:
    """List every bracket's paths; cached, since one check asks many times."""
    watch, paths = stopwatch if stopwatch is not None else Stopwatch(), []
    for bracket in range(len(instance.brackets)):
        make = partial(BracketPaths, instance, bracket, watch)
        paths.append(recall(instance.judge_cache, ("paths", bracket), make))
        paths[-1].stopwatch = watch
    return paths


def _weigh(paths: list[BracketPaths], usd_weight: float, s_weight: float) -> tuple[float, list[float]]:
    """Return the least usd_weight * (cost of all) + s_weight * (time of the slowest) over mixed plans.

    And the weight of the time by bracket that proves it.
    """
    if len(paths) == 1:
        return paths[0].least(usd_weight, s_weight), [s_weight]
    hulls = [path.hull for path in paths]
    earliest = max(float(hull[0, 0]) for hull in hulls)
    times = np.unique(np.append(np.concatenate([hull[:, 0] for hull in hulls]), earliest))
    times = times[times >= earliest]
    usd = np.sum([np.interp(times, hull[:, 0], hull[:, 1]) for hull in hulls], axis=0)
    weighted = usd_weight * usd + s_weight * times
    place = int(np.argmin(weighted))
    return float(weighted[place]), _divide(hulls, usd_weight, s_weight, float(times[place]))


def _divide(hulls: list[FloatArray], usd_weight: float, s_weight: float, time_s: float) -> list[float]:
    """Divide the weight of the time among brackets so that each is best, on its own, at the common time."""
    least, most = [], []
    for hull in hulls:
        slopes = usd_weight * -np.diff(hull[:, 1]) / np.diff(hull[:, 0])
        before = np.flatnonzero(hull[:-1, 0] < time_s * (1.0 - JUDGE_TOLERANCE))
        after = np.flatnonzero(hull[1:, 0] > time_s * (1.0 + JUDGE_TOLERANCE))
        most.append(float(slopes[before[-1]]) if before.size else math.inf)
        least.append(float(slopes[after[0]]) if after.size else 0.0)
    division, left = list(least), s_weight - math.fsum(least)
    for bracket, top in enumerate(most):
        added = min(max(left, 0.0), top - division[bracket])
        division[bracket] += added
        left -= added
    return division


def _least_s(paths: list[BracketPaths], near: list[NearPaths], most_usd: float) -> float:
    """Return the least time within which the cheapest of all brackets together keep a budget."""
    times = np.unique(np.concatenate([some.paths.seconds for some in near]))
    # What even the lower ends exceed need not be settled.
    for time_s in times.tolist():
        low = math.fsum(some.low_usd[some.paths.seconds <= time_s].min(initial=math.inf) for some in near)
        if low > most_usd:
            continue
        if math.fsum(path.find_cheapest(some, time_s) for path, some in zip(paths, near, strict=True)) <= most_usd:
            return float(time_s)
    return math.inf


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
    """Find what plans need at least of one limit, and compare it with that limit or with what is claimed."""
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
    cheapest = [paths.least(1.0, 0.0) for paths in plain]
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
