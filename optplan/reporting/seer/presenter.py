"""What a terminal and a page show of SEER's searches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from optplan.contracts import Instance, ParetoFrontier, ParetoPoint, Result, Solution
from optplan.contracts.result import require_solution
from optplan.formulations.seer.data.instance import SeerInstance, SeerSolution
from optplan.formulations.seer.laws.rounds import list_rounds
from optplan.reporting.pages import Card, Charts, Definitions, Section
from optplan.reporting.pareto import draw_pareto
from optplan.reporting.phrases import format_share
from optplan.reporting.presentation import Presenter
from optplan.reporting.presenters import Others
from optplan.reporting.sections import relaxations_of, tell_relaxations
from optplan.reporting.seer import tables, words
from optplan.reporting.seer.words import format_minutes
from optplan.reporting.segments import Held, draw_held
from optplan.reporting.style import Figure
from optplan.reporting.tables import Column, Columns, numeric, tabulate
from optplan.units import SECONDS_PER_MINUTE

_CHECK = "verify trusts no solver: it computes time, spend and every rule again, from the numbers of trials alone."
_CHECK_LOSS = " It samples the loss again, too; the samples belong to the instance, so the figure is the same."
_ASSUMPTIONS = (
    ("Rounds", "All trials start and stop a round together, by the clock, in the middle of an epoch if need be."),
    (
        "Elimination",
        "Each bracket keeps its best trials; all that are kept are then ranked together, and the best get the bracket "
        "with the most GPUs.",
    ),
)
_SUPPLY = ("Supply", "GPUs are there when a round starts, and are paid for only while a trial holds them.")
_NODES = ("Supply", "Whole nodes are there when a round starts, and are given back as soon as fewer are needed.")
_SPENDING = (
    (
        "Objective",
        "GPU-minutes of training are what is counted here, and not how good the best trial becomes. Nothing is assumed "
        "about how GPUs speed a trial up.",
    ),
)
_PRIOR = (
    (
        "Prior",
        "Trials are drawn from the prior, independently of one another; a loss depends only on the sum of training "
        "times, each by the speedup of the GPUs held. The figures are as good as the prior is.",
    ),
    ("Objective", "The mean, over samples, of the true loss of the trial that looks best after the last round."),
)


def _follow_rounds(instance: SeerInstance, solution: SeerSolution) -> Iterator[Held]:
    """List when rounds begin, and the last one ends, with the GPUs held from then on."""
    end_min = 0.0
    for each in list_rounds(instance, solution):
        groups = words.name_groups([(trials, gpus) for gpus, trials in reversed(each.groups)])
        stop, end_min = format_minutes(each.stop_min), each.stop_min
        yield Held(each.start_min * SECONDS_PER_MINUTE, each.gpus, f"round {each.number}: {groups}<br>until {stop}")
    yield Held(end_min * SECONDS_PER_MINUTE, 0.0, f"{format_minutes(end_min)}: the end")


def _draw_rounds(instance: SeerInstance, plans: Sequence[tuple[str, SeerSolution]]) -> Figure:
    """Draw the GPUs that each plan holds over time, and a constant cluster that takes the budget until the deadline."""
    fixed, end_s = instance.budget_gpu_min / instance.deadline_min, instance.deadline_min * SECONDS_PER_MINUTE
    said = f"{words.format_number(fixed)} GPUs until the deadline"
    constant = [Held(0.0, fixed, said), Held(end_s, fixed, said)]
    held = [(name, list(_follow_rounds(instance, plan))) for name, plan in plans]
    return draw_held([*held, ("constant, for the same budget", constant)], "GPUs held")


def _tell_search(
    instance: SeerInstance, solution: SeerSolution, result: Result[Solution], rivals: Sequence[Result[Solution]]
) -> list[Section]:
    plans = [(result.solver, solution)]
    plans += [(one.solver, words.require_brackets(one.solution)) for one in rivals if one.solution is not None]
    chart = (f"GPUs held over time: {words.name_plan(instance, solution)}.", _draw_rounds(instance, plans))
    reading = (
        "The area under a line is what trials hold. Rounds begin where it steps: many trials at first, few on more "
        "GPUs each at the end."
    )
    reading += words.say_remarks(instance, solution)
    brackets = [] if words.seeks_quality(instance) else tables.list_brackets(instance, solution)
    measures = result.measures
    bill = [("training", words.format_gpu_min(measures["training_gpu_min"]))]
    bill += [
        *tables.list_rest_of_spending(instance, measures),
        ("left unused", tables.say_unused(instance, measures)),
        ("budget", words.format_gpu_min(instance.budget_gpu_min)),
        *tables.list_costs(instance, measures),
    ]
    return [
        Section("search", "The search over time", [Charts([chart], reading)]),
        Section("rounds", "Rounds and brackets", [tables.list_rounds_of(instance, solution), *brackets]),
        Section("bill", "What the budget goes to", [Definitions(bill)], place="half"),
    ]


def _tell_relaxations(result: Result[Solution]) -> Section:
    said = [] if relaxations_of(result) else ["Neither limit alone helps: both have to grow."]
    return tell_relaxations(
        result, lambda one: (f"{one.given:g} {one.unit}", f"{one.least_feasible:g} {one.unit}"), *said
    )


def _tell_budgets(instance: SeerInstance, found: Others) -> Section:
    """Tell what other budgets would buy before the same deadline."""
    columns: Columns[tuple[Instance, Result[Solution]]] = {
        numeric("budget"): lambda each: words.format_limit(instance, each[0].limits[found.limit]),
        numeric("trials"): lambda each: f"{each[1].measures['trials']:,.0f}",
        numeric("to the end"): lambda each: f"{each[1].measures['last_round_trials']:,.0f}",
        numeric("ends after"): lambda each: words.format_minutes(each[1].measures["duration_min"]),
        numeric("last round, GPU-min"): lambda each: f"{each[1].measures['last_round_gpu_min']:,.4g}",
        Column("trials x GPUs"): lambda each: words.name_plan(each[0], require_solution(each[1])),
    }
    deadline = words.format_minutes(instance.deadline_min)
    said = f"The same deadline, {deadline}, and other budgets, each spent as well as can be."
    table = tabulate("What other budgets buy", columns, [(there, result) for _, there, result in found.results])
    return Section("budgets", "Other budgets", [said, table])


def _tell_amounts(instance: SeerInstance, found: ParetoFrontier, results: Sequence[Result[Solution]]) -> Section:
    """Tell what loss other budgets would buy before the same deadline."""
    columns: Columns[ParetoPoint] = {
        numeric("budget"): lambda point: words.format_limit(instance, point.limit),
        numeric("expected loss"): lambda point: words.format_loss(point.objective),
        numeric("95 % interval"): lambda point: " to ".join(
            words.format_loss(end) for end in (point.low, point.high) if end is not None
        ),
        numeric("gain over published"): lambda point: words.format_loss(point.measures["gain_loss"]),
        Column("trials x GPUs"): lambda point: words.name_plan(instance, point.solution),
    }
    drawn = [(each, each.measures.get("spent_gpu_min", 0.0)) for each in results]
    chart = draw_pareto(instance, found, words, results=drawn, limit=instance.budget_gpu_min)
    charts = [("Least expected loss found for every budget.", chart)] if found.points else []
    deadline = words.format_minutes(instance.deadline_min)
    said = (
        f"The same deadline, {deadline}, and other budgets, for each the best plan found, "
        "with less search than the plan above. Bars are 95 % intervals of the mean over samples."
    )
    table = tabulate("What other budgets buy", columns, found.points)
    return Section("budgets", "Other budgets", [said, *([Charts(charts)] if charts else []), table])


def _list_cards(instance: SeerInstance, result: Result[Solution]) -> list[Card]:
    measures = result.measures
    share = format_share(measures["spent_gpu_min"] / instance.budget_gpu_min)
    fixed = instance.budget_gpu_min / instance.deadline_min
    return [
        *(tables.list_loss_cards(result) if words.seeks_quality(instance) else []),
        Card("training", words.format_gpu_min(measures["training_gpu_min"]), f"{measures['training_gpu_min']:.9g}"),
        Card("trials", f"{measures['trials']:,.0f}", f"{measures['last_round_trials']:,.0f} trained to the end"),
        Card("of the budget", share, f"{tables.say_unused(instance, measures)} left unused"),
        Card("ends after", words.format_minutes(measures["duration_min"]), words.describe_limits(instance)),
        Card(
            "GPUs at most",
            f"{measures['most_gpus_held']:,g}",
            f"{words.format_number(fixed)} in a constant cluster for the same budget",
        ),
        Card(
            "last round", words.format_gpu_min(measures["last_round_gpu_min"]), "for those that are trained to the end"
        ),
        *(Card(*each) for each in tables.list_rest_of_spending(instance, measures)),
        *(Card(*each) for each in tables.list_costs(instance, measures)),
    ]


def _tell_gathered(instance: SeerInstance, found: Any, results: Sequence[Result[Solution]]) -> list[Section]:  # noqa: ANN401 - by the objective
    if words.seeks_quality(instance):
        return [_tell_amounts(instance, found, results)]
    return [_tell_budgets(instance, found)]


PRESENTER = Presenter(
    words.require_seer,
    facts=tables.list_facts,
    given=tables.list_brackets,
    answer=words.say_answer,
    title=partial(words.say_answer, in_full=False),
    how_good=tables.say_quality,
    decided=lambda search, result: [tables.list_rounds_of(search, words.require_brackets(result.solution))],
    compared=lambda _, results: [tables.compare_results(results)],
    cards=_list_cards,
    rivals="Other planners",
    relaxed=lambda _, result: _tell_relaxations(result),
    plan=lambda search, result, rivals: _tell_search(search, words.require_brackets(result.solution), result, rivals),
    gathered=_tell_gathered,
    check=lambda search: _CHECK + (_CHECK_LOSS if words.seeks_quality(search) else ""),
    granted=lambda search: [
        *_ASSUMPTIONS,
        _SUPPLY if search.nodes_paid is None else _NODES,
        *(_PRIOR if words.seeks_quality(search) else _SPENDING),
    ],
    run="optplan run plan.json",
    picture=lambda search, result: _draw_rounds(search, [(result.solver, words.require_brackets(result.solution))]),
)
