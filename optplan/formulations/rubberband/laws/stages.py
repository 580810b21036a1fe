"""What allocations of a stage take: expected time, GPU-seconds, and the distribution of the time.

Which allocations to look at is said elsewhere: the judge lists all that are allowed, the solver those that can be best.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from optplan.formulations.rubberband.data.allocations import Allocations, read_allocations
from optplan.formulations.rubberband.data.experiment import Stage
from optplan.formulations.rubberband.data.instance import RubberBandInstance
from optplan.formulations.rubberband.laws.convolutions import GridLaw
from optplan.formulations.rubberband.laws.maxima import expected_chain_maximum
from optplan.formulations.rubberband.laws.trials import TrialTime, count_chains
from optplan.schema import FloatArray, IntArray


@dataclass(frozen=True)
class StageOptions(Allocations):
    """Allocations of one stage and what they take; all arrays (A,).

    ``waves`` are the trials of the longest chains; ``expected_s`` is from the beginning of the stage's trials to the
    end of the last, ``busy_gpu_s`` the expected GPU-seconds for which trials hold GPUs: what is paid per function.
    """

    waves: IntArray
    expected_s: FloatArray
    busy_gpu_s: FloatArray


def time_allocations(
    instance: RubberBandInstance, stage: Stage, read: Allocations, go_on: Callable[[], None] = lambda: None
) -> StageOptions:
    """Work out what allocations of widths that are known take; ``go_on``, called all along, raises to end the work."""
    widths, place = np.unique(read.gpus_per_trial, return_inverse=True)
    times, figures = [], np.empty((widths.size, 3))
    for number, gpus in enumerate(widths.tolist()):
        time = trial_time(instance, stage, gpus)
        times.append(time)
        figures[number] = time.expected_s, time.deviation_s, time.is_normal
        go_on()
    mean_s, deviation_s, normal = figures[place, 0], figures[place, 1], figures[place, 2] > 0.0
    waves, long_chains, short_chains = count_chains(stage.trials, read.slots)
    expected_s = np.zeros(waves.shape)
    expected_s[normal] = expected_chain_maximum(
        mean_s[normal], deviation_s[normal], waves[normal], long_chains[normal], short_chains[normal]
    )
    for row in np.flatnonzero(~normal).tolist():
        time = times[int(place[row])]
        expected_s[row] = time.expected_last(int(waves[row]), int(long_chains[row]), int(short_chains[row]))
        go_on()
    busy_gpu_s = stage.trials * read.gpus_per_trial * mean_s
    for array in (expected_s, busy_gpu_s):
        array.setflags(write=False)
    return StageOptions(**vars(read), waves=waves, expected_s=expected_s, busy_gpu_s=busy_gpu_s)


def option_of(instance: RubberBandInstance, bracket: int, stage: int, gpus: int) -> StageOptions:
    """Return the one (allowed) allocation of a stage, both from zero, with that many GPUs; cached."""
    which = instance.brackets[bracket][stage]
    key = ("option", which.trials, which.iterations, gpus)
    if key not in instance.law_cache:
        read = read_allocations(instance, which.trials, np.array([gpus], dtype=np.int64))
        instance.law_cache[key] = time_allocations(instance, which, read)
    option: StageOptions = instance.law_cache[key]
    return option


def trial_time(instance: RubberBandInstance, stage: Stage, gpus_per_trial: int) -> TrialTime:
    """Return the time of one trial of a stage on that many GPUs, which the profile knows; cached."""
    key = ("trial", stage.iterations, gpus_per_trial)
    if key not in instance.law_cache:
        training = instance.training
        spanned = math.ceil(gpus_per_trial / instance.cloud.gpus_per_instance)
        mean_s = float(training.seconds(np.array([gpus_per_trial]), np.array([spanned]))[0])
        instance.law_cache[key] = TrialTime(
            start=training.start(gpus_per_trial),
            pace=training.pace(mean_s),
            iteration=training.iteration(mean_s),
            mean_s=mean_s,
            iterations=stage.iterations,
        )
    time: TrialTime = instance.law_cache[key]
    return time


def stage_cdf(instance: RubberBandInstance, bracket: int, stage: int, gpus: int, t: FloatArray) -> FloatArray:
    """Return P(the stage's trials take at most t) for each t (T,); bracket and stage count from zero."""
    time, chains = _queue(instance, bracket, stage, gpus)
    return time.last_cdf(*chains, t)


def stage_law(instance: RubberBandInstance, bracket: int, stage: int, gpus: int) -> GridLaw:
    """Return the distribution of the time that a stage's trials take, on a grid; parameters as :func:`stage_cdf`."""
    time, chains = _queue(instance, bracket, stage, gpus)
    return time.last_law(*chains, float(option_of(instance, bracket, stage, gpus).expected_s[0]))


def _queue(instance: RubberBandInstance, bracket: int, stage: int, gpus: int) -> tuple[TrialTime, tuple[int, int, int]]:
    """Return how a stage runs: a trial's time; a long chain's trials, and how many long and short chains there are."""
    which, option = instance.brackets[bracket][stage], option_of(instance, bracket, stage, gpus)
    waves, long_chains, short_chains = (int(count[0]) for count in count_chains(which.trials, option.slots))
    return trial_time(instance, which, int(option.gpus_per_trial[0])), (waves, long_chains, short_chains)
