"""BOA's budgets, limits and answers in plain words, and what is said of widths that a plan may not have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from optplan.contracts import Status, Termination
from optplan.formulations.boa.data.instance import BUDGET, DUE, FLOOR, QUOTA, Problem
from optplan.reporting.boa.breakdown import price_usd_per_hour
from optplan.reporting.phrases import (
    ROUNDING,
    capitalise,
    count_gpus,
    format_gpus,
    format_share,
    format_small_duration,
    format_usd,
    join_words,
    relative_difference,
)
from optplan.reporting.sections import say_bound
from optplan.units import HOURS_PER_MONTH, PERIOD_HOURS, Amount, BudgetUnit, format_duration

if TYPE_CHECKING:
    from optplan.contracts import Frontier, FrontierPoint, Result, ShadowPrice, Solution
    from optplan.formulations.boa.data.gpu_types import GpuType
    from optplan.formulations.boa.data.instance import BoaInstance

_PERIOD_NAMES = {
    BudgetUnit.USD_PER_HOUR: "an hour",
    BudgetUnit.USD_PER_DAY: "a day",
    BudgetUnit.USD_PER_WEEK: "a week",
    BudgetUnit.USD_PER_MONTH: "a month",
}

#: What each problem asks, for somebody who has read no paper.
PROBLEM_WORDS = {
    Problem.CONTINUOUS: "any width, fractions too, in every epoch; changes of width cost nothing",
    Problem.WHOLE: "whole GPUs in every epoch; changes of width cost nothing",
    Problem.RESCALING: "whole GPUs in every epoch; every start and every change of width pauses the job",
}

_STOPS = {
    Termination.COMPLETED: "by this solver",
    Termination.TIME_LIMIT: "within the time limit",
    Termination.WORK_LIMIT: "within the solver's limit on its work",
    Termination.INTERRUPTED: "before it was interrupted",
}


class BudgetWords(NamedTuple):
    """What readers call a budget of a unit: as a column or an axis, one unit of it, one more, and one less."""

    name: str
    one: str
    more: str
    less: str


BUDGET_WORDS = {
    BudgetUnit.GPU: BudgetWords("GPUs on average", "GPU", "one more GPU on average", "one fewer"),
    BudgetUnit.USD_PER_HOUR: BudgetWords("US dollars an hour", "dollar an hour", "one more dollar an hour", "one less"),
}


def usd_per_unit(instance: BoaInstance) -> float | None:
    """Return the US dollars an hour of one unit of the instance's budget; None where there is no one price."""
    return 1.0 if instance.budget_unit is BudgetUnit.USD_PER_HOUR else price_usd_per_hour(instance)


def cost_of_month(instance: BoaInstance, budget: float) -> float | None:
    """Return what a budget of the instance's unit costs in a month, in US dollars; None without a price."""
    price = usd_per_unit(instance)
    return None if price is None else price * budget * HOURS_PER_MONTH


def cost_usd_per_hour(instance: BoaInstance, measures: Mapping[str, float]) -> float | None:
    """Return what a plan costs, by its measures, committed GPUs at all hours; None where a price is missing."""
    if instance.commits:
        return measures.get("bill_usd_per_hour")
    return measures.get("cost_usd_per_hour")


def price_words(gpu_type: GpuType) -> str:
    """Write a GPU's price with its source and date."""
    if gpu_type.price_usd_per_hour is None:
        return "none given"
    origin = ", ".join(part for part in (gpu_type.price_source, gpu_type.price_date) if part)
    return f"{format_usd(gpu_type.price_usd_per_hour)} an hour ({origin or 'no source stated'})"


def describe_amount(amount: Amount) -> str:
    """Write a budget in words: ``120 GPUs on average``, ``$30,000 a month``."""
    if amount.unit is BudgetUnit.GPU:
        return f"{count_gpus(amount.value)} on average"
    return f"{format_usd(amount.value)} {_PERIOD_NAMES[amount.unit]}"


def say_amount(instance: BoaInstance, budget: float) -> str:
    """Write a budget of the instance's unit: ``8 GPUs on average``, ``$12.50 an hour``."""
    return describe_amount(Amount(budget, instance.budget_unit))


def say_budget(instance: BoaInstance, budget: float) -> str:
    """Write a budget of the instance's unit, with what it costs in a month."""
    said, monthly = say_amount(instance, budget), cost_of_month(instance, budget)
    return said if monthly is None else f"{said}, {format_usd(monthly)} a month"


