"""From chains of single brackets to answers: what the planners that work bracket by bracket share.

Brackets side by side have a cluster each, and only the limit ties them together. Under a deadline nothing does: each
bracket has to keep it, and costs add up. Under a budget they share it, and the slowest of them counts.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from optplan.contracts.result import Answer, SolveRequest, Status, Termination
from optplan.errors import DataWarning
from optplan.formulations.rubberband.data.experiment import StagesExperiment
from optplan.formulations.rubberband.data.instance import (
    Objective,
    RubberBandInstance,
    RubberBandSolution,
    StageAllocation,
)
from optplan.formulations.rubberband.exact.chains import state_chains
from optplan.formulations.rubberband.exact.charges import minimum_charge_usd
from optplan.formulations.rubberband.exact.costs import growth
from optplan.formulations.rubberband.exact.feasibility import explain_shortfall, find_cheapest, find_fastest
from optplan.formulations.rubberband.laws.stages import option_of
from optplan.solvers.limits import LIMIT_TOLERANCE
from optplan.solvers.paths.effort import OutOfEffortError


@dataclass(frozen=True)
class PricedChain:
    """The allocations of one bracket, with expected seconds and US dollars by whoever priced them."""

    allocations: tuple[StageAllocation, ...]
    seconds: float
    usd: float


def isolate_brackets(instance: RubberBandInstance) -> tuple[RubberBandInstance, ...]:
    """Return each bracket as an instance of its own, with the same cloud, profile and limit."""
    if len(instance.brackets) == 1:
        return (instance,)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # the user has been told when the whole was read
        return tuple(instance.replace(experiment=StagesExperiment(stages=stages)) for stages in instance.brackets)


def price_chain(alone: RubberBandInstance, allocations: tuple[StageAllocation, ...]) -> PricedChain:
    """Add up by the solver's own costs what (allowed) allocations of an instance with one bracket take."""
    held, gpus = [each.instances for each in allocations], [each.gpus for each in allocations]
    price = alone.cloud.price_usd_per_s
    seconds, usd = [], [minimum_charge_usd(alone, 0, held, gpus)]
    for stage, (before, now) in enumerate(pairwise([0, *held])):
        option = option_of(alone, 0, stage, gpus[stage])
        grown_s, grown_usd = growth(alone, before, now)
        stage_s, busy_gpu_s = float(option.expected_s[0]), float(option.busy_gpu_s[0])
        seconds += [float(grown_s), stage_s]
        paid_s = now * stage_s if alone.cloud.is_per_instance else busy_gpu_s / alone.cloud.gpus_per_instance
        usd += [float(grown_usd), price * paid_s]
    return PricedChain(allocations, math.fsum(seconds), math.fsum(usd))


def price_plan(instance: RubberBandInstance, chosen: Sequence[PricedChain]) -> float:
    """Return the objective of a plan: the cost of all brackets, or the time of the slowest."""
    if instance.objective is Objective.COST:
        return math.fsum(each.usd for each in chosen)
    return max(each.seconds for each in chosen)


def choose_chains(
    instance: RubberBandInstance, candidates: Sequence[Sequence[PricedChain]]
) -> tuple[PricedChain, ...] | None:
    """Choose for each bracket the first best candidate by the objective within the limit; None if none keeps it."""
    most = instance.limits[instance.limit_name] * (1.0 + LIMIT_TOLERANCE)
    if instance.objective is Objective.COST:
        return _choose_cheapest(candidates, most)
    # The completion time is that of some candidate, and the cheapest choice within a time gets no dearer with it.
    times = sorted({candidate.seconds for listed in candidates for candidate in listed})
    first, last = 0, len(times)
    while first < last:
        middle = (first + last) // 2
        chosen = _choose_cheapest(candidates, times[middle])
        if chosen is not None and math.fsum(each.usd for each in chosen) <= most:
            last = middle
        else:
            first = middle + 1
    return _choose_cheapest(candidates, times[first]) if first < len(times) else None


def _choose_cheapest(candidates: Sequence[Sequence[PricedChain]], most_s: float) -> tuple[PricedChain, ...] | None:
    within = [[candidate for candidate in listed if candidate.seconds <= most_s] for listed in candidates]
    if not all(within):
        return None
    return tuple(min(listed, key=lambda candidate: candidate.usd) for listed in within)


def write_solution(chosen: Sequence[PricedChain]) -> RubberBandSolution:
    """Put the chains of all brackets together."""
    return RubberBandSolution(brackets=tuple(each.allocations for each in chosen))


def answer_without_plan(instance: RubberBandInstance, request: SolveRequest, what: str) -> Answer[RubberBandSolution]:
    """Answer where a planner has found nothing: infeasible where nobody can, otherwise unknown, with a warning.

    ``what`` was looked for, as in ``static cluster``.
    """
    infeasible = answer_if_infeasible(instance, request)
    if infeasible is not None:
        return infeasible
    amount, unit = instance.limit_as_given(instance.limit_name)
    message = f"no {what} keeps the {instance.limit_name} of {amount:g} {unit}"
    if request.stopwatch.expired:
        return Answer(Status.UNKNOWN, Termination.TIME_LIMIT, warnings=(message,))
    return Answer(Status.UNKNOWN, Termination.COMPLETED, warnings=(f"{message}; other plans do",))


def answer_if_infeasible(instance: RubberBandInstance, request: SolveRequest) -> Answer[RubberBandSolution] | None:
    """Return the answer that no plan keeps the limit, or None when one does or time runs out."""
    found = find_least_plans(instance, request)
    return found if isinstance(found, Answer) else None


def find_least_plans(
    instance: RubberBandInstance, request: SolveRequest
) -> tuple[PricedChain, ...] | Answer[RubberBandSolution]:
    """Return for every bracket the plan that needs least of the limit, or the answer that even these do not keep it.

    When time is over there are no plans.
    """
    most = instance.limits[instance.limit_name] * (1.0 + LIMIT_TOLERANCE)
    in_time = instance.objective is Objective.COST
    try:
        chains = state_chains(instance, request.stopwatch)
    except OutOfEffortError:
        return ()
    found = [find_fastest(chain, request) if in_time else find_cheapest(chain, request) for chain in chains]
    paths = [(chain, one.options) for chain, one in zip(chains, found, strict=True) if one.options is not None]
    if any(one.stopped_by is not None for one in found) or len(paths) < len(chains):
        return ()
    amounts = [one.least for one in found]
    if (max(amounts) if in_time else math.fsum(amounts)) > most:
        return explain_shortfall(instance, chains, request)
    alone = isolate_brackets(instance)
    return tuple(price_chain(one, chain.write(options)) for one, (chain, options) in zip(alone, paths, strict=True))
