"""How SEER's searches are put into words: amounts, limits, brackets, answers."""

from __future__ import annotations

from collections.abc import Mapping

from optplan.contracts import Instance, Result, Solution, Status
from optplan.formulations.seer.data.instance import BUDGET, Bracket, Objective, SeerInstance, SeerSolution
from optplan.reporting.phrases import PROOF_WORDS, ROUNDING, format_share, format_usd
from optplan.reporting.presenters import require_kind
from optplan.units import MINUTES_PER_HOUR, SECONDS_PER_MINUTE, BudgetUnit, format_duration

#: Instances and solutions of other formulations are refused.
require_seer = require_kind(SeerInstance, "instance {name!r} is no search by deadline and budget (formulation seer)")
require_brackets = require_kind(SeerSolution, "the solution has no brackets; one of formulation seer is needed")


def format_number(number: float) -> str:
    """Write a number of four digits or more: ``68.57``, ``960``, ``11,520``."""
    return f"{number:,.0f}" if abs(number) >= 1000 or number == round(number) else f"{number:.4g}"


def format_gpu_min(gpu_min: float) -> str:
    """Write GPU-minutes with their unit."""
    return f"{format_number(gpu_min)} GPU-min"


def format_minutes(minutes: float) -> str:
    """Write minutes as a duration."""
    return format_duration(minutes * SECONDS_PER_MINUTE)


def format_limit(instance: Instance, amount: float, limit: str = "") -> str:
    """Write an amount of the deadline or, by default, of the budget in the instance's own unit."""
    if limit not in ("", BUDGET):
        return format_minutes(amount)
    search = require_seer(instance)
    if search.budget.unit is BudgetUnit.USD and search.price_usd_per_gpu_hour is not None:
        return format_usd(amount * search.price_usd_per_gpu_hour / MINUTES_PER_HOUR)
    return format_gpu_min(amount)


def format_objective(instance: Instance, objective: float) -> str:
    """Write an objective with its unit."""
    return f"{format_loss(objective)} loss" if seeks_quality(require_seer(instance)) else format_gpu_min(objective)


def name_objective(instance: Instance) -> str:
    """Name what is made least or most."""
    return "expected loss" if seeks_quality(require_seer(instance)) else "training"


def format_loss(loss: float) -> str:
    """Write a loss: ``0.06092``."""
    return f"{loss:.4g}"


def seeks_quality(instance: SeerInstance) -> bool:
    """Whether the least expected loss is sought, and not the most training."""
    return instance.objective is Objective.QUALITY


def name_gpus(gpus: float) -> str:
    """Write how many GPUs a trial holds: ``1 GPU``, ``2.5 GPUs``."""
    return "1 GPU" if gpus == 1 else f"{gpus:g} GPUs"


def name_groups(groups: list[tuple[int, float]]) -> str:
    """Write numbers of trials and the GPUs of each, the best first: ``4 x2, 8 x1``."""
    return ", ".join(f"{trials:,} x{gpus:g}" for trials, gpus in groups)


def name_round(brackets: tuple[Bracket, ...], number: int) -> str:
    """Write who trains in a round, counted from 0, the widest bracket first."""
    return name_groups([(each.trials[number], each.gpus) for each in reversed(brackets) if each.trials[number]])


def name_plan(instance: Instance, solution: Solution) -> str:  # noqa: ARG001 - what words are asked with
    """Say in a few words what a plan does: ``4 x2, 8 x1; 3 rounds``."""
    search = require_brackets(solution)
    rounds = "1 round" if search.rounds == 1 else f"{search.rounds} rounds"
    return f"{name_round(search.brackets, 0)}; {rounds}"


def describe_limits(instance: SeerInstance) -> str:
    """Say deadline and budget as a condition."""
    return f"within {format_minutes(instance.deadline_min)} and {describe_budget(instance)}"


def describe_budget(instance: SeerInstance) -> str:
    """Write the budget as given, and in GPU-minutes where that is something else."""
    amount = format_gpu_min(instance.budget_gpu_min)
    if instance.budget.unit is BudgetUnit.USD:
        return f"{format_usd(instance.budget.value)} ({amount})"
    return amount


def say_answer(instance: SeerInstance, result: Result[Solution], *, in_full: bool = True) -> str:
    """Say the answer in a sentence; in full, with the remarks that belong to it."""
    if result.infeasibility is not None:
        return f"No search fits: {result.infeasibility.reason}."
    if result.solution is None:
        return f"No plan was found {describe_limits(instance)} (stopped: {result.termination.value})."
    measures, solution = result.measures, require_brackets(result.solution)
    trials, finalists = measures["trials"], measures["last_round_trials"]
    started = "1 trial starts" if trials == 1 else f"{trials:,.0f} trials start"
    last = "1 of them is" if finalists == 1 else f"{finalists:,.0f} of them are"
    rounds = "1 round" if solution.rounds == 1 else f"{solution.rounds} rounds"
    remarks = f"{_say_cluster(instance, measures)}.{say_remarks(instance, solution)}" if in_full else "."
    return (
        f"{started}, and {last} trained to the end: {rounds}, {format_minutes(measures['duration_min'])}, "
        f"{format_number(measures['spent_gpu_min'])} of {format_gpu_min(instance.budget_gpu_min)}"
        f"{'' if instance.nodes_paid is None else ' on whole nodes'}"
        f"{remarks}"
    )


def say_remarks(instance: SeerInstance, solution: SeerSolution) -> str:
    """Say which brackets end early, and that pauses are not counted, where so; each sentence after a blank."""
    no_pauses = not instance.resize_s and solution.rounds > 1
    return _say_ends(solution) + (" Pauses for resizing are not counted: resize_s is 0." if no_pauses else "")


def _say_cluster(instance: SeerInstance, measures: Mapping[str, float]) -> str:
    """Say how many GPUs are held at once: of how many, or by what their number can be limited."""
    held = measures["most_gpus_held"]
    if instance.most_gpus_held is None:
        return f", up to {name_gpus(held)} at once (without most_gpus_held there is no limit on these)"
    return f", {format_number(held)} of {name_gpus(instance.most_gpus_held)}"


def _say_ends(solution: SeerSolution) -> str:
    """Point out the brackets of which no trial is trained to the end."""
    gpus = [f"{each.gpus:g}" for each in solution.brackets if each.trials[0] and not each.trials[-1]]
    return f" None of those that begin on {' or '.join(gpus)} GPUs reaches the last round on them." if gpus else ""


def say_how_good(instance: SeerInstance, result: Result[Solution]) -> str:
    """Say how good that is, and what the proof is worth."""
    if result.status is Status.INFEASIBLE:
        return "That is proven: one trial for the shortest round already takes more."
    if result.bound is None:
        return "This solver proves nothing: how much more could be spent is not known."
    bound, gap = result.bound, result.gap
    if bound >= instance.budget_gpu_min * (1.0 - ROUNDING):
        if gap is not None and gap <= ROUNDING:
            return "It trains for the whole budget: no plan can spend more on training. That says nothing of accuracy."
        rest = "" if gap is None else f", {format_share(gap)} above this one"
        return f"No plan can spend more on training than the budget, {format_gpu_min(bound)}{rest}."
    checked = PROOF_WORDS[result.bound_proof]
    if result.status is Status.OPTIMAL and gap is not None and gap <= ROUNDING:
        proven = "No plan of these rounds and brackets can spend more on training, whatever its accuracy: proven."
        return f"{proven} The proof {checked}."
    more = "" if gap is None else f", so at most {format_share(gap)} more"
    return f"No plan can spend more on training than {format_gpu_min(bound)}{more}. The bound {checked}."
