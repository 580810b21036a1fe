"""What a plan uses of each GPU type and of each limit, what that costs, and what more of a limit would be worth."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from optplan.formulations.boa.data.instance import BUDGET, DUE, FLOOR, QUOTA, BoaInstance
from optplan.reporting.boa.breakdown import has_types
from optplan.reporting.boa.phrases import (
    cost_usd_per_hour,
    describe_amount,
    name_limit,
    name_objective,
    say_worth,
    shadow_price,
    usd_per_unit,
    use_of_budget,
)
from optplan.reporting.phrases import NOTHING, count_gpus, format_gpus, format_share, format_small_duration, format_usd
from optplan.units import HOURS_PER_DAY, HOURS_PER_MONTH, SECONDS_PER_MINUTE, Amount, BudgetUnit, format_duration

if TYPE_CHECKING:
    from optplan.contracts import Frontier, Result, ShadowPrice, Solution

#: How the row with the sums is called.
TOTAL = "all types"


class LimitUse(NamedTuple):
    """What a plan uses of one limit, and what more of it would be worth, in words and in the unit in which it is given.

    ``saves`` is what one more unit saves, of a due date a minute, of a floor one GPU less; ``value`` is that in a day
    at the budget's price of time.
    """

    name: str
    used: str
    given: str
    share: str
    saves: str
    value: str


def list_types(instance: BoaInstance, result: Result[Solution]) -> list[tuple[str, ...]]:
    """List what a plan uses of each GPU type, what that costs, and the sums; empty without several types or a plan."""
    if not has_types(instance) or result.objective is None:
        return []
    total = result.measures["gpus"]
    rows = []
    for name, gpu_type in instance.gpu_types.items():
        gpus, price = result.measures[f"gpus.{name}"], gpu_type.price_usd_per_hour
        usd = price * gpus if price is not None else None if gpus else 0.0
        rows.append(_write_type(name, gpus, total, NOTHING if price is None else format_usd(price), usd))
    return [*rows, _write_type(TOTAL, total, total, "", cost_usd_per_hour(instance, result))]


def list_limit_uses(
    instance: BoaInstance, result: Result[Solution], frontier: Frontier | None = None
) -> list[LimitUse]:
    """List what a plan uses of the budget and of each further limit; empty where there is none, or no plan.

    The frontier says the budget's shadow price where the result has none.
    """
    if not instance.further_limits or result.objective is None:
        return []
    limits, prices = instance.limits, find_prices(instance, result, frontier)
    rows = []
    for limit, amount in limits.items():
        used, price = _use_of(instance, result, limit), prices.get(limit)
        given, unit = instance.limit_as_given(limit)
        usd = _value_of_day(instance, limit, prices)
        of, in_unit = (given, 1.0) if limit.startswith(FLOOR) else (amount, given / amount if amount else 1.0)
        rows.append(
            LimitUse(
                # Tables by class count what rescales, too; a floor does not.
                name=f"{name_limit(limit)}{', running' if limit.startswith(FLOOR) else ''}",
                used=_write_amount(used * in_unit, unit),
                given=_write_amount(given, unit),
                share=format_share(used / of) if of else NOTHING,  # a quota of nothing
                saves=NOTHING if price is None else format_small_duration(_count_units(limit) * price.more),
                value=NOTHING if usd is None else f"{format_usd(usd)} a day",
            )
        )
    return rows


def say_prices(instance: BoaInstance, result: Result[Solution], frontier: Frontier | None = None) -> list[str]:
    """Say in a sentence for each limit what more of it is worth; only those whose worth is known.

    Without further limits there is one sentence at most, about the budget.
    """
    if result.objective is None:
        return []
    prices = find_prices(instance, result, frontier)
    sentences = []
    for limit, price in prices.items():
        said = say_worth(instance, price) if limit == BUDGET else _say_further(instance, limit, prices)
        sentences.append(f"{said[0].upper()}{said[1:]}.")
    return sentences


def find_prices(instance: BoaInstance, result: Result[Solution], frontier: Frontier | None) -> dict[str, ShadowPrice]:
    """Return the shadow prices of the limits, as far as they are known, the budget's first."""
    budget = shadow_price(instance, result, frontier)
    known = {limit: result.shadow_prices.get(limit) for limit in instance.limit_names} | {BUDGET: budget}
    return {limit: price for limit, price in known.items() if price is not None}


