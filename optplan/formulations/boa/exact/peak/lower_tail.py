"""What all plans that keep a limit on the GPUs at once have in common, and what that proves.

The conditions are those of the rule ``boa-peak``, which :mod:`optplan.formulations.boa.judge.peak` states and derives:
*width* j, of clumps of jobs on j GPUs or more, and *slope* s, by Markov's inequality of e^(-s U) for the GPUs U in use.
Here their most is found: over the hours of the day the first kind takes the convex minorant of the share, the second
the chord over the part that is convex, which is what the average over the day can be at worst.

These are further limits. A Lagrangian bound with them holds for every plan that keeps the limit on GPUs at once; where
no plan at all has so little, none keeps it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from pydantic import JsonValue

from optplan.contracts import SolveRequest, TreeCertificate
from optplan.contracts.judgement import PathCosts
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution
from optplan.formulations.boa.data.problems import PeakLimit
from optplan.formulations.boa.exact.costs import cost_steps, find_least_paths, list_amounts
from optplan.formulations.boa.exact.peak.demand import list_stays
from optplan.schema import FloatArray
from optplan.solvers.paths import linked_dual, switching
from optplan.solvers.paths.search import Effort

#: The judge's rule of these proofs.
RULE = "boa-peak"
#: Name of the limit on weighted jobs.
TAIL = "tail"
#: Slopes that are looked at, times a number of GPUs; and widths as shares of the GPUs of the limit.
_SLOPES = np.geomspace(0.03, 30.0, 31)
_WIDTHS = np.geomspace(1.0 / 512.0, 1.0, 37)
#: The most conditions that bound together.
_MOST_CONDITIONS = 6
#: A plan may miss the probability by 1e-9, and is still taken to keep the limit.
_SLACK = 2e-9
#: Parts of the range over the day, for the minorant.
_PARTS = 64


@dataclass(frozen=True)
class Condition:
    """No plan that keeps the limit has more than ``most`` of a kind (``width`` or ``slope``) and number."""

    kind: str
    number: float
    most: float

    def weigh(self, instance: BoaInstance, name: str, gpus: FloatArray) -> FloatArray:
        """Return what a job of a class counts while it holds numbers of GPUs."""
        arrivals = instance.classes[name].arrivals
        goes_on = 0.0 if arrivals is None else arrivals.repeat
        if self.kind == "width":
            return np.where(gpus >= self.number, 1.0 - goes_on, 0.0)
        less = np.exp(-self.number * gpus)
        return (1.0 - goes_on) * (1.0 - less) / (1.0 - goes_on * less)

    def measure(self, instance: BoaInstance, solution: BoaSolution) -> float:
        """Return how much a plan has."""
        stays = list_stays(instance, solution)
        parts = [s.rate_per_hour * s.lasts_h * s.held * self.weigh(instance, s.job_class, s.gpus) for s in stays]
        return float(sum(part.sum() for part in parts))


def prove_bound(
    instance: BoaInstance, limit: PeakLimit, solution: BoaSolution, request: SolveRequest
) -> tuple[float, TreeCertificate] | None:
    """Bound, in seconds, all plans that keep the limit, by what the best without it breaks most; None if nothing."""
    conditions = [
        condition
        for kind, numbers in (("width", _list_widths(instance, limit)), ("slope", _SLOPES / limit.gpus))
        for number in numbers
        if (condition := find_condition(instance, limit, kind, float(number))) is not None
    ]
    broken = sorted(
        ((each.measure(instance, solution) / each.most, each) for each in conditions), key=lambda one: -one[0]
    )
    taken = [condition for excess, condition in broken if excess > 1.0][:_MOST_CONDITIONS]
    if not taken:
        return None
    costs = cost_steps(instance)
    for condition in taken:
        costs = [weigh_jobs(instance, each, _weights(instance, each.name, condition)) for each in costs]
    amounts = np.array([*list_amounts(instance), *(condition.most for condition in taken)])
    family = switching.LinkedGraphs.from_costs(costs, amounts)
    found = linked_dual.maximise_bound(family, effort=Effort(request.stopwatch))
    if not isinstance(found, linked_dual.LinkedBound) or not np.isfinite(found.bound) or found.bound <= 0.0:
        return None
    return found.bound, _certify(taken, [1.0, *found.multipliers.tolist()], found.bound)


def find_least_reach(instance: BoaInstance, probability: float, scale: float) -> tuple[float, float]:
    """Return GPUs, about ``scale``, such that no plan keeps a lower limit, and the slope that proves it."""
    from scipy.optimize import brentq

    costs, rates, found = cost_steps(instance), _range_of_rates(instance), (0.0, 0.0)
    for slope in (_SLOPES / scale).tolist():
        condition = Condition("slope", slope, 0.0)
        weighed = [weigh_jobs(instance, each, _weights(instance, each.name, condition)) for each in costs]
        least = sum(find_least_paths(weighed, np.eye(len(weighed[0].limits))[-1]).values())
        if least > 0.0 and bound_share(0.0, least, *rates) < probability - _SLACK:
            reach = brentq(lambda at, w=least: bound_share(at, w, *rates) - (probability - _SLACK), 0.0, least)
            found = max(found, (float(reach) / slope, slope))
    return found


def refute(instance: BoaInstance, limit: PeakLimit, slope: float, without: str) -> TreeCertificate:
    """Certify that the least of any plan breaks the limit, with another one, which does not help, dropped or none."""
    condition = find_condition(instance, limit, "slope", slope)
    assert condition is not None
    weights = [0.0] * (1 + len(instance.limits) - bool(without)) + [1.0]
    return _certify([condition], weights, None).replace(limit=without)


def find_condition(instance: BoaInstance, limit: PeakLimit, kind: str, number: float) -> Condition | None:
    """Find the most of a kind that a plan that keeps the limit has; None where any amount may keep it."""
    from scipy.optimize import brentq
    from scipy.special import bdtr

    low, high = _range_of_rates(instance)
    if kind == "width":
        goes_on = min(0.0 if each.arrivals is None else each.arrivals.repeat for each in instance.classes.values())
        fit = int(limit.gpus // number)
        clumps = np.diff(bdtr(np.arange(fit + 1.0), fit, 1.0 - goes_on), prepend=0.0)

        def miss(mean: float) -> float:
            return 1.0 - limit.probability + _SLACK - least_over(mean, clumps, low, high)
    else:

        def miss(mean: float) -> float:
            return bound_share(number * limit.gpus, mean, low, high) - (limit.probability - _SLACK)

    beyond = 1.0
    while miss(beyond) >= 0.0:
        beyond *= 2.0
        if beyond > 1e5:
            return None
    return Condition(kind, number, float(brentq(miss, 0.0, beyond, xtol=1e-12 * beyond)) * (1.0 + 1e-9))


def least_over(mean: float, clumps: FloatArray, low: float, high: float) -> float:
    """Return the least share of the time with more than c jobs, in clumps of a mean number over the day."""
    # Of n clumps, all jobs are at most c when c trials, each ending a clump, end n of them or more: (c + 1,)
    # ``clumps``.
    from scipy.special import pdtr

    at = np.array([mean]) if high <= low * (1.0 + 1e-12) else np.linspace(low * mean, high * mean, _PARTS + 1)
    over = 1.0 - pdtr(np.arange(clumps.size), at[:, None]) @ clumps
    if at.size == 1:
        return float(over[0])
    # Between two points it is at least what it is at the lower one.
    corners, values = np.append(at[0], at[1:]), np.append(over[0], over[:-1])
    left, right = corners <= mean, corners >= mean
    apart = corners[right] - corners[left][:, None]
    share = np.divide(mean - corners[left][:, None], apart, out=np.zeros_like(apart), where=apart > 0.0)
    return float((values[left][:, None] * (1.0 - share) + values[right] * share).min())


def bound_share(reach: float, total: float, low: float, high: float) -> float:
    """Return the largest average of min(1, e^(reach - y)) over y of mean ``total`` within low and high times it."""
    if total <= reach:
        return 1.0
    left, right = max(reach, low * total), high * total
    if right <= left * (1.0 + 1e-12):
        return float(np.exp(reach - total))
    at_left, at_right = np.exp(reach - left), np.exp(reach - right)
    return float(at_left + (at_right - at_left) * (total - left) / (right - left))


def weigh_jobs(instance: BoaInstance, costs: PathCosts, weight: FloatArray) -> PathCosts:
    """Return the costs with the jobs that hold GPUs, each weighted by its option's (K,) weight, as one more limit."""
    options = instance.options(costs.name)
    per_gpu = weight / (options.paid * options.price)
    add = [np.concatenate([each, each[:1] * per_gpu]) for each in (costs.run_consumption, costs.enter_consumption)]
    return replace(costs, limits=(*costs.limits, TAIL), run_consumption=add[0], enter_consumption=add[1])


