"""From BOA's widths to a plan: what an executor does when a job arrives and when one of its epochs ends."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from optplan.contracts.explanation import ExplainedChoice, Explanation
from optplan.contracts.plan import Action, Plan, PlanStep, Price
from optplan.contracts.result import Result
from optplan.errors import UsageError
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Branch, Policy, Problem, has_real_widths
from optplan.formulations.boa.judge.evaluation import evaluate, follow_epochs, speeds_along, types_along
from optplan.schema import ByName, FloatArray, FrozenModel, WholeNumbers
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
    gpu_types
        (E,) Their type in each epoch; None where the instance has one type.
    """

    share: float
    gpus: WholeNumbers
    gpu_types: tuple[str, ...] | None = None


class BoaPlan(Plan):
    """Width table and steps: at each scheduling interval an executor looks up class and epoch.

    Parameters
    ----------
    width_table
        By class: rows of GPUs per epoch, and of their types where there are several. Where there are several rows, give
        each arriving job one of them at random with the stated shares, and keep it for the job's whole life.
    arrival_rate_per_hour
        By class: with it the steps add up to the time-average GPUs in ``expected``.
    reasons
        Which class holds what where, and what forcing it elsewhere would cost; empty unless the plan was made with an
        explanation.
    """

    width_table: ByName[tuple[WidthRow, ...]]
    arrival_rate_per_hour: ByName[float]
    reasons: tuple[ExplainedChoice, ...] = ()


def build_plan(
    instance: BoaInstance, result: Result[BoaSolution], *, explanation: Explanation | None = None
) -> BoaPlan:
    """Turn widths into a width table and steps.

    Parameters
    ----------
    instance
        The problem.
    result
        Its result, with a solution.
    explanation
        Of the result; becomes the plan's reasons.

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
    run_instance, run_solution = as_run(instance, result.solution)
    run_instance = run_instance.replace(policy=Policy.MIXED)
    branches = run_solution.branches
    judged = evaluate(run_instance, run_solution)
    steps = [
        step
        for name, rows in branches.items()
        for number, branch in enumerate(rows, start=1)
        for step in _branch_steps(run_instance, name, number, branch)
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
            name: tuple(WidthRow(share=b.fraction, gpus=b.widths.astype(np.int64), gpu_types=b.gpu_types) for b in rows)
            for name, rows in branches.items()
        },
        arrival_rate_per_hour={name: c.arrival_rate_per_hour for name, c in instance.classes.items()},
        reasons=() if explanation is None else explanation.choices,
    )


def as_run(instance: BoaInstance, solution: BoaSolution) -> tuple[BoaInstance, BoaSolution]:
    """Return the problem with whole widths that a solution is run as, and its widths there.

    Parameters
    ----------
    instance, solution
        Those of whole widths are returned as they are; real widths become fractions of the jobs at whole ones.
    """
    if instance.problem is not Problem.CONTINUOUS:
        return instance, solution
    branches = {name: tuple(_whole_branches(instance, name, rows)) for name, rows in solution.branches.items()}
    return instance.replace(problem=Problem.WHOLE, policy=Policy.MIXED), BoaSolution(branches=branches)


def _prices(instance: BoaInstance) -> dict[str, Price]:
    return {
        name: Price(usd_per_hour=t.price_usd_per_hour, source=t.price_source, date=t.price_date)
        for name, t in instance.gpu_types.items()
        if t.price_usd_per_hour is not None
    }


def _branch_steps(instance: BoaInstance, name: str, number: int, branch: Branch) -> list[PlanStep]:
    """List the steps of one branch: a start, then a resize or a move wherever the GPUs change."""
    timing = follow_epochs(instance, name, branch)
    types = types_along(instance, branch)
    firsts = np.append(np.flatnonzero(timing.change), branch.widths.size)
    steps = []
    for first, end in zip(firsts[:-1].tolist(), firsts[1:].tolist(), strict=True):
        epochs = slice(first, end)
        gpus = int(branch.widths[first])
        steps.append(
            PlanStep(
                subject=name,
                branch=number,
                share=branch.fraction,
                trigger="arrival" if first == 0 else f"start of epoch {first + 1}",
                until=f"end of epoch {end}",
                action=_act(types, first),
                gpu_type=str(types[first]),
                gpus=gpus,
                expected_overhead_s=float(timing.pause_h[first] * timing.wall[first]) * SECONDS_PER_HOUR,
                expected_duration_s=float(timing.total_h[epochs].sum()) * SECONDS_PER_HOUR,
                expected_gpu_hours=gpus * float(timing.held_h[epochs].sum()),
            )
        )
    return steps


def _act(types: NDArray[np.str_], epoch: int) -> Action:
    if epoch == 0:
        return Action.START
    return Action.RESIZE if types[epoch] == types[epoch - 1] else Action.MOVE


def _whole_branches(instance: BoaInstance, name: str, rows: tuple[Branch, ...]) -> list[Branch]:
    """Divide real widths among whole ones.

    In each epoch the jobs are split between two allowed widths so that the epoch's GPU-hours stay the same. Sorting the
    split fractions gives the common branches: at most one more than there are different fractions.
    """
    branches = []
    for row in rows:
        low, high, high_fraction = row.widths.copy(), row.widths.copy(), np.zeros(row.widths.size)
        types = types_along(instance, row)
        for gpu_type in np.unique(types).tolist():
            # With several types fractions are rows of their own already, except for the real widths of closed forms.
            if not instance.is_typed or has_real_widths(instance, name, gpu_type):
                epochs = types == gpu_type
                for kept, found in zip(
                    (low, high, high_fraction), _neighbours(instance, name, gpu_type, row.widths), strict=True
                ):
                    kept[epochs] = found[epochs]
        cuts = np.unique(np.concatenate(([0.0, 1.0], high_fraction)))
        for start, end in pairwise(cuts.tolist()):
            widths = np.where(high_fraction > (start + end) / 2, high, low)
            branches.append(row.replace(fraction=row.fraction * (end - start), widths=widths))
    return branches


def _neighbours(
    instance: BoaInstance, name: str, gpu_type: str, widths: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Find the two whole widths around each real one and the fraction (E,) of jobs that gets the larger."""
    allowed, epochs = instance.allowed_widths(name, gpu_type), np.arange(widths.size)
    speeds = np.broadcast_to(instance.speeds(name, gpu_type), (widths.size, allowed.size))
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
    wanted = widths / speeds_along(instance, name, widths, gpu_type)
    spread = use_above - use_below
    with np.errstate(divide="ignore", invalid="ignore"):
        fraction = np.where(spread > 0, np.clip((wanted - use_below) / spread, 0.0, 1.0), 0.0)
    return allowed[below].astype(float), allowed[above].astype(float), fraction
