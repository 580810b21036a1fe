"""The solver's statement of durations: what growing takes and costs, lives of instances, completion, times on a grid.

The judge has a statement of its own. What both use is the mathematics of sums and maxima in ``laws``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from optplan.formulations.rubberband.data.instance import RubberBandInstance
from optplan.formulations.rubberband.exact.stage_options import stage_cdf, stage_law
from optplan.formulations.rubberband.laws.convolutions import Law, add_laws
from optplan.formulations.rubberband.laws.latest import law_of_last
from optplan.formulations.rubberband.laws.maxima import expected_maximum
from optplan.formulations.rubberband.laws.rounding import round_times
from optplan.schema import FloatArray, IntArray
from optplan.solvers.limits import LIMIT_TOLERANCE

#: Numbers of new instances whose initialisation is listed at first, and at most.
_FIRST_LISTED = 64
_MOST_LISTED = 16384


def expected_latest_s(instance: RubberBandInstance, counts: IntArray) -> FloatArray:
    """Return the expected seconds until the last of several new instances is initialised; none take no time."""
    most = int(np.max(counts, initial=0))
    if most > _MOST_LISTED:
        different, place = np.unique(counts, return_inverse=True)
        return expected_maximum(instance.cloud.initialise_s, different)[place].reshape(np.shape(counts))
    listed: FloatArray = instance.solver_cache.get("latest", np.zeros(0))
    if listed.size <= most:
        upto = np.arange(max(2 * most, _FIRST_LISTED) + 1)
        listed = instance.solver_cache["latest"] = expected_maximum(instance.cloud.initialise_s, upto)
    return np.asarray(listed[counts])


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


def latest_law(instance: RubberBandInstance, added: int) -> Law:
    """Return the distribution of the seconds until the last of some new instances is initialised; cached."""
    key = ("latest", added)
    if key not in instance.solver_cache:
        instance.solver_cache[key] = law_of_last(instance.cloud.initialise_s, added)
    law: Law = instance.solver_cache[key]
    return law


def list_parts(
    instance: RubberBandInstance, bracket: int, held: Sequence[int], gpus: Sequence[int], first: int
) -> list[tuple[Law, int]]:
    """Return the independent parts of the paid life of an instance, from the start of its initialisation.

    Parameters
    ----------
    held, gpus
        Instances held and GPUs used in the stages up to the one after which the instance is released.
    first
        The stage, from zero, at whose start it is requested.
    """
    parts: list[tuple[Law, int]] = []
    for stage in range(first, len(held)):
        added = held[stage] - (held[stage - 1] if stage else 0)
        if added > 0:
            parts.append((latest_law(instance, added), 1))
            if stage > first:
                parts.append((instance.cloud.provision_s, 1))
        parts.append((stage_law(instance, bracket, stage, gpus[stage]), 1))
    return parts


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
    chances = []
    for bracket, (held, gpus) in enumerate(plans):
        parts = list_parts(instance, bracket, held, gpus, 0)
        whole = add_laws([*parts, (instance.cloud.provision_s, 1)])
        chances.append(float(whole.cdf(np.array([deadline_s]))[0]))
    return math.prod(chances)


def round_stage_down(
    instance: RubberBandInstance, bracket: int, stage: int, gpus: int, grid_s: FloatArray
) -> FloatArray:
    """Return (G,) the distribution of a stage's time, rounded down to a grid; what is later than all is left out."""
    return round_times(stage_cdf(instance, bracket, stage, gpus, grid_s)).down[:-1]


def round_growth_down(instance: RubberBandInstance, added: int, grid_s: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return (G,) each the distributions of a request and of the last of its initialisations, rounded down."""
    # The end of a constant delay is on a grid point in spite of rounding.
    later = grid_s * (1.0 + LIMIT_TOLERANCE)
    scale = round_times(instance.cloud.provision_s.cdf(later))
    last = round_times(np.power(instance.cloud.initialise_s.cdf(later), added))
    return scale.down[:-1], last.down[:-1]
