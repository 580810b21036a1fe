"""How training jobs and fleets are put into words: limits, objectives, fleets, answers, and how answers compare."""

from __future__ import annotations

from functools import partial

from optplan.contracts import Instance, Plan, Relaxation, Result, Solution, Status
from optplan.contracts.time_and_money import BUDGET, DEADLINE, Objective
from optplan.formulations.srift.data.instance import SriftInstance, SriftSolution, write_fleet
from optplan.formulations.srift.planning import SriftPlan
from optplan.reporting import phrases
from optplan.reporting.differences import COUNT, SECONDS, Fact, state_figures
from optplan.reporting.phrases import format_amount, format_cost, format_least, say_limits
from optplan.reporting.presenters import require_kind
from optplan.reporting.sections import say_bound
from optplan.units import format_duration

#: Limits and objectives are written as in all problems of time and money.
format_limit, format_objective = phrases.format_limit, phrases.format_objective
_FIGURES = (
    ("time", "time_s", SECONDS),
    ("cost", "cost_usd", "usd"),
    ("an iteration", "iteration_s", SECONDS),
    ("of it forward", "forward_s", SECONDS),
    ("of it backward", "backward_s", SECONDS),
    ("exchange of gradients", "exchange_s", SECONDS),
    ("samples a second", "samples_per_s", COUNT),
    ("VMs", "vms", COUNT),
    ("ranks", "ranks", COUNT),
)
#: Instances and solutions of other formulations are refused.
require_job = require_kind(SriftInstance, "instance {name!r} is no training job on VMs (formulation srift)")
require_fleet = require_kind(SriftSolution, "the solution is no fleet of VMs (formulation srift)")


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


def format_relaxation(relaxation: Relaxation) -> str:
    """Write what a limit has to be."""
    return f"{format_least(relaxation.limit, relaxation.least_feasible)} or more"


def write_relaxation(relaxation: Relaxation) -> tuple[str, str]:
    """Write what is given of a limit, and what it has to be."""
    return format_amount(relaxation.limit, relaxation.given), format_relaxation(relaxation)


def name_plan(instance: Instance, solution: Solution) -> str:  # noqa: ARG001 - what words are asked with
    """Say in a few words what a plan decides: ``4 p3.8xlarge@1024 + 8 g3.8xlarge@128``."""
    return write_fleet(require_fleet(solution).groups)


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
    fleet, average = write_fleet(require_fleet(result.solution).groups), " on average" if instance.interruptions else ""
    trains = "train" if sum(group.count for group in require_fleet(result.solution).groups) > 1 else "trains"
    found = f"{fleet} {trains} {instance.job.network} in {format_duration(seconds)} for {format_cost(usd)}{average}"
    found += say_condition(instance, require_fleet(result.solution))
    return say_limits(instance, found)


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


def state_answer(answer: Result[Solution] | Plan) -> list[Fact]:
    """State what an answer says, VMs of each type last."""
    fleet = answer.solution if isinstance(answer, Result) else answer
    groups = fleet.groups if isinstance(fleet, SriftSolution | SriftPlan) else ()
    vms = [
        Fact(one.type, f"VMs with {one.batch:,} samples", f"{one.type}@{one.batch}", one.count, COUNT) for one in groups
    ]
    return [*state_figures(answer, _FIGURES), *vms]
