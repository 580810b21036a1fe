"""The independent judge of BOA: what widths amount to, and whether they keep the rules.

Written from Lemma 4.5, Lemma 4.8 and problem (7) alone; it imports no solver and no algebraic model, so that a user can
check a plan without trusting either. What no plan can beat is judged in :mod:`optplan.formulations.boa.judge.duality`.
Constraint families, by the names used in every message:

``every-class``
    The solution has branches for exactly the classes of the instance.
``fraction-sum``
    The fractions of a class's branches add up to one.
``one-path``
    A pure plan has one branch per class.
``row-length``
    A branch has one width per epoch.
``allowed-width``
    Every width is an allowed one (in the continuous problem: lies between the least and the largest).
``gpu-type``
    Every GPU type is one on which the class can run; with one type none need be named.
``budget``
    Time-average GPUs, or what they cost, running and rescaling, do not exceed the budget.
``quota.<type>``
    Time-average GPUs of a type do not exceed its quota.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optplan.contracts.judgement import JUDGE_ROUNDING, JUDGE_TOLERANCE, Check, Evaluation
from optplan.formulations.boa.data.instance import (
    BUDGET,
    QUOTA,
    BoaInstance,
    BoaSolution,
    Branch,
    Problem,
    has_real_widths,
)
from optplan.formulations.boa.laws.closed_forms import formula_speed
from optplan.schema import FloatArray, IntArray
from optplan.speedup import AmdahlSpeedup, PowerSpeedup, speed_on_hull
from optplan.units import SECONDS_PER_HOUR, BudgetUnit

#: Relative tolerance of every comparison of the judge; a plan exactly at the budget is feasible.
TOLERANCE = JUDGE_TOLERANCE
#: What sums in another order may differ by, relatively: a plan this little beyond the tolerance of a limit keeps it.
ROUNDING = JUDGE_ROUNDING

#: Speeds closer than this, relatively, are the same, as in :mod:`optplan.speedup.hulls`.
_SAME = 1e-12


@dataclass(frozen=True)
class _BranchFigures:
    """One job that follows a branch: hours, GPU-hours and GPU-hours of each type, running and rescaling; its changes.

    ``run_gpu_hours`` and ``rescale_gpu_hours`` are by GPU type.
    """

    run_hours: float
    rescale_hours: float
    run_gpu_hours: dict[str, float]
    rescale_gpu_hours: dict[str, float]
    changes: int


class _Sum:
    """A sum that is rounded once, whatever the order of its terms."""

    def __init__(self) -> None:
        self._terms: list[float] = []

    def add(self, term: float) -> None:
        self._terms.append(term)

    @property
    def total(self) -> float:
        return math.fsum(self._terms)


def evaluate(instance: BoaInstance, solution: BoaSolution) -> Evaluation:
    """Recompute objective, GPU use and every constraint from the widths.

    Parameters
    ----------
    instance
        The problem.
    solution
        The widths to judge; they may break any rule.

    Returns
    -------
    Evaluation
        Objective: mean completion time in seconds, weighted where the classes have weights. Consumption: ``budget`` in
        time-average GPUs or US dollars per hour (``instance.budget_unit``), ``quota.<type>`` in time-average GPUs.
        Source: Lemma 4.5, Lemma 4.8 (without the 1/lambda that (3) prints, and from epoch 1), problem (7).
    """
    checks = _check_shape(instance, solution)
    if not all(check.holds for check in checks):
        return Evaluation(float("nan"), dict.fromkeys(instance.limit_names, float("nan")), {}, tuple(checks))
    # Exactly rounded sums do not depend on the order in which classes and types are given.
    weighted_s, jct_s, changes = _Sum(), _Sum(), _Sum()
    running, rescaling = ({gpu_type: _Sum() for gpu_type in instance.gpu_types} for _ in range(2))
    measures: dict[str, float] = {}
    for name, job_class in instance.classes.items():
        rate = job_class.arrival_rate_per_hour
        class_s, class_gpus = _Sum(), _Sum()
        for branch in solution.branches[name]:
            figures = _follow(instance, name, branch)
            share = branch.fraction
            class_s.add(share * (figures.run_hours + figures.rescale_hours) * SECONDS_PER_HOUR)
            for total, gpu_hours in ((running, figures.run_gpu_hours), (rescaling, figures.rescale_gpu_hours)):
                for gpu_type, hours in gpu_hours.items():
                    total[gpu_type].add(rate * share * hours)
                    class_gpus.add(rate * share * hours)
            changes.add(rate * share * figures.changes)
        jct_s.add(rate * class_s.total)
        weighted_s.add(job_class.weight * rate * class_s.total)
        measures[f"classes.{name}.mean_jct_s"] = class_s.total
        measures[f"classes.{name}.gpus"] = class_gpus.total
    total_rate = instance.total_rate_per_hour
    gpus = {gpu_type: running[gpu_type].total + rescaling[gpu_type].total for gpu_type in instance.gpu_types}
    measures |= {
        "mean_jct_s": jct_s.total / total_rate,
        "weighted_mean_jct_s": weighted_s.total / instance.total_weighted_rate_per_hour,
        "gpus": math.fsum(gpus.values()),
        "gpus_running": math.fsum(each.total for each in running.values()),
        "gpus_rescaling": math.fsum(each.total for each in rescaling.values()),
        "width_changes_per_job": changes.total / total_rate,
        "rescales_per_job": (total_rate + changes.total) / total_rate,
    }
    measures |= _measure_types(instance, gpus)
    prices = instance.prices_in_budget
    consumption = {BUDGET: math.fsum(prices[gpu_type] * used for gpu_type, used in gpus.items())}
    consumption |= {f"{QUOTA}{gpu_type}": gpus[gpu_type] for gpu_type in instance.quotas}
    checks += [_check_limit(instance, limit, used) for limit, used in consumption.items() if _is_given(instance, limit)]
    return Evaluation(measures["weighted_mean_jct_s"], consumption, measures, tuple(checks))


def _measure_types(instance: BoaInstance, gpus: dict[str, float]) -> dict[str, float]:
    """Measure what concerns GPU types: how many of each where there are several, and their cost where it is known."""
    measures = {f"gpus.{gpu_type}": used for gpu_type, used in gpus.items()} if len(gpus) > 1 else {}
    prices = {name: gpu_type.price_usd_per_hour for name, gpu_type in instance.gpu_types.items()}
    if all(prices[gpu_type] is not None for gpu_type, used in gpus.items() if used > 0):
        measures["cost_usd_per_hour"] = math.fsum((prices[gpu_type] or 0.0) * used for gpu_type, used in gpus.items())
    return measures


@dataclass(frozen=True)
class EpochTimes:
    """What each epoch takes of a job that follows a branch.

    Parameters
    ----------
    run_h, pause_h
        (E,) Hours of running the epoch, and of coming to hold its GPUs, interruptions not counted.
    wall, held
        (E,) Factors by which interruptions stretch the time, and the time for which GPUs are held.
    change
        (E,) Whether the job comes to hold other GPUs at the start of the epoch; true in the first.
    """

    run_h: FloatArray
    pause_h: FloatArray
    wall: FloatArray
    held: FloatArray
    change: NDArray[np.bool_]

    @property
    def total_h(self) -> FloatArray:
        """(E,) Hours of each epoch."""
        return self.wall * (self.run_h + self.pause_h)

    @property
    def held_h(self) -> FloatArray:
        """(E,) Hours for which each epoch's GPUs are held."""
        return self.held * (self.run_h + self.pause_h)


