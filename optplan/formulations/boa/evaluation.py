"""The independent judge of BOA: what widths amount to, and what no widths can beat.

Written from Lemma 4.5 and Lemma 4.8 alone; it imports no solver and no algebraic model, so that a user can check a
proof without trusting either. Constraint families, by the names used in every message:

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
``budget``
    Time-average GPUs, running and rescaling, do not exceed the budget.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optplan.contracts.judgement import Check, Evaluation, PathCosts
from optplan.formulations.boa.data import BoaInstance, BoaSolution, Branch, JobClass, Problem
from optplan.schema import FloatArray, IntArray
from optplan.speedup import AmdahlSpeedup, PowerSpeedup, speed_on_hull
from optplan.units import SECONDS_PER_HOUR

#: Relative tolerance of every comparison of the judge; a plan exactly at the budget is feasible.
TOLERANCE = 1e-9

#: Speeds closer than this, relatively, are the same, as in :mod:`optplan.speedup.hulls`.
_SAME = 1e-12

#: The limit's name in certificates, shadow prices and relaxations.
BUDGET = "budget"


@dataclass(frozen=True)
class _BranchFigures:
    """One job that follows a branch: hours and GPU-hours, running and rescaling, and its changes of width."""

    run_hours: float
    rescale_hours: float
    run_gpu_hours: float
    rescale_gpu_hours: float
    changes: int


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
        time-average GPUs. Source: Lemma 4.5, Lemma 4.8 (without the 1/lambda that (3) prints, and from epoch 1).
    """
    checks = _check_shape(instance, solution)
    if not all(check.holds for check in checks):
        return Evaluation(float("nan"), {BUDGET: float("nan")}, {}, tuple(checks))
    weighted_s = jct_s = running = rescaling = starts = changes = 0.0
    measures: dict[str, float] = {}
    for name, job_class in instance.classes.items():
        rate = job_class.arrival_rate_per_hour
        class_s = class_gpus = 0.0
        for branch in solution.branches[name]:
            figures = _follow(instance, name, branch)
            share = branch.fraction
            class_s += share * (figures.run_hours + figures.rescale_hours) * SECONDS_PER_HOUR
            running += rate * share * figures.run_gpu_hours
            rescaling += rate * share * figures.rescale_gpu_hours
            class_gpus += rate * share * (figures.run_gpu_hours + figures.rescale_gpu_hours)
            changes += rate * share * figures.changes
        starts += rate
        jct_s += rate * class_s
        weighted_s += job_class.weight * rate * class_s
        measures[f"classes.{name}.mean_jct_s"] = class_s
        measures[f"classes.{name}.gpus"] = class_gpus
    total_rate = instance.total_rate_per_hour
    measures |= {
        "mean_jct_s": jct_s / total_rate,
        "weighted_mean_jct_s": weighted_s / instance.total_weighted_rate_per_hour,
        "gpus": running + rescaling,
        "gpus_running": running,
        "gpus_rescaling": rescaling,
        "width_changes_per_job": changes / total_rate,
        "rescales_per_job": (starts + changes) / total_rate,
    }
    if instance.budget is not None:
        checks.append(_check_budget(instance, running + rescaling))
    return Evaluation(measures["weighted_mean_jct_s"], {BUDGET: running + rescaling}, measures, tuple(checks))


def path_costs(instance: BoaInstance) -> list[PathCosts]:
    """Compute what each step of a class's path costs, from Lemma 4.8.

    Returns
    -------
    list of PathCosts
        One per class: values in seconds of (weighted) mean completion time, consumption in time-average GPUs. Without
        rescaling (problem whole) entering costs nothing.
    """
    costs = []
    scale = SECONDS_PER_HOUR / instance.total_weighted_rate_per_hour
    for name, job_class in instance.classes.items():
        widths = instance.allowed_widths(name)
        hours = job_class.epoch_size_gpu_hours[:, None] / instance.speeds(name)
        pause_hours = np.full_like(hours, _pause_hours(instance, job_class))
        rate = job_class.arrival_rate_per_hour
        value_per_hour = scale * job_class.weight * rate
        costs.append(
            PathCosts(
                name=name,
                nodes=widths,
                run_value=value_per_hour * hours,
                run_consumption=rate * widths * hours,
                enter_value=value_per_hour * pause_hours,
                enter_consumption=rate * widths * pause_hours,
            )
        )
    return costs


