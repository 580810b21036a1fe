"""Real widths as whole ones: each epoch's jobs are divided between two, so that its GPU use stays."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Branch, Policy, Problem, has_real_widths
from optplan.formulations.boa.judge.evaluation import speeds_along, types_along
from optplan.schema import FloatArray
from optplan.speedup import lower_left_hull


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
