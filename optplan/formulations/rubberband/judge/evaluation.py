"""The independent judge of RubberBand: what allocations amount to, and whether they keep the rules.

A barrier ends each stage, so for a plan that is fixed beforehand the expected completion time is the sum of the
expected times of growths and stages, and the expected cost the sum of theirs (section 4.2), but for the minimum charge
of an instance, which depends on its whole life. Constraint families, by the names used in every message:

``stages``
    The solution has an allocation for exactly the stages of the instance.
``allocation``
    The GPUs of a stage are such that its trials can run on them by the rule of the mode.
``instances``
    The instances held in a stage are at least what its trials need, and at most what the cloud allows.
``deadline``
    The expected completion time does not exceed the deadline (of the slowest bracket, where they run side by side).
``confidence``
    The limits given, all at once, are kept with at least the wanted probability.
``budget``
    The expected cost does not exceed the budget.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optplan.contracts.judgement import JUDGE_TOLERANCE, Check, Evaluation
from optplan.errors import show_value
from optplan.formulations.rubberband.data.allocations import explain_refusal, list_allowed
from optplan.formulations.rubberband.data.cloud import Cloud
from optplan.formulations.rubberband.data.instance import (
    BUDGET,
    DEADLINE,
    Objective,
    RubberBandInstance,
    RubberBandSolution,
    StageAllocation,
    recall,
)
from optplan.formulations.rubberband.laws.confidence import joint_chance
from optplan.formulations.rubberband.laws.convolutions import GridLaw
from optplan.formulations.rubberband.laws.lifetimes import completion_law, expected_latest_s, missing_by_stage
from optplan.formulations.rubberband.laws.stages import StageOptions, option_of, time_allocations
from optplan.progress import Stopwatch
from optplan.schema import LARGEST_EXACT, FloatArray, IntArray
from optplan.units import SECONDS_PER_HOUR


def list_costs(
    instance: RubberBandInstance, bracket: int, stage: int, stopwatch: Stopwatch | None = None
) -> StageOptions:
    """Return every allowed allocation of a stage with its costs; cached."""
    which = instance.brackets[bracket][stage]
    watch = stopwatch if stopwatch is not None else Stopwatch()
    return recall(
        instance.judge_cache,
        ("costs", which.trials, which.iterations),
        lambda: time_allocations(instance, which, list_allowed(instance, which.trials), watch.require),
    )


def _list_laws(instance: RubberBandInstance, solution: RubberBandSolution) -> list[GridLaw]:
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


#: Absolute tolerance on a probability: what the grids of the convolutions may be off.
_PROBABILITY_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Figures:
    """Expected figures of a stage, or of all stages of a bracket; in seconds of instances but where GPUs are named."""

    growth_s: float
    training_s: float
    held_s: float
    busy_gpu_s: float
    short_s: float  #: Not used up of their minimum charge by those that are released at the end.
    started: int

    @property
    def expected_s(self) -> float:
        """Seconds until its end."""
        return self.growth_s + self.training_s

    def price(self, cloud: Cloud) -> dict[str, float]:
        """Return US dollars by what they are paid for."""
        busy_usd = cloud.gpu_price_usd_per_s * self.busy_gpu_s
        return {
            "compute_usd": cloud.price_usd_per_s * self.held_s if cloud.is_per_instance else busy_usd,
            "data_usd": self.started * cloud.data_usd_per_instance,
            "minimum_charge_usd": cloud.price_usd_per_s * self.short_s,
        }


def growth(
    instance: RubberBandInstance, before: int | IntArray, after: int | IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return expected seconds and US dollars of changing how many instances are held; counts may broadcast."""
    # One request (SCALE), then all initialise (INIT_INSTANCE), and all trials wait for the latest, M of k expected:
    # price * (before * (E[SCALE] + M) + k * M) + k * data; per function the data only. Shrinking is free.
    cloud = instance.cloud
    new = np.maximum(np.subtract(after, before), 0)
    latest_s = expected_latest_s(instance, new)
    taken_s = np.where(new > 0, cloud.provision_s.expected_s + latest_s, 0.0)
    usd = new * cloud.data_usd_per_instance
    if cloud.is_per_instance:
        usd = usd + cloud.price_usd_per_s * (before * taken_s + new * latest_s)
    return taken_s, usd


