"""When no plan keeps RubberBand's limit: the fastest (or cheapest) there is, and what it is made of, in words."""

from __future__ import annotations

import math

import numpy as np

from optplan.contracts.result import (
    Answer,
    Infeasibility,
    Relaxation,
    ShadowPrice,
    SolveRequest,
    Status,
    Termination,
    TreeCertificate,
)
from optplan.formulations.rubberband.data.instance import (
    CHARGES,
    DEADLINE,
    Objective,
    RubberBandInstance,
    RubberBandSolution,
)
from optplan.formulations.rubberband.exact.chains import Chain
from optplan.formulations.rubberband.laws.stages import option_of
from optplan.schema import FloatArray, IntArray
from optplan.solvers.figures import write_apart
from optplan.solvers.paths.effort import Effort
from optplan.solvers.paths.held import HeldShortfall, exchange_charges, find_least
from optplan.units import format_duration


def explain_shortfall(
    instance: RubberBandInstance, chains: tuple[Chain, ...], request: SolveRequest
) -> Answer[RubberBandSolution]:
    """Say why no plan keeps the limit, and which limit would do; unknown when time runs out before that is known."""
    found = [
        find_fastest(chain, request) if _limits_time(instance) else find_cheapest(chain, request) for chain in chains
    ]
    if any(one.stopped_by is not None for one in found):
        warning = f"no plan keeps the {instance.limit_name}; what would do is not known yet: give it more time"
        return Answer(Status.UNKNOWN, Termination.TIME_LIMIT, warnings=(warning,))
    amounts = [one.least for one in found]
    least = max(amounts) if _limits_time(instance) else math.fsum(amounts)
    slowest = int(np.argmax(amounts))
    words = _explain_time if _limits_time(instance) else _explain_cost
    reason = words(instance, chains, found, slowest)
    relaxation = instance.relax(instance.limit_name, least, enough=least)
    charged = not _limits_time(instance) and any(chain.charges is not None for chain in chains)
    if charged:
        infeasibility = _prove_charged(relaxation, reason, request)
    else:
        # Only costs of several brackets add up; of their times the longest counts alone.
        several = not _limits_time(instance) and len(chains) > 1
        parts = {f"bracket {number}": amount for number, amount in enumerate(amounts, start=1)} if several else {}
        infeasibility = _prove_plain(relaxation.replace(parts=parts), reason)
    return Answer(Status.INFEASIBLE, Termination.COMPLETED, infeasibility=infeasibility)


def _prove_plain(relaxation: Relaxation, reason: str) -> Infeasibility:
    """Rest the claim on what plans need at least of the one limit."""
    multipliers = {relaxation.limit: 1.0}
    return Infeasibility(
        reason=reason,
        relaxations=(relaxation.replace(multipliers=multipliers),),
        multipliers=multipliers,
        factor=relaxation.least_feasible / relaxation.given,
    )


def _prove_charged(relaxation: Relaxation, reason: str, request: SolveRequest) -> Infeasibility:
    """Rest the claim on a division into cases, as minimum charges come on top of what multipliers bound."""
    least = TreeCertificate(rule=CHARGES, bound=relaxation.least_feasible, limit=relaxation.limit)
    return Infeasibility(
        reason=reason,
        relaxations=(relaxation.replace(certificate=least if request.certify else None),),
        certificate=TreeCertificate(rule=CHARGES) if request.certify else None,
    )


def find_fastest(chain: Chain, request: SolveRequest) -> HeldShortfall:
    """Find the least expected seconds of any plan of a bracket."""
    return find_least(chain.graph, effort=Effort(request.stopwatch), charges=chain.charges)


def find_cheapest(chain: Chain, request: SolveRequest) -> HeldShortfall:
    """Find the least expected US dollars of any plan of a bracket, minimum charges included."""
    charges = exchange_charges(chain.charges)
    return find_least(chain.graph.exchanged(), effort=Effort(request.stopwatch), charges=charges)


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
    """Say why a stage is not faster than on so many GPUs."""
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
