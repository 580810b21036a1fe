"""Single brackets and the limit: when no plan keeps it, and what planners that work bracket by bracket share.

Brackets side by side have a cluster each, and only the limit ties them together. Under a deadline nothing does: each
bracket has to keep it, and costs add up. Under a budget they share it, and the slowest of them counts.
"""

from __future__ import annotations

import math
import warnings
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from optplan.contracts.result import (
    Answer,
    Infeasibility,
    ShadowPrice,
    SolveRequest,
    Status,
    Termination,
    TreeCertificate,
)
from optplan.errors import DataWarning
from optplan.formulations.rubberband.data.experiment import StagesExperiment
from optplan.formulations.rubberband.data.instance import (
    CHARGES,
    DEADLINE,
    Objective,
    RubberBandInstance,
    RubberBandSolution,
    StageAllocation,
)
from optplan.formulations.rubberband.exact.chains import Chain, state_chains
from optplan.formulations.rubberband.exact.costs import growth, minimum_charge_usd
from optplan.formulations.rubberband.laws.stages import option_of
from optplan.schema import FloatArray, IntArray
from optplan.solvers.limits import LIMIT_TOLERANCE, write_apart
from optplan.solvers.paths.held import HeldShortfall, find_least
from optplan.solvers.paths.held_labels import exchange_charges
from optplan.solvers.paths.search import Effort, OutOfEffortError
from optplan.units import format_duration


def explain_shortfall(
    instance: RubberBandInstance, chains: tuple[Chain, ...], request: SolveRequest
) -> Answer[RubberBandSolution]:
    """Say why no plan keeps the limit, and which limit would do; unknown when time runs out before that is known."""
    found = [find_leanest(instance, chain, request) for chain in chains]
    if any(one.stopped_by is not None for one in found):
        warning = f"no plan keeps the {instance.limit_name}; what would do is not known yet: give it more time"
        return Answer(Status.UNKNOWN, Termination.TIME_LIMIT, warnings=(warning,))
    amounts = [one.least for one in found]
    least = max(amounts) if _limits_time(instance) else math.fsum(amounts)
    slowest = int(np.argmax(amounts))
    words = _explain_time if _limits_time(instance) else _explain_cost
    reason = words(instance, chains, found, slowest)
    relaxation = instance.relax(instance.limit_name, least, enough=least)
    if not _limits_time(instance) and any(chain.charges is not None for chain in chains):
        # Minimum charges come on top of what multipliers bound: the claim rests on a division into cases.
        own = TreeCertificate(rule=CHARGES, bound=least, limit=relaxation.limit) if request.certify else None
        infeasibility = Infeasibility(
            reason=reason,
            relaxations=(relaxation.replace(certificate=own),),
            certificate=TreeCertificate(rule=CHARGES) if request.certify else None,
        )
    else:
        # Only costs of several brackets add up; of their times the longest counts alone.
        several = not _limits_time(instance) and len(chains) > 1
        parts = {f"bracket {number}": amount for number, amount in enumerate(amounts, start=1)} if several else {}
        multipliers = {relaxation.limit: 1.0}
        infeasibility = Infeasibility(
            reason=reason,
            relaxations=(relaxation.replace(parts=parts, multipliers=multipliers),),
            multipliers=multipliers,
            factor=least / relaxation.given,
        )
    return Answer(Status.INFEASIBLE, Termination.COMPLETED, infeasibility=infeasibility)


def find_leanest(instance: RubberBandInstance, chain: Chain, request: SolveRequest) -> HeldShortfall:
    """Find what any plan of a bracket needs of the limit: expected seconds, or US dollars, minimum charges included."""
    effort = Effort(request.stopwatch)
    if _limits_time(instance):
        return find_least(chain.graph, effort=effort, charges=chain.charges)
    return find_least(chain.graph.exchanged(), effort=effort, charges=exchange_charges(chain.charges))


def _limits_time(instance: RubberBandInstance) -> bool:
    return instance.objective is Objective.COST


def _explain_time(
    instance: RubberBandInstance, chains: tuple[Chain, ...], found: list[HeldShortfall], slowest: int
) -> str:
    """Say how long the slowest bracket takes at best, how much of it is delays, and what holds its longest stage up."""
    chain, options = chains[slowest], found[slowest].options
    given_s = instance.limits[DEADLINE]
    what = "this search" if len(chains) == 1 else f"bracket {slowest + 1} of this search"
    least_s = found[slowest].least
    least, given = write_apart(least_s, given_s), write_apart(given_s, least_s)
    sentence = f"the fastest {what} can run is {least} s; the deadline is {given} s"
    if options is None:
        return sentence
    stage_s: FloatArray = chain.graph.cost[1, options]
    delays_s = least_s - math.fsum(stage_s.tolist())
    longest = int(np.argmax(stage_s))
    allocation = chain.write(options)[longest]
    parts = []
    if delays_s > 1e-9 * least_s:
        parts.append(f"{format_duration(delays_s)} go by while instances are provided and initialised")
    many = "1 trial" if (trials := instance.brackets[slowest][longest].trials) == 1 else f"{trials} trials"
    parts.append(
        f"the longest stage is number {longest + 1} with {many}, {format_duration(stage_s[longest])} on "
        f"{allocation.gpus} GPUs, {_name_obstacle(instance, slowest, longest, allocation.gpus)}"
    )
    return f"{sentence}: {'; '.join(parts)}"


