"""The solver's statement of durations: what growing takes and costs, and how likely limits are kept.

The judge has a statement of its own. What both use is the mathematics of sums and maxima in ``laws``.
"""

from __future__ import annotations

import math

import numpy as np

from optplan.formulations.rubberband.data.instance import BUDGET, DEADLINE, RubberBandInstance, RubberBandSolution
from optplan.formulations.rubberband.laws.joint_probability import joint_chance
from optplan.formulations.rubberband.laws.lifetimes import completion_law, expected_latest_s
from optplan.schema import FloatArray, IntArray
from optplan.solvers.limits import LIMIT_TOLERANCE

#: Cells of the grid on which a probability is computed first, and how near the confidence it is computed anew.
_FEW_CELLS, _NEAR = 1 << 17, 0.01


def growth(
    instance: RubberBandInstance, before: int | IntArray, after: int | IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return expected seconds and US dollars of changing the number of instances held; shrinking is free.

    Parameters
    ----------
    before, after
        Instances held, zero before the first stage; they broadcast. The trials wait for the request and for the last of
        the new instances; those held are paid throughout, new ones from the start of their initialisation.
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