def evaluate(instance: RubberBandInstance, solution: RubberBandSolution) -> Evaluation:
    """Recompute objective, time, cost and every constraint from allocations, which may break any rule (section 4.2).

    The objective is the expected cost in US dollars, or the expected completion time in seconds. Consumption:
    ``deadline`` in seconds (the time that is kept with the wanted probability, where one is wanted) or ``budget`` in US
    dollars.
    """
    checks = _check_shape(instance, solution)
    if all(check.holds for check in checks):
        for bracket, chain in enumerate(solution.brackets):
            for number, allocation in enumerate(chain):
                checks += _check_allocation(instance, bracket, number, allocation)
    limits = instance.limits if instance.has_limit else {instance.limit_name: float("nan")}
    if not all(check.holds for check in checks):
        return Evaluation(float("nan"), dict.fromkeys(limits, float("nan")), {}, tuple(checks))
    figures = [_add_up(follow(instance, bracket, chain)) for bracket, chain in enumerate(solution.brackets)]
    measures = _measure(instance, figures, solution)
    used = {DEADLINE: measures["expected_s"], BUDGET: measures["expected_usd"]}
    if instance.confidence is not None:
        measures["confident_s"] = used[DEADLINE] = completion_quantile(instance, solution, instance.confidence)
    consumption = {limit: used[limit] for limit in limits}
    if instance.has_limit and instance.asks_for_both:
        measures |= find_chances(instance, solution)
        checks.append(_check_confidence(instance.confidence or 0.0, measures["kept_probability"]))
    elif instance.has_limit:
        for limit in limits:
            if limit == DEADLINE and instance.confidence is not None:
                chance = on_time_probability(instance, solution, instance.limits[DEADLINE])
                measures["on_time_probability"] = chance
                checks.append(_check_confidence(instance.confidence, chance))
            else:
                checks.append(_check_limit(instance, limit, consumption[limit]))
    objective = measures["expected_usd" if instance.objective is Objective.COST else "expected_s"]
    return Evaluation(objective, consumption, measures, tuple(checks))


def expected_costs(instance: RubberBandInstance, bracket: int, chain: Sequence[StageAllocation]) -> tuple[float, float]:
    """Return the expected seconds and US dollars of one bracket alone, as :func:`evaluate` does, without its checks."""
    figures = _add_up(follow(instance, bracket, chain))
    return figures.expected_s, sum(figures.price(instance.cloud).values())


def _measure(instance: RubberBandInstance, figures: list[Figures], solution: RubberBandSolution) -> dict[str, float]:
    slowest, prices = max(figures, key=lambda bracket: bracket.expected_s), [f.price(instance.cloud) for f in figures]
    busy = sum(f.busy_gpu_s for f in figures)
    held = sum(f.held_s * instance.cloud.gpus_per_instance for f in figures)
    measures = {
        "expected_s": slowest.expected_s,
        "expected_usd": sum(sum(each.values()) for each in prices),
        **{name: sum(each[name] for each in prices) for name in prices[0]},
        "growth_s": slowest.growth_s,
        "training_s": slowest.training_s,
        "busy_gpu_hours": busy / SECONDS_PER_HOUR,
        "held_gpu_hours": held / SECONDS_PER_HOUR,
        "utilisation": busy / held,
        "instances_started": float(sum(f.started for f in figures)),
        "most_instances": float(sum(max(stage.instances for stage in chain) for chain in solution.brackets)),
    }
    if len(instance.brackets) > 1:
        for number, (bracket, paid) in enumerate(zip(figures, prices, strict=True)):
            measures[f"brackets.{number}.expected_s"] = bracket.expected_s
            measures[f"brackets.{number}.expected_usd"] = sum(paid.values())
    return measures