def _name_obstacle(instance: RubberBandInstance, bracket: int, stage: int, gpus: int) -> str:
    option = option_of(instance, bracket, stage, gpus)
    per_trial, needed = int(option.gpus_per_trial[0]), int(option.instances[0])
    most, training, cloud = instance.cloud.most_instances, instance.training, instance.cloud
    if training.largest_gpus == per_trial:
        return f"{per_trial} for each trial: the profile allows no more"
    if most is not None and needed + max(1, math.ceil(per_trial / cloud.gpus_per_instance)) > most:
        return f"as far as the limit of {most} instances allows"
    return "and more would not make it faster"


def _explain_cost(
    instance: RubberBandInstance, chains: tuple[Chain, ...], found: list[HeldShortfall], slowest: int
) -> str:
    """Say what the cheapest plan costs, and which stage costs most of it."""
    least, given = math.fsum(one.least for one in found), instance.limits[instance.limit_name]
    cheapest, budget = write_apart(least, given), write_apart(given, least)
    sentence = f"the cheapest this search can run is {cheapest} usd; the budget is {budget} usd"
    options = found[slowest].options
    if options is None:
        return sentence
    usd: FloatArray = chains[slowest].graph.cost[0, options]
    dearest = int(np.argmax(usd))
    held: IntArray = chains[slowest].held[chains[slowest].graph.node[options]]
    where = f"stage {dearest + 1}" if len(chains) == 1 else f"stage {dearest + 1} of bracket {slowest + 1}"
    count = "1 instance" if held[dearest] == 1 else f"{held[dearest]} instances"
    return f"{sentence}: {where} alone takes {usd[dearest]:,.4g} usd on {count}"


def price_limit(instance: RubberBandInstance, less: float, more: float) -> ShadowPrice:
    """Write the price of a limit; an infinite one means that nothing less is feasible."""
    ends = None if less == float("inf") else less
    return ShadowPrice(less=ends, more=more, unit=instance.price_unit(instance.limit_name))


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

    def keeps_budget(within_s: float) -> bool:
        chosen = _choose_cheapest(candidates, within_s)
        return chosen is not None and math.fsum(each.usd for each in chosen) <= most

    place = bisect_left(times, True, key=keeps_budget)
    return _choose_cheapest(candidates, times[place]) if place < len(times) else None


def _choose_cheapest(candidates: Sequence[Sequence[PricedChain]], most_s: float) -> tuple[PricedChain, ...] | None:
    within = [[candidate for candidate in listed if candidate.seconds <= most_s] for listed in candidates]
    if not all(within):
        return None
    return tuple(min(listed, key=lambda candidate: candidate.usd) for listed in within)


def write_solution(chosen: Sequence[PricedChain]) -> RubberBandSolution:
    """Put the chains of all brackets together."""
    return RubberBandSolution(brackets=tuple(each.allocations for each in chosen))


def answer_without_plan(instance: RubberBandInstance, request: SolveRequest, what: str) -> Answer[RubberBandSolution]:
    """Answer where ``what`` was not found: infeasible where nobody can, otherwise unknown, with a warning."""
    found = find_least_plans(instance, request)
    if isinstance(found, Answer):
        return found
    amount, unit = instance.limit_as_given(instance.limit_name)
    message = f"no {what} keeps the {instance.limit_name} of {amount:g} {unit}"
    if request.stopwatch.expired:
        return Answer(Status.UNKNOWN, Termination.TIME_LIMIT, warnings=(message,))
    return Answer(Status.UNKNOWN, Termination.COMPLETED, warnings=(f"{message}; other plans do",))


def find_least_plans(
    instance: RubberBandInstance, request: SolveRequest
) -> tuple[PricedChain, ...] | Answer[RubberBandSolution]:
    """Return by bracket the plan that needs least of the limit; none out of time; the answer if these miss it."""
    most = instance.limits[instance.limit_name] * (1.0 + LIMIT_TOLERANCE)
    try:
        chains = state_chains(instance, request.stopwatch)
    except OutOfEffortError:
        return ()
    found = [find_leanest(instance, chain, request) for chain in chains]
    paths = [(chain, one.options) for chain, one in zip(chains, found, strict=True) if one.options is not None]
    if any(one.stopped_by is not None for one in found) or len(paths) < len(chains):
        return ()
    amounts = [one.least for one in found]
    if (max(amounts) if _limits_time(instance) else math.fsum(amounts)) > most:
        return explain_shortfall(instance, chains, request)
    alone = isolate_brackets(instance)
    return tuple(price_chain(one, chain.write(options)) for one, (chain, options) in zip(alone, paths, strict=True))
