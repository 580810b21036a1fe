"""How choices of VMs with measured speeds are put into words."""

from __future__ import annotations

from functools import partial

from optplan.contracts import Instance, Result, Solution
from optplan.contracts.time_and_money import BUDGET, DEADLINE, Objective
from optplan.errors import UsageError
from optplan.formulations.throughputs.data.instance import ThroughputsInstance, ThroughputsSolution
from optplan.formulations.throughputs.exact.choosing import name_choice
from optplan.reporting.sections import say_bound
from optplan.reporting.srift.words import format_amount, format_cost, format_count
from optplan.units import format_duration


def require_job(instance: Instance) -> ThroughputsInstance:
    """Return the instance, if it is one of measured speeds.

    Raises
    ------
    UsageError
        When it is of another formulation.
    """
    if not isinstance(instance, ThroughputsInstance):
        raise UsageError(f"instance {instance.name!r} is no job with measured speeds (formulation throughputs)")
    return instance


def require_choice(solution: Solution | None) -> ThroughputsSolution:
    """Return the solution, if it is a choice of VMs.

    Raises
    ------
    UsageError
        When it is another formulation's, or there is none.
    """
    if not isinstance(solution, ThroughputsSolution):
        raise UsageError("the solution is no choice of VMs (formulation throughputs)")
    return solution


def name_plan(instance: Instance, solution: Solution) -> str:  # noqa: ARG001 - what words are asked with
    """Say in a few words what a plan decides: ``2 p4d (tp8 pp2)``."""
    return name_choice(require_choice(solution))


def format_limit(instance: Instance, amount: float, limit: str = "") -> str:
    """Write an amount of a limit with its unit; without a name, of the frontier's."""
    by_time = require_job(instance).objective is Objective.COST
    return format_amount(limit or (DEADLINE if by_time else BUDGET), amount)


def name_objective(instance: Instance) -> str:
    """Name what is made least."""
    return require_job(instance).objective.value


def format_objective(instance: Instance, objective: float) -> str:
    """Write an objective with its unit."""
    is_cost = require_job(instance).objective is Objective.COST
    return format_cost(objective) if is_cost else format_duration(objective)


def say_answer(instance: ThroughputsInstance, result: Result[Solution]) -> str:
    """Say the answer in a sentence: what trains, at which speed, and whether that was measured."""
    if result.infeasibility is not None:
        return f"No choice can do it: {result.infeasibility.reason}."
    if result.objective is None or result.solution is None:
        return f"No choice was found (stopped: {result.termination.value})."
    choice, measures = require_choice(result.solution), result.measures
    origin = "interpolated" if measures["is_interpolated"] else "measured"
    found = (
        f"{name_choice(choice)} train{'s' if choice.vms == 1 else ''} {format_count(instance.samples)} samples in "
        f"{format_duration(measures['time_s'])} for {format_cost(measures['cost_usd'])}, at "
        f"{format_count(measures['samples_per_s'])} a second ({origin})"
    )
    limits = [f"the {limit} is {format_amount(limit, amount)}" for limit, amount in instance.limits.items()]
    return f"{'; '.join([found, ', '.join(limits)]) if limits else found}."


def say_how_good(instance: ThroughputsInstance, result: Result[Solution]) -> str:
    """Say how good that is, and what the proof is worth."""
    if result.infeasibility is not None:
        return "That is proven for all that was measured." if result.infeasibility.certificate else "A search says so."
    return say_bound(
        result, partial(format_objective, instance), plan="choice", proviso=" for what was measured, as far as it holds"
    )
