"""What the loss of spot VMs does to a training run: its expected time, in closed form.

The paper reacts to interruptions, but does not foresee them; this is optplan's addition. The process:

* The VMs of a fleet are interrupted independently of each other, so the fleet is interrupted at the points of a Poisson
  process whose rate is the sum of its VMs' rates.
* Training writes a checkpoint after every ``checkpoint_every_s`` of work, which takes ``checkpoint_s``; there is none
  at the end. An interruption undoes what was done since the last complete checkpoint.
* ``restart_s`` later the fleet, with a VM of the same type in place of the lost one, goes on from that checkpoint.
* While it restarts, a fleet that is held and paid (``restart_billed``) can be interrupted again, and the restart then
  begins anew; a fleet that is not paid was handed back, and nothing of it can be lost. BOA takes it the same way.

A stretch of L seconds up to its checkpoint is repeated until no interruption falls into it. With the rate ``r`` there
are ``e^(r L) - 1`` failed attempts on average, all attempts together take ``(e^(r L) - 1) / r``, and each failed one is
followed by a restart of ``(e^(r R) - 1) / r`` seconds on average where it can be interrupted, else of R. So, held
through its restarts, a stretch takes ``e^(r R) (e^(r L) - 1) / r`` (Daly, *A higher order estimate of the optimum
checkpoint interval for restart dumps*, 2006, equation 13). Stretches are independent: their times add up.

For short stretches and restarts this is BOA's ``t0 / (1 - r (restart + lost))`` with L / 2 for the work lost; BOA's
form takes the lost work as given, this one derives it from the checkpoints.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from optplan.formulations.srift.data.instance import Interruptions, SriftInstance, VmGroup
from optplan.schema import FloatArray
from optplan.units import SECONDS_PER_HOUR

#: A run that ends at a checkpoint to within this share of itself has none there.
_SAME = 1e-12
#: Beyond this power of e, floats end.
_LARGEST_POWER = 700.0
#: Up to here the next term of a power series is below a float's rounding of the whole stretch.
_SHORT = 1e-5


def interruption_rate_per_s(instance: SriftInstance, groups: Iterable[VmGroup]) -> float:
    """Return how often a fleet is interrupted, per second: the sum of its VMs' rates."""
    per_hour = math.fsum(group.count * instance.types[group.type].interruptions_per_hour for group in groups)
    return per_hour / SECONDS_PER_HOUR


def expect_training(
    work_s: FloatArray | float, rate_per_s: FloatArray | float, interruptions: Interruptions | None
) -> tuple[FloatArray, FloatArray]:
    """Return (N,) the mean seconds that runs take, and those billed; infinite where no interval is ever survived."""
    work_s, rate_per_s = np.asarray(work_s, dtype=np.float64), np.asarray(rate_per_s, dtype=np.float64)
    if interruptions is None:
        return work_s, work_s
    every_s, restart_s = interruptions.checkpoint_every_s, interruptions.restart_s
    checkpoints, exposed = count_checkpoints(work_s, interruptions), interruptions.restart_billed
    trained_s, failures = np.zeros(work_s.shape), np.zeros(work_s.shape)
    one_restart_s = restart_s * (1.0 + (_excess(rate_per_s * restart_s) if exposed else np.zeros(work_s.shape)))
    with np.errstate(over="ignore", invalid="ignore"):  # none of something infinite is none
        last_s = work_s - checkpoints * every_s
        for number, stretch_s in ((checkpoints, every_s + interruptions.checkpoint_s), (np.float64(1.0), last_s)):
            power = rate_per_s * stretch_s
            trained_s += np.where(number > 0.0, number * stretch_s * (1.0 + _excess(power)), 0.0)
            failures += np.where(number > 0.0, number * _expm1(power), 0.0)
        restarts_s = np.where((failures > 0.0) & (one_restart_s > 0.0), failures * one_restart_s, 0.0)
    total_s = trained_s + restarts_s
    return total_s, total_s if exposed else trained_s


def count_checkpoints(work_s: FloatArray | float, interruptions: Interruptions) -> FloatArray:
    """Return (N,) how many checkpoints runs write: one after each full interval, none at the end."""
    return np.maximum(0.0, np.ceil(work_s / interruptions.checkpoint_every_s * (1.0 - _SAME)) - 1.0)


def _expm1(power: FloatArray) -> FloatArray:
    """Return e to each power, less one; infinite where floats end."""
    return np.where(power < _LARGEST_POWER, np.expm1(np.minimum(power, _LARGEST_POWER)), np.inf)


def _excess(power: FloatArray) -> FloatArray:
    """Return (e^x - 1) / x - 1 of each power, by which repeating stretches a duration; zero for no power."""
    short = power < _SHORT
    long = _expm1(power) / np.where(short, 1.0, power) - 1.0
    return np.where(short, power / 2.0 + power * power / 6.0, long)  # the difference would be rounding
