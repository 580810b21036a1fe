"""What the GPUs of a stage mean, a: how its trials run on them, how many machines they need, and which a are allowed.

With n trials of at least p0 GPUs each:

* a >= n * p0: all run at once, on p = a / n GPUs each;
* a < n * p0: c = a / p0 slots of p0 GPUs, and the trials queue for them in chains.

Mode ``any`` allows every such a; mode ``fair`` wants a / p0 to be a factor or a multiple of n. Trials are placed as the
placement controller does: floor(g / p) to a machine, or each on ceil(p / g) machines of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from optplan.formulations.rubberband.data.experiment import Stage
from optplan.formulations.rubberband.data.instance import AllocationRule, RubberBandInstance
from optplan.schema import LARGEST_EXACT, IntArray


@dataclass(frozen=True)
class Allocations:
    """Allocations (A,) of one stage as they run: ``slots`` trials at a time, each on ``spanned`` machines."""

    gpus: IntArray
    gpus_per_trial: IntArray
    slots: IntArray
    instances: IntArray
    spanned: IntArray

    def take(self, rows: IntArray) -> Self:
        """Return some of them, in that order."""
        return type(self)(*(column[rows] for column in vars(self).values()))


def read_allocations(instance: RubberBandInstance, trials: int, gpus: IntArray) -> Allocations:
    """Work out how allocations of GPUs (A,), at least those of one trial, run in a stage of n trials."""
    least, per_instance = instance.training.least_gpus, instance.cloud.gpus_per_instance
    at_once = gpus >= trials * least
    per_trial = np.where(at_once, gpus // trials, least)
    slots = np.where(at_once, trials, gpus // least)
    spanned = -(-per_trial // per_instance)
    fitting = np.maximum(per_instance // per_trial, 1)
    needed = np.where(per_trial <= per_instance, -(-slots // fitting), slots * spanned)
    return Allocations(gpus, per_trial, slots, needed, spanned)


def list_allowed(instance: RubberBandInstance, trials: int, mode: AllocationRule | None = None) -> Allocations:
    """List every allocation that the instance, or a stricter mode, allows so many trials, by machines, then by GPUs."""
    training, cloud = instance.training, instance.cloud
    slots = np.arange(1, trials, dtype=np.int64)
    most = training.largest_gpus
    if cloud.most_instances is not None:
        # A trial on several machines has them for itself.
        each = cloud.gpus_per_instance * max(cloud.most_instances // trials, 1)
        most = each if most is None else min(most, each)
    widths = np.arange(training.least_gpus, (most or 0) + 1, dtype=np.int64)
    if (mode or instance.mode) is AllocationRule.FAIR:
        slots = slots[trials % slots == 0]
        widths = widths[widths % training.least_gpus == 0]
    read = read_allocations(instance, trials, np.concatenate([slots * training.least_gpus, widths * trials]))
    allowed = training.knows(read.gpus_per_trial, read.spanned)
    if cloud.most_instances is not None:
        allowed &= read.instances <= cloud.most_instances
    rows = np.flatnonzero(allowed)
    return read.take(rows[np.lexsort((read.gpus[rows], read.instances[rows]))])


def explain_refusal(instance: RubberBandInstance, stage: Stage, gpus: int) -> str:
    """Say why a stage cannot get that many GPUs, a; empty when it can."""
    least, trials = instance.training.least_gpus, stage.trials
    if gpus > LARGEST_EXACT:
        return f"more than {LARGEST_EXACT:,} GPUs cannot be counted"
    if gpus < least:
        return f"a trial needs at least {least} GPUs"
    if gpus < trials * least:
        if gpus % least:
            return f"trials that queue run on {least} GPUs each, so a multiple of {least} is needed"
        if instance.mode is AllocationRule.FAIR and trials % (gpus // least):
            return f"fair allocations are factors or multiples of {trials} trials of {least} GPUs"
    elif gpus % trials:
        return f"{trials} trials at once need a multiple of {trials} GPUs"
    elif instance.mode is AllocationRule.FAIR and gpus // trials % least:
        return f"fair allocations are factors or multiples of {trials} trials of {least} GPUs"
    read = read_allocations(instance, trials, np.array([gpus], dtype=np.int64))
    unknown = _explain_unknown(instance, int(read.gpus_per_trial[0]), int(read.spanned[0]))
    if unknown:
        return unknown
    most = instance.cloud.most_instances
    if most is not None and read.instances[0] > most:
        return f"needs {read.instances[0]} instances of the {most} that are allowed"
    return ""


def _explain_unknown(instance: RubberBandInstance, gpus: int, spanned: int) -> str:
    """Say why nobody knows how fast a trial is on GPUs over several machines; empty when it is known."""
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
