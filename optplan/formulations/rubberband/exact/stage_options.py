"""The solver's statement of what a stage may get and what that takes: instances needed, expected time, GPU-seconds.

Of what is allowed (see :mod:`optplan.formulations.rubberband.data.allocations`) only that is listed which can be best.
The judge has a statement of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from optplan.formulations.rubberband.data.experiment import Stage
from optplan.formulations.rubberband.data.instance import Mode, RubberBandInstance
from optplan.formulations.rubberband.laws.convolutions import GridLaw
from optplan.formulations.rubberband.laws.maxima import expected_chain_maximum
from optplan.formulations.rubberband.laws.trials import TrialTime, count_chains
from optplan.progress import Stopwatch
from optplan.schema import FloatArray, IntArray
from optplan.solvers.paths.effort import Effort


@dataclass(frozen=True)
class StageOptions:
    """Allocations of one stage, by instances needed and then by GPUs.

    Parameters
    ----------
    gpus
        (A,) GPUs used, a.
    gpus_per_trial
        (A,) p.
    slots
        (A,) Trials that run at a time, c.
    waves
        (A,) Trials of the longest chains.
    instances
        (A,) Instances needed.
    expected_s
        (A,) Expected time from the beginning of the stage's trials to the end of the last.
    busy_gpu_s
        (A,) Expected GPU-seconds for which trials hold GPUs: what is paid per function.
    """

    gpus: IntArray
    gpus_per_trial: IntArray
    slots: IntArray
    waves: IntArray
    instances: IntArray
    expected_s: FloatArray
    busy_gpu_s: FloatArray

    def take(self, rows: slice) -> StageOptions:
        """Return some of the allocations."""
        return StageOptions(*(column[rows] for column in vars(self).values()))


@dataclass(frozen=True)
class _Allocations:
    """Allocations as they run; arrays as in :class:`StageOptions`, ``spanned`` the instances that a trial is on."""

    gpus: IntArray
    gpus_per_trial: IntArray
    slots: IntArray
    instances: IntArray
    spanned: IntArray


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
        chosen = _list_allocations(instance, trials) if gpus is None else _read_allocations(instance, trials, gpus)
        instance.solver_cache[key] = _evaluate_allocations(instance, which, chosen, stopwatch)
    options: StageOptions = instance.solver_cache[key]
    return options


def count_options(instance: RubberBandInstance) -> int:
    """Return how many allocations are worth considering in all stages, without evaluating them."""
    return sum(_list_allocations(instance, stage.trials).gpus.size for chain in instance.brackets for stage in chain)


def option_of(instance: RubberBandInstance, bracket: int, stage: int, gpus: int) -> StageOptions:
    """Return the one (allowed) allocation of a stage with that many GPUs; see :func:`stage_options`."""
    which = instance.brackets[bracket][stage]
    key = ("row", which.trials, which.iterations, gpus)
    if key not in instance.solver_cache and ("options", which.trials, which.iterations, None) in instance.solver_cache:
        listed = stage_options(instance, bracket, stage)
        for row, used in enumerate(listed.gpus.tolist()):
            instance.solver_cache[(*key[:-1], used)] = listed.take(slice(row, row + 1))
    if key not in instance.solver_cache:
        return stage_options(instance, bracket, stage, np.array([gpus], dtype=np.int64))
    option: StageOptions = instance.solver_cache[key]
    return option


def trial_time(instance: RubberBandInstance, stage: Stage, gpus_per_trial: int) -> TrialTime:
    """Return the time of one trial of a stage on that many GPUs; cached.

    Parameters
    ----------
    gpus_per_trial
        p, known to the profile.
    """
    key = ("trial", stage.iterations, gpus_per_trial)
    if key not in instance.solver_cache:
        training = instance.training
        spanned = math.ceil(gpus_per_trial / instance.cloud.gpus_per_instance)
        seconds = training.seconds(np.array([gpus_per_trial]), np.array([spanned]))
        instance.solver_cache[key] = _make_trial_time(instance, stage, gpus_per_trial, float(seconds[0]))
    time: TrialTime = instance.solver_cache[key]
    return time


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
    which = instance.brackets[bracket][stage]
    option = option_of(instance, bracket, stage, gpus)
    _, long_chains, short_chains = count_chains(which.trials, option.slots)
    time = trial_time(instance, which, int(option.gpus_per_trial[0]))
    return time.last_cdf(int(option.waves[0]), int(long_chains[0]), int(short_chains[0]), t)


def stage_law(instance: RubberBandInstance, bracket: int, stage: int, gpus: int) -> GridLaw:
    """Return the distribution of the time that a stage's trials take, on a grid.

    Parameters
    ----------
    bracket, stage
        Which stage, both from zero.
    gpus
        GPUs used, a (allowed).
    """
    which = instance.brackets[bracket][stage]
    option = option_of(instance, bracket, stage, gpus)
    _, long_chains, short_chains = count_chains(which.trials, option.slots)
    time = trial_time(instance, which, int(option.gpus_per_trial[0]))
    return time.last_law(int(option.waves[0]), int(long_chains[0]), int(short_chains[0]), float(option.expected_s[0]))


def _make_trial_time(instance: RubberBandInstance, stage: Stage, gpus: int, mean_s: float) -> TrialTime:
    training = instance.training
    return TrialTime(
        start=training.start(gpus),
        pace=training.pace(mean_s),
        iteration=training.iteration(mean_s),
        mean_s=mean_s,
        iterations=stage.iterations,
    )


def _read_allocations(instance: RubberBandInstance, trials: int, gpus: IntArray) -> _Allocations:
    """Work out how allocations run."""
    least, per_instance = instance.training.least_gpus, instance.cloud.gpus_per_instance
    at_once = gpus >= trials * least
    per_trial = np.where(at_once, gpus // trials, least)
    slots = np.where(at_once, trials, gpus // least)
    spanned = -(-per_trial // per_instance)
    fitting = np.maximum(per_instance // per_trial, 1)
    needed = np.where(per_trial <= per_instance, -(-slots // fitting), slots * spanned)
    return _Allocations(gpus, per_trial, slots, needed, spanned)


def _list_allocations(instance: RubberBandInstance, trials: int) -> _Allocations:
    """List what may be best, by instances and then by GPUs."""
    least = instance.training.least_gpus
    gpus = np.concatenate([_list_slots(instance, trials) * least, _list_widths(instance, trials) * trials])
    read = _read_allocations(instance, trials, np.unique(gpus))
    kept = instance.training.knows(read.gpus_per_trial, read.spanned)
    if instance.cloud.most_instances is not None:
        kept &= read.instances <= instance.cloud.most_instances
    order = np.lexsort((read.gpus[kept], read.instances[kept]))
    columns = (read.gpus, read.gpus_per_trial, read.slots, read.instances, read.spanned)
    return _Allocations(*(column[kept][order] for column in columns))


def _list_slots(instance: RubberBandInstance, trials: int) -> IntArray:
    """List numbers of slots below the number of trials."""
    slots = np.arange(1, trials, dtype=np.int64)
    if instance.mode is Mode.FAIR:
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
    if instance.mode is Mode.FAIR:
        widths = widths[widths % training.least_gpus == 0]
    if not instance.cloud.is_per_instance:
        return widths
    # Instances are paid whole, so GPUs of theirs are left idle only where more of them are slower.
    corners = [*training.corners(), most or 0]
    kept: IntArray = widths[(widths <= per_instance) | (widths % per_instance == 0) | np.isin(widths, corners)]
    return kept


def _evaluate_allocations(
    instance: RubberBandInstance, stage: Stage, chosen: _Allocations, stopwatch: Stopwatch | None
) -> StageOptions:
    effort = Effort(stopwatch if stopwatch is not None else Stopwatch())
    widths, place = np.unique(chosen.gpus_per_trial, return_inverse=True)
    seconds = instance.training.seconds(widths, -(-widths // instance.cloud.gpus_per_instance))
    times = [
        instance.solver_cache.setdefault(
            ("trial", stage.iterations, gpus), _make_trial_time(instance, stage, gpus, mean_s)
        )
        for gpus, mean_s in zip(widths.tolist(), seconds.tolist(), strict=True)
    ]
    figures = np.empty((len(times), 3))
    for number, time in enumerate(times):
        figures[number] = time.expected_s, time.deviation_s, time.is_normal
        effort.charge_labels(0, 0)
    mean, deviation, normal = figures[place, 0], figures[place, 1], figures[place, 2] > 0.0
    waves, long_chains, short_chains = count_chains(stage.trials, chosen.slots)
    expected = np.zeros(waves.shape)
    expected[normal] = expected_chain_maximum(
        mean[normal], deviation[normal], waves[normal], long_chains[normal], short_chains[normal]
    )
    for row in np.flatnonzero(~normal).tolist():
        time = times[int(place[row])]
        expected[row] = time.expected_last(int(waves[row]), int(long_chains[row]), int(short_chains[row]))
        effort.charge_labels(0, 0)
    busy = stage.trials * chosen.gpus_per_trial * mean
    for array in (expected, busy):
        array.setflags(write=False)
    return StageOptions(
        gpus=chosen.gpus,
        gpus_per_trial=chosen.gpus_per_trial,
        slots=chosen.slots,
        waves=waves,
        instances=chosen.instances,
        expected_s=expected,
        busy_gpu_s=busy,
    )
