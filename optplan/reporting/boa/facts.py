"""The main figures of BOA's instances and results, what a plan uses of each limit, and what more of it is worth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from optplan.contracts.result import relative_gap
from optplan.formulations.boa.data.instance import BUDGET, DUE, FLOOR, QUOTA, BoaInstance, Problem
from optplan.reporting.boa import phrases
from optplan.reporting.boa.breakdown import has_types, load_gpus, price_usd_per_hour
from optplan.reporting.boa.demand import list_extras
from optplan.reporting.boa.explanations import state_sources
from optplan.reporting.boa.ranges import make_measurement_card
from optplan.reporting.pages import Card
from optplan.reporting.phrases import (
    NOTHING,
    compare_durations,
    count_gpus,
    format_gpus,
    format_share,
    format_small_duration,
    format_usd,
)
from optplan.reporting.sections import bounds_nothing
from optplan.units import HOURS_PER_DAY, HOURS_PER_MONTH, SECONDS_PER_MINUTE, Amount, BudgetUnit, format_duration

if TYPE_CHECKING:
    from optplan.contracts import Frontier, Result, ShadowPrice, Solution
#: How much more of the budget a card tells the worth of.
MORE = 0.2
#: How the row with the sums is called.
TOTAL = "all types"


def list_facts(instance: BoaInstance) -> list[tuple[str, str]]:
    """List what an instance asks for."""
    return [
        ("instance", instance.name),
        ("formulation", "boa"),
        *([("description", instance.description)] if instance.description else []),
        ("problem", f"{instance.problem.value}: {phrases.PROBLEM_WORDS[instance.problem]}"),
        ("policy", instance.policy.value),
        ("budget", phrases.describe_budget(instance) if instance.budget is not None else NOTHING),
        *list_extras(instance),
        ("load", count_gpus(load_gpus(instance)) + (", where sizes were measured" if has_types(instance) else "")),
        *state_sources(instance),
        *((f"source: {kind}", text) for kind, text in instance.source.items()),
        ("hash", instance.content_hash()),
    ]


def list_cards(instance: BoaInstance, result: Result[Solution], frontier: Frontier | None = None) -> list[Card]:
    """List the main figures of a plan besides its bound; none without a plan."""
    if result.objective is None:
        return []
    measures = result.measures
    pauses = f"{measures['rescales_per_job']:.2f} pauses with the first start"
    return [
        Card(phrases.name_objective(instance), format_duration(result.objective), f"{result.objective:,.6g} s"),
        Card("GPUs in use, on average", format_gpus(measures["gpus"]), _split_gpus(instance, measures)),
        *_make_cost_card(instance, measures),
        Card("changes of width a job", f"{measures['width_changes_per_job']:.2f}", pauses),
        *_make_price_card(instance, phrases.shadow_price(instance, result, frontier)),
        *_make_further_cards(instance, result, frontier),
        *make_measurement_card(instance, result),
    ]


def _make_cost_card(instance: BoaInstance, measures: Mapping[str, float]) -> list[Card]:
    usd, price = phrases.cost_usd_per_hour(instance, measures), price_usd_per_hour(instance)
    if usd is None:
        return []
    bill = f"at {format_usd(price or 0.0)} per GPU-hour"
    if price is None or instance.commits:
        bill = f"{format_usd(usd)} an hour, {format_usd(usd * HOURS_PER_DAY)} a day"
    return [Card("cost a month", format_usd(usd * HOURS_PER_MONTH), bill)]


def _make_price_card(instance: BoaInstance, price: ShadowPrice | None) -> list[Card]:
    """Make the card of what a little more and less of the budget changes, if that is known."""
    if price is None:
        return []
    words = phrases.BUDGET_WORDS[instance.budget_unit]
    less = "no plan with less" if price.less is None else f"{words.less} costs {format_small_duration(price.less)}"
    return [Card(f"{words.more} saves", format_small_duration(price.more), less)]


def _make_further_cards(instance: BoaInstance, result: Result[Solution], frontier: Frontier | None) -> list[Card]:
    """Make a card for each quota, due date and floor whose relaxation would help."""
    prices = find_prices(instance, result, frontier)
    uses = list_limit_uses(instance, result, frontier)
    rows = zip(instance.limit_names, uses, strict=True) if uses else ()
    return [
        Card(f"{name_more(limit)} saves", row.saves, _say_value(row))
        for limit, row in rows
        if limit != BUDGET and limit in prices and prices[limit].more > 0
    ]


def _say_value(row: LimitUse) -> str:
    return f"{row.share} of {row.given} used" if row.value == NOTHING else f"worth {row.value} at the budget's price"


def make_more_card(instance: BoaInstance, result: Result[Solution], frontier: Frontier | None) -> list[Card]:
    """Make the card of what a fifth more of the budget would buy, by the frontier; none where that is not known."""
    budget = (1.0 + MORE) * instance.budget_amount()
    point = phrases.look_up(frontier, budget)
    if point is None or result.objective is None:
        return []
    change = compare_durations(point.objective / result.objective - 1.0)
    note = f"{change}; {phrases.say_budget(instance, budget)}"
    return [Card(f"{format_share(MORE)} more buys, at best", format_duration(point.objective), note)]


def _split_gpus(instance: BoaInstance, measures: Mapping[str, float]) -> str:
    rescaling = format_gpus(measures["gpus_rescaling"])
    if has_types(instance):
        used = {name: measures[f"gpus.{name}"] for name in instance.gpu_types}
        said = " + ".join(f"{format_gpus(gpus)} {name}" for name, gpus in used.items() if gpus > 0)
        return said + (f", {rescaling} of them rescaling" if measures["gpus_rescaling"] else "")
    if instance.problem is not Problem.RESCALING:
        return "all of them running"
    return f"{format_gpus(measures['gpus_running'])} running + {rescaling} rescaling"


def make_bound_card(instance: BoaInstance, result: Result[Solution], frontier: Frontier | None) -> Card:
    """Make the card of what nothing can be better than, by the result or by the frontier."""
    name, point = "nothing can be better than", phrases.look_up(frontier, instance.budget_amount())
    if result.bound is not None and result.gap is not None and not bounds_nothing(result):
        return Card(name, format_duration(result.bound), f"gap {format_share(result.gap)}")
    if point is None:
        return Card(name, "unknown", "this solver proves nothing")
    gap = relative_gap(result.objective, point.objective) or 0.0
    return Card(name, format_duration(point.objective), f"by the frontier; gap {format_share(gap)}")


class LimitUse(NamedTuple):
    """What a plan uses of one limit, and what more of it would be worth, in words, in the unit in which it is given."""

    name: str
    used: str
    given: str
    share: str
    saves: str  #: By one more unit, of a due date a minute, of a floor one GPU less.
    value: str  #: Of that in a day, at the budget's price of time.


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
    return [*rows, _write_type(TOTAL, total, total, "", phrases.cost_usd_per_hour(instance, result.measures))]


def list_limit_uses(
    instance: BoaInstance, result: Result[Solution], frontier: Frontier | None = None
) -> list[LimitUse]:
    """List what a plan uses of each limit, none without a plan or further limits; the frontier may price the budget."""
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
                name=f"{phrases.name_limit(limit)}{', running' if limit.startswith(FLOOR) else ''}",
                used=_write_amount(used * in_unit, unit),
                given=_write_amount(given, unit),
                share=format_share(used / of) if of else NOTHING,  # a quota of nothing
                saves=NOTHING if price is None else format_small_duration(_count_units(limit) * price.more),
                value=NOTHING if usd is None else f"{format_usd(usd)} a day",
            )
        )
    return rows


def say_prices(instance: BoaInstance, result: Result[Solution], frontier: Frontier | None = None) -> list[str]:
    """Say in a sentence for each limit what more of it is worth; only those whose worth is known."""
    if result.objective is None:
        return []
    prices = find_prices(instance, result, frontier)
    sentences = []
    for limit, price in prices.items():
        said = phrases.say_worth(instance, price) if limit == BUDGET else _say_further(instance, limit, prices)
        sentences.append(f"{said[0].upper()}{said[1:]}.")
    return sentences


def find_prices(instance: BoaInstance, result: Result[Solution], frontier: Frontier | None) -> dict[str, ShadowPrice]:
    """Return the shadow prices of the limits, as far as they are known, the budget's first."""
    budget = phrases.shadow_price(instance, result, frontier)
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
        return f"the {phrases.name_limit(limit)} costs no time: {nothing} would save nothing"
    said = f"{more} saves {format_small_duration(units * price.more)} of {phrases.name_objective(instance)}"
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
    rate = phrases.usd_per_unit(instance)
    worth = _count_units(limit) * prices[limit].more / prices[BUDGET].more
    return None if rate is None else worth * rate * HOURS_PER_DAY


