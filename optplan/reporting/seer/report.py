"""The HTML report of a search by deadline and budget: its picture, rounds and brackets, other budgets, its proof."""

from __future__ import annotations

from collections.abc import Sequence

from optplan.contracts import Result, Solution, SolveRequest, Verification
from optplan.formulations.seer.data.instance import BUDGET, SeerInstance, SeerSolution
from optplan.formulations.seer.study.budgets import spend_budgets
from optplan.progress import Stopwatch
from optplan.reporting.pages import Card, Column, Page, PageTable, Section, Term
from optplan.reporting.pareto import draw_pareto
from optplan.reporting.phrases import PROOF_WORDS, format_seconds, format_share
from optplan.reporting.presenters import plan_presenter_of
from optplan.reporting.seer.presenter import (
    BRACKET_COLUMNS,
    COMPARISON_COLUMNS,
    ROUND_COLUMNS,
    compare_results,
    list_brackets,
    list_costs,
    list_facts,
    say_quality,
    say_unused,
    write_rounds,
)
from optplan.reporting.seer.quality import (
    DELTA,
    QUALITY_COLUMNS,
    THEOREM_COLUMNS,
    compare_losses,
    format_loss,
    list_guarantees,
    list_loss_facts,
    seeks_quality,
)
from optplan.reporting.seer.round_figures import draw_rounds
from optplan.reporting.seer.words import (
    describe_limits,
    format_gpu_min,
    format_limit,
    format_minutes,
    format_number,
    name_search,
    require_brackets,
    say_answer,
)
from optplan.reporting.standing import add_trust, name_status
from optplan.solving import pareto

#: Budgets that the report compares, relative to the instance's own; and seconds that this may take.
_BUDGET_STEPS = tuple(2.0 ** (step / 2) for step in range(-4, 5))
_BUDGETS_LIMIT_S = 5.0

_ASSUMPTIONS = (
    Term("Rounds", "All trials start and stop a round together, by the clock, in the middle of an epoch if need be."),
    Term(
        "Elimination",
        "Each bracket keeps its best trials; all that are kept are then ranked together, and the best get the bracket "
        "with the most GPUs.",
    ),
    Term("Supply", "GPUs are there when a round starts, and are paid for only while a trial holds them."),
)
_SPENDING = (
    Term(
        "Objective",
        "GPU-minutes of training are what is counted here, and not how good the best trial becomes. Nothing is assumed "
        "about how GPUs speed a trial up.",
    ),
)
_PRIOR = (
    Term(
        "Prior",
        "Trials are drawn from the prior, independently of one another; a loss depends only on the sum of training "
        "times, each by the speedup of the GPUs held. The figures are as good as the prior is.",
    ),
    Term("Objective", "The mean, over samples, of the true loss of the trial that looks best after the last round."),
)


def build_page(
    instance: SeerInstance,
    result: Result[Solution],
    *,
    rivals: Sequence[Result[Solution]] = (),
    verification: Verification | None = None,
    verify_command: str,
) -> Page:
    """Gather the report of a result.

    Parameters
    ----------
    instance, result
        The problem and its result, of any status.
    rivals
        Results of other solvers for the same problem.
    verification
        Of the result, when it is at hand.
    verify_command
        The command line that checks the result.

    Raises
    ------
    MissingExtraError
        When plotly is not installed.
    """
    quality, sections = seeks_quality(instance), []
    if result.infeasibility is not None:
        sections.append(_tell_relaxations(result))
    if result.solution is not None:
        sections += _tell_search(instance, require_brackets(result.solution), result, rivals)
    if rivals:
        sections.append(Section("solvers", "Other planners", tables=[_compare([result, *rivals], quality=quality)]))
    sections.append(_tell_amounts(instance, result, rivals) if quality else _tell_budgets(instance))
    sections.append(Section("question", "What was asked", terms=[Term(*fact) for fact in list_facts(instance)]))
    promised = list_guarantees(instance)
    if promised:
        sections.append(_tell_promises(promised))
    sections.append(_tell_proof(result, verification, verify_command, quality=quality))
    assumed = [*_ASSUMPTIONS, *(_PRIOR if quality else _SPENDING)]
    sections.append(Section("assumptions", "What is taken for granted", terms=assumed))
    sources = [Term(name, text) for name, text in instance.source.items()]
    sources.append(Term("instance", f"{instance.name}, hash {result.instance_hash}"))
    sections.append(Section("provenance", "Where this comes from", terms=sources))
    badge, kind = name_status(result)
    return Page(
        name=instance.name,
        title=add_trust(say_answer(instance, result), result),
        lead=say_quality(instance, result),
        badge=badge,
        badge_kind=kind,
        warnings=result.warnings,
        cards=_list_cards(instance, result),
        sections=sections,
    )


