"""The main figures of BOA's instances and results, what a plan uses of each limit, and what more of it is worth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from optplan.contracts.result import relative_gap
from optplan.formulations.boa.data.instance import BUDGET, DUE, FLOOR, QUOTA, BoaInstance, Problem
from optplan.reporting.boa import phrases
from optplan.reporting.boa.breakdown import has_types, price_usd_per_hour
from optplan.reporting.boa.explanations import state_question, state_sources
from optplan.reporting.boa.ranges import make_measurement_card
from optplan.reporting.pages import Card
from optplan.reporting.phrases import (
    NOTHING,
    capitalise,
    compare_durations,
    count_gpus,
    format_gpus,
    format_share,
    format_small_duration,
    format_usd,
)
from optplan.reporting.sections import bounds_nothing
from optplan.reporting.tables import Column, Row, Table, numbers
from optplan.units import HOURS_PER_DAY, HOURS_PER_MONTH, SECONDS_PER_MINUTE, Amount, BudgetUnit, format_duration

if TYPE_CHECKING:
    from optplan.contracts import Frontier, Result, ShadowPrice, Solution
#: How much more of the budget a card tells the worth of.
MORE = 0.2


class _Kind(NamedTuple):
    """What easing a kind of limit by a unit is called, and what else is said of it; ``{}`` is what it limits."""

    eased: str
    tightened: str
    tighter: str  #: One that no plan keeps.
    looser: str  #: One that would save nothing.
    units: float = 1.0  #: How many of the limit's own units that is: a second of a due date is too little.


_KINDS = {
    QUOTA: _Kind("one more {} in the quota", "one fewer", "a smaller quota", "one more"),
    DUE: _Kind("{} due a minute later", "a minute earlier", "an earlier due date", "a later one", SECONDS_PER_MINUTE),
    FLOOR: _Kind("a floor of {} one GPU lower", "one higher", "a higher floor", "a lower one"),
}


def list_facts(instance: BoaInstance) -> list[tuple[str, str]]:
    """List what an instance asks for."""
    return [
        ("instance", instance.name),
        ("formulation", "boa"),
        *([("description", instance.description)] if instance.description else []),
        *state_question(instance),
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


def list_types(instance: BoaInstance, result: Result[Solution]) -> Table | None:
    """List what a plan uses of each GPU type, what that costs, and the sums; None without several types or a plan."""
    if not has_types(instance) or result.objective is None:
        return None
    total, rows = result.measures["gpus"], list[Row]()

    def add(name: str, gpus: float, price: str, usd_per_hour: float | None, style: str = "") -> None:
        hours = (1.0, HOURS_PER_DAY, HOURS_PER_MONTH)
        usd = [NOTHING if usd_per_hour is None else _write_cost(usd_per_hour * each) for each in hours]
        rows.append(Row((name, format_gpus(gpus), format_share(gpus / total), price, *usd), style))

    for name, gpu_type in instance.gpu_types.items():
        gpus, price = result.measures[f"gpus.{name}"], gpu_type.price_usd_per_hour
        usd = price * gpus if price is not None else None if gpus else 0.0
        add(name, gpus, NOTHING if price is None else format_usd(price), usd)
    add("all types", total, "", phrases.cost_usd_per_hour(instance, result.measures), "own")
    columns = (Column("GPU type"), *numbers("GPUs", "share", "price an hour", "cost an hour", "a day", "a month"))
    return Table("What the plan uses of each GPU type, on average, and what that costs", columns, rows)


def list_limits(instance: BoaInstance, result: Result[Solution], frontier: Frontier | None = None) -> Table | None:
    """List what a plan uses of each limit, as it was given, and what more of it is worth; None without further ones."""
    if not instance.further_limits or result.objective is None:
        return None
    prices, rows = find_prices(instance, result, frontier), []
    for limit in instance.limits:
        used, (given, unit) = _use_of(instance, result, limit), instance.limit_as_given(limit)
        usd = _value_of_day(instance, limit, prices)
        rows.append(
            (
                # Tables by class count what rescales, too; a floor does not.
                f"{phrases.name_limit(limit)}{', running' if limit.startswith(FLOOR) else ''}",
                _write_amount(used, unit),
                _write_amount(given, unit),
                format_share(used / given) if given else NOTHING,  # a quota of nothing
                format_small_duration(_units_of(limit) * prices[limit].more) if limit in prices else NOTHING,
                NOTHING if usd is None else f"{format_usd(usd)} a day",
            )
        )
    nouns = [phrases.BUDGET_WORDS[instance.budget_unit].one, *["GPU"] * bool(instance.quotas)]
    caption = f"What the plan uses of each limit, and what one more {' or '.join(dict.fromkeys(nouns))} would save"
    caption += ", or a due date a minute later" if instance.due_s else ""
    caption += ", or a floor one GPU lower" if instance.floors else ""
    one = "eased by one saves" if instance.floors else "one more saves"
    return Table(caption, (Column("limit"), *numbers("used", "given", "share", one, "worth")), rows)


def say_prices(instance: BoaInstance, result: Result[Solution], frontier: Frontier | None = None) -> list[str]:
    """Say in a sentence for each limit what more of it is worth; only those whose worth is known."""
    if result.objective is None:
        return []
    prices = find_prices(instance, result, frontier)
    said = [
        phrases.say_worth(instance, price) if limit == BUDGET else _say_further(instance, limit, prices)
        for limit, price in prices.items()
    ]
    return [f"{capitalise(each)}." for each in said]


def find_prices(instance: BoaInstance, result: Result[Solution], frontier: Frontier | None) -> dict[str, ShadowPrice]:
    """Return the shadow prices of the limits, as far as they are known, the budget's first."""
    budget = phrases.shadow_price(instance, result, frontier)
    known = {limit: result.shadow_prices.get(limit) for limit in instance.limit_names} | {BUDGET: budget}
    return {limit: price for limit, price in known.items() if price is not None}


