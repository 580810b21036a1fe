"""The solver's statement of durations: what growing takes and costs, completion, times on a grid.

The judge has a statement of its own. What both use is the mathematics of sums and maxima in ``laws``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from optplan.formulations.rubberband.data.instance import RubberBandInstance
from optplan.formulations.rubberband.laws.lives import completion_law, expected_latest_s
from optplan.formulations.rubberband.laws.rounding import round_down
from optplan.schema import FloatArray, IntArray
from optplan.solvers.limits import LIMIT_TOLERANCE


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


def find_chance(instance: RubberBandInstance, plans: Sequence[tuple[Sequence[int], Sequence[int]]]) -> float:
    """Return the probability that all brackets complete by the deadline.

    Parameters
    ----------
    instance
        The problem, with its deadline.
    plans
        By bracket: instances held and GPUs used in each stage.
    """
    deadline_s = instance.limits[instance.limit_name] * (1.0 + LIMIT_TOLERANCE)
    reached = np.array([deadline_s])
    laws = (completion_law(instance, bracket, held, gpus) for bracket, (held, gpus) in enumerate(plans))
    return math.prod(float(law.cdf(reached)[0]) for law in laws)


def round_growth_down(instance: RubberBandInstance, added: int, grid_s: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return (G,) each the distributions of a request and of the last of its initialisations, rounded down."""
    # The end of a constant delay is on a grid point in spite of rounding.
    later = grid_s * (1.0 + LIMIT_TOLERANCE)
    scale = round_down(instance.cloud.provision_s.cdf(later))
    return scale, round_down(np.power(instance.cloud.initialise_s.cdf(later), added))