def describe_budget(instance: BoaInstance) -> str:
    """Write the budget in words, money with the GPUs that it pays, or where these differ by another period."""
    amount = instance.budget_amount()
    gpus = f"{count_gpus(amount)} {'on demand' if instance.commits else 'on average'}"
    if instance.budget is None or instance.budget.unit not in PERIOD_HOURS:
        return f"a bill of {gpus}" if instance.commits else gpus
    given = describe_amount(instance.budget)
    if instance.budget_unit is BudgetUnit.GPU:
        return f"{given} ({gpus})"
    monthly = instance.budget.unit is BudgetUnit.USD_PER_MONTH
    return (
        f"{given} ({format_usd(amount)} an hour)"
        if monthly
        else f"{given} ({format_usd(amount * HOURS_PER_MONTH)} a month)"
    )


def describe_limits(instance: BoaInstance) -> str:
    """Write the instance's limits in words: ``120 GPUs on average and a due date of 30 min 00 s for bert``."""
    due = [f"{format_duration(due_s)} for {name}" for name, due_s in instance.due_s.items()]
    floors = [f"{count_gpus(gpus)} for {name}" for name, gpus in instance.floors.items()]
    quotas = [f"{format_gpus(quota)} {gpu_type}" for gpu_type, quota in instance.quotas.items()]
    said, in_gpus = [describe_budget(instance)], instance.budget_unit is BudgetUnit.GPU
    if quotas and in_gpus:
        said = [f"{said[0]}, at most {join_words(quotas)} among them"]
    elif quotas:
        said = [f"{said[0]} and at most {join_words(quotas)} on average"]
    said += [f"{'due dates' if len(due) > 1 else 'a due date'} of {join_words(due)}"] if due else []
    said += [f"{'floors' if len(floors) > 1 else 'a floor'} of {join_words(floors)}"] if floors else []
    return join_words(said)


def name_limit(limit: str) -> str:
    """Name a limit: ``budget``, ``quota of a100``, ``due date of bert``, ``floor of bert``."""
    return limit.replace(QUOTA, "quota of ", 1).replace(DUE, "due date of ", 1).replace(FLOOR, "floor of ", 1)


def name_objective(instance: BoaInstance) -> str:
    """Name the objective: the mean completion time, ``weighted`` where classes have different weights."""
    weights = {c.weight for c in instance.classes.values()}
    return "mean completion time" if len(weights) == 1 else "weighted mean completion time"


def use_of_budget(instance: BoaInstance, result: Result[Solution]) -> float:
    """Return what a result's plan uses, in the unit of the instance's budget."""
    if instance.commits:
        return result.measures["bill"]
    return result.measures["gpus" if instance.budget_unit is BudgetUnit.GPU else "cost_usd_per_hour"]


def has_slack(instance: BoaInstance, result: Result[Solution]) -> bool:
    """Whether a plan leaves a part of the budget that more of it would only make larger."""
    price = result.shadow_prices.get(BUDGET)
    if result.objective is None or price is None or price.more > 0.0:
        return False
    return use_of_budget(instance, result) < instance.limits[BUDGET] * (1.0 - ROUNDING)


def format_used(instance: BoaInstance, used: float) -> str:
    """Write a use of the budget in the unit of the budget as given: ``14.0``, ``$14,331``."""
    given, unit = instance.limit_as_given(BUDGET)
    in_unit = given * used / instance.limits[BUDGET]
    return f"{in_unit:.3g}" if BudgetUnit(unit) is BudgetUnit.GPU else format_usd(in_unit)


def say_answer(instance: BoaInstance, result: Result[Solution]) -> str:
    """Answer the question in one sentence; another says what times and budget leave out, if anything."""
    limit = describe_limits(instance)
    if result.status is Status.INFEASIBLE:
        return f"No plan keeps to {limit}."
    if result.objective is None:
        return f"No plan for {limit} was found {_STOPS[result.termination]}."
    if has_slack(instance, result):
        is_money = instance.limit_as_given(BUDGET)[1] != BudgetUnit.GPU.value
        used = format_used(instance, use_of_budget(instance, result))
        limit += f", of which {used} {'is' if is_money else 'are'} used"
    mean = format_duration(result.objective)
    said = f"With {limit}, jobs finish in {mean} on average."
    if name_objective(instance) != "mean completion time":
        said = f"With {limit}, the weighted mean completion time is {mean}."
    return said + _say_committed(instance, result) + _say_starts(instance, result)