def dual_bound(instance: BoaInstance, multipliers: dict[str, float]) -> float:
    """Re-derive the Lagrangian bound: sum of best paths at the multiplier, less multiplier times budget.

    Parameters
    ----------
    instance
        The problem, with its budget.
    multipliers
        ``{"budget": mu}``, mu in seconds per GPU, at least zero.

    Returns
    -------
    float
        A lower bound, in seconds, on the objective of every plan within the budget, mixed ones included.
    """
    mu = multipliers[BUDGET]
    least = (_least_continuous if instance.problem is Problem.CONTINUOUS else _least_over_paths)(instance, mu)
    return least - mu * instance.budget_gpus()


def least_path(costs: PathCosts, mu: float) -> float:
    """Return the least ``value + mu * consumption`` of a path, by going through the layers one by one."""
    run = costs.run_value + mu * costs.run_consumption
    enter = costs.enter_value + mu * costs.enter_consumption
    best = enter[0] + run[0]
    for layer in range(1, run.shape[0]):
        best = run[layer] + np.minimum(best, best.min() + enter[layer])
    return float(best.min())


def _least_over_paths(instance: BoaInstance, mu: float) -> float:
    return sum(least_path(costs, mu) for costs in path_costs(instance))


def _least_continuous(instance: BoaInstance, mu: float) -> float:
    """Least ``value + mu * consumption`` over real widths, class by class: closed forms, or the best table entry."""
    scale = SECONDS_PER_HOUR / instance.total_weighted_rate_per_hour
    total = 0.0
    for name, job_class in instance.classes.items():
        curve = job_class.speedup[instance.only_gpu_type]
        widths = instance.allowed_widths(name).astype(float)
        weight = scale * job_class.weight
        if isinstance(curve, AmdahlSpeedup | PowerSpeedup):
            width = _best_real_width(curve, weight, mu, widths[0], widths[-1])
            per_hour = (weight + mu * width) / _formula_speed(curve, width)
        else:
            per_hour = ((weight + mu * widths) / instance.speeds(name)).min(axis=1)
        total += job_class.arrival_rate_per_hour * float(np.sum(job_class.epoch_size_gpu_hours * per_hour))
    return total


def _best_real_width(
    curve: AmdahlSpeedup | PowerSpeedup, weight: float, mu: float, least: float, largest: float
) -> FloatArray:
    """Minimise (weight + mu k) / s(k) over [least, largest]; the derivative vanishes where s'(weight + mu k) = mu s."""
    if mu == 0.0:
        return np.array(largest)
    if isinstance(curve, AmdahlSpeedup):
        serial = np.asarray(curve.serial_fraction, dtype=float)
        with np.errstate(divide="ignore"):
            stationary = np.sqrt(weight * (1.0 - serial) / (mu * serial))
    else:
        exponent = np.asarray(curve.exponent, dtype=float)
        with np.errstate(divide="ignore"):
            stationary = exponent * weight / (mu * (1.0 - exponent))
    return np.clip(stationary, least, largest)


def _formula_speed(curve: AmdahlSpeedup | PowerSpeedup, width: FloatArray) -> FloatArray:
    if isinstance(curve, AmdahlSpeedup):
        serial = np.asarray(curve.serial_fraction, dtype=float)
        return np.asarray(1.0 / (serial + (1.0 - serial) / width))
    return np.asarray(width ** np.asarray(curve.exponent, dtype=float))


def _pause_hours(instance: BoaInstance, job_class: JobClass) -> float:
    return job_class.rescale_s / SECONDS_PER_HOUR if instance.problem is Problem.RESCALING else 0.0


def _follow(instance: BoaInstance, name: str, branch: Branch) -> _BranchFigures:
    job_class, widths = instance.classes[name], branch.widths
    hours = job_class.epoch_size_gpu_hours / speeds_along(instance, name, widths)
    changed = np.flatnonzero(np.diff(widths) != 0) + 1
    pause = _pause_hours(instance, job_class)
    return _BranchFigures(
        run_hours=float(hours.sum()),
        rescale_hours=pause * (1 + changed.size),
        run_gpu_hours=float((widths * hours).sum()),
        rescale_gpu_hours=pause * float(widths[0] + widths[changed].sum()),
        changes=int(changed.size),
    )


