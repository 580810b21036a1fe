"""Minimum charges of single instances, by how long they live: what bounds and enumerations ask before a plan is whole.

An instance that is released before its minimum charge is used up pays for the rest of it. Expected values follow from
the distribution of its life.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from optplan.formulations.rubberband.data.instance import RubberBandInstance
from optplan.formulations.rubberband.exact.durations import list_parts
from optplan.formulations.rubberband.exact.stage_options import StageOptions, trial_time
from optplan.formulations.rubberband.laws.convolutions import LEFT_OUT, expected_shortfall, least_possible_s
from optplan.formulations.rubberband.laws.trials import TrialTime

#: Deviations below its mean under which a normal duration is less often than that.
_REACH = 8.0


def missing_s(
    instance: RubberBandInstance, bracket: int, held: Sequence[int], gpus: Sequence[int], first: int
) -> float:
    """Return E[max(minimum charge - life, 0)] of an instance, in seconds; cached by what its life consists of.

    Parameters
    ----------
    held, gpus
        Instances held and GPUs used in the stages up to the one after which the instance is released.
    first
        The stage, from zero, at whose start it is requested.
    """
    before = held[first - 1] if first else 0
    added = [max(after - count, 0) for count, after in pairwise([before, *held[first:]])]
    if instance.cloud.initialise_s.is_constant:
        added = [min(count, 1) for count in added]  # how many start makes no difference, only whether any does
    key = ("missing", bracket, first, tuple(added), tuple(gpus[first:]))
    if key not in instance.solver_cache:
        parts, minimum_s = list_parts(instance, bracket, held, gpus, first), instance.cloud.minimum_charge_s
        enough = least_possible_s(parts) >= minimum_s
        instance.solver_cache[key] = 0.0 if enough else expected_shortfall(parts, minimum_s)
    missing: float = instance.solver_cache[key]
    return missing


def lasts(instance: RubberBandInstance, bracket: int, stage: int, options: StageOptions) -> NDArray[np.bool_]:
    """Say for each option (A,) of a stage whether it alone is certain to last as long as the minimum charge.

    Parameters
    ----------
    bracket, stage
        Which stage, both from zero.
    """
    minimum_s, which = instance.cloud.minimum_charge_s, instance.brackets[bracket][stage]
    if not instance.is_random:
        return np.asarray(options.expected_s >= minimum_s)
    widths, place = np.unique(options.gpus_per_trial, return_inverse=True)
    times = [trial_time(instance, which, gpus) for gpus in widths.tolist()]
    pairs = list(zip(place.tolist(), options.waves.tolist(), strict=True))
    least_s = {pair: _least_s(times[pair[0]], pair[1]) for pair in set(pairs)}
    return np.array([least_s[pair] >= minimum_s for pair in pairs], dtype=np.bool_)


def _least_s(time: TrialTime, trials: int) -> float:
    """Return seconds that trials in series are certain to take."""
    if time.is_normal:
        return trials * time.expected_s - _REACH * math.sqrt(trials) * time.deviation_s
    rare = np.array([LEFT_OUT / max(time.iterations, 1)])
    quickest = float(time.pace.quantile(rare)[0]) + float(time.iteration.quantile(rare)[0]) - time.mean_s
    return trials * (float(time.start.quantile(rare)[0]) + time.iterations * max(0.0, quickest))
