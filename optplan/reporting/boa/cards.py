"""The main figures of a BOA plan: completion time, GPUs, cost, bound, and what more of the limits would save."""

from __future__ import annotations

from collections.abc import Mapping

from optplan.contracts import Frontier, FrontierPoint, Result, Solution
from optplan.contracts.result import relative_gap
from optplan.formulations.boa.data.instance import BUDGET, DUE, FLOOR, QUOTA, BoaInstance, Problem
from optplan.reporting.boa.breakdown import has_types, price_usd_per_hour
from optplan.reporting.boa.budgets import cost_usd_per_hour
from optplan.reporting.boa.limits import LimitUse, find_prices, list_limit_uses
from optplan.reporting.boa.phrases import look_up, name_objective, shadow_price
from optplan.reporting.pages import Card
from optplan.reporting.phrases import NOTHING, format_gpus, format_share, format_small_duration, format_usd
from optplan.reporting.standing import bounds_nothing
from optplan.units import HOURS_PER_DAY, HOURS_PER_MONTH, BudgetUnit, format_duration


def list_cards(instance: BoaInstance, result: Result[Solution], frontier: Frontier | None) -> list[Card]:
    """List the main figures of a result; none without a plan."""
    if result.objective is None:
        return []
    measures = result.measures
    cards = [
        Card(name_objective(instance), format_duration(result.objective), f"{result.objective:,.1f} s"),
        Card("GPUs in use, on average", format_gpus(measures["gpus"]), _split_gpus(instance, measures)),
    ]
    usd = cost_usd_per_hour(instance, result)
    if usd is not None:
        cards.append(Card("cost a month", format_usd(usd * HOURS_PER_MONTH), _split_cost(instance, usd)))
    cards.append(_bound_card(result, look_up(frontier, instance.budget_amount())))
    if instance.problem is Problem.RESCALING:
        changes, starts = measures["width_changes_per_job"], measures["rescales_per_job"]
        cards.append(Card("changes of width a job", f"{changes:.2f}", f"{starts:.2f} pauses with the first start"))
    price = shadow_price(instance, result, frontier)
    if price is not None:
        in_gpus = instance.budget_unit is BudgetUnit.GPU
        label = "one more GPU on average saves" if in_gpus else "one more dollar an hour saves"
        fewer = "one fewer" if in_gpus else "one less"
        note = "no plan with less" if price.less is None else f"{fewer} costs {format_small_duration(price.less)}"
        cards.append(Card(label, format_small_duration(price.more), note))
    return [*cards, *_make_further_cards(instance, result, frontier)]


def _make_further_cards(instance: BoaInstance, result: Result[Solution], frontier: Frontier | None) -> list[Card]:
    """Make a card for each quota, due date and floor whose relaxation would help."""
    prices = find_prices(instance, result, frontier)
    uses = list_limit_uses(instance, result, frontier)
    rows = zip(instance.limit_names, uses, strict=True) if uses else ()
    return [
        Card(f"{_name_more(limit)} saves", row.saves, _say_value(row))
        for limit, row in rows
        if limit != BUDGET and limit in prices and prices[limit].more > 0
    ]


def _name_more(limit: str) -> str:
    if limit.startswith(DUE):
        return f"{limit.removeprefix(DUE)} due a minute later"
    if limit.startswith(FLOOR):
        return f"a floor of {limit.removeprefix(FLOOR)} one GPU lower"
    return f"one more {limit.removeprefix(QUOTA)} in the quota"


def _say_value(row: LimitUse) -> str:
    return f"{row.share} of {row.given} used" if row.value == NOTHING else f"worth {row.value} at the budget's price"


def _split_gpus(instance: BoaInstance, measures: Mapping[str, float]) -> str:
    if has_types(instance):
        used = {name: measures[f"gpus.{name}"] for name in instance.gpu_types}
        return " + ".join(f"{format_gpus(gpus)} {name}" for name, gpus in used.items() if gpus > 0)
    if instance.problem is not Problem.RESCALING:
        return "all of them running"
    return f"{format_gpus(measures['gpus_running'])} running + {format_gpus(measures['gpus_rescaling'])} rescaling"


def _split_cost(instance: BoaInstance, usd_per_hour: float) -> str:
    price = price_usd_per_hour(instance)
    if price is not None:
        return f"at {format_usd(price)} per GPU-hour"
    return f"{format_usd(usd_per_hour)} an hour, {format_usd(usd_per_hour * HOURS_PER_DAY)} a day"


def _bound_card(result: Result[Solution], point: FrontierPoint | None) -> Card:
    label, gap = "nothing can be better than", result.gap
    if result.bound is not None and gap is not None and not bounds_nothing(result):
        return Card(label, format_duration(result.bound), f"gap {format_share(gap)}")
    if point is None:
        return Card(label, "unknown", "this solver proves nothing")
    gap = relative_gap(result.objective, point.objective)
    return Card(label, format_duration(point.objective), f"by the frontier; gap {format_share(gap or 0.0)}")