def _add_up(stages: list[Figures]) -> Figures:
    return Figures(*(sum(column) for column in zip(*(vars(stage).values() for stage in stages), strict=True)))


def follow(instance: RubberBandInstance, bracket: int, chain: Sequence[StageAllocation]) -> list[Figures]:
    """Return the figures of a bracket by stage, from (allowed) allocations."""
    held, gpus = [each.instances for each in chain], [each.gpus for each in chain]
    short_s, before, stages = missing_by_stage(instance, bracket, held, gpus), 0, []
    for number, allocation in enumerate(chain):
        option = option_of(instance, bracket, number, allocation.gpus)
        stage_s = float(option.expected_s[0])
        new = max(allocation.instances - before, 0)
        latest_s = float(expected_latest_s(instance, np.array(new))) if new else 0.0
        grown_s = instance.cloud.provision_s.expected_s + latest_s if new else 0.0
        stages.append(
            Figures(
                growth_s=grown_s,
                training_s=stage_s,
                held_s=before * grown_s + new * latest_s + allocation.instances * stage_s,
                busy_gpu_s=float(option.busy_gpu_s[0]),
                short_s=short_s[number],
                started=new,
            )
        )
        before = allocation.instances
    return stages


def _check_shape(instance: RubberBandInstance, solution: RubberBandSolution) -> list[Check]:
    wanted = [len(chain) for chain in instance.brackets]
    given = [len(chain) for chain in solution.brackets]
    message = f"the solution must have one allocation for each stage: {wanted} by bracket, got {show_value(given)}"
    return [Check.exactly("stages", message, holds=given == wanted, sides=(sum(given), sum(wanted)))]


def _check_allocation(
    instance: RubberBandInstance, bracket: int, number: int, allocation: StageAllocation
) -> list[Check]:
    several = len(instance.brackets) > 1
    index = f"bracket {bracket + 1} stage {number + 1}" if several else f"stage {number + 1}"
    reason = explain_refusal(instance, instance.brackets[bracket][number], allocation.gpus)
    message = reason or "the trials of a stage must be able to run on its GPUs"
    sides = (allocation.gpus, allocation.gpus)
    checks = [Check.exactly("allocation", message, holds=not reason, sides=sides, index=index)]
    if reason:
        return checks
    needed = int(option_of(instance, bracket, number, allocation.gpus).instances[0])
    most = instance.cloud.most_instances
    enough = allocation.instances >= needed
    within = allocation.instances <= (LARGEST_EXACT if most is None else most)
    sides = (needed, allocation.instances) if within else (allocation.instances, most or LARGEST_EXACT)
    message = "least those needed" if within else "most those the cloud allows"
    message = f"the instances held must be at {message}"
    checks.append(Check.exactly("instances", message, holds=enough and within, sides=sides, index=index))
    return checks


def _check_limit(instance: RubberBandInstance, limit: str, used: float) -> Check:
    amount = instance.limits[limit]
    what = "completion time must not exceed the deadline" if limit == DEADLINE else "cost must not exceed the budget"
    return Check.at_most(limit, used, amount, f"the expected {what}")


def _check_confidence(wanted: float, chance: float) -> Check:
    return Check(
        family="confidence",
        left=wanted,
        right=chance,
        tolerance=_PROBABILITY_TOLERANCE,
        holds=wanted <= chance + _PROBABILITY_TOLERANCE,
        message="what is limited must be kept with at least the wanted probability",
    )


def share_evidence(instance: RubberBandInstance, solution: RubberBandSolution | None) -> dict[str, float]:  # noqa: ARG001 - one profile for all plans
    """Return where the one profile of all trials comes from, as the share of all GPUs."""
    return {instance.training.seconds_per_iteration.comes_from: 1.0}
