"""How searches are put into words: limits, objectives, stages, answers, and how answers compare."""

from __future__ import annotations

import math
from functools import partial
from typing import cast

from optplan.contracts import Instance, Plan, Result, Solution, Status
from optplan.formulations.rubberband.data.experiment import HyperbandExperiment, ShaExperiment
from optplan.formulations.rubberband.data.instance import DEADLINE, Objective, RubberBandInstance, RubberBandSolution
from optplan.formulations.rubberband.laws.lifetimes import list_runs
from optplan.formulations.rubberband.planning import RubberBandPlan
from optplan.formulations.rubberband.study.largest import LargestSearch
from optplan.reporting import phrases
from optplan.reporting.differences import COUNT, GPUS, SECONDS, SHARE, Fact, state_figures
from optplan.reporting.phrases import ROUNDING, format_amount, format_cost, format_share
from optplan.reporting.presenters import require_kind
from optplan.reporting.sections import relaxations_of, say_bound
from optplan.units import format_duration

#: Limits and objectives are written as in all problems of time and money.
format_limit, format_objective = phrases.format_limit, phrases.format_objective
_FIGURES = (
    ("expected time", "expected_s", SECONDS),
    ("expected cost", "expected_usd", "usd"),
    ("of it minimum charges", "minimum_charge_usd", "usd"),
    ("use of the GPUs held", "utilisation", SHARE),
    ("instances at most", "most_instances", COUNT),
    ("instances started", "instances_started", COUNT),
)
#: Instances and solutions of other formulations are refused.
require_search = require_kind(
    RubberBandInstance, "instance {name!r} is no search on a cluster (formulation rubberband)"
)


def name_objective(instance: Instance) -> str:
    """Name what is made least."""
    return "expected cost" if require_search(instance).objective is Objective.COST else "expected time"


def describe_limit(instance: RubberBandInstance) -> str:
    """Say the limits as a condition."""
    if not instance.has_limit:
        return "no limit"
    said = " and ".join(format_amount(limit, amount) for limit, amount in instance.limits.items())
    if instance.confidence is None:
        return f"within {said}{' on average' if DEADLINE in instance.limits else ''}"
    return f"within {said} with a probability of {format_share(instance.confidence)}"


def describe_experiment(instance: RubberBandInstance) -> str:
    """Say what is searched, in a line."""
    experiment = instance.experiment
    stages = sum(len(chain) for chain in instance.brackets)
    match experiment:
        case ShaExperiment():
            sizes = (experiment.trials, experiment.least_iterations, experiment.most_iterations, experiment.eta)
            return f"successive halving SHA({', '.join(f'{size:g}' for size in sizes)}), {stages} stages"
        case HyperbandExperiment():
            order = experiment.order.replace("-", " ")
            return f"Hyperband({experiment.most_iterations:g}, {experiment.eta:g}) {order}, {stages} stages"
    return f"{stages} stages as given"


def name_plan(instance: Instance, solution: Solution) -> str:
    """Say in a few words how large the cluster is, stage by stage: ``2 → 1 instances, 1 → 2 GPUs a trial``."""
    if not isinstance(solution, RubberBandSolution):
        return ""
    instances, gpus = name_sizes(instance, solution)
    return f"{instances} instances, {gpus} GPUs a trial"


def name_sizes(instance: Instance, solution: Solution) -> tuple[str, str]:
    """Write the instances held and the GPUs of a trial, each stage by stage: ``2 → 1``; brackets stand apart."""
    search, brackets = require_search(instance), cast(RubberBandSolution, solution).brackets
    runs = [list_runs(search, cast(RubberBandSolution, solution), bracket) for bracket in range(len(brackets))]
    instances = "; ".join(" → ".join(f"{run.held:,}" for run in chain) for chain in runs)
    return instances, "; ".join(" → ".join(f"{run.gpus_per_trial:,}" for run in chain) for chain in runs)


def say_answer(instance: RubberBandInstance, result: Result[Solution], *, in_full: bool = True) -> str:
    """Say the answer in a sentence; where there is no plan, why, or in short only how far the limit is off."""
    if result.infeasibility is not None:
        reason = result.infeasibility.reason
        return f"No cluster can do it: {reason if in_full else reason.partition(': ')[0]}."
    if result.objective is None:
        return f"No plan was found {describe_limit(instance)} (stopped: {result.termination.value})."
    seconds, usd = result.measures["expected_s"], result.measures["expected_usd"]
    found = f"The search takes {format_duration(seconds)} and costs {format_cost(usd)} on average"
    return f"{found}; {_say_limit(instance, result)}." if instance.has_limit else f"{found}."