def _say_further(instance: BoaInstance, limit: str, prices: dict[str, ShadowPrice]) -> str:
    """Say what one more GPU in a quota, one less in a floor, or a minute of a due date saves, and its worth."""
    price, kind, subject = prices[limit], *_kind_of(limit)
    if price.more == 0.0 and not price.less:
        return f"the {phrases.name_limit(limit)} costs no time: {kind.looser} would save nothing"
    saved = f"{format_small_duration(kind.units * price.more)} of {phrases.name_objective(instance)}"
    said = f"{kind.eased.format(subject)} saves {saved}"
    usd = _value_of_day(instance, limit, prices)
    if usd is not None:
        said += f", worth {format_usd(usd)} a day at the budget's own price"
    if price.less is None:
        return f"{said}; with {kind.tighter} there is no plan"
    if price.less == price.more:
        return said
    return f"{said}; {kind.tightened} costs {format_small_duration(kind.units * price.less)}"


def _kind_of(limit: str) -> tuple[_Kind, str]:
    """Return what is said of limits of this kind, and whom or what this one limits."""
    kind, dot, subject = limit.partition(".")
    return _KINDS[kind + dot], subject


def _units_of(limit: str) -> float:
    return 1.0 if limit == BUDGET else _kind_of(limit)[0].units


def _value_of_day(instance: BoaInstance, limit: str, prices: dict[str, ShadowPrice]) -> float | None:
    """Return the US dollars a day of budget that save as much as a unit of a further limit; None where unknown."""
    if limit == BUDGET or limit not in prices or BUDGET not in prices or prices[BUDGET].more <= 0.0:
        return None
    rate = phrases.usd_per_unit(instance)
    worth = _units_of(limit) * prices[limit].more / prices[BUDGET].more
    return None if rate is None else worth * rate * HOURS_PER_DAY


def _use_of(instance: BoaInstance, result: Result[Solution], limit: str) -> float:
    """Return what a plan uses of a limit, in the unit in which that is given."""
    if limit == BUDGET:
        given = instance.limit_as_given(BUDGET)[0]
        return phrases.use_of_budget(instance, result) * (given / instance.limits[BUDGET])
    subject = _kind_of(limit)[1]
    if limit.startswith(DUE):
        return result.measures[f"classes.{subject}.mean_jct_s"]
    if limit.startswith(FLOOR):
        return result.measures[f"classes.{subject}.gpus_running"]
    return result.measures[f"gpus.{subject}" if has_types(instance) else "gpus"]


def _write_amount(value: float, unit: str) -> str:
    if unit == "s":
        return format_duration(value)
    known = BudgetUnit(unit)
    return count_gpus(value) if known is BudgetUnit.GPU else phrases.describe_amount(Amount(value, known))


def _write_cost(usd: float) -> str:
    """Write what something costs in a time: fractions of a cent matter for prices only."""
    return format_usd(usd) if usd >= 100 else f"${usd:,.2f}"