def _say_committed(instance: BoaInstance, result: Result[Solution]) -> str:
    """Say how many GPUs to commit, and what that saves; nothing without commitments."""
    if not instance.commits:
        return ""
    measures = result.measures
    taken = [
        f"{format_gpus(gpus)} {gpu_type} for {term}"
        for gpu_type, kind in instance.gpu_types.items()
        for term in kind.commitments or {}
        if (gpus := measures[f"committed.{gpu_type}.{term}"]) > 0.0
    ]
    listed = sum(
        price * measures.get(f"gpus.{name}", measures["gpus"]) for name, price in instance.prices_on_demand.items()
    )
    saved = f"the bill is {format_share(1.0 - measures['bill'] / listed)} below that of the same GPUs on demand"
    return (
        f" Commit {join_words(taken)}: {saved}."
        if taken
        else " Commit none: idle hours would cost more than that saves."
    )


def _say_starts(instance: BoaInstance, result: Result[Solution]) -> str:
    """Say that nodes take time to start, which neither budget nor times count, and how much that is at most."""
    if not instance.waits_for_nodes:
        return ""
    measures = result.measures
    if "gpus_starting" not in measures:
        return " Nodes take time to start, which is not counted; with whole widths it is said how much that is at most."
    gpus, usd = measures["gpus_starting"], measures.get("starting_usd_per_hour")
    money = "" if usd is None else f", {format_usd(usd * HOURS_PER_MONTH)} a month"
    more = f"{count_gpus(gpus)} more ({format_share(gpus / measures['gpus'])}{money})"
    return (
        f" Not counted is that nodes take time to start: at most {more} and "
        f"{format_duration(measures['starting_s_per_job'])} a job, which is so if all GPUs that jobs come to hold are "
        "those of new nodes."
    )


def say_how_good(instance: BoaInstance, result: Result[Solution]) -> str:
    """Say how far the answer is from the best possible, and what that rests on."""
    if result.infeasibility is not None:
        return f"{capitalise(result.infeasibility.reason)}."
    idle = " The bound takes every GPU-hour at its least price, with no committed GPU idle." if instance.commits else ""
    alike = "plan that treats all jobs of a class alike"
    plan = "plan of widths by class and epoch, mixtures included," if instance.is_mixed else alike
    return say_bound(result, format_duration, plan=plan) + (idle if result.bound is not None else "")


def say_worth(instance: BoaInstance, price: ShadowPrice) -> str:
    """Say what a little more and a little less of the instance's budget would change."""
    words = BUDGET_WORDS[instance.budget_unit]
    more = f"{words.more} saves {format_small_duration(price.more)}"
    if price.less is None:
        return f"{more}; with less budget there is no plan"
    return more if price.less == price.more else f"{more}, {words.less} costs {format_small_duration(price.less)}"


def shadow_price(instance: BoaInstance, result: Result[Solution], frontier: Frontier | None) -> ShadowPrice | None:
    """Return the budget's shadow price: the result's own, else the frontier's at the same budget, else None."""
    if BUDGET in result.shadow_prices:
        own: ShadowPrice = result.shadow_prices[BUDGET]
        return own
    point = look_up(frontier, instance.budget_amount())
    return None if point is None else point.shadow_price


def look_up(frontier: Frontier | None, budget: float) -> FrontierPoint | None:
    """Return the frontier's point at a budget, None where there is no frontier or no plan keeps the budget."""
    if frontier is None or budget < float(frontier.budgets[0]) * (1.0 - ROUNDING):
        return None
    return frontier.at(max(budget, float(frontier.budgets[0])))


def say_steps(result: Result[Solution], free: Result[Solution]) -> str:
    """Say what the steps between widths cost against all widths between them."""
    if free.objective is None or result.objective is None:
        return "What all widths would save is not known."
    saved = relative_difference(result.objective, free.objective) or 0.0
    if saved <= ROUNDING:
        return "With all widths between these, jobs would finish no earlier."
    sooner = f"in {format_duration(free.objective)} on average: these steps cost {format_share(saved)}"
    return f"With all widths between these, jobs would finish {sooner}."


def say_wider(result: Result[Solution], wider: Mapping[tuple[str, int], Result[Solution]]) -> str:
    """Say that more budget buys nothing, and which width, of the best plans with one more allowed, would gain most."""
    nothing = "More budget buys nothing: every class has the widths that are best for it."
    gains = {
        choice: (result.objective or 0.0) - found.objective
        for choice, found in wider.items()
        if found.objective is not None
    }
    known = [name for name, _ in wider]
    if not known:
        return f"{nothing} Wider ones have no speedup in the data: measure them."
    (name, width), gain = max(gains.items(), key=lambda item: item[1], default=((known[0], 0), 0.0))
    if gain <= ROUNDING * (result.objective or 0.0):
        return f"{nothing} The next wider ones would gain nothing."
    sooner = f"jobs would finish {format_small_duration(gain)} earlier on average"
    return f"{nothing} The next width to allow is {count_gpus(width)} for {name}: {sooner}."