def _follow(instance: BoaInstance, name: str, branch: Branch) -> _BranchFigures:
    times = follow_epochs(instance, name, branch)
    held_gpus, parts = branch.widths * times.held, _epochs_by_type(instance, branch)
    run_gpu_hours, rescale_gpu_hours = (
        {gpu_type: float((held_gpus[epochs] * hours[epochs]).sum()) for gpu_type, epochs in parts}
        for hours in (times.run_h, times.pause_h)
    )
    return _BranchFigures(
        run_hours=float((times.wall * times.run_h).sum()),
        rescale_hours=float((times.wall * times.pause_h).sum()),
        run_gpu_hours=run_gpu_hours,
        rescale_gpu_hours=rescale_gpu_hours,
        changes=int(np.count_nonzero(times.change[1:])),
    )


def types_along(instance: BoaInstance, branch: Branch) -> NDArray[np.str_]:
    """Return the GPU type (E,) of each epoch of a branch."""
    if branch.gpu_types is None:
        return np.full(branch.widths.size, instance.only_gpu_type)
    return np.array(branch.gpu_types)


def _epochs_by_type(instance: BoaInstance, branch: Branch) -> list[tuple[str, IntArray | slice]]:
    """List the GPU types that a branch holds, by name, each with its epochs."""
    if branch.gpu_types is None:
        return [(instance.only_gpu_type, slice(None))]
    types = np.array(branch.gpu_types)
    return [(gpu_type, np.flatnonzero(types == gpu_type)) for gpu_type in sorted(set(branch.gpu_types))]


