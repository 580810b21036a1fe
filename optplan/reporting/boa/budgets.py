"""Budgets of frontiers in words: they count GPUs, or US dollars an hour where there are several GPU types."""

from __future__ import annotations

from optplan.contracts import Result, ShadowPrice, Solution
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.reporting.boa.breakdown import price_usd_per_hour
from optplan.reporting.boa.phrases import monthly_usd, say_marginal
from optplan.reporting.phrases import count_gpus, format_small_duration, format_usd
from optplan.units import HOURS_PER_MONTH, BudgetUnit

#: What axes and columns call a budget.
BUDGET_NAMES = {
    BudgetUnit.GPU: "GPUs on average",
    BudgetUnit.USD_PER_HOUR: "US dollars an hour",
}

#: What columns call the worth of one more unit.
WORTH_NAMES = {
    BudgetUnit.GPU: "one more GPU saves",
    BudgetUnit.USD_PER_HOUR: "one more dollar an hour saves",
}

#: What the worth of one more unit is called beside its value.
UNIT_WORTHS = {
    BudgetUnit.GPU: "worth of a GPU",
    BudgetUnit.USD_PER_HOUR: "worth of a dollar",
}


def cost_of_month(instance: BoaInstance, budget: float) -> float | None:
    """Return what a budget of the instance's unit costs in a month, in US dollars; None without a price."""
    if instance.budget_unit is BudgetUnit.USD_PER_HOUR:
        return budget * HOURS_PER_MONTH
    return monthly_usd(instance, budget)


def cost_usd_per_hour(instance: BoaInstance, result: Result[Solution]) -> float | None:
    """Return what a result's plan costs; None where a price is missing."""
    price = price_usd_per_hour(instance)
    if price is not None:
        return price * result.measures["gpus"]
    return result.measures.get("cost_usd_per_hour")


def say_amount(instance: BoaInstance, budget: float) -> str:
    """Write a budget of the instance's unit: ``8 GPUs on average``, ``$12.50 an hour``."""
    if instance.budget_unit is BudgetUnit.USD_PER_HOUR:
        return f"{format_usd(budget)} an hour"
    return f"{count_gpus(budget)} on average"


def say_worth(instance: BoaInstance, price: ShadowPrice) -> str:
    """Say what a little more and a little less of the instance's budget would change."""
    if instance.budget_unit is not BudgetUnit.USD_PER_HOUR:
        return say_marginal(price)
    more = f"one more dollar an hour saves {format_small_duration(price.more)}"
    if price.less is None:
        return f"{more}; with less budget there is no plan"
    return more if price.less == price.more else f"{more}, one less costs {format_small_duration(price.less)}"
