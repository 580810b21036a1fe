"""Every plan of a tiny bracket: any instances held in any stage, with any allocation worth considering on them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from optplan.errors import UnsupportedError
from optplan.formulations.rubberband.data.instance import RubberBandInstance, StageAllocation
from optplan.formulations.rubberband.exact.bracket_choice import PricedChain, price_chain
from optplan.formulations.rubberband.exact.durations import growth
from optplan.formulations.rubberband.exact.stage_options import stage_options
from optplan.schema import FloatArray, IntArray

#: Most plans of a bracket that are looked at: a few arrays of this length are the working set.
MAX_PLANS = 2_000_000


@dataclass(frozen=True, eq=False)
class _Choices:
    """What one stage may get: (C,) instances held, GPUs used, expected seconds, US dollars without growth."""

    held: IntArray
    gpus: IntArray
    seconds: FloatArray
    usd: FloatArray


def list_undominated(alone: RubberBandInstance) -> tuple[list[PricedChain], int]:
    """List the plans of an instance with one bracket that no other plan beats in both time and cost.

    Parameters
    ----------
    alone
        The instance; its limit and objective are not looked at.

    Returns
    -------
    plans : list of PricedChain
        From the fastest to the cheapest, minimum charges included.
    count : int
        How many plans were looked at.

    Raises
    ------
    UnsupportedError
        When there are more than :data:`MAX_PLANS`.
    """
    choices = _list_choices(alone)
    sizes = tuple(stage.held.size for stage in choices)
    if math.prod(sizes) > MAX_PLANS:
        raise UnsupportedError(
            f"enumeration looks at {MAX_PLANS:,} plans at most and this problem has {math.prod(sizes):.3g}; "
            "choose a solver that does not look at each of them"
        )
    seconds, usd = _total(alone, choices)
    kept: list[PricedChain] = []
    least_usd = math.inf
    for number in np.lexsort((usd, seconds)).tolist():
        if usd[number] < least_usd:  # minimum charges only add to it
            picked = zip(choices, np.unravel_index(number, sizes), strict=True)
            judged = price_chain(
                alone,
                tuple(
                    StageAllocation(instances=int(stage.held[place]), gpus=int(stage.gpus[place]))
                    for stage, place in picked
                ),
            )
            if judged.usd < least_usd:
                kept.append(judged)
                least_usd = judged.usd
    return kept, math.prod(sizes)


def _list_choices(alone: RubberBandInstance) -> list[_Choices]:
    offered = [stage_options(alone, 0, stage) for stage in range(len(alone.brackets[0]))]
    counts = np.arange(1, max(int(options.instances.max()) for options in offered) + 1)
    cloud, choices = alone.cloud, []
    for options in offered:
        which, row = np.nonzero(options.instances <= counts[:, None])
        held, seconds = counts[which], options.expected_s[row]
        paid_s = held * seconds if cloud.is_per_instance else options.busy_gpu_s[row] / cloud.gpus_per_instance
        choices.append(_Choices(held, options.gpus[row], seconds, cloud.price_usd_per_s * paid_s))
    return choices


def _total(alone: RubberBandInstance, choices: list[_Choices]) -> tuple[FloatArray, FloatArray]:
    """Add up time and cost (N,) of every plan, minimum charges left out; plans count places like digits."""
    counts = np.arange(max(int(stage.held.max()) for stage in choices) + 1)
    growth_s, growth_usd = growth(alone, counts[:, None], counts)
    before, seconds, usd = np.zeros(1, dtype=np.int64), np.zeros(1), np.zeros(1)
    for stage in choices:
        seconds = (seconds[:, None] + growth_s[before[:, None], stage.held] + stage.seconds).ravel()
        usd = (usd[:, None] + growth_usd[before[:, None], stage.held] + stage.usd).ravel()
        before = np.tile(stage.held, before.size)
    return seconds, usd