def _tell_search(
    instance: SeerInstance, solution: SeerSolution, result: Result[Solution], rivals: Sequence[Result[Solution]]
) -> list[Section]:
    drawn = [(result.solver, solution)]
    drawn += [(one.solver, require_brackets(one.solution)) for one in rivals if one.solution is not None]
    drawn = [
        (name, plan) for number, (name, plan) in enumerate(drawn) if plan not in [each for _, each in drawn[:number]]
    ]
    charts = [
        (f"The trials of {name} over time: {name_search(plan)}.", draw_rounds(instance, plan)) for name, plan in drawn
    ]
    reading = (
        "Every block is a trial, as high as the GPUs that it holds; the best so far are at the bottom. Pale ones are "
        "eliminated at the end of the round. The dotted line is a cluster of constant size for the same budget."
    )
    if len(drawn) > 1:
        reading += f" The plans from top to bottom: {', '.join(name for name, _ in drawn)}."
    rounds = PageTable("Who trains in each round", _columns(ROUND_COLUMNS), write_rounds(instance, solution))
    tables = [rounds]
    if not seeks_quality(instance):
        tables.append(PageTable("The brackets", _columns(BRACKET_COLUMNS), list_brackets(instance, solution)))
    measures = result.measures
    bill = [Term("training", format_gpu_min(measures["training_gpu_min"]))]
    if measures["resize_gpu_min"]:
        bill.append(Term("resizing", format_gpu_min(measures["resize_gpu_min"])))
    bill += [
        Term("left unused", say_unused(instance, measures)),
        Term("budget", format_gpu_min(instance.budget_gpu_min)),
        *(Term(*cost) for cost in list_costs(measures)),
    ]
    return [
        Section("search", "The search over time", charts=charts, reading=reading),
        Section("rounds", "Rounds and brackets", tables=tables),
        Section("bill", "What the budget goes to", terms=bill),
    ]


def _tell_relaxations(result: Result[Solution]) -> Section:
    infeasibility = result.infeasibility
    relaxations = infeasibility.relaxations if infeasibility else ()
    rows = [(one.limit, f"{one.given:g} {one.unit}", f"{one.least_feasible:g} {one.unit}") for one in relaxations]
    columns = (Column("Limit"), Column("Given", is_number=True), Column("Least that works", is_number=True))
    if not rows:
        said = "Neither limit alone helps: both have to grow."
        return Section("help", "What would help", paragraphs=[said])
    return Section("help", "What would help", tables=[PageTable("Limits to relax", columns, rows)])


def _tell_budgets(instance: SeerInstance) -> Section:
    """Tell what other budgets would buy before the same deadline."""
    columns = (
        Column("Budget", is_number=True),
        Column("Trials", is_number=True),
        Column("To the end", is_number=True),
        Column("Ends after", is_number=True),
        Column("Last round, GPU-min", is_number=True),
        Column("Trials x GPUs"),
    )
    rows = []
    request = SolveRequest(stopwatch=Stopwatch(_BUDGETS_LIMIT_S))
    for point in spend_budgets(instance, _BUDGET_STEPS, request):
        measures = point.measures
        rows.append(
            (
                format_limit(instance, BUDGET, measures["budget_gpu_min"]),
                f"{measures['trials']:,.0f}",
                f"{measures['last_round_trials']:,.0f}",
                format_minutes(measures["duration_min"]),
                f"{measures['last_round_gpu_min']:,.4g}",
                name_search(require_brackets(point.solution)),
            )
        )
    said = (
        f"The same deadline, {format_minutes(instance.deadline_min)}, and other budgets, each spent as well as can be."
    )
    table = PageTable("What other budgets buy", columns, rows)
    return Section("budgets", "Other budgets", paragraphs=[said], tables=[table])


