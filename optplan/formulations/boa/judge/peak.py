"""The judge's side of limits on the GPUs in use at once: what every plan that keeps one has in common.

Rule ``boa-peak``, of two kinds.

``{"least_jobs": true}``: jobs that hold the least GPUs that they may, for the shortest time that they can take, break
the limit. Any plan has at least their jobs in the cluster at any time, and each holds at least their GPUs, whatever is
drawn: so every plan breaks it. The law of these jobs is recomputed by Panjer's recursion.

``{"conditions": [...], "tree": [...]}``: further limits, after which the tree is read as by the rule ``boa-branches``:

* ``{"width": j, "most": A}``: clumps of jobs that hold j GPUs or more, at their mean number over the day. They are
  Poisson, and have at least the jobs of clumps that go on with the least chance of any class: j times these are in use
  at least, and the share of the time in which that is more than C grows with the mean. It is too large at A.
* ``{"slope": s, "most": A}``: the mean W, over the day, of the sum over jobs in the cluster of
  w(k) = (1 - r) (1 - e^(-s k)) / (1 - r e^(-s k)), k their GPUs and r the chance that a clump goes on. E e^(-s U) is
  e^(-W) at each hour, U the GPUs in use, so by Markov's inequality at most the share f(W) = min(1, e^(s C - W)) of its
  time has at most C in use, which falls as W grows. It is too small at A.

Over the day means stay between the least and the largest relative rate of arrivals times their average; what is said of
an hour is averaged over it in the worst way that this allows.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from optplan.contracts.judgement import PathCosts, RefutedError
from optplan.contracts.result import TreeCertificate
from optplan.errors import show_value
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.formulations.boa.data.problems import PeakLimit
from optplan.formulations.boa.judge.duality import Weigh, list_stays_at_least, path_costs
from optplan.formulations.boa.judge.evaluation import TOLERANCE
from optplan.formulations.boa.judge.following import recur
from optplan.formulations.boa.laws.demand import Crowd, gather_crowd
from optplan.progress import Stopwatch
from optplan.schema import FloatArray

RULE = "boa-peak"
#: Conditions of one certificate, and their largest number.
_MOST_CONDITIONS, _LARGEST = 20, 1e6
#: Parts of a range over the day.
_PARTS = 64
#: Jobs at once of which chances are computed; proofs are written where fewer GPUs than that are in use.
_MOST_JOBS = 4096


def check_least_jobs(instance: BoaInstance, certificate: TreeCertificate, stopwatch: Stopwatch) -> None:
    """Refute a certificate unless the least that jobs can hold breaks the limit already, and no bound is claimed."""
    limit = _limit_of(instance)
    if certificate.bound is not None:
        raise RefutedError("the least jobs say that no plan keeps the limit, and nothing of a bound")
    over = recur(gather_crowd(instance, list_stays_at_least(instance), steady=False), stopwatch).over(limit.gpus)
    if not over > 1.0 - limit.probability + 2.0 * TOLERANCE:
        message = f"the least jobs have more than {limit.gpus:g} GPUs in use for {over!r} of the time, which is allowed"
        raise RefutedError(message)


def add_peak(
    instance: BoaInstance, certificate: TreeCertificate, stopwatch: Stopwatch
) -> tuple[list[PathCosts], list[float]]:
    """Return what steps cost, with the conditions as the last limits, and the most of these that a plan may have."""
    limit, listed = _limit_of(instance), certificate.content.get("conditions")
    if not isinstance(listed, list) or not 0 < len(listed) <= _MOST_CONDITIONS:
        raise RefutedError(f"the content needs a list 'conditions' of 1 to {_MOST_CONDITIONS}")
    read = [
        _read(instance, limit, f"conditions.{place}", condition, stopwatch) for place, condition in enumerate(listed)
    ]
    return path_costs(instance, [weigh for weigh, _ in read]), [most for _, most in read]


def _read(
    instance: BoaInstance, limit: PeakLimit, path: str, condition: object, stopwatch: Stopwatch
) -> tuple[Weigh, float]:
    """Return what jobs weigh in a condition, and the most of it; no plan with more keeps the limit."""
    kinds = {"width", "slope"} & condition.keys() if isinstance(condition, dict) else set()
    if not isinstance(condition, dict) or len(kinds) != 1:
        raise RefutedError(f"{path}: a condition has either a width or a slope")
    (kind,) = kinds
    number, most = (_read_number(condition, name, path) for name in (kind, "most"))
    rates, stops = _range_of_rates(instance), {name: _stop(instance, name) for name in instance.classes}
    if kind == "slope":
        share = find_largest_share(number * limit.gpus, most, *rates)
        is_proven = share < limit.probability - TOLERANCE
    else:
        if number < 1.0:
            raise RefutedError(f"{path}.width: got {number!r}; jobs hold 1 GPU at least, so a width is 1 or more")
        if limit.gpus // number > _MOST_JOBS:
            few = f"{limit.gpus:g} GPUs are those of more than {_MOST_JOBS:,} jobs, which is what is looked at"
            raise RefutedError(f"{path}.width: got {number!r}; {few}")
        share = find_least_over(int(limit.gpus // number), most, 1.0 - max(stops.values()), *rates, stopwatch)
        is_proven = share > 1.0 - limit.probability + TOLERANCE
    if not is_proven:
        raise RefutedError(f"a plan with {most!r} of {kind} {number!r} may keep the limit ({share!r} of the time)")

    def weigh(name: str, gpus: FloatArray) -> FloatArray:
        if kind == "width":
            return np.where(gpus >= number, stops[name], 0.0)
        clump = stops[name] / (np.exp(number * gpus) - 1.0 + stops[name])  # mean of e^(-s k) to the size of a clump
        return np.asarray(stops[name] * (1.0 - clump))

    return weigh, most


def find_least_over(
    fit: int, mean: float, repeat: float, low: float, high: float, stopwatch: Stopwatch | None = None
) -> float:
    """Return the least share of the time with more than ``fit`` jobs, in clumps of a mean number within low and high.

    Between two points the share is at least that at the lower one; of these corners, the mean lies on the chord of two.
    """
    at = np.linspace(low * mean, high * mean, _PARTS + 1)
    crowd = Crowd(np.ones(1), np.array([repeat]), at[:, None] / (1.0 - repeat), np.zeros(at.size), 1, fit + 1)
    over = 1.0 - recur(crowd, stopwatch).chances[:, : fit + 1].sum(axis=1)
    corners = [(float(at[0]), float(over[0])), *zip(at[1:].tolist(), over[:-1].tolist(), strict=True)]
    left = [corner for corner in corners if corner[0] < mean]
    right = [corner for corner in corners if corner[0] >= mean]
    if not left or not right:
        return float(over[0])
    least: float = min(y + (v - y) * (mean - x) / (u - x) for x, y in left for u, v in right)
    return least


def find_largest_share(reach: float, mean: float, low: float, high: float) -> float:
    """Return the largest average of min(1, e^(reach - W)) over W of a mean, within low and high times it."""
    # 1 up to ``reach`` and convex beyond: the worst are the largest value, and one as near to the mean from below as it
    # is still 1, or the least where that is further up.
    above, below = high * mean, max(low * mean, min(reach, mean))
    if below >= mean or above <= mean:
        return math.exp(min(0.0, reach - mean))
    weight = (mean - below) / (above - below)
    return weight * math.exp(min(0.0, reach - above)) + (1.0 - weight) * math.exp(min(0.0, reach - below))


def _limit_of(instance: BoaInstance) -> PeakLimit:
    if instance.most_gpus is None:
        raise RefutedError("the instance has no limit on the GPUs in use at once")
    return instance.most_gpus


def _read_number(condition: dict[str, Any], name: str, path: str) -> float:
    number = condition.get(name)
    if type(number) is not float or not 0.0 < number < _LARGEST:
        what = f"a number above 0 and below {_LARGEST:g} is needed"
        raise RefutedError(f"{path}.{name}: got {show_value(number)}; {what}")
    return float(number)


def _stop(instance: BoaInstance, name: str) -> float:
    """Return the chance that a clump of a class ends with a job."""
    arrivals = instance.classes[name].arrivals
    return 1.0 if arrivals is None else 1.0 - arrivals.repeat


def _range_of_rates(instance: BoaInstance) -> tuple[float, float]:
    """Return the least and the largest rate of arrivals of any class in an hour, relative to its mean."""
    rates = [[1.0] if each.arrivals is None else each.arrivals.relative.tolist() for each in instance.classes.values()]
    return min(map(min, rates)), max(map(max, rates))
