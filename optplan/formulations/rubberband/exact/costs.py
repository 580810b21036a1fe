"""The solver's statement of what plans take: options of stages, growth, and how likely limits are kept.

Of the allocations that are allowed only those are listed which can be best. The judge has a statement of its own; what
both use is the mathematics of sums and maxima in ``laws``.
"""

from __future__ import annotations

import math

import numpy as np

from optplan.contracts.parts import Description
from optplan.formulations.rubberband.data.allocations import Allocations, read_allocations
from optplan.formulations.rubberband.data.instance import (
    BUDGET,
    DEADLINE,
    AllocationRule,
    RubberBandInstance,
    RubberBandSolution,
)
from optplan.formulations.rubberband.laws.confidence import joint_chance
from optplan.formulations.rubberband.laws.lifetimes import completion_law, expected_latest_s
from optplan.formulations.rubberband.laws.stages import StageOptions, time_allocations
from optplan.progress import Stopwatch
from optplan.schema import FloatArray, IntArray
from optplan.solvers.limits import LIMIT_TOLERANCE
from optplan.solvers.paths.effort import Effort


def stage_options(
    instance: RubberBandInstance,
    bracket: int,
    stage: int,
    gpus: IntArray | None = None,
    stopwatch: Stopwatch | None = None,
) -> StageOptions:
    """Return the allocations (A,) worth considering for a stage, by instances and then by GPUs, or given ones; cached.

    Worth considering are, under billing per instance, for all trials at once every p up to g, the multiples of g, and
    where the profile has a corner; under billing per function every p; and for queues the least slots for each number
    of waves, and the most slots for each number of instances. Raises OutOfEffortError when the stopwatch has expired.
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


#: Cells of the grid on which a probability is computed first, and how near the confidence it is computed anew.
_FEW_CELLS, _NEAR = 1 << 17, 0.01


def growth(
    instance: RubberBandInstance, before: int | IntArray, after: int | IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return expected seconds and US dollars of changing how many instances are held; shrinking is free.

    The trials wait for the request and for the last of the new instances; those held are paid throughout, new ones from
    the start of their initialisation.
    """
    cloud = instance.cloud
    added = np.maximum(np.subtract(after, before), 0)
    wait_s = expected_latest_s(instance, added)
    seconds = np.where(added > 0, cloud.provision_s.expected_s + wait_s, 0.0)
    price = cloud.price_usd_per_s if cloud.is_per_instance else 0.0
    return seconds, price * (before * seconds + added * wait_s) + added * cloud.data_usd_per_instance


def find_chance(instance: RubberBandInstance, solution: RubberBandSolution) -> float:
    """Return the probability that all limits of an instance are kept, those of all brackets.

    Of a budget, where the probability is far from the confidence, roughly.
    """
    limits = {limit: amount * (1.0 + LIMIT_TOLERANCE) for limit, amount in instance.limits.items()}
    plans = [([one.instances for one in chain], [one.gpus for one in chain]) for chain in solution.brackets]
    if not instance.asks_for_both:
        reached = np.array([limits[DEADLINE]])
        laws = (completion_law(instance, bracket, held, gpus) for bracket, (held, gpus) in enumerate(plans))
        return math.prod(float(law.cdf(reached)[0]) for law in laws)
    ((held, gpus),) = plans
    both = (limits.get(DEADLINE, math.inf), limits[BUDGET])
    rough = joint_chance(instance, held, gpus, *both, cells=_FEW_CELLS)
    return joint_chance(instance, held, gpus, *both) if abs(rough - (instance.confidence or 0.0)) < _NEAR else rough


def describe(instance: RubberBandInstance) -> Description:
    """Return what solvers are matched against: problem, mode, the number of (stage, option) choices, features.

    The features are what an instance has beyond one cluster billed by instance: ``side-by-side`` for several
    clusters, ``per-function`` for that billing.
    """
    features = {
        "side-by-side": len(instance.brackets) > 1,
        "per-function": not instance.cloud.is_per_instance,
    }
    return Description(
        problem=instance.problem.value,
        policy=instance.mode.value,
        cells=count_options(instance),
        features=frozenset(name for name, present in features.items() if present),
    )