def _use_of(instance: BoaInstance, result: Result[Solution], limit: str) -> float:
    if limit == BUDGET:
        return phrases.use_of_budget(instance, result)
    if limit.startswith(DUE):
        return result.measures[f"classes.{limit.removeprefix(DUE)}.mean_jct_s"]
    if limit.startswith(FLOOR):
        return result.measures[f"classes.{limit.removeprefix(FLOOR)}.gpus_running"]
    return result.measures[f"gpus.{limit.removeprefix(QUOTA)}" if has_types(instance) else "gpus"]


def _write_amount(value: float, unit: str) -> str:
    if unit == "s":
        return format_duration(value)
    known = BudgetUnit(unit)
    return count_gpus(value) if known is BudgetUnit.GPU else phrases.describe_amount(Amount(value, known))


def _write_cost(usd: float) -> str:
    """Write what something costs in a time: fractions of a cent matter for prices only."""
    return format_usd(usd) if usd >= 100 else f"${usd:,.2f}"


def _write_type(name: str, gpus: float, total: float, price: str, usd_per_hour: float | None) -> tuple[str, ...]:
    usd = [NOTHING] * 3
    if usd_per_hour is not None:
        usd = [_write_cost(usd_per_hour * hours) for hours in (1.0, HOURS_PER_DAY, HOURS_PER_MONTH)]
    return name, format_gpus(gpus), format_share(gpus / total), price, *usd
