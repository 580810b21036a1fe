"""The judge's list of a stage's options: every allocation that the rules allow.

Written apart from the solver's, which lists only what can be best.
"""

from __future__ import annotations

import numpy as np

from optplan.errors import DataError
from optplan.formulations.rubberband.data.allocations import Allocations, explain_refusal, read_allocations
from optplan.formulations.rubberband.data.instance import AllocationRule, RubberBandInstance
from optplan.formulations.rubberband.laws.stages import StageOptions, option_of, time_allocations
from optplan.progress import Stopwatch


def list_costs(
    instance: RubberBandInstance, bracket: int, stage: int, stopwatch: Stopwatch | None = None
) -> StageOptions:
    """Return every allowed allocation of a stage with its costs; cached.

    Parameters
    ----------
    bracket, stage
        Which stage, both from zero.
    stopwatch
        Its time must suffice; None for no limit.

    Raises
    ------
    OutOfTime
        When the stopwatch expires.
    """
    which = instance.brackets[bracket][stage]
    key = ("costs", which.trials, which.iterations)
    if key not in instance.judge_cache:
        watch = stopwatch if stopwatch is not None else Stopwatch()
        allowed = _list_allowed(instance, which.trials)
        instance.judge_cache[key] = time_allocations(instance, which, allowed, watch.require)
    costs: StageOptions = instance.judge_cache[key]
    return costs


def cost_of(instance: RubberBandInstance, bracket: int, stage: int, gpus: int) -> StageOptions:
    """Return the costs of the one allocation of a stage with that many GPUs; cached.

    Raises
    ------
    DataError
        When it is not allowed; :func:`~optplan.formulations.rubberband.data.allocations.explain_refusal` says why.
    """
    which = instance.brackets[bracket][stage]
    reason = explain_refusal(instance, which, gpus)
    if reason:
        raise DataError(f"brackets.{bracket}.{stage}.gpus", f"got {gpus}; {reason}")
    return option_of(instance, bracket, stage, gpus)


def _list_allowed(instance: RubberBandInstance, trials: int) -> Allocations:
    """List the allocations that the rules allow, by instances and then by GPUs."""
    training, cloud = instance.training, instance.cloud
    slots = np.arange(1, trials, dtype=np.int64)
    most = training.largest_gpus
    if cloud.most_instances is not None:
        # A trial on several instances has them for itself.
        each = cloud.gpus_per_instance * max(cloud.most_instances // trials, 1)
        most = each if most is None else min(most, each)
    widths = np.arange(training.least_gpus, (most or 0) + 1, dtype=np.int64)
    if instance.mode is AllocationRule.FAIR:
        slots = slots[trials % slots == 0]
        widths = widths[widths % training.least_gpus == 0]
    read = read_allocations(instance, trials, np.concatenate([slots * training.least_gpus, widths * trials]))
    allowed = training.knows(read.gpus_per_trial, read.spanned)
    if cloud.most_instances is not None:
        allowed &= read.instances <= cloud.most_instances
    rows = np.flatnonzero(allowed)
    return read.take(rows[np.lexsort((read.gpus[rows], read.instances[rows]))])
