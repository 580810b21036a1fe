"""How choices of VMs with measured speeds are put into words."""

from __future__ import annotations

from functools import partial

from optplan.contracts import Instance, Result, Solution
from optplan.formulations.throughputs.data import ThroughputsInstance, ThroughputsSolution
from optplan.formulations.throughputs.exact import name_choice
from optplan.reporting import phrases
from optplan.reporting.phrases import format_cost, say_limits
from optplan.reporting.presenters import require_kind
from optplan.reporting.sections import say_bound
from optplan.reporting.srift.words import format_count
from optplan.units import format_duration

#: Limits and objectives are written as in all problems of time and money.
format_limit, format_objective = phrases.format_limit, phrases.format_objective
#: Instances and solutions of other formulations are refused.
require_job = require_kind(
    ThroughputsInstance, "instance {name!r} is no job with measured speeds (formulation throughputs)"
)
require_choice = require_kind(ThroughputsSolution, "the solution is no choice of VMs (formulation throughputs)")


def name_plan(instance: Instance, solution: Solution) -> str:  # noqa: ARG001 - what words are asked with
    """Say in a few words what a plan decides: ``2 p4d (tp8 pp2)``."""
    return name_choice(require_choice(solution))


def name_objective(instance: Instance) -> str:
    """Name what is made least."""
    return require_job(instance).objective.value


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
    return say_limits(instance, found)


def say_how_good(instance: ThroughputsInstance, result: Result[Solution]) -> str:
    """Say how good that is, and what the proof is worth."""
    if result.infeasibility is not None:
        return "That is proven for all that was measured." if result.infeasibility.certificate else "A search says so."
    return say_bound(
        result, partial(format_objective, instance), plan="choice", proviso=" for what was measured, as far as it holds"
    )
