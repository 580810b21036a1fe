"""A BOA solution taken apart for readers: who runs on which GPUs in which epochs, and what that takes."""

from __future__ import annotations

from itertools import islice, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from optplan.errors import DataError, UsageError
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Policy
from optplan.formulations.boa.judge.following import follow_epochs, types_along
from optplan.reporting.presenters import require_kind
from optplan.units import SECONDS_PER_HOUR

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optplan.contracts import Explanation, Result, Sensitivity, Solution
    from optplan.contracts.ranges import AnswerRange
    from optplan.formulations.boa.data.instance import Branch
    from optplan.formulations.boa.judge.following import EpochTimes

#: What to do about a range that does not fit.
_AGAIN = "solve the instance again"


class EpochRange(NamedTuple):
    """Consecutive epochs, from 1, at one width of one GPU type; expected seconds, with the pause at their start."""

    first: int
    last: int
    gpus: float
    duration_s: float
    gpu_type: str = ""  #: Empty where the instance has one type.


class JobPath(NamedTuple):
    """What a share of a class's jobs goes through, in the order of epochs."""

    share: float
    ranges: tuple[EpochRange, ...]
    duration_s: float  #: Expected, from a job's start to its end.


class ClassBreakdown(NamedTuple):
    """One class's part of the whole: one path in a pure plan, several where shares of its jobs differ."""

    name: str
    paths: tuple[JobPath, ...]
    gpus_running: float
    gpus_rescaling: float
    gpus_by_type: dict[str, float]  #: Time averages, running and rescaling, in the instance's order.
    mean_jct_s: float
    contribution_s: float  #: What the class adds to the (weighted) mean completion time: the classes add up to it.

    @property
    def gpus(self) -> float:
        """Time-average GPUs, running and rescaling."""
        return self.gpus_running + self.gpus_rescaling


#: Returns an instance that reports can show.
require_boa = require_kind(
    BoaInstance, "instance {name!r} is of formulation {formulation!r}; tables and reports show 'boa' only"
)


def require_same_problem(instance: BoaInstance, result: Result[Solution]) -> None:
    """Refuse a result that belongs to another instance; only the policy may differ."""
    # model_copy does not validate: the data is valid already, and warnings about it are not said twice.
    known = {instance.content_hash()}
    if result.instance_hash not in known:
        known |= {instance.model_copy(update={"policy": policy}).content_hash() for policy in Policy}
    if result.instance_hash not in known:
        raise UsageError(
            f"the result of {result.solver!r} was made for instance {result.instance_name!r} with hash "
            f"{result.instance_hash[:12]}, this one is {instance.name!r} with hash {instance.content_hash()[:12]}; "
            "give the instance it was made for, with the same limits"
        )
    if result.range is not None:
        _require_own_range(instance, result.range)


def _require_own_range(instance: BoaInstance, found: AnswerRange) -> None:
    """Refuse a range of other classes, types or limits than the instance's: no verification looks at it."""
    own = {(name, gpu_type) for name, each in instance.classes.items() for gpu_type in each.speedup}
    shifts: list[Mapping[str, Mapping[str, object]]] = [found.widths, *(truth.shifts for truth in found.truths)]
    named = {(name, gpu_type) for each in shifts for name, types in each.items() for gpu_type in types}
    named |= {(each.subject, each.gpu_type) for each in found.measurements}
    lacking = instance.limits.keys() - set.intersection(*(set(truth.consumption) for truth in found.truths))
    if strange := sorted(named - own):
        raise DataError("range", f"speaks of {' on '.join(strange[0])}, which the instance lacks", _AGAIN)
    if lacking:
        raise DataError("range", f"does not say the consumption of {', '.join(sorted(lacking))}", _AGAIN)


def break_down(instance: BoaInstance, result: Result[Solution], most: int | None = None) -> list[ClassBreakdown]:
    """Take a result's solution apart by class, the first ``most``; none without one (paper, lemmas 4.5 and 4.8)."""
    if not isinstance(result.solution, BoaSolution):
        return []
    branches = islice(result.solution.branches.items(), most)
    return [break_down_class(instance, name, rows) for name, rows in branches]


def break_down_class(instance: BoaInstance, name: str, branches: tuple[Branch, ...]) -> ClassBreakdown:
    """Take apart how a class's jobs run."""
    job_class = instance.classes[name]
    rate = job_class.arrival_rate_per_hour
    running = rescaling = mean_s = 0.0
    by_type = dict.fromkeys(instance.gpu_types, 0.0)
    paths = []
    for branch in branches:
        times, types = follow_epochs(instance, name, branch), types_along(instance, branch)
        path = _follow_path(branch, times, branch.gpu_types if has_types(instance) else None)
        paths.append(path)
        mean_s += branch.fraction * path.duration_s
        held = rate * branch.fraction * times.paid * times.held
        running += float((held * times.run_h).sum())
        rescaling += float((held * times.pause_h).sum())
        for gpu_type in set(types.tolist()):
            by_type[gpu_type] += float((held * (times.run_h + times.pause_h))[types == gpu_type].sum())
    weight = job_class.weight * rate / instance.total_weighted_rate_per_hour
    used = {gpu_type: gpus for gpu_type, gpus in by_type.items() if gpus > 0}
    return ClassBreakdown(name, tuple(paths), running, rescaling, used, mean_s, weight * mean_s)


def _follow_path(branch: Branch, times: EpochTimes, gpu_types: tuple[str, ...] | None) -> JobPath:
    starts = [*np.flatnonzero(times.change).tolist(), branch.widths.size]
    ranges = tuple(
        EpochRange(
            first=first + 1,
            last=end,
            gpus=float(branch.widths[first]),
            duration_s=float(times.total_h[first:end].sum()) * SECONDS_PER_HOUR,
            gpu_type="" if gpu_types is None else gpu_types[first],
        )
        for first, end in pairwise(starts)
    )
    return JobPath(branch.fraction, ranges, sum(r.duration_s for r in ranges))


def has_types(instance: BoaInstance) -> bool:
    """Whether the instance has several GPU types, so that readers have to be told which one is meant."""
    return len(instance.gpu_types) > 1


def load_gpus(instance: BoaInstance) -> float:
    """Return the time-average GPUs that all jobs would occupy if each ran where its class's size was measured."""
    return float(sum(c.arrival_rate_per_hour * c.size_gpu_hours * c.reference_width for c in instance.classes.values()))


def type_prices(instance: BoaInstance) -> dict[str, float] | None:
    """Return US dollars per hour by GPU type where there are several types and all have a price, else None."""
    prices = {n: t.price_usd_per_hour for n, t in instance.gpu_types.items() if t.price_usd_per_hour is not None}
    return prices if has_types(instance) and len(prices) == len(instance.gpu_types) else None


def price_usd_per_hour(instance: BoaInstance) -> float | None:
    """Return the price of a GPU where there is one GPU type with a price, else None."""
    if len(instance.gpu_types) != 1:
        return None
    return instance.gpu_types[instance.only_gpu_type].price_usd_per_hour


def require_own(found: Explanation | Sensitivity, result: Result[Solution]) -> None:
    """Refuse an explanation or a sensitivity of another instance than the page's result."""
    if found.instance_hash != result.instance_hash:
        raise UsageError(
            f"the {type(found).__name__.lower()} is for {found.instance_name!r} with hash {found.instance_hash[:12]}, "
            f"the result for {result.instance_name!r} with hash {result.instance_hash[:12]}; give what belongs together"
        )
