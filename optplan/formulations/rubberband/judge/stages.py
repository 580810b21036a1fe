"""The judge's statement of stages: every allocation that the rules allow, and what each takes.

Written apart from the solver's, which lists only what can be best.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optplan.errors import DataError
from optplan.formulations.rubberband.data.allocations import Allocations, explain_refusal, read_allocations
from optplan.formulations.rubberband.data.experiment import Stage
from optplan.formulations.rubberband.data.instance import Mode, RubberBandInstance
from optplan.formulations.rubberband.laws.convolutions import GridLaw
from optplan.formulations.rubberband.laws.maxima import expected_chain_maximum
from optplan.formulations.rubberband.laws.trials import TrialTime, count_chains
from optplan.progress import Stopwatch
from optplan.schema import FloatArray, IntArray


@dataclass(frozen=True)
class StageCosts:
    """Allocations of one stage, by instances needed and then by GPUs; all arrays (A,).

    Parameters
    ----------
    gpus
        GPUs used, a.
    gpus_per_trial
        p.
    instances
        Instances needed.
    expected_s
        Expected time from the beginning of the stage's trials to the end of the last.
    busy_gpu_s
        Expected GPU-seconds for which trials hold GPUs: what is paid per function.
    """

    gpus: IntArray
    gpus_per_trial: IntArray
    instances: IntArray
    expected_s: FloatArray
    busy_gpu_s: FloatArray


def list_costs(
    instance: RubberBandInstance, bracket: int, stage: int, stopwatch: Stopwatch | None = None
) -> StageCosts:
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
        instance.judge_cache[key] = _find_costs(instance, which, _list_allowed(instance, which.trials), stopwatch)
    costs: StageCosts = instance.judge_cache[key]
    return costs


def cost_of(instance: RubberBandInstance, bracket: int, stage: int, gpus: int) -> StageCosts:
    """Return the costs of the one allocation of a stage with that many GPUs; cached.

    Raises
    ------
    DataError
        When it is not allowed; :func:`~optplan.formulations.rubberband.data.allocations.explain_refusal` says why.
    """
    which = instance.brackets[bracket][stage]
    key = ("cost", which.trials, which.iterations, gpus)
    if key not in instance.judge_cache:
        reason = explain_refusal(instance, which, gpus)
        if reason:
            raise DataError(f"brackets.{bracket}.{stage}.gpus", f"got {gpus}; {reason}")
        read = read_allocations(instance, which.trials, np.array([gpus], dtype=np.int64))
        instance.judge_cache[key] = _find_costs(instance, which, read, None)
    costs: StageCosts = instance.judge_cache[key]
    return costs


def stage_cdf(instance: RubberBandInstance, bracket: int, stage: int, gpus: int, t: FloatArray) -> FloatArray:
    """Return P(the stage's trials take at most t) for each t.

    Parameters
    ----------
    bracket, stage
        Which stage, both from zero.
    gpus
        GPUs used, a (allowed).
    t
        (T,) Seconds.
    """
    time, waves, long_chains, short_chains = _queue(instance, instance.brackets[bracket][stage], gpus)
    return time.last_cdf(waves, long_chains, short_chains, t)


def stage_law(instance: RubberBandInstance, bracket: int, stage: int, gpus: int) -> GridLaw:
    """Return the distribution of the time that a stage's trials take, on a grid.

    Parameters
    ----------
    bracket, stage
        Which stage, both from zero.
    gpus
        GPUs used, a (allowed).
    """
    expected_s = float(cost_of(instance, bracket, stage, gpus).expected_s[0])
    time, waves, long_chains, short_chains = _queue(instance, instance.brackets[bracket][stage], gpus)
    return time.last_law(waves, long_chains, short_chains, expected_s)


def trial_time(instance: RubberBandInstance, stage: Stage, gpus_per_trial: int) -> TrialTime:
    """Return the time of one trial of a stage on that many GPUs; cached."""
    key = ("trial", stage.iterations, gpus_per_trial)
    if key not in instance.judge_cache:
        training, spanned = instance.training, -(-gpus_per_trial // instance.cloud.gpus_per_instance)
        mean_s = float(training.seconds(np.array([gpus_per_trial]), np.array([spanned]))[0])
        instance.judge_cache[key] = TrialTime(
            start=training.start(gpus_per_trial),
            pace=training.pace(mean_s),
            iteration=training.iteration(mean_s),
            mean_s=mean_s,
            iterations=stage.iterations,
        )
    time: TrialTime = instance.judge_cache[key]
    return time


def _queue(instance: RubberBandInstance, stage: Stage, gpus: int) -> tuple[TrialTime, int, int, int]:
    """Return how a stage runs: a trial's time, a long chain's trials, how many long and short chains; cached."""
    key = ("queue", stage.trials, stage.iterations, gpus)
    if key not in instance.judge_cache:
        read = read_allocations(instance, stage.trials, np.array([gpus], dtype=np.int64))
        chains = (int(count[0]) for count in count_chains(stage.trials, read.slots))
        instance.judge_cache[key] = trial_time(instance, stage, int(read.gpus_per_trial[0])), *chains
    queue: tuple[TrialTime, int, int, int] = instance.judge_cache[key]
    return queue


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
    if instance.mode is Mode.FAIR:
        slots = slots[trials % slots == 0]
        widths = widths[widths % training.least_gpus == 0]
    read = read_allocations(instance, trials, np.concatenate([slots * training.least_gpus, widths * trials]))
    allowed = training.knows(read.gpus_per_trial, read.spanned)
    if cloud.most_instances is not None:
        allowed &= read.instances <= cloud.most_instances
    rows = np.flatnonzero(allowed)
    return read.take(rows[np.lexsort((read.gpus[rows], read.instances[rows]))])


def _find_costs(
    instance: RubberBandInstance, stage: Stage, read: Allocations, stopwatch: Stopwatch | None
) -> StageCosts:
    watch = stopwatch if stopwatch is not None else Stopwatch()
    widths, place = np.unique(read.gpus_per_trial, return_inverse=True)
    times = []
    for gpus in widths.tolist():
        times.append(trial_time(instance, stage, gpus))
        watch.require()
    figures = np.empty((widths.size, 3))
    for number, time in enumerate(times):
        figures[number] = time.expected_s, time.deviation_s, time.is_normal
        watch.require()
    mean_s, deviation_s, normal = figures[place, 0], figures[place, 1], figures[place, 2] > 0.0
    waves, long_chains, short_chains = count_chains(stage.trials, read.slots)
    expected_s = np.zeros(waves.shape)
    expected_s[normal] = expected_chain_maximum(
        mean_s[normal], deviation_s[normal], waves[normal], long_chains[normal], short_chains[normal]
    )
    for row in np.flatnonzero(~normal).tolist():
        time = times[int(place[row])]
        expected_s[row] = time.expected_last(int(waves[row]), int(long_chains[row]), int(short_chains[row]))
        watch.require()
    return StageCosts(
        gpus=read.gpus,
        gpus_per_trial=read.gpus_per_trial,
        instances=read.instances,
        expected_s=expected_s,
        busy_gpu_s=stage.trials * read.gpus_per_trial * mean_s,
    )
