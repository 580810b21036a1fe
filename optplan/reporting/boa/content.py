"""What the report says, assembled as plain text and rows; the template only lays it out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from optplan.contracts import Frontier, FrontierPoint, Result, Solution, Status, Verification
from optplan.contracts.result import relative_gap
from optplan.formulations.boa.data.instance import BUDGET, QUOTA, BoaInstance, Policy, Problem
from optplan.reporting.boa.breakdown import break_down, has_types, price_usd_per_hour, type_prices
from optplan.reporting.boa.budgets import (
    BUDGET_NAMES,
    WORTH_NAMES,
    cost_of_month,
    cost_usd_per_hour,
    say_amount,
)
from optplan.reporting.boa.explanations import (
    ClassData,
    Term,
    describe_classes,
    list_assumptions,
    list_glossary,
    state_provenance,
    state_question,
)
from optplan.reporting.boa.limits import LimitUse, TypeRow, find_prices, list_limit_uses, list_types, say_prices
from optplan.reporting.boa.proofs import explain_check, explain_proof
from optplan.reporting.boa.rows import (
    BudgetRow,
    ClassRow,
    LimitRow,
    PlanClass,
    SolverRow,
    choose_budgets,
    compare_solvers,
    list_budgets,
    list_classes,
    list_limits,
    list_plan,
)
from optplan.reporting.phrases import (
    NOTHING,
    count_gpus,
    format_gpus,
    format_share,
    format_small_duration,
    format_usd,
    look_up,
    name_objective,
    say_answer,
    say_how_good,
    shadow_price,
)
from optplan.reporting.standing import add_trust, name_status
from optplan.reporting.style import color_types
from optplan.units import HOURS_PER_DAY, HOURS_PER_MONTH, BudgetUnit, format_duration

#: Classes that a table shows before it says how many more there are.
_MOST_CLASSES = 60


@dataclass(frozen=True)
class Card:
    """One figure worth a glance."""

    label: str
    value: str
    note: str


@dataclass(frozen=True)
class TypeKey:
    """The colour of a GPU type in the charts."""

    name: str
    color: str


@dataclass(frozen=True)
class ReportContent:
    """Everything that the report says, as text; charts come beside it.

    Parameters
    ----------
    title, instance_name
        Of the page, and the problem's own.
    answer, how_good, marginal
        The headline, what it is worth, and what a little more of the limits would change.
    status, status_kind
        Two or three words, and ``good``, ``fair`` or ``bad``.
    cards, plan, plan_rest, budgets, classes, class_rest, solvers, limits, types, limit_uses
        Tables; empty where there is nothing to show.
    type_keys
        The colours of the GPU types; empty where there is one.
    budget_name, worth_name, budget_noun, budget_nouns
        Of the columns of budgets, and how sentences call their unit, once and in numbers.
    prices
        A sentence for each limit whose worth is known.
    has_plan, is_pure, has_shares, has_real_widths, has_money, has_costs
        Which columns, sections and remarks there are.
    objective_name
        ``mean completion time``, or its weighted form.
    question, class_data, has_weights, proof, check, verify_command, verified, assumptions, glossary, provenance
        The explanations.
    warnings
        The result's own.
    """

    title: str
    instance_name: str
    answer: str
    how_good: str
    marginal: str
    status: str
    status_kind: str
    cards: tuple[Card, ...]
    plan: tuple[PlanClass, ...]
    plan_rest: str
    budgets: tuple[BudgetRow, ...]
    classes: tuple[ClassRow, ...]
    class_rest: str
    solvers: tuple[SolverRow, ...]
    limits: tuple[LimitRow, ...]
    types: tuple[TypeRow, ...]
    limit_uses: tuple[LimitUse, ...]
    type_keys: tuple[TypeKey, ...]
    budget_name: str
    worth_name: str
    budget_noun: str
    budget_nouns: str
    prices: tuple[str, ...]
    has_plan: bool
    is_pure: bool
    has_shares: bool
    has_real_widths: bool
    has_money: bool
    has_costs: bool
    objective_name: str
    question: tuple[Term, ...]
    class_data: tuple[ClassData, ...]
    has_weights: bool
    proof: tuple[str, ...]
    check: str
    verify_command: str
    verified: str
    assumptions: tuple[str, ...]
    glossary: tuple[Term, ...]
    provenance: tuple[Term, ...]
    warnings: tuple[str, ...]


def gather_content(
    instance: BoaInstance,
    result: Result[Solution],
    *,
    frontier: Frontier | None,
    comparisons: Sequence[Result[Solution]],
    verification: Verification | None,
    verify_command: str,
) -> ReportContent:
    """Gather everything that the report says.

    Parameters
    ----------
    instance, result, frontier, comparisons, verification, verify_command
        As in :func:`optplan.reporting.boa.html.build_report`.
    """
    classes = break_down(instance, result)
    objective = "" if result.objective is None else f"{format_duration(result.objective)} with "
    unit, amount = instance.budget_unit, instance.budget_amount()
    budget = count_gpus(amount) if unit is BudgetUnit.GPU else say_amount(instance, amount)
    prices, said = type_prices(instance), say_prices(instance, result, frontier)
    return ReportContent(
        title=f"{instance.name}: {objective}{budget}",
        instance_name=instance.name,
        answer=add_trust(say_answer(instance, result), result),
        how_good=_say_frontier_bound(instance, result, frontier) or say_how_good(instance, result),
        marginal=" ".join(said[:1]),
        status=name_status(result)[0],
        status_kind=_rate_status(result),
        cards=tuple(_make_cards(instance, result, frontier)),
        plan=tuple(list_plan(classes[:_MOST_CLASSES])),
        plan_rest=_say_rest(len(classes)),
        budgets=tuple(_list_frontier(instance, result, frontier)),
        classes=tuple(list_classes(classes, prices)[:_MOST_CLASSES]),
        class_rest=_say_rest(len(instance.classes)),
        solvers=tuple(compare_solvers(instance, (result, *comparisons))) if comparisons else (),
        limits=tuple(list_limits(result)),
        types=tuple(list_types(instance, result)),
        limit_uses=tuple(list_limit_uses(instance, result, frontier)),
        type_keys=tuple(TypeKey(*pair) for pair in color_types(instance.gpu_types).items())
        if has_types(instance)
        else (),
        budget_name=BUDGET_NAMES[unit],
        budget_noun="GPU" if unit is BudgetUnit.GPU else "dollar an hour",
        budget_nouns="GPUs on average" if unit is BudgetUnit.GPU else "dollars an hour",
        prices=tuple(said),
        worth_name=WORTH_NAMES[unit][0].upper() + WORTH_NAMES[unit][1:],
        has_plan=bool(classes),
        is_pure=bool(classes) and instance.problem is not Problem.CONTINUOUS and instance.policy is Policy.PURE,
        has_shares=any(len(c.paths) > 1 for c in classes),
        has_real_widths=instance.problem is Problem.CONTINUOUS,
        has_money=cost_of_month(instance, 1.0) is not None,
        has_costs=prices is not None,
        objective_name=name_objective(instance),
        question=tuple(state_question(instance, result)),
        class_data=tuple(describe_classes(instance, _MOST_CLASSES)),
        has_weights=name_objective(instance) != "mean completion time",
        proof=tuple(explain_proof(instance, result)),
        check=explain_check(result),
        verify_command=verify_command,
        verified=_say_verified(verification),
        assumptions=tuple(list_assumptions(instance)),
        glossary=tuple(list_glossary(instance)),
        provenance=tuple(state_provenance(instance, result)),
        warnings=tuple(result.warnings),
    )


def _list_frontier(instance: BoaInstance, result: Result[Solution], frontier: Frontier | None) -> list[BudgetRow]:
    if frontier is None:
        return []
    points = [frontier.at(budget) for budget in choose_budgets(instance, frontier)]
    return list_budgets(instance, points, reference=result.objective)


def _say_rest(number: int) -> str:
    more = number - _MOST_CLASSES
    return f"{more} more classes are in the result's file." if more > 0 else ""


def _rate_status(result: Result[Solution]) -> str:
    if result.status is Status.OPTIMAL:
        return "good"
    return "fair" if result.status is Status.FEASIBLE else "bad"


def _say_frontier_bound(instance: BoaInstance, result: Result[Solution], frontier: Frontier | None) -> str:
    """Say what the frontier proves about a result that has a plan and no bound of its own."""
    point = look_up(frontier, instance.budget_amount())
    if result.objective is None or result.bound is not None or point is None:
        return ""
    gap = format_share(relative_gap(result.objective, point.objective) or 0.0)
    return (
        "This solver proves nothing about its plan, but the frontier below does: nothing within this budget can be "
        f"better than {format_duration(point.objective)}, so the best possible is at most {gap} lower."
    )


def _make_cards(instance: BoaInstance, result: Result[Solution], frontier: Frontier | None) -> list[Card]:
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
    return [*cards, *_make_quota_cards(instance, result, frontier)]


def _make_quota_cards(instance: BoaInstance, result: Result[Solution], frontier: Frontier | None) -> list[Card]:
    """Make a card for each quota of which more would help."""
    prices = find_prices(instance, result, frontier)
    rows = (
        zip(instance.limit_names, list_limit_uses(instance, result, frontier), strict=True) if instance.quotas else ()
    )
    return [
        Card(f"one more {limit.removeprefix(QUOTA)} in the quota saves", row.saves, _say_value(row))
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
    if result.bound is not None and gap is not None:
        return Card(label, format_duration(result.bound), f"gap {format_share(gap)}")
    if point is None:
        return Card(label, "unknown", "this solver proves nothing")
    gap = relative_gap(result.objective, point.objective)
    return Card(label, format_duration(point.objective), f"by the frontier; gap {format_share(gap or 0.0)}")


def _say_verified(verification: Verification | None) -> str:
    if verification is None:
        return ""
    trusted = f" Taken on trust: {'; '.join(verification.on_trust)}." if verification.on_trust else ""
    never = f" Never checked: {'; '.join(verification.never_checked)}." if verification.never_checked else ""
    return f"This was done before the report was written: all {len(verification.checks)} checks hold.{trusted}{never}"
