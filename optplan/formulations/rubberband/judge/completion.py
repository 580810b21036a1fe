"""What the judge says of completion: chances and quantiles."""

from __future__ import annotations

import math

import numpy as np

from optplan.contracts.judgement import JUDGE_TOLERANCE
from optplan.formulations.rubberband.data.instance import BUDGET, DEADLINE, RubberBandInstance, RubberBandSolution
from optplan.formulations.rubberband.laws.convolutions import GridLaw
from optplan.formulations.rubberband.laws.joint_probability import joint_chance
from optplan.formulations.rubberband.laws.lifetimes import completion_law


def _list_laws(instance: RubberBandInstance, solution: RubberBandSolution) -> list[GridLaw]:
    """Return the distributions of the brackets' completion times."""
    return [
        completion_law(instance, bracket, [each.instances for each in chain], [each.gpus for each in chain])
        for bracket, chain in enumerate(solution.brackets)
    ]


def on_time_probability(instance: RubberBandInstance, solution: RubberBandSolution, deadline_s: float) -> float:
    """Return the probability that every bracket completes by a deadline, in seconds from the first request."""
    reached = np.array([deadline_s * (1 + JUDGE_TOLERANCE)])
    return math.prod(float(law.cdf(reached)[0]) for law in _list_laws(instance, solution))


def find_chances(instance: RubberBandInstance, solution: RubberBandSolution) -> dict[str, float]:
    """Return the probabilities that each limit is kept, and all of them, of one bracket billed per instance."""
    limits = {limit: amount * (1 + JUDGE_TOLERANCE) for limit, amount in instance.limits.items()}
    (chain,) = solution.brackets
    held, gpus = [each.instances for each in chain], [each.gpus for each in chain]
    deadline_s, budget_usd = limits.get(DEADLINE, math.inf), limits[BUDGET]
    chances = {
        "within_budget_probability": joint_chance(instance, held, gpus, math.inf, budget_usd),
        "kept_probability": joint_chance(instance, held, gpus, deadline_s, budget_usd),
    }
    if DEADLINE in limits:
        chances["on_time_probability"] = on_time_probability(instance, solution, instance.limits[DEADLINE])
    return chances


def completion_quantile(instance: RubberBandInstance, solution: RubberBandSolution, probability: float) -> float:
    """Return the time by which every bracket completes with the given probability, above zero and below one."""
    laws = _list_laws(instance, solution)
    times = np.unique(np.concatenate([law.values_s + law.step_s / 2 * (not law.is_constant) for law in laws]))
    chances = np.prod([law.cdf(times) for law in laws], axis=0)
    reached = int(np.searchsorted(chances, probability))
    if 0 < reached < times.size and not all(law.is_constant for law in laws):
        return float(np.interp(probability, chances[reached - 1 : reached + 1], times[reached - 1 : reached + 1]))
    return float(times[min(reached, times.size - 1)])
