"""What a terminal and a page show of SEER's searches."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from optplan.contracts import ParetoFrontier, ParetoPoint, Result, Solution
from optplan.formulations.seer.data.instance import SeerInstance, SeerSolution
from optplan.formulations.seer.laws.rounds import Round, list_rounds
from optplan.reporting import style
from optplan.reporting.pages import Block, Card, Charts, Definitions, Section
from optplan.reporting.pareto import draw_pareto
from optplan.reporting.phrases import format_share
from optplan.reporting.presentation import Presenter
from optplan.reporting.sections import (
    relaxations_of,
    tell_relaxations,
)
from optplan.reporting.seer import tables, words
from optplan.reporting.seer.tables import compare_losses
from optplan.reporting.seer.words import format_minutes, format_number, name_gpus
from optplan.reporting.style import Figure, add_blocks, add_points, new_figure, time_scale
from optplan.reporting.tables import Column, Columns, Shown, numeric, tabulate
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


def _tell_search(
    instance: SeerInstance, solution: SeerSolution, result: Result[Solution], rivals: Sequence[Result[Solution]]
) -> list[Section]:
    drawn = [(result.solver, solution)]
    drawn += [(one.solver, words.require_brackets(one.solution)) for one in rivals if one.solution is not None]
    drawn = [
        (name, plan) for number, (name, plan) in enumerate(drawn) if plan not in [each for _, each in drawn[:number]]
    ]
    charts = [
        (f"The trials of {name} over time: {words.name_search(plan)}.", draw_rounds(instance, plan))
        for name, plan in drawn
    ]
    reading = (
        "Every block is a trial, as high as the GPUs that it holds; the best so far are at the bottom. Pale ones are "
        "eliminated at the end of the round. The dotted line is a cluster of constant size for the same budget."
    )
    if len(drawn) > 1:
        reading += f" The plans from top to bottom: {', '.join(name for name, _ in drawn)}."
    reading += words.say_remarks(instance, solution)
    brackets = None if words.seeks_quality(instance) else tables.list_brackets(instance, solution)
    shown = [tables.list_rounds_of(instance, solution), *([] if brackets is None else [brackets])]
    measures = result.measures
    bill = [("training", words.format_gpu_min(measures["training_gpu_min"]))]
    bill += [
        *tables.list_rest_of_spending(instance, measures),
        ("left unused", tables.say_unused(instance, measures)),
        ("budget", words.format_gpu_min(instance.budget_gpu_min)),
        *tables.list_costs(instance, measures),
    ]
    return [
        Section("search", "The search over time", [Charts(charts, reading)]),
        Section("rounds", "Rounds and brackets", shown),
        Section("bill", "What the budget goes to", [Definitions(bill)], place="half"),
    ]


def _tell_relaxations(result: Result[Solution]) -> Section:
    said = [] if relaxations_of(result) else ["Neither limit alone helps: both have to grow."]
    return tell_relaxations(
        result, lambda one: (f"{one.given:g} {one.unit}", f"{one.least_feasible:g} {one.unit}"), *said
    )


def _tell_budgets(instance: SeerInstance, found: Sequence[ParetoPoint]) -> Section:
    """Tell what other budgets would buy before the same deadline."""
    columns: Columns[ParetoPoint] = {
        numeric("budget"): lambda point: words.format_limit(instance, point.measures["budget_gpu_min"]),
        numeric("trials"): lambda point: f"{point.measures['trials']:,.0f}",
        numeric("to the end"): lambda point: f"{point.measures['last_round_trials']:,.0f}",
        numeric("ends after"): lambda point: words.format_minutes(point.measures["duration_min"]),
        numeric("last round, GPU-min"): lambda point: f"{point.measures['last_round_gpu_min']:,.4g}",
        Column("trials x GPUs"): lambda point: words.name_plan(instance, point.solution),
    }
    deadline = words.format_minutes(instance.deadline_min)
    said = f"The same deadline, {deadline}, and other budgets, each spent as well as can be."
    return Section("budgets", "Other budgets", [said, tabulate("What other budgets buy", columns, found)])


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


def _list_given(instance: SeerInstance) -> list[Shown]:
    """List the rounds and brackets that follow from an instance."""
    brackets = tables.list_brackets(instance, None)
    return [] if brackets is None else [brackets]


def _compare(instance: SeerInstance, results: Sequence[Result[Solution]]) -> list[Block]:
    return [compare_losses(results) if words.seeks_quality(instance) else tables.compare_results(results)]


def _tell_gathered(instance: SeerInstance, found: Any, results: Sequence[Result[Solution]]) -> list[Section]:  # noqa: ANN401 - by the objective
    if words.seeks_quality(instance):
        return [_tell_amounts(instance, found, results)]
    return [_tell_budgets(instance, found)]


def _list_granted(instance: SeerInstance) -> list[tuple[str, str]]:
    supply = _SUPPLY if instance.nodes_paid is None else _NODES
    return [*_ASSUMPTIONS, supply, *(_PRIOR if words.seeks_quality(instance) else _SPENDING)]


PRESENTER = Presenter(
    words.require_seer,
    plans="searches",
    facts=tables.list_facts,
    given=_list_given,
    answer=words.say_answer,
    title=partial(words.say_answer, in_full=False),
    how_good=tables.say_quality,
    decided=lambda search, result: [tables.list_rounds_of(search, words.require_brackets(result.solution))],
    compared=_compare,
    objective=words.name_objective,
    cards=_list_cards,
    rivals="Other planners",
    relaxed=lambda _, result: _tell_relaxations(result),
    plan=lambda search, result, rivals: _tell_search(search, words.require_brackets(result.solution), result, rivals),
    gathered=_tell_gathered,
    check=lambda search: _CHECK + (_CHECK_LOSS if words.seeks_quality(search) else ""),
    granted=_list_granted,
    run="optplan run plan.json",
    picture=lambda search, result: draw_rounds(search, words.require_brackets(result.solution)),
)


_COLORS = (style.SKY, style.BLUE, style.VERMILLION, style.GREEN, style.PURPLE, style.ORANGE)
#: How much of its colour a trial keeps that is eliminated at the end of the round.
_PALE = 0.35
#: Most trials of a round that get a bar each; of more, those of a bracket are one bar.
MOST_BARS = 300


def draw_rounds(instance: SeerInstance, solution: SeerSolution) -> Figure:
    """Draw who trains on how many GPUs over time, a colour for each bracket, the best trials so far at the bottom."""
    # Trials that are eliminated at the end of a round are pale. The dotted line is a cluster of constant size that
    # costs the budget until the deadline.
    figure = new_figure(height=400, top=36)
    rounds = list_rounds(instance, solution)
    scale = time_scale(instance.deadline_min * SECONDS_PER_MINUTE)
    minutes = scale.seconds / SECONDS_PER_MINUTE
    for number, bracket in enumerate(solution.brackets):
        bars = [bar for each in rounds for bar in _list_bars(each, rounds, solution, bracket.gpus)]
        bars.sort(key=lambda bar: not bar[0])  # the legend shows the colour of the first one
        color = _COLORS[number % len(_COLORS)]
        colors = [color if goes_on else style.fade(color, _PALE) for goes_on, _ in bars]
        marker = {"color": colors, "line": {"color": "white", "width": 1}}
        add_blocks(figure, f"{name_gpus(bracket.gpus)} a trial", [block for _, block in bars], marker, minutes)
    _draw_pauses(figure, rounds, minutes)
    fixed = instance.budget_gpu_min / instance.deadline_min
    said = f"{format_number(fixed)} GPUs until the deadline take the whole budget"
    ends = [(end, fixed, said) for end in (0.0, instance.deadline_min / minutes)]
    line = {"color": style.INK, "dash": "dot", "width": 1.5}
    add_points(figure, "a constant cluster for the same budget", ends, line=line)
    figure.add_vline(x=instance.deadline_min / minutes, line={"color": style.GREY, "width": 1})
    most = instance.deadline_min / minutes
    across = {"title_text": f"time since the start ({scale.unit})", "range": [0.0, most * 1.02]}
    title = {"text": "pale: eliminated at the end of the round", "side": "top", "font": {"size": style.FONT_SIZE}}
    legend = {**style.LEGEND_ABOVE, "title": title}
    return style.finish(figure, across, {"title_text": "GPUs", "rangemode": "tozero"}, barmode="overlay", legend=legend)


def _list_bars(now: Round, rounds: list[Round], solution: SeerSolution, gpus: float) -> list[tuple[bool, style.Block]]:
    """List the bars of a bracket in a round, and whether who they are goes on; wider brackets lie below them."""
    trials = next((bracket.trials for bracket in solution.brackets if bracket.gpus == gpus), ())
    here = trials[now.number - 1]
    kept = trials[now.number] if now.number < len(rounds) else here
    base = sum(each * number for each, number in now.groups if each > gpus)
    start = now.start_min + now.pause_min
    sizes = [1] * here if here <= MOST_BARS else [size for size in (kept, here - kept) if size]
    bars, done = [], 0
    for size in sizes:
        goes_on = done < kept
        fate = "goes on" if goes_on else "is eliminated"
        if now.number == len(rounds):
            fate = "is trained to the end"
        who = "A trial" if size == 1 else f"Each of {size:,} trials"
        words = (
            f"{who} on {name_gpus(gpus)} {fate}<br>round {now.number}: {format_minutes(now.training_min)} of training, "
            f"until {format_minutes(now.stop_min)}"
        )
        middle, height = base + (done + size / 2) * gpus, size * gpus
        bars.append((goes_on, style.Block(start, now.stop_min, middle, height, words)))
        done += size
    return bars


def _draw_pauses(figure: Figure, rounds: list[Round], minutes: float) -> None:
    """Draw the time in which GPUs are held and nothing trains."""
    paused = [
        style.Block(
            each.start_min,
            each.start_min + each.pause_min,
            each.gpus / 2,
            each.gpus,
            f"resizing before round {each.number}: {format_minutes(each.pause_min)}",
        )
        for each in rounds
        if each.pause_min
    ]
    marker = {"color": style.SHADE, "line": {"color": style.GREY, "width": 1}}
    add_blocks(figure, "resizing", paused, marker, minutes)