def _weights(instance: BoaInstance, name: str, condition: Condition) -> FloatArray:
    return condition.weigh(instance, name, instance.options(name).paid)


def _list_widths(instance: BoaInstance, limit: PeakLimit) -> list[float]:
    """List the widths of jobs about at some shares of the GPUs of the limit, and the least beyond it."""
    every = np.unique(np.concatenate([instance.options(name).paid for name in instance.classes]))
    within = every[every <= limit.gpus]
    near = np.unique(np.minimum(np.searchsorted(within, _WIDTHS * limit.gpus), within.size - 1))
    listed = within[near] if within.size else within  # a limit below one GPU is kept when mostly nobody is there
    return [float(width) for width in [*listed.tolist(), *every[every > limit.gpus][:1].tolist()]]


def _range_of_rates(instance: BoaInstance) -> tuple[float, float]:
    """Return the least and the largest rate of arrivals in an hour of the day, relative to the mean, of all classes."""
    rates = [np.ones(1) if c.arrivals is None else c.arrivals.relative for c in instance.classes.values()]
    return min(float(each.min()) for each in rates), max(float(each.max()) for each in rates)


def _certify(conditions: Sequence[Condition], weights: list[float], bound: float | None) -> TreeCertificate:
    listed: list[JsonValue] = [{each.kind: each.number, "most": each.most} for each in conditions]
    content: dict[str, JsonValue] = {"conditions": listed, "tree": [{"weights": list(weights)}]}
    return TreeCertificate(rule=RULE, bound=bound, content=content)