def follow_epochs(instance: BoaInstance, name: str, branch: Branch) -> EpochTimes:
    """Compute what each epoch takes of a job of a class that follows a branch which keeps the rules."""
    job_class, widths = instance.classes[name], branch.widths
    change = np.ones(widths.size, dtype=np.bool_)
    change[1:] = widths[1:] != widths[:-1]
    speed, wall, held = np.empty(widths.size), np.ones(widths.size), np.ones(widths.size)
    pause_s = np.zeros(widths.size)
    rescales = instance.problem is Problem.RESCALING
    for gpu_type, epochs in _epochs_by_type(instance, branch):
        speed[epochs] = speeds_along(instance, name, widths, gpu_type)[epochs]
        if instance.gpu_types[gpu_type].spot is not None:
            wall[epochs], held[epochs] = instance.gpu_types[gpu_type].stretch(widths[epochs].astype(np.int64))
        pause_s[epochs] = job_class.rescale_s_of(gpu_type) if rescales else 0.0
    if branch.gpu_types is not None:
        types = branch.gpu_types
        for epoch in [epoch for epoch in range(1, widths.size) if types[epoch] != types[epoch - 1]]:
            change[epoch] = True
            pause_s[epoch] += job_class.type_change_s_of(types[epoch - 1], types[epoch]) if rescales else 0.0
    pause_s[~change] = 0.0
    return EpochTimes(job_class.epoch_size_gpu_hours / speed, pause_s / SECONDS_PER_HOUR, wall, held, change)


def speeds_along(instance: BoaInstance, name: str, widths: FloatArray, gpu_type: str | None = None) -> FloatArray:
    """Return the speed of a class in each epoch at that epoch's width of one GPU type.

    Parameters
    ----------
    instance
        The problem; in the continuous one, widths are real and tables are read on their hull.
    name
        The class.
    widths
        (E,) GPUs.
    gpu_type
        Their type; the only one when None.

    Returns
    -------
    FloatArray
        (E,) Speed relative to the reference width; interruptions are not counted. Where a width is not one of the type,
        the entry has no meaning.
    """
    gpu_type = instance.only_gpu_type if gpu_type is None else gpu_type
    curve = instance.classes[name].speedup[gpu_type]
    if isinstance(curve, AmdahlSpeedup | PowerSpeedup):
        return formula_speed(curve, widths)
    allowed, table = instance.allowed_widths(name, gpu_type), instance.speeds(name, gpu_type)
    column = np.minimum(allowed.searchsorted(widths), allowed.size - 1)
    speed: FloatArray = table[np.arange(widths.size) if len(table) > 1 else 0, column]
    if instance.problem is not Problem.CONTINUOUS or instance.is_typed:
        return speed
    # A real width divides the jobs between two vertices of the hull. Most widths are vertices themselves, which is
    # cheap to see; hulls are made for the others only.
    speeds = np.broadcast_to(table, (widths.size, allowed.size))
    other = np.flatnonzero((allowed[column] != widths) | ~_is_vertex(allowed, speeds, column))
    if other.size:
        least, largest = (end[other] for end in _real_range(instance, name, gpu_type))
        inside = np.clip(widths[other], least, largest)
        # What is outside by no more than the judge tolerates is moved to the end; anything else is refused.
        moved = np.where(np.abs(inside - widths[other]) <= TOLERANCE * inside, inside, widths[other])
        speed[other] = speed_on_hull(moved, allowed, speeds[other])
    return speed