def _tell_amounts(instance: SeerInstance, result: Result[Solution], rivals: Sequence[Result[Solution]]) -> Section:
    """Tell what loss other budgets would buy before the same deadline."""
    columns = (
        Column("Budget", is_number=True),
        Column("Expected loss", is_number=True),
        Column("95 % interval", is_number=True),
        Column("Gain over published", is_number=True),
        Column("Trials x GPUs"),
    )
    found = pareto(instance, time_limit_s=_BUDGETS_LIMIT_S)
    rows = [
        (
            format_limit(instance, BUDGET, point.limit),
            format_loss(point.objective),
            " to ".join(format_loss(end) for end in (point.low, point.high) if end is not None),
            format_loss(point.measures["gain_loss"]),
            name_search(require_brackets(point.solution)),
        )
        for point in found.points
    ]
    drawn = [(each, each.measures.get("spent_gpu_min", 0.0)) for each in (result, *rivals)]
    chart = draw_pareto(instance, found, plan_presenter_of(instance), results=drawn, limit=instance.budget_gpu_min)
    said = (
        f"The same deadline, {format_minutes(instance.deadline_min)}, and other budgets, for each the best plan found, "
        "with less search than the plan above. Bars are 95 % intervals of the mean over samples."
    )
    return Section(
        "budgets",
        "Other budgets",
        paragraphs=[said],
        charts=[("Least expected loss found for every budget.", chart)] if found.points else [],
        tables=[PageTable("What other budgets buy", columns, rows)],
    )


def _tell_promises(rows: Sequence[tuple[str, ...]]) -> Section:
    said = (
        f"Theorem 2 of the paper bounds the final loss of the published plan with probability {1 - DELTA:g}, where its "
        "condition, a sum of two terms that must not exceed 1, holds. As printed it promises more than is proven."
    )
    table = PageTable("Theorem 2 under this prior", _columns(THEOREM_COLUMNS), rows)
    return Section("promise", "What theory promises", paragraphs=[said], tables=[table])


def _compare(results: Sequence[Result[Solution]], *, quality: bool) -> PageTable:
    columns, rows = (
        (QUALITY_COLUMNS, compare_losses(results)) if quality else (COMPARISON_COLUMNS, compare_results(results))
    )
    return PageTable("Solvers side by side", _columns(columns), rows)


def _tell_proof(result: Result[Solution], verification: Verification | None, command: str, *, quality: bool) -> Section:
    terms = [Term("the bound", PROOF_WORDS[result.bound_proof])]
    if verification is not None:
        seconds = format_seconds(verification.seconds)
        terms.append(Term("verified", f"{len(verification.checks)} checks hold, in {seconds}"))
        terms += [Term("taken on trust", text) for text in verification.on_trust]
        terms += [Term("never checked", text) for text in verification.never_checked]
    said = "verify trusts no solver: it computes time, spend and every rule again, from the numbers of trials alone."
    if quality:
        said += " It samples the loss again, too; the samples belong to the instance, so the figure is the same."
    return Section("proof", "How to check this", paragraphs=[said], terms=terms, command=command)


def _list_cards(instance: SeerInstance, result: Result[Solution]) -> list[Card]:
    if result.objective is None:
        return []
    measures = result.measures
    share = format_share(measures["spent_gpu_min"] / instance.budget_gpu_min)
    fixed = instance.budget_gpu_min / instance.deadline_min
    expected = [Card(name, *_split(fact)) for name, fact in list_loss_facts(result)] if seeks_quality(instance) else []
    return [
        *expected,
        Card("trials", f"{measures['trials']:,.0f}", f"{measures['last_round_trials']:,.0f} trained to the end"),
        Card("of the budget", share, f"{say_unused(instance, measures)} left unused"),
        Card("ends after", format_minutes(measures["duration_min"]), describe_limits(instance)),
        Card(
            "GPUs at most",
            f"{measures['most_gpus_held']:,g}",
            f"{format_number(fixed)} in a constant cluster for the same budget",
        ),
        Card("last round", format_gpu_min(measures["last_round_gpu_min"]), "for those that are trained to the end"),
    ]


def _split(fact: str) -> tuple[str, str]:
    """Divide a fact into its figure and what stands in brackets after it."""
    figure, _, rest = fact.partition(" (")
    return figure, rest.replace(")", "", 1)


def _columns(columns: Sequence[tuple[str, bool]]) -> list[Column]:
    return [Column(name[:1].upper() + name[1:], is_number) for name, is_number in columns]
