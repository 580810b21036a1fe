"""How training jobs and fleets are put into words: limits, objectives, fleets, answers."""

from __future__ import annotations

import math
from functools import partial

from optplan.contracts import Instance, Relaxation, Result, Solution, Status
from optplan.errors import UsageError
from optplan.formulations.srift.data.instance import BUDGET, DEADLINE, Objective, SriftInstance, SriftSolution, VmGroup
from optplan.reporting.phrases import ROUNDING
from optplan.reporting.sections import say_bound
from optplan.units import HOURS_PER_DAY, SECONDS_PER_HOUR, SECONDS_PER_MINUTE, format_duration

#: Up to so many seconds a figure keeps three digits; longer ones are written in minutes, hours and days.
_SHORT_S = 10.0


def require_job(instance: Instance) -> SriftInstance:
    """Return the instance, if it is one of Srift.

    Raises
    ------
    UsageError
        When it is of another formulation.
    """
    if not isinstance(instance, SriftInstance):
        raise UsageError(f"instance {instance.name!r} is no training job on VMs (formulation srift)")
    return instance


def require_fleet(solution: Solution | None) -> SriftSolution:
    """Return the solution, if it is a fleet.

    Raises
    ------
    UsageError
        When it is another formulation's, or there is none.
    """
    if not isinstance(solution, SriftSolution):
        raise UsageError("the solution is no fleet of VMs (formulation srift)")
    return solution


def format_cost(usd: float) -> str:
    """Write dollars as a price tag: ``$15.68``, ``$0.380``, ``$1,204``, ``$0.00321``, ``$0``."""
    if usd == 0:
        return "$0"
    if usd < 0.1:
        return f"${usd:.3g}"
    return f"${usd:,.{0 if usd >= 1000 else 2 if usd >= 1 else 3}f}"


def format_short(seconds: float) -> str:
    """Write the time of an iteration or of a part of it: ``0.916 s``, ``372 ms``, ``45 µs``, ``0 s``."""
    if seconds == 0 or seconds >= 0.9995:
        return format_duration(seconds)
    if seconds >= 0.9995e-3:
        return f"{1e3 * seconds:.3g} ms"
    return f"{1e6 * seconds:.3g} µs"


def format_count(number: float) -> str:
    """Write a number that need not be whole, such as of samples a second: ``16,202``, ``112``, ``4.37``."""
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"


def frontier_limit(instance: SriftInstance) -> str:
    """Return which limit the frontier runs along: that on what is not made least."""
    return DEADLINE if instance.objective is Objective.COST else BUDGET


def format_amount(limit: str, amount: float) -> str:
    """Write an amount of one of the limits with its unit."""
    if limit == DEADLINE:
        return format_duration(amount)
    return format_cost(amount) if limit == BUDGET else f"{amount:,g}"


def format_limit(instance: Instance, amount: float, limit: str = "") -> str:
    """Write an amount of the frontier's limit with its unit; without a name, of the usual one."""
    return format_amount(limit or frontier_limit(require_job(instance)), amount)


def format_objective(instance: Instance, objective: float) -> str:
    """Write an objective with its unit."""
    is_cost = require_job(instance).objective is Objective.COST
    return format_cost(objective) if is_cost else format_duration(objective)


def format_least(limit: str, amount: float) -> str:
    """Write the least amount of a limit that is enough, rounded up, so that it is still enough when typed in."""
    if limit == DEADLINE:
        steps = ((_SHORT_S, 0.01), (SECONDS_PER_HOUR, 1.0), (HOURS_PER_DAY * SECONDS_PER_HOUR, SECONDS_PER_MINUTE))
        step = next((step for below, step in steps if amount < below), SECONDS_PER_HOUR)
    elif limit == BUDGET:
        step = 1.0 if amount >= 1000 else 0.01 if amount >= 1 else 0.001 if amount >= 0.1 else 0.0
    else:
        step = 1.0
    if step == 0.0:
        step = 10.0 ** (math.floor(math.log10(amount)) - 2)
    return format_amount(limit, step * math.ceil(amount / step * (1 - ROUNDING)))