def _is_vertex(allowed: IntArray, speeds: FloatArray, column: IntArray) -> NDArray[np.bool_]:
    """Whether a width of each row is best for some multiplier, and so on the hull of (k / s, 1 / s).

    Dearer widths are no better from some multiplier on, cheaper ones up to some multiplier: the two must meet.
    """
    use, hours = allowed / speeds, 1.0 / speeds
    rows = np.arange(column.size)
    dearer_by = use - use[rows, column][:, None]
    quicker_by = hours[rows, column][:, None] - hours
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = quicker_by / dearer_by
    at_least = np.where(dearer_by > 0, slope, 0.0).max(axis=1)
    at_most = np.where(dearer_by < 0, slope, np.inf).min(axis=1)
    beaten = ((dearer_by == 0) & (quicker_by > 0)).any(axis=1)
    vertex: NDArray[np.bool_] = (np.maximum(at_least, 0.0) <= at_most) & ~beaten
    return vertex


def _check_shape(instance: BoaInstance, solution: BoaSolution) -> list[Check]:
    """Check everything that must hold before widths can be evaluated at all."""
    missing = set(instance.classes) ^ set(solution.branches)
    checks = [
        Check(
            family="every-class",
            index=min(missing, default=""),
            left=float(len(missing)),
            right=0.0,
            tolerance=0.0,
            holds=not missing,
            message="the solution must name exactly the classes of the instance",
        )
    ]
    if missing:
        return checks
    for name, branches in solution.branches.items():
        checks.append(_check_fractions(name, branches))
        if instance.problem is not Problem.CONTINUOUS and instance.policy == "pure":
            checks.append(
                Check(
                    family="one-path",
                    index=name,
                    left=float(len(branches)),
                    right=1.0,
                    tolerance=0.0,
                    holds=len(branches) == 1,
                    message="a pure plan has one branch per class",
                )
            )
        for number, branch in enumerate(branches, start=1):
            checks.extend(_check_row(instance, name, f"{name}[{number}]", branch))
    return checks


def _check_fractions(name: str, branches: tuple[Branch, ...]) -> Check:
    total = float(sum(branch.fraction for branch in branches))
    return Check(
        family="fraction-sum",
        index=name,
        left=total,
        right=1.0,
        tolerance=TOLERANCE,
        holds=abs(total - 1.0) <= TOLERANCE,
        message="the fractions of a class's branches must add up to one",
    )


def _check_row(instance: BoaInstance, name: str, index: str, branch: Branch) -> list[Check]:
    epochs, widths = instance.classes[name].num_epochs, branch.widths
    fits = widths.shape == (epochs,) and (branch.gpu_types is None or len(branch.gpu_types) == epochs)
    length = Check(
        family="row-length",
        index=index,
        left=float(widths.size if branch.gpu_types is None else max(widths.size, len(branch.gpu_types))),
        right=float(epochs),
        tolerance=0.0,
        holds=fits,
        message="a branch has one width per epoch, and one GPU type where there are several",
    )
    if not fits:
        return [length]
    types = _check_types(instance, name, index, branch)
    return [length, types, *([_check_widths(instance, name, index, branch)] if types.holds else [])]


def _check_types(instance: BoaInstance, name: str, index: str, branch: Branch) -> Check:
    known = instance.options(name).gpu_types
    named = branch.gpu_types if branch.gpu_types is not None else ("",) if len(instance.gpu_types) > 1 else known[:1]
    wrong = [gpu_type for gpu_type in named if gpu_type not in known]
    return Check(
        family="gpu-type",
        index=index,
        left=float(len(wrong)),
        right=0.0,
        tolerance=0.0,
        holds=not wrong,
        message=f"every GPU type must be one on which the class can run ({', '.join(known)})",
    )


