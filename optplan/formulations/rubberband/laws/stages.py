"""What a stage may get, and what that takes: instances needed, expected time, GPU-seconds.

The GPUs of a stage, a, say how it runs. With n trials of at least p0 GPUs each:

* a >= n * p0: all run at once, on p = a / n GPUs each;
* a < n * p0: c = a / p0 slots of p0 GPUs, and the trials queue for them in chains.

Mode ``any`` allows every such a; mode ``fair`` wants a / p0 to be a factor or a multiple of n. Trials are placed as the
placement controller does: floor(g / p) to an instance, or each on ceil(p / g) instances of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from optplan.errors import DataError
from optplan.formulations.rubberband.data.experiment import Stage
from optplan.formulations.rubberband.data.instance import Mode, RubberBandInstance
from optplan.formulations.rubberband.laws.convolutions import GridLaw
from optplan.formulations.rubberband.laws.maxima import expected_chain_maximum
from optplan.formulations.rubberband.laws.trials import TrialTime, count_chains
from optplan.schema import FloatArray, IntArray


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


@dataclass(frozen=True)
class _Allocations:
    """Allocations as they run; arrays as in :class:`StageOptions`, ``spanned`` the instances that a trial is on."""

    gpus: IntArray
    gpus_per_trial: IntArray
    slots: IntArray
    instances: IntArray
    spanned: IntArray


def stage_options(instance: RubberBandInstance, bracket: int, stage: int, gpus: IntArray | None = None) -> StageOptions:
    """Return the allocations that are worth considering for a stage, or given ones.

    Parameters
    ----------
    instance
        The problem.
    bracket, stage
        Which stage, both from zero.
    gpus
        (A,) Allocations to look at, in any order; None for all that can be best. Under billing per instance these are,
        for all trials at once, every p up to g, the multiples of g, and where the profile has a corner; under billing
        per function every p; and for queues the least slots for each number of waves, and the most slots for each
        number of instances.

    Returns
    -------
    StageOptions
        Cached. With given ``gpus`` in their order, otherwise by instances and then by GPUs.

    Raises
    ------
    DataError
        When a given allocation is not allowed; :func:`explain_refusal` says why.
    """
    which = instance.brackets[bracket][stage]
    key = ("options", which.trials, which.iterations, None if gpus is None else gpus.tobytes())
    if key not in instance.stage_cache:
        if gpus is None:
            chosen = _list_allocations(instance, which.trials)
        else:
            for allocation in gpus.tolist():
                reason = explain_refusal(instance, which, allocation)
                if reason:
                    raise DataError(f"brackets.{bracket}.{stage}.gpus", f"got {allocation}; {reason}")
            chosen = _read_allocations(instance, which.trials, gpus)
        instance.stage_cache[key] = _evaluate_allocations(instance, which, chosen)
    options: StageOptions = instance.stage_cache[key]
    return options


def option_of(instance: RubberBandInstance, bracket: int, stage: int, gpus: int) -> StageOptions:
    """Return the one allocation of a stage with that many GPUs; see :func:`stage_options`.

    Raises
    ------
    DataError
        When it is not allowed.
    """
    return stage_options(instance, bracket, stage, np.array([gpus], dtype=np.int64))


def explain_refusal(instance: RubberBandInstance, stage: Stage, gpus: int) -> str:
    """Say why a stage cannot get that many GPUs; empty when it can.

    Parameters
    ----------
    instance
        The problem.
    stage
        One of its stages.
    gpus
        GPUs used, a.
    """
    least, trials = instance.training.least_gpus, stage.trials
    if gpus < least:
        return f"a trial needs at least {least} GPUs"
    if gpus < trials * least:
        if gpus % least:
            return f"trials that queue run on {least} GPUs each, so a multiple of {least} is needed"
        if instance.mode is Mode.FAIR and trials % (gpus // least):
            return f"fair allocations are factors or multiples of {trials} trials of {least} GPUs"
    elif gpus % trials:
        return f"{trials} trials at once need a multiple of {trials} GPUs"
    elif instance.mode is Mode.FAIR and gpus // trials % least:
        return f"fair allocations are factors or multiples of {trials} trials of {least} GPUs"
    read = _read_allocations(instance, trials, np.array([gpus], dtype=np.int64))
    unknown = _explain_unknown(instance, int(read.gpus_per_trial[0]), int(read.spanned[0]))
    if unknown:
        return unknown
    most = instance.cloud.most_instances
    if most is not None and read.instances[0] > most:
        return f"needs {read.instances[0]} instances of the {most} that are allowed"
    return ""


def _explain_unknown(instance: RubberBandInstance, gpus: int, spanned: int) -> str:
    """Say why nobody knows how fast a trial is on GPUs over several instances; empty when it is known."""
    training = instance.training
    if training.most_gpus is not None and gpus > training.most_gpus:
        return f"trials would get {gpus} GPUs each, of the {training.most_gpus} that training.most_gpus allows"
    if not training.seconds_per_iteration.knows(np.array([gpus]))[0]:
        known = training.seconds_per_iteration.list_known()
        return f"trials would get {gpus} GPUs each, and iterations are {known}; measure them on {gpus} GPUs"
    factors = training.factor_by_instances
    if factors is not None and spanned > factors.instances[-1]:
        ends = f"training.factor_by_instances ends at {factors.instances[-1]}"
        return f"trials would span {spanned} instances each, and {ends}; measure the factor for {spanned}"
    return ""


def trial_time(instance: RubberBandInstance, stage: Stage, gpus_per_trial: int) -> TrialTime:
    """Return the time of one trial of a stage on that many GPUs; cached.

    Parameters
    ----------
    instance
        The problem.
    stage
        One of its stages.
    gpus_per_trial
        p, known to the profile.
    """
    key = ("trial", stage.iterations, gpus_per_trial)
    if key not in instance.stage_cache:
        training = instance.training
        spanned = math.ceil(gpus_per_trial / instance.cloud.gpus_per_instance)
        seconds = training.seconds(np.array([gpus_per_trial]), np.array([spanned]))
        instance.stage_cache[key] = _make_trial_time(instance, stage, gpus_per_trial, float(seconds[0]))
    time: TrialTime = instance.stage_cache[key]
    return time


def stage_cdf(instance: RubberBandInstance, bracket: int, stage: int, gpus: int, t: FloatArray) -> FloatArray:
    """Return P(the stage's trials take at most t) for each t.

    Parameters
    ----------
    instance
        The problem.
    bracket, stage
        Which stage, both from zero.
    gpus
        GPUs used, a.
    t
        (T,) Seconds.

    Raises
    ------
    DataError
        When the allocation is not allowed.
    """
    which = instance.brackets[bracket][stage]
    option = option_of(instance, bracket, stage, gpus)
    _, long_chains, short_chains = count_chains(which.trials, option.slots)
    time = trial_time(instance, which, int(option.gpus_per_trial[0]))
    return time.last_cdf(int(option.waves[0]), int(long_chains[0]), int(short_chains[0]), t)


def stage_law(instance: RubberBandInstance, bracket: int, stage: int, gpus: int) -> GridLaw:
    """Return the distribution of the time that a stage's trials take, on a grid; cached.

    Parameters
    ----------
    instance
        The problem.
    bracket, stage
        Which stage, both from zero.
    gpus
        GPUs used, a.

    Raises
    ------
    DataError
        When the allocation is not allowed.
    """
    which = instance.brackets[bracket][stage]
    key = ("law", which.trials, which.iterations, gpus)
    if key not in instance.stage_cache:
        option = option_of(instance, bracket, stage, gpus)
        _, long_chains, short_chains = count_chains(which.trials, option.slots)
        time = trial_time(instance, which, int(option.gpus_per_trial[0]))
        instance.stage_cache[key] = time.last_law(
            int(option.waves[0]), int(long_chains[0]), int(short_chains[0]), float(option.expected_s[0])
        )
    law: GridLaw = instance.stage_cache[key]
    return law


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


def _evaluate_allocations(instance: RubberBandInstance, stage: Stage, chosen: _Allocations) -> StageOptions:
    widths, place = np.unique(chosen.gpus_per_trial, return_inverse=True)
    seconds = instance.training.seconds(widths, -(-widths // instance.cloud.gpus_per_instance))
    times = [
        instance.stage_cache.setdefault(
            ("trial", stage.iterations, gpus), _make_trial_time(instance, stage, gpus, mean_s)
        )
        for gpus, mean_s in zip(widths.tolist(), seconds.tolist(), strict=True)
    ]
    mean = np.array([time.expected_s for time in times])[place]
    deviation = np.array([time.deviation_s for time in times])[place]
    normal = np.array([time.is_normal for time in times], dtype=np.bool_)[place]
    waves, long_chains, short_chains = count_chains(stage.trials, chosen.slots)
    expected = np.zeros(waves.shape)
    expected[normal] = expected_chain_maximum(
        mean[normal], deviation[normal], waves[normal], long_chains[normal], short_chains[normal]
    )
    for row in np.flatnonzero(~normal):
        time = times[place[row]]
        expected[row] = time.expected_last(int(waves[row]), int(long_chains[row]), int(short_chains[row]))
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