def format_relaxation(relaxation: Relaxation) -> str:
    """Write what a limit has to be, and its unit where the words do not have it."""
    if relaxation.limit in (DEADLINE, BUDGET):
        return f"{format_least(relaxation.limit, relaxation.least_feasible)} or more"
    return f"{relaxation.least_feasible:,g} {relaxation.unit}".strip()


def name_group(group: VmGroup) -> str:
    """Name a group as the paper does: ``8 g4dn.8xlarge@128``."""
    return f"{group.count} {group.type}@{group.batch}"


def name_plan(instance: Instance, solution: Solution) -> str:  # noqa: ARG001 - what words are asked with
    """Say in a few words what a plan decides: ``4 p3.8xlarge@1024 + 8 g3.8xlarge@128``."""
    return name_fleet(require_fleet(solution))


def name_fleet(solution: SriftSolution) -> str:
    """Name a fleet: ``4 p3.8xlarge@1024 + 8 g3.8xlarge@128``."""
    return " + ".join(name_group(group) for group in solution.groups)


def name_objective(instance: Instance) -> str:
    """Name what is made least."""
    job = require_job(instance)
    what = "cost" if job.objective is Objective.COST else "time"
    return f"expected {what}" if job.interruptions is not None else what


def describe_limits(instance: SriftInstance) -> str:
    """Say the limits as a condition."""
    words = {DEADLINE: "within", BUDGET: "for at most"}
    said = [f"{words[limit]} {format_amount(limit, amount)}" for limit, amount in instance.limits.items()]
    return " and ".join(said) or "no limit"


def describe_job(instance: SriftInstance) -> str:
    """Say what is trained, in a line."""
    gradients = float(instance.job.layers.gradient_bytes.sum())
    layers = instance.job.layers.gradient_bytes.size
    batches = f"{instance.iterations:,} iterations of {instance.global_batch:,} samples"
    return f"{instance.job.network}, {batches}; {gradients / 1e6:,.4g} MB of gradients in {layers:,} layers"


def say_answer(instance: SriftInstance, result: Result[Solution], *, in_full: bool = True) -> str:
    """Say the answer in a sentence; where there is no fleet, why, or in short only how far limits are off."""
    if result.infeasibility is not None:
        reason = result.infeasibility.reason
        return f"No fleet can do it: {reason if in_full else reason.partition(': ')[0]}."
    if result.objective is None or result.solution is None:
        return f"No fleet was found {describe_limits(instance)} (stopped: {result.termination.value})."
    seconds, usd = result.measures["time_s"], result.measures["cost_usd"]
    fleet, average = name_fleet(require_fleet(result.solution)), " on average" if instance.interruptions else ""
    trains = "train" if sum(group.count for group in require_fleet(result.solution).groups) > 1 else "trains"
    found = f"{fleet} {trains} {instance.job.network} in {format_duration(seconds)} for {format_cost(usd)}{average}"
    found += say_condition(instance, require_fleet(result.solution))
    limits = [f"the {limit} is {format_amount(limit, amount)}" for limit, amount in instance.limits.items()]
    return f"{'; '.join([found, ', '.join(limits)]) if limits else found}."


def say_condition(instance: SriftInstance, fleet: SriftSolution) -> str:
    """Say what predictions hold under: that no spot VM is taken back of which nobody says how often it is."""
    untold = any(group.type in instance.untold_spot for group in fleet.groups)
    return ", if no spot VM is taken back" if untold else ""


def say_how_good(instance: SriftInstance, result: Result[Solution]) -> str:
    """Say how good that is, and what the proof is worth."""
    if result.status is Status.INFEASIBLE:
        return "That is proven: no fleet of the VMs on offer keeps all limits."
    return say_bound(
        result, partial(format_objective, instance), plan="fleet", proviso=", as far as the predictions hold"
    )