def _check_widths(instance: BoaInstance, name: str, index: str, branch: Branch) -> Check:
    widths = branch.widths
    least, largest, wrong = np.zeros(widths.size), np.zeros(widths.size), np.zeros(widths.size, dtype=np.bool_)
    between = False
    for gpu_type, epochs in _epochs_by_type(instance, branch):
        if _takes_real_widths(instance, name, gpu_type):
            ends = _real_range(instance, name, gpu_type)
            least[epochs], largest[epochs] = ends[0][epochs], ends[1][epochs]
            outside = (widths < least * (1 - TOLERANCE)) | (widths > largest * (1 + TOLERANCE))
            between = True
        else:
            allowed = instance.allowed_widths(name, gpu_type)
            least[epochs], largest[epochs] = allowed[0], allowed[-1]
            outside = allowed[np.minimum(allowed.searchsorted(widths), allowed.size - 1)] != widths
        wrong[epochs] = outside[epochs]
    first = int(wrong.argmax())
    rule = "widths must lie between the ends of the hull" if between else "widths must be allowed ones"
    return Check(
        family="allowed-width",
        index=f"{index} epoch {first + 1}" if wrong.any() else index,
        left=float(widths[first]),
        right=float(largest[first]),
        tolerance=TOLERANCE * float(largest[first]),
        holds=not wrong.any(),
        message=f"{rule} ({least[first]:g} to {largest[first]:g})",
    )


def _takes_real_widths(instance: BoaInstance, name: str, gpu_type: str) -> bool:
    """Whether a solution may name widths between whole ones.

    With one type, a real width of a table stands for two fractions of the jobs. With several, and with interruptions,
    fractions are branches of their own; only closed forms have real widths.
    """
    if instance.problem is not Problem.CONTINUOUS:
        return False
    return not instance.is_typed or has_real_widths(instance, name, gpu_type)


def _real_range(instance: BoaInstance, name: str, gpu_type: str) -> tuple[FloatArray, FloatArray]:
    """Return the least and largest real width (E,) of each epoch; a table's hull may end before its widths do."""
    allowed, epochs = instance.allowed_widths(name, gpu_type), instance.classes[name].num_epochs
    if has_real_widths(instance, name, gpu_type):
        return np.full(epochs, float(allowed[0])), np.full(epochs, float(allowed[-1]))
    speeds = instance.speeds(name, gpu_type)
    use = allowed / speeds
    # The hull goes from the least GPU-hours (of those, the quickest) to the highest speed (of those, the narrowest).
    cheapest = use <= use.min(axis=1, keepdims=True) * (1 + _SAME)
    quickest = speeds >= speeds.max(axis=1, keepdims=True) * (1 - _SAME)
    least = allowed[np.where(cheapest, speeds, 0.0).argmax(axis=1)]
    largest = allowed[np.where(quickest, use, np.inf).argmin(axis=1)]
    return np.broadcast_to(least.astype(float), epochs), np.broadcast_to(largest.astype(float), epochs)


def _is_given(instance: BoaInstance, limit: str) -> bool:
    return limit != BUDGET or instance.budget is not None


def _check_limit(instance: BoaInstance, limit: str, used: float) -> Check:
    amount = instance.limits[limit] if instance.budget is not None else instance.quotas[limit.removeprefix(QUOTA)]
    what = "time-average GPUs" if instance.limit_unit(limit) is BudgetUnit.GPU else "cost per hour"
    whose = "the budget" if limit == BUDGET else f"the quota of {limit.removeprefix(QUOTA)}"
    return Check(
        family=limit,
        left=used,
        right=amount,
        tolerance=(TOLERANCE + ROUNDING) * amount,
        holds=used <= amount * (1 + TOLERANCE + ROUNDING),
        message=f"{what}, running and rescaling, must not exceed {whose}",
    )
