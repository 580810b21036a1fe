"""The main figures of BOA's instances and results: by name on a terminal, as cards on a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from optplan.contracts.result import relative_gap
from optplan.formulations.boa.data.instance import BUDGET, BoaInstance, Problem
from optplan.reporting.boa.breakdown import has_types, load_gpus, price_usd_per_hour
from optplan.reporting.boa.demand import list_extras
from optplan.reporting.boa.explanations import describe_type
from optplan.reporting.boa.limits import LimitUse, find_prices, list_limit_uses, name_more
from optplan.reporting.boa.phrases import (
    BUDGET_WORDS,
    PROBLEM_WORDS,
    cost_usd_per_hour,
    describe_budget,
    look_up,
    name_objective,
    price_words,
    say_worth,
    shadow_price,
)
from optplan.reporting.pages import Card
from optplan.reporting.phrases import NOTHING, count_gpus, format_gpus, format_share, format_small_duration, format_usd
from optplan.reporting.sections import bounds_nothing, list_origin, list_status
from optplan.units import HOURS_PER_DAY, HOURS_PER_MONTH, format_duration

if TYPE_CHECKING:
    from optplan.contracts import Frontier, FrontierPoint, Result, Solution


def list_facts(instance: BoaInstance) -> list[tuple[str, str]]:
    """List what an instance asks for."""
    types = instance.gpu_types.items()
    return [
        ("instance", instance.name),
        ("formulation", "boa"),
        *([("description", instance.description)] if instance.description else []),
        ("problem", f"{instance.problem.value}: {PROBLEM_WORDS[instance.problem]}"),
        ("policy", instance.policy.value),
        ("budget", describe_budget(instance) if instance.budget is not None else NOTHING),
        *list_extras(instance),
        ("load", count_gpus(load_gpus(instance)) + (", where sizes were measured" if has_types(instance) else "")),
        *((f"price of {name}", price_words(gpu_type)) for name, gpu_type in types),
        *(fact for name, gpu_type in types for fact in describe_type(name, gpu_type)),
        *((f"source: {kind}", text) for kind, text in instance.source.items()),
        ("hash", instance.content_hash()),
    ]


def list_result_facts(instance: BoaInstance, result: Result[Solution]) -> list[tuple[str, str]]:
    """List what a result says."""
    measures, objective = result.measures, result.objective
    facts = list_status(result)
    if objective is not None:
        rescaling = f" ({format_gpus(measures['gpus_rescaling'])} of them rescaling)"
        facts.append((name_objective(instance), f"{format_duration(objective)} ({objective:.6g} s)"))
        facts.append(("GPUs on average", f"{format_gpus(measures['gpus'])}{rescaling}"))
        usd = cost_usd_per_hour(instance, result)
        if usd is not None:
            facts.append(("cost a month", format_usd(usd * HOURS_PER_MONTH)))
        facts.append(
            (
                "pauses a job",
                f"{measures['rescales_per_job']:.3g}, of these {measures['width_changes_per_job']:.3g} "
                "changes of width",
            )
        )
    if result.bound is not None:
        gap = "" if result.gap is None else f", gap {format_share(result.gap)}"
        proof = result.bound_proof.value
        facts.append(("bound", f"{format_duration(result.bound)} ({result.bound:.6g} s{gap}; {proof})"))
    price = shadow_price(instance, result, None)
    if price is not None and objective is not None:
        one = BUDGET_WORDS[instance.budget_unit].one.partition(" ")[0]
        facts.append((f"worth of a {one}", say_worth(instance, price)))
    return facts + list_origin(result)


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
        words = BUDGET_WORDS[instance.budget_unit]
        note = "no plan with less" if price.less is None else f"{words.less} costs {format_small_duration(price.less)}"
        cards.append(Card(f"{words.more} saves", format_small_duration(price.more), note))
    return [*cards, *_make_further_cards(instance, result, frontier)]


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
