"""The independent judge of weights that multipliers cannot replace: one part, of all plans, and what closes it.

Rule ``boa-branches``. The content's ``tree`` is a list of one part,

    ``{"weights": [objective, limit, ...]}``, with ``"listed": true`` where that alone is not enough.

The least weighted sum of all plans must reach what plans within the limits b and better than the bound U stay below,
w0 U + w . b; where the part is listed, all plans below that are, and none of them may keep the limits and be better.
Where a limit is dropped, its consumption takes the objective's place. Where no bound is claimed, there may be no plan
within the limits, so that the weights have 0 for the objective. Divisions are a matter of
:mod:`optplan.formulations.boa.judge.runs`, whose margins hold here, too.
"""

from __future__ import annotations

import numpy as np

from optplan.contracts.judgement import PathCosts, RefutedError
from optplan.contracts.result import TreeCertificate
from optplan.formulations.boa.data.instance import BoaInstance, Policy
from optplan.formulations.boa.judge import peak, runs
from optplan.formulations.boa.judge.duality import path_costs
from optplan.formulations.boa.judge.evaluation import ROUNDING, TOLERANCE
from optplan.judging.enumeration import least_path, least_within
from optplan.progress import Stopwatch
from optplan.schema import FloatArray

RULE = "boa-branches"


def check_tree(instance: BoaInstance, certificate: TreeCertificate, stopwatch: Stopwatch) -> None:
    """Check what is said of all whole plans by the rule ``boa-branches``, or by one of ``runs`` and ``peak``."""
    if certificate.rule == runs.RULE:
        runs.check_runs(instance, certificate, stopwatch)
        return
    if certificate.rule == peak.RULE and certificate.content.get("least_jobs") is True:
        peak.check_least_jobs(instance, certificate, stopwatch)
        return
    if certificate.rule not in {RULE, peak.RULE}:
        known = ", ".join(map(repr, (RULE, runs.RULE, peak.RULE)))
        raise RefutedError(f"BOA has no rule {certificate.rule!r}; it has {known}")
    costs, amounts, bound = path_costs(instance), list(instance.limits.values()), certificate.bound
    if certificate.rule == peak.RULE:
        costs, most = peak.add_peak(instance, certificate, stopwatch)
        amounts += most
    if bound is not None and not (np.isfinite(bound) and bound > 0.0):
        raise RefutedError("the bound is a finite number above zero, or none")
    limits = dict(zip(costs[0].limits, amounts, strict=True))
    if certificate.limit:
        costs = runs.drop_limit(costs, certificate.limit)
    weights, listed = _read_part(certificate.content.get("tree"), 1 + len(costs[0].limits))
    if listed and instance.policy is Policy.MIXED:
        raise RefutedError("mixed plans are not listed: the part is closed by weights")
    with np.errstate(all="ignore"):  # absurd weights overflow, and prove nothing by that
        kept = np.array([limits[name] for name in costs[0].limits])
        _check_closed(costs, weights, kept, bound, stopwatch, listed=listed)


def _read_part(tree: object, size: int) -> tuple[FloatArray, bool]:
    """Return the weights (1 + L,) of objective and limits, and whether what they leave is listed."""
    if not (isinstance(tree, list) and len(tree) == 1 and isinstance(tree[0], dict)):
        raise RefutedError("the content needs a list 'tree' of one part")
    given = tree[0].get("weights")
    if not isinstance(given, list) or len(given) != size:
        raise RefutedError(f"a part has {size} weights, of the objective and of each limit")
    if not all(type(number) in (int, float) and 0.0 <= number <= 1e300 for number in given) or not any(given):
        raise RefutedError("weights are finite numbers from 0 on, not all of them 0")
    return np.array(given, dtype=float), tree[0].get("listed") is True


def _check_closed(
    graphs: list[PathCosts],
    weights: FloatArray,
    limits: FloatArray,
    bound: float | None,
    stopwatch: Stopwatch,
    *,
    listed: bool,
) -> None:
    """Refute unless weights, or a list of what they leave, exclude all plans that are said not to exist."""
    least = 0.0
    for graph in graphs:
        stopwatch.require()
        least += least_path(graph, weights)
    most = runs.find_most(weights, limits, bound)
    if most is not None and least >= most:
        return
    if not listed:
        raise RefutedError(f"the least weighted sum is {least!r}, which leaves room for what is said not to exist")
    if bound is None:
        if weights[0] > 0.0:
            raise RefutedError("a part without plans is listed with weight 0 of the objective")
        limits = limits * (1.0 + TOLERANCE - ROUNDING)
    ceiling = float(weights[0]) * (bound or 0.0) + float(weights[1:] @ limits)
    room = ceiling * (1.0 + ROUNDING) - least
    if not room >= 0.0:
        return
    if not np.isfinite(room):
        raise RefutedError("weights such as these leave everything to list")
    found = least_within(graphs, weights, room, limits, stopwatch)
    if bound is None:
        if np.isfinite(found):
            raise RefutedError("a part that is said to have no plan within the limits has one")
    elif found < bound * (1.0 - TOLERANCE):
        raise RefutedError(f"a listed part has a plan of {found!r}")