def name_more(limit: str) -> str:
    """Name one more unit of a limit other than the budget, of a floor one less."""
    if limit.startswith(DUE):
        return f"{limit.removeprefix(DUE)} due a minute later"
    if limit.startswith(FLOOR):
        return f"a floor of {limit.removeprefix(FLOOR)} one GPU lower"
    return f"one more {limit.removeprefix(QUOTA)} in the quota"


def _say_further(instance: BoaInstance, limit: str, prices: dict[str, ShadowPrice]) -> str:
    """Say what one more GPU in a quota, one less in a floor, or a minute of a due date saves, and its worth."""
    price, units, more = prices[limit], _count_units(limit), name_more(limit)
    fewer, none = "one fewer", "a smaller quota"
    if limit.startswith(DUE):
        fewer, none = "a minute earlier", "an earlier due date"
    elif limit.startswith(FLOOR):
        fewer, none = "one higher", "a higher floor"
    if price.more == 0.0 and not price.less:
        nothing = "a later one" if limit.startswith(DUE) else "a lower one" if limit.startswith(FLOOR) else "one more"
        return f"the {name_limit(limit)} costs no time: {nothing} would save nothing"
    said = f"{more} saves {format_small_duration(units * price.more)} of {name_objective(instance)}"
    usd = _value_of_day(instance, limit, prices)
    if usd is not None:
        said += f", worth {format_usd(usd)} a day at the budget's own price"
    if price.less is None:
        return f"{said}; with {none} there is no plan"
    return said if price.less == price.more else f"{said}; {fewer} costs {format_small_duration(units * price.less)}"


def _count_units(limit: str) -> float:
    """Return in how many of its units a limit's worth is told: a second of a due date is too little."""
    return SECONDS_PER_MINUTE if limit.startswith(DUE) else 1.0


def _value_of_day(instance: BoaInstance, limit: str, prices: dict[str, ShadowPrice]) -> float | None:
    """Return the US dollars a day of budget that save as much as a unit of a further limit; None where unknown."""
    if limit == BUDGET or limit not in prices or BUDGET not in prices or prices[BUDGET].more <= 0.0:
        return None
    rate = usd_per_unit(instance)
    worth = _count_units(limit) * prices[limit].more / prices[BUDGET].more
    return None if rate is None else worth * rate * HOURS_PER_DAY


def _use_of(instance: BoaInstance, result: Result[Solution], limit: str) -> float:
    if limit == BUDGET:
        return use_of_budget(instance, result)
    if limit.startswith(DUE):
        return result.measures[f"classes.{limit.removeprefix(DUE)}.mean_jct_s"]
    if limit.startswith(FLOOR):
        return result.measures[f"classes.{limit.removeprefix(FLOOR)}.gpus_running"]
    return result.measures[f"gpus.{limit.removeprefix(QUOTA)}" if has_types(instance) else "gpus"]


def _write_amount(value: float, unit: str) -> str:
    if unit == "s":
        return format_duration(value)
    known = BudgetUnit(unit)
    return count_gpus(value) if known is BudgetUnit.GPU else describe_amount(Amount(value, known))


def _write_cost(usd: float) -> str:
    """Write what something costs in a time: fractions of a cent matter for prices only."""
    return format_usd(usd) if usd >= 100 else f"${usd:,.2f}"


def _write_type(name: str, gpus: float, total: float, price: str, usd_per_hour: float | None) -> tuple[str, ...]:
    usd = [NOTHING] * 3
    if usd_per_hour is not None:
        usd = [_write_cost(usd_per_hour * hours) for hours in (1.0, HOURS_PER_DAY, HOURS_PER_MONTH)]
    return name, format_gpus(gpus), format_share(gpus / total), price, *usd