def _say_limit(instance: RubberBandInstance, result: Result[Solution]) -> str:
    """Say what the limits were, and with a confidence how well they are kept."""
    kept_both = result.measures.get("kept_probability")
    if kept_both is not None:
        kept = f"{math.floor(1e4 * kept_both + ROUNDING) / 1e4:g}"  # rounded down, so that none but certainty is 1
        which = " and ".join(
            f"the {limit} of {format_limit(instance, amount, limit)}" for limit, amount in instance.limits.items()
        )
        are = "are both" if len(instance.limits) > 1 else "is"
        return f"{which} {are} kept with probability {kept} (asked: {instance.confidence:g})"
    chance, said = result.measures.get("on_time_probability"), []
    for limit, amount in instance.limits.items():
        is_chance = chance is not None and limit == DEADLINE
        kept = f", kept with a probability of {format_share(chance or 0.0)}" if is_chance else ""
        said.append(f"the {limit} is {format_amount(limit, amount)}{kept}")
    return ", ".join(said)


def say_how_good(instance: RubberBandInstance, result: Result[Solution]) -> str:
    """Say how good that is, and what the proof is worth."""
    if result.infeasibility is not None and instance.confidence is not None and instance.is_random:
        return f"That is proven: every plan keeps {'both limits' if len(instance.limits) > 1 else 'it'} less often."
    helping = [one.limit for one in relaxations_of(result)]
    if result.infeasibility is not None and len(helping) > 1:
        return "That is proven: no plan keeps both the deadline and the budget."
    if helping == [instance.ceiling_name]:
        return f"That is proven: no plan within this {instance.limit_name} keeps the {instance.ceiling_name}."
    if result.infeasibility is not None and len(result.infeasibility.hopeless) > 1:
        return "That is proven: no plan keeps the deadline, whatever it costs, nor the budget, however long it takes."
    if result.status is Status.INFEASIBLE:
        if instance.limit_name == DEADLINE:
            return "That is proven: every plan takes longer, whatever it costs."
        return "That is proven: every plan costs more, however long it takes."
    return say_bound(result, partial(format_objective, instance), plan="plan of stage sizes")


def say_largest(found: LargestSearch) -> str:
    """Say how large a search may be, and why it may not be larger."""
    one = {"trials": "1 trial", "iterations": "1 iteration of each trial"}[found.growing.value]
    many = {"trials": "trials", "iterations": "iterations of each trial"}[found.growing.value]
    if found.instance is None:
        why = found.refusal.infeasibility if found.refusal is not None else None
        return f"Not even {one} keeps the limits{f': {why.reason}' if why is not None else ''}."
    size = one if found.size == 1 else f"{found.size:,} {many}"
    said = f"The largest search {'' if found.is_proven else 'found '}{describe_limit(found.instance)} has {size}."
    if found.refusal is None:
        return f"{said} Larger ones cannot be stated."
    if found.refusal.infeasibility is None:
        open_why = "; ".join(found.refusal.warnings) or "give it more time"
        return f"{said} Whether one of {found.size + 1:,} keeps the limits is not known: {open_why}."
    return f"{said} That is proven: of {found.size + 1:,}, {found.refusal.infeasibility.reason}."


def state_answer(answer: Result[Solution] | Plan) -> list[Fact]:
    """State what an answer says, stage by stage."""
    return [*state_figures(answer, _FIGURES), *_state_stages(answer)]


def _state_stages(answer: Result[Solution] | Plan) -> list[Fact]:
    if isinstance(answer, RubberBandPlan):
        listed = [(s.bracket, s.stage, s.nodes, s.gpus * s.at_once) for s in answer.segments]
    elif isinstance(answer, Result) and isinstance(answer.solution, RubberBandSolution):
        listed = [
            (bracket, number, stage.instances, stage.gpus)
            for bracket, chain in enumerate(answer.solution.brackets, start=1)
            for number, stage in enumerate(chain, start=1)
        ]
    else:
        return []
    several = any(bracket > 1 for bracket, *_ in listed)
    facts = []
    for bracket, stage, instances, gpus in listed:
        of = f"bracket {bracket}, stage {stage}" if several else f"stage {stage}"
        path = f"brackets.{bracket - 1}.{stage - 1}"
        facts.append(Fact(of, "instances held", f"{path}.instances", instances, COUNT))
        facts.append(Fact(of, "GPUs used", f"{path}.gpus", gpus, GPUS))
    return facts
