"""From BOA's widths to a plan: what an executor does when a job arrives and when one of its epochs ends."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from optplan.contracts.plan import Action, Plan, PlanStep, Price
from optplan.contracts.result import Result
from optplan.errors import UsageError
from optplan.formulations.boa.data import BoaInstance, BoaSolution, Branch, Policy, Problem
from optplan.formulations.boa.evaluation import evaluate, speeds_along
from optplan.schema import ByName, FloatArray, FrozenModel, IntArray, WholeNumbers
from optplan.speedup import lower_left_hull
from optplan.units import SECONDS_PER_HOUR


class WidthRow(FrozenModel):
    """One row of the width table.

    Parameters
    ----------
    share
        Fraction of the class's jobs that follow the row.
    gpus
        (E,) GPUs in each epoch.
    """

    share: float
    gpus: WholeNumbers


class BoaPlan(Plan):
    """Width table and steps: at each scheduling interval an executor looks up class and epoch.

    Parameters
    ----------
    width_table
        By class: rows of GPUs per epoch. Where there are several, give each arriving job one of them at random with
        the stated shares, and keep it for the job's whole life.
    arrival_rate_per_hour
        By class: with it the steps add up to the time-average GPUs in ``expected``.
    """

    width_table: ByName[tuple[WidthRow, ...]]
    arrival_rate_per_hour: ByName[float]


@dataclass(frozen=True)
class _Epochs:
    """Running hours (E,) of a job, and hours of a pause for rescaling."""

    hours: FloatArray
    pause_hours: float


def build_plan(instance: BoaInstance, result: Result[BoaSolution]) -> BoaPlan:
    """Turn widths into a width table and steps.

    Parameters
    ----------
    instance
        The problem.
    result
        Its result, with a solution.

    Returns
    -------
    BoaPlan
        Real widths (problem continuous) become two whole widths for fractions of the *jobs*, never within an epoch, so
        that the GPU use of every epoch stays what it was; ``expected`` is what the plan itself amounts to.

    Raises
    ------
    UsageError
        When the result has no solution.
    """
    if result.solution is None or result.objective is None:
        message = f"the result has no solution to plan (status {result.status})"
        raise UsageError(message)
    branches = {
        name: _whole_branches(instance, name, rows) if instance.problem is Problem.CONTINUOUS else list(rows)
        for name, rows in result.solution.branches.items()
    }
    problem = Problem.WHOLE if instance.problem is Problem.CONTINUOUS else instance.problem
    as_run = instance.replace(problem=problem, policy=Policy.MIXED)
    judged = evaluate(as_run, BoaSolution(branches={name: tuple(rows) for name, rows in branches.items()}))
    steps = [
        step
        for name, rows in branches.items()
        for number, branch in enumerate(rows, start=1)
        for step in _branch_steps(as_run, name, number, branch)
    ]
    return BoaPlan(
        formulation=instance.formulation,
        instance_name=instance.name,
        instance_hash=result.instance_hash,
        solver=result.solver,
        objective=judged.objective,
        objective_unit=result.objective_unit,
        bound=result.bound,
        prices=_prices(instance),
        expected=judged.measures,
        steps=tuple(steps),
        width_table={
            name: tuple(WidthRow(share=b.fraction, gpus=b.widths.astype(np.int64)) for b in rows)
            for name, rows in branches.items()
        },
        arrival_rate_per_hour={name: c.arrival_rate_per_hour for name, c in instance.classes.items()},
    )


def _prices(instance: BoaInstance) -> dict[str, Price]:
    return {
        name: Price(usd_per_hour=t.price_usd_per_hour, source=t.price_source, date=t.price_date)
        for name, t in instance.gpu_types.items()
        if t.price_usd_per_hour is not None
    }


def _branch_steps(instance: BoaInstance, name: str, number: int, branch: Branch) -> list[PlanStep]:
    """List the steps of one branch: a start, then a resize wherever the width changes."""
    widths = branch.widths.astype(np.int64)
    epochs = _epochs_along(instance, name, widths)
    firsts = np.concatenate(([0], np.flatnonzero(np.diff(widths)) + 1, [widths.size]))
    steps = []
    for first, end in zip(firsts[:-1].tolist(), firsts[1:].tolist(), strict=True):
        duration_h = epochs.pause_hours + float(epochs.hours[first:end].sum())
        gpus = int(widths[first])
        steps.append(
            PlanStep(
                subject=name,
                branch=number,
                share=branch.fraction,
                trigger="arrival" if first == 0 else f"start of epoch {first + 1}",
                until=f"end of epoch {end}",
                action=Action.START if first == 0 else Action.RESIZE,
                gpu_type=instance.only_gpu_type,
                gpus=gpus,
                expected_overhead_s=epochs.pause_hours * SECONDS_PER_HOUR,
                expected_duration_s=duration_h * SECONDS_PER_HOUR,
                expected_gpu_hours=gpus * duration_h,
            )
        )
    return steps


def _epochs_along(instance: BoaInstance, name: str, widths: IntArray) -> _Epochs:
    job_class, allowed = instance.classes[name], instance.allowed_widths(name)
    speeds = np.broadcast_to(instance.speeds(name), (widths.size, allowed.size))
    speed = speeds[np.arange(widths.size), np.searchsorted(allowed, widths)]
    pause = job_class.rescale_s / SECONDS_PER_HOUR if instance.problem is Problem.RESCALING else 0.0
    return _Epochs(job_class.epoch_size_gpu_hours / speed, pause)


def _whole_branches(instance: BoaInstance, name: str, rows: tuple[Branch, ...]) -> list[Branch]:
    """Divide real widths among whole ones.

    In each epoch the jobs are split between two allowed widths so that the epoch's GPU-hours stay the same. Sorting the
    split fractions gives the common branches: at most one more than there are different fractions.
    """
    branches = []
    for row in rows:
        low, high, high_fraction = _neighbours(instance, name, row.widths)
        cuts = np.unique(np.concatenate(([0.0, 1.0], high_fraction)))
        for start, end in pairwise(cuts.tolist()):
            widths = np.where(high_fraction > (start + end) / 2, high, low)
            branches.append(Branch(fraction=row.fraction * (end - start), widths=widths))
    return branches


def _neighbours(instance: BoaInstance, name: str, widths: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Find the two whole widths around each real one and the fraction (E,) of jobs that gets the larger."""
    allowed, epochs = instance.allowed_widths(name), np.arange(widths.size)
    speeds = np.broadcast_to(instance.speeds(name), (widths.size, allowed.size))
    vertex = lower_left_hull(allowed / speeds, 1.0 / speeds)
    every = np.arange(allowed.size)
    last_before = np.maximum.accumulate(np.where(vertex, every, -1), axis=1)
    first_after = np.minimum.accumulate(np.where(vertex, every, allowed.size)[:, ::-1], axis=1)[:, ::-1]
    floor = np.clip(np.searchsorted(allowed, widths, side="right") - 1, 0, allowed.size - 1)
    ceiling = np.clip(np.searchsorted(allowed, widths), 0, allowed.size - 1)
    below, above = last_before[epochs, floor], first_after[epochs, ceiling]
    below = np.where(below < 0, above, below)
    above = np.where(above == allowed.size, below, above)
    # GPU-hours per GPU-hour of size at the two whole widths and at the real one: the split keeps them.
    use_below, use_above = allowed[below] / speeds[epochs, below], allowed[above] / speeds[epochs, above]
    wanted = widths / speeds_along(instance, name, widths)
    spread = use_above - use_below
    with np.errstate(divide="ignore", invalid="ignore"):
        fraction = np.where(spread > 0, np.clip((wanted - use_below) / spread, 0.0, 1.0), 0.0)
    return allowed[below].astype(float), allowed[above].astype(float), fraction