def speeds_along(instance: BoaInstance, name: str, widths: FloatArray) -> FloatArray:
    """Return the speed of a class in each epoch at that epoch's width.

    Parameters
    ----------
    instance
        The problem; in the continuous one, widths are real and tables are read on their hull.
    name
        The class.
    widths
        (E,) GPUs.

    Returns
    -------
    FloatArray
        (E,) Speed relative to the reference width.
    """
    curve = instance.classes[name].speedup[instance.only_gpu_type]
    if isinstance(curve, AmdahlSpeedup | PowerSpeedup):
        return _formula_speed(curve, widths)
    allowed = instance.allowed_widths(name)
    speeds = np.broadcast_to(instance.speeds(name), (widths.size, allowed.size))
    if instance.problem is not Problem.CONTINUOUS:
        return speeds[np.arange(widths.size), np.searchsorted(allowed, widths)]
    # A real width divides the jobs between two vertices of the hull. Most widths are vertices themselves, which is
    # cheap to see; hulls are made for the others only.
    column = np.clip(np.searchsorted(allowed, widths), 0, allowed.size - 1)
    speed = speeds[np.arange(widths.size), column].copy()
    other = np.flatnonzero((allowed[column] != widths) | ~_is_vertex(allowed, speeds, column))
    if other.size:
        least, largest = (end[other] for end in _real_range(instance, name))
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
    length = Check(
        family="row-length",
        index=index,
        left=float(widths.size),
        right=float(epochs),
        tolerance=0.0,
        holds=widths.shape == (epochs,),
        message="a branch has one width per epoch",
    )
    if not length.holds:
        return [length]
    least, largest = _real_range(instance, name)
    if instance.problem is Problem.CONTINUOUS:
        wrong = np.flatnonzero((widths < least * (1 - TOLERANCE)) | (widths > largest * (1 + TOLERANCE)))
        rule = "widths must lie between the ends of the hull"
    else:
        wrong = np.flatnonzero(~np.isin(widths, instance.allowed_widths(name)))
        rule = "widths must be allowed ones"
    first = int(wrong[0]) if wrong.size else 0
    row = Check(
        family="allowed-width",
        index=f"{index} epoch {first + 1}" if wrong.size else index,
        left=float(widths[first]),
        right=float(largest[first]),
        tolerance=TOLERANCE * float(largest[first]),
        holds=wrong.size == 0,
        message=f"{rule} ({least[first]:g} to {largest[first]:g})",
    )
    return [length, row]


def _real_range(instance: BoaInstance, name: str) -> tuple[FloatArray, FloatArray]:
    """Return the least and largest width (E,) of each epoch: where widths are real, a table's hull may end earlier."""
    allowed, epochs = instance.allowed_widths(name), instance.classes[name].num_epochs
    curve = instance.classes[name].speedup[instance.only_gpu_type]
    if instance.problem is not Problem.CONTINUOUS or isinstance(curve, AmdahlSpeedup | PowerSpeedup):
        return np.full(epochs, float(allowed[0])), np.full(epochs, float(allowed[-1]))
    speeds = instance.speeds(name)
    use = allowed / speeds
    # The hull goes from the least GPU-hours (of those, the quickest) to the highest speed (of those, the narrowest).
    cheapest = use <= use.min(axis=1, keepdims=True) * (1 + _SAME)
    quickest = speeds >= speeds.max(axis=1, keepdims=True) * (1 - _SAME)
    least = allowed[np.where(cheapest, speeds, 0.0).argmax(axis=1)]
    largest = allowed[np.where(quickest, use, np.inf).argmin(axis=1)]
    return np.broadcast_to(least.astype(float), epochs), np.broadcast_to(largest.astype(float), epochs)


def _check_budget(instance: BoaInstance, used_gpus: float) -> Check:
    budget = instance.budget_gpus()
    return Check(
        family=BUDGET,
        left=used_gpus,
        right=budget,
        tolerance=TOLERANCE * budget,
        holds=used_gpus <= budget * (1 + TOLERANCE),
        message="time-average GPUs, running and rescaling, must not exceed the budget",
    )
