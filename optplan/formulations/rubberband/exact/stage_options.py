"""The solver's list of a stage's options.

Of what is allowed (see :mod:`optplan.formulations.rubberband.data.allocations`) only that is listed which can be best.
The judge has a list of its own.
"""

from __future__ import annotations

import numpy as np

from optplan.formulations.rubberband.data.allocations import Allocations, read_allocations
from optplan.formulations.rubberband.data.instance import AllocationRule, RubberBandInstance
from optplan.formulations.rubberband.laws.stages import StageOptions, time_allocations
from optplan.progress import Stopwatch
from optplan.schema import IntArray
from optplan.solvers.paths.search import Effort


def stage_options(
    instance: RubberBandInstance,
    bracket: int,
    stage: int,
    gpus: IntArray | None = None,
    stopwatch: Stopwatch | None = None,
) -> StageOptions:
    """Return the allocations that are worth considering for a stage, or given ones.

    Parameters
    ----------
    bracket, stage
        Which stage, both from zero.
    gpus
        (A,) Allowed allocations to look at, in any order; None for all that can be best. Under billing per instance
        these are, for all trials at once, every p up to g, the multiples of g, and where the profile has a corner;
        under billing per function every p; and for queues the least slots for each number of waves, and the most slots
        for each number of instances.
    stopwatch
        Ends the evaluation when it has expired; None for no limit.

    Returns
    -------
    StageOptions
        Cached. With given ``gpus`` in their order, otherwise by instances and then by GPUs.

    Raises
    ------
    OutOfEffortError
        When time runs out.
    """
    which = instance.brackets[bracket][stage]
    key = ("options", which.trials, which.iterations, None if gpus is None else gpus.tobytes())
    if key not in instance.solver_cache:
        trials = which.trials
        chosen = _list_allocations(instance, trials) if gpus is None else read_allocations(instance, trials, gpus)
        effort = Effort(stopwatch if stopwatch is not None else Stopwatch())
        instance.solver_cache[key] = time_allocations(instance, which, chosen, lambda: effort.charge_labels(0, 0))
    options: StageOptions = instance.solver_cache[key]
    return options


def count_options(instance: RubberBandInstance) -> int:
    """Return how many allocations are worth considering in all stages, without evaluating them."""
    return sum(_list_allocations(instance, stage.trials).gpus.size for chain in instance.brackets for stage in chain)


def _list_allocations(instance: RubberBandInstance, trials: int) -> Allocations:
    """List what may be best, by instances and then by GPUs."""
    least = instance.training.least_gpus
    gpus = np.concatenate([_list_slots(instance, trials) * least, _list_widths(instance, trials) * trials])
    read = read_allocations(instance, trials, np.unique(gpus))
    kept = instance.training.knows(read.gpus_per_trial, read.spanned)
    if instance.cloud.most_instances is not None:
        kept &= read.instances <= instance.cloud.most_instances
    rows = np.flatnonzero(kept)
    return read.take(rows[np.lexsort((read.gpus[rows], read.instances[rows]))])


def _list_slots(instance: RubberBandInstance, trials: int) -> IntArray:
    """List numbers of slots below the number of trials."""
    slots = np.arange(1, trials, dtype=np.int64)
    if instance.mode is AllocationRule.FAIR:
        factors: IntArray = slots[trials % slots == 0]
        return factors
    waves = -(-trials // slots)
    fewest = np.diff(waves, prepend=trials + 1) != 0
    fitting = max(instance.cloud.gpus_per_instance // instance.training.least_gpus, 1)
    # With noise, more slots than the waves need leave fewer long chains to wait for.
    kept: IntArray = slots[fewest | (slots % fitting == 0) | (slots == trials - 1)]
    return kept


def _list_widths(instance: RubberBandInstance, trials: int) -> IntArray:
    """List GPUs per trial for all trials at once."""
    training, per_instance = instance.training, instance.cloud.gpus_per_instance
    most = training.largest_gpus
    if instance.cloud.most_instances is not None:
        whole = per_instance * (instance.cloud.most_instances // trials)
        reachable = max(whole, per_instance)
        most = reachable if most is None else min(most, reachable)
    widths = np.arange(training.least_gpus, (most or 0) + 1, dtype=np.int64)
    if instance.mode is AllocationRule.FAIR:
        widths = widths[widths % training.least_gpus == 0]
    if not instance.cloud.is_per_instance:
        return widths
    # Instances are paid whole, so GPUs of theirs are left idle only where more of them are slower.
    corners = [*training.corners(), most or 0]
    kept: IntArray = widths[(widths <= per_instance) | (widths % per_instance == 0) | np.isin(widths, corners)]
    return kept
