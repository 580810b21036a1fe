"""The judge's distributions of whole durations: of growths, of a bracket's completion, of an instance's paid life.

All are sums of independent parts: stages, requests (SCALE) and the last of several initialisations (INIT_INSTANCE).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optplan.formulations.rubberband.data.instance import RubberBandInstance, RubberBandSolution, StageAllocation
from optplan.formulations.rubberband.judge.stages import stage_cdf, stage_law
from optplan.formulations.rubberband.judge.tolerances import TOLERANCE
from optplan.formulations.rubberband.laws.convolutions import GridLaw, Law, add_laws
from optplan.formulations.rubberband.laws.latest import law_of_last
from optplan.formulations.rubberband.laws.rounding import RoundedTimes, round_times
from optplan.schema import FloatArray


def initialisation_law(instance: RubberBandInstance, new: int) -> Law:
    """Return the distribution of the seconds until the last of ``new`` instances is initialised; cached."""
    key = ("initialisation", new)
    if key not in instance.judge_cache:
        instance.judge_cache[key] = law_of_last(instance.cloud.initialise_s, new)
    law: Law = instance.judge_cache[key]
    return law


def life_summands(
    instance: RubberBandInstance, bracket: int, chain: Sequence[StageAllocation], first: int, last: int
) -> list[tuple[Law, int]]:
    """Return what the paid life of an instance consists of, as independent summands.

    Parameters
    ----------
    bracket
        Which one, from zero.
    chain
        Its (allowed) allocations, at least up to ``last``.
    first, last
        Stages, from zero, at whose start the instance is requested and after which it is released. It is paid from the
        start of its initialisation on.
    """
    summands: list[tuple[Law, int]] = []
    for stage in range(first, last + 1):
        added = chain[stage].instances - (chain[stage - 1].instances if stage else 0)
        if added > 0:
            summands.append((initialisation_law(instance, added), 1))
            if stage > first:
                summands.append((instance.cloud.provision_s, 1))
        summands.append((stage_law(instance, bracket, stage, chain[stage].gpus), 1))
    return summands


def completion_law(instance: RubberBandInstance, bracket: int, chain: tuple[StageAllocation, ...]) -> GridLaw:
    """Return the distribution of a bracket's completion time, on a grid.

    Parameters
    ----------
    bracket
        Which one, from zero.
    chain
        Its (allowed) allocations.
    """
    # It is the life of an instance that is held throughout, and the first request.
    summands = life_summands(instance, bracket, chain, 0, len(chain) - 1)
    return add_laws([*summands, (instance.cloud.provision_s, 1)])


def on_time_probability(instance: RubberBandInstance, solution: RubberBandSolution, deadline_s: float) -> float:
    """Return the probability that every bracket completes by a deadline.

    Parameters
    ----------
    solution
        Allowed allocations.
    deadline_s
        Seconds from the first request.
    """
    chance = 1.0
    for bracket, chain in enumerate(solution.brackets):
        law = completion_law(instance, bracket, chain)
        chance *= float(law.cdf(np.array([deadline_s * (1 + TOLERANCE)]))[0])
    return chance


def completion_quantile(instance: RubberBandInstance, solution: RubberBandSolution, probability: float) -> float:
    """Return the time by which every bracket completes with the given probability.

    Parameters
    ----------
    solution
        Allowed allocations.
    probability
        Above zero and below one.
    """
    laws = [completion_law(instance, bracket, chain) for bracket, chain in enumerate(solution.brackets)]
    times = np.unique(np.concatenate([law.values_s + law.step_s / 2 * (not law.is_constant) for law in laws]))
    chances = np.prod([law.cdf(times) for law in laws], axis=0)
    reached = int(np.searchsorted(chances, probability))
    if 0 < reached < times.size and not all(law.is_constant for law in laws):
        return float(np.interp(probability, chances[reached - 1 : reached + 1], times[reached - 1 : reached + 1]))
    return float(times[min(reached, times.size - 1)])


def stage_distribution(
    instance: RubberBandInstance, bracket: int, stage: int, gpus: int, grid_s: FloatArray
) -> RoundedTimes:
    """Return the distribution of the time of a stage's trials on a grid, for chance constraints.

    Parameters
    ----------
    bracket, stage
        Which stage, both from zero.
    gpus
        GPUs used, a (allowed).
    grid_s
        (G,) Increasing times, the first zero.
    """
    return round_times(stage_cdf(instance, bracket, stage, gpus, grid_s))


def growth_distributions(
    instance: RubberBandInstance, before: int, after: int, grid_s: FloatArray
) -> tuple[RoundedTimes, ...]:
    """Return the distributions of the parts of a growth on a grid: SCALE, and the last INIT; empty without growth.

    Parameters
    ----------
    before, after
        Instances held.
    grid_s
        (G,) Increasing times, the first zero.
    """
    if after <= before:
        return ()
    single = instance.cloud.initialise_s
    # The end of a constant delay is on a grid point in spite of rounding.
    later = grid_s * (1 + TOLERANCE)
    return (
        round_times(instance.cloud.provision_s.cdf(later)),
        round_times(np.power(single.cdf(later), after - before)),
    )
