"""The report of one of BOA's results: its sections, in the order of the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from optplan.contracts import Frontier, Instance, Result, Solution
from optplan.contracts.result import relative_gap
from optplan.errors import UsageError
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Problem
from optplan.formulations.boa.planning import build_plan
from optplan.reporting.boa import tables
from optplan.reporting.boa.breakdown import has_types, require_boa, require_own, require_same_problem
from optplan.reporting.boa.demand import tell_commitments, tell_demand
from optplan.reporting.boa.explanation_tables import tell_explanation
from optplan.reporting.boa.explanations import (
    explain_check,
    explain_proof,
    list_assumptions,
    state_question,
    state_sources,
)
from optplan.reporting.boa.facts import (
    list_cards,
    list_limits,
    list_types,
    make_bound_card,
    make_more_card,
    say_prices,
)
from optplan.reporting.boa.figures import draw_frontier
from optplan.reporting.boa.logs import tell_log
from optplan.reporting.boa.phrases import look_up, say_answer, say_how_good, use_of_budget
from optplan.reporting.boa.ranges import say_own, say_range, tell_sensitivity
from optplan.reporting.boa.speedups import tell_speedups
from optplan.reporting.pages import Block, Card, Charts, Definitions, Items, Page, Section, Swatch
from optplan.reporting.phrases import format_share
from optplan.reporting.presenters import Beside
from optplan.reporting.sections import build_answer_page, solve_again, tell_next, tell_proof, tell_sources
from optplan.reporting.segments import MOST_WAYS, draw_segments, key_of_map
from optplan.reporting.style import name_panel
from optplan.reporting.trying import AMOUNT
from optplan.units import BudgetUnit, format_duration

#: What follows a plan.
_RUN = "optplan run plan.json jobs.yaml"
#: Classes that a table shows before it says how many more there are.
_MOST_ROWS = 60
#: Relative tolerance on a plan's being above the frontier; engines stop at such gaps.
_TOLERANCE = 1e-6


def build_page(instance: Instance, result: Result[Solution], beside: Beside) -> Page:
    """Gather the report of a result, of any status; its background is the frontier."""
    boa = require_boa(instance)
    frontier: Frontier | None = beside.background
    results = (result, *beside.rivals)
    for one in results:
        require_same_problem(boa, one)
    if frontier is not None:
        _require_own_frontier(boa, frontier, results)
    if beside.sensitivity is not None:
        require_own(beside.sensitivity, result)
    sections, cards = list[Section](), list[Card]()
    if result.solution is not None:
        sections = [_tell_widths(boa, results), _tell_plan(boa, result)]
        cards = [*list_cards(boa, result, frontier), make_bound_card(boa, result, frontier)]
        cards += make_more_card(boa, result, frontier)
    sections += tell_commitments(boa, result) if beside.is_moved else _tell_rest(boa, results, beside)
    how_good = (_say_frontier_bound(boa, result, frontier) or say_how_good(boa, result)) + say_own(boa, result)
    return build_answer_page(
        boa,
        result,
        answer=say_answer(boa, result) + say_range(boa, result),
        how_good=" ".join([how_good, *say_prices(boa, result, frontier)[:1]]),
        cards=cards,
        sections=sections,
    )


def _tell_rest(instance: BoaInstance, results: Sequence[Result[Solution]], beside: Beside) -> list[Section]:
    """Tell what stands around the plan."""
    result, frontier, relaxations = results[0], beside.background, tables.list_relaxations(results[0])
    sections = _tell_next(result, beside)
    if relaxations is not None:
        said = "The smallest change that makes a plan possible, everything else as it is."
        sections.append(Section("limits", "What would help", [said, relaxations]))
    if frontier is not None:
        sections.append(_tell_budgets(instance, results, frontier))
    sections += [*tell_commitments(instance, result), *tell_log(instance, result)]
    sections += _tell_limits(instance, result, frontier)
    if beside.explanation is not None:
        sections.append(tell_explanation(instance, result, beside.explanation))
    if beside.rivals:
        table = tables.compare_results(instance, results)
        sections.append(Section("solvers", "Other solvers on the same problem", [table], "Other solvers"))
    if beside.sensitivity is not None:
        sections.append(tell_sensitivity(beside.sensitivity))
    if result.solution is not None:
        use = tables.list_classes(instance, result, _MOST_ROWS)
        sections.append(Section("use", "Where the budget and the time go", [use], "Where it goes", "folded"))
        sections.append(tell_speedups(instance, result))
    return [*sections, *tell_demand(instance, result), *_tell_background(instance, result, beside)]


def _tell_plan(instance: BoaInstance, result: Result[Solution]) -> Section:
    table = tables.list_plan(instance, result, _MOST_ROWS)
    said = (
        "Start every job of a class on the GPUs of its first row. When it reaches the first epoch of another row, "
        "change to the GPUs of that row."
    )
    if _has_shares(result):
        said += (
            " Where a class has several shares, give each arriving job one of them at random, with the stated "
            "probability, and keep it for the job's whole life."
        )
    if instance.problem is Problem.CONTINUOUS:
        said += (
            " A width that is no whole number stands for shares of the jobs at the whole widths next to it; the plan's "
            "file names them."
        )
    return Section("plan", "The plan", [said, table], place="half", follows=True)


def _tell_next(result: Result[Solution], beside: Beside) -> list[Section]:
    other = solve_again(beside.verify_command, "--budget", AMOUNT, "--report", "report.html", but="--budget")
    found = tell_next(result, beside, _RUN, f"Ask for another budget: `{other}`, with the amount in its unit.")
    # Beside the plan, where that does not stand beside the picture.
    return (
        found if any(one.solution is not None for one in beside.rivals) else [one._replace(place="") for one in found]
    )


def _has_shares(result: Result[Solution]) -> bool:
    """Whether some class's jobs are treated in several ways."""
    branches = result.solution.branches if isinstance(result.solution, BoaSolution) else {}
    return any(len(rows) > 1 for rows in branches.values())


def _tell_limits(instance: BoaInstance, result: Result[Solution], frontier: Frontier | None) -> list[Section]:
    """Tell what the plan uses of types and limits, and what more of them is worth; nothing where there is one limit."""
    types, limits = list_types(instance, result), list_limits(instance, result, frontier)
    if types is None and limits is None:
        return []
    heading = "The limits" if types is None else "GPU types, what they cost"
    blocks: list[Block] = [table for table in (types, limits) if table is not None]
    if limits is not None:
        heading += ", and what more of them is worth"
        blocks.append(Items(say_prices(instance, result, frontier)))
    return [Section("types", heading, blocks, "Types and limits")]


def _tell_budgets(instance: BoaInstance, results: Sequence[Result[Solution]], frontier: Frontier) -> Section:
    result, *rivals = results
    in_gpus = instance.budget_unit is BudgetUnit.GPU
    what = "GPUs on average" if in_gpus else "dollars an hour"
    reading = (
        f"The line is the best that any plan can do with so many {what}: proven, point by point. Go right to see what "
        "more money buys; a point above the line is time left on the table. In the grey part no plan exists at all. "
        "Point at the line for the figures."
    )
    if result.solution is not None and not instance.is_mixed:
        reading += (
            " The line allows mixtures, in which shares of a class's jobs get different widths; this plan treats them "
            "alike, and so even the best one may lie a little above the line."
        )
    every = "number of GPUs" if in_gpus else "number of dollars an hour"
    label = f"Line chart: best possible completion time for every {every}; the table below has the figures"
    points = [frontier.at(budget) for budget in tables.choose_budgets(instance, frontier)]
    blocks: list[Block] = [
        Charts([(label, draw_frontier(instance, frontier, result, rivals))], reading),
        tables.list_budgets(instance, points, reference=result.objective),
    ]
    return Section("budgets", "What other budgets would buy", blocks, "Other budgets", "split", follows=True)


def _tell_widths(instance: BoaInstance, results: Sequence[Result[Solution]]) -> Section:
    """Draw the widths of the first result, and beside them those of the first rival that has a plan."""
    reading = (
        "A row for each class, from the first epoch of its jobs to the last; in the bars, the GPUs of a job, "
        f"{'in the colour of their type' if has_types(instance) else 'the stronger the more'}."
    )
    if _has_shares(results[0]):
        reading += " Where a class has several rows, each is taken by the share of its jobs that is named."
    if len(instance.classes) > MOST_WAYS:
        reading += f" Shown are the first {MOST_WAYS} rows; the plan's file has all of them."
    rivals = [one for one in results[1:] if one.solution is not None][:1]
    charts = []
    for one in (results[0], *rivals):
        figure = draw_segments(build_plan(instance, cast(Result[BoaSolution], one)))
        name_panel(figure, one.solver)
        charts.append((f"{one.solver}: GPUs of a job by class and epoch; the plan's table has the figures", figure))
    key = [Swatch(name, color) for name, color in key_of_map(instance.gpu_types).items()]
    blocks: list[Block] = [Charts(charts, reading, layout="pair" if rivals else "", key=key)]
    place = "" if rivals else "half"
    return Section("widths", "How widths change over a job's life", blocks, "Widths by epoch", place, follows=True)


def _tell_background(instance: BoaInstance, result: Result[Solution], beside: Beside) -> list[Section]:
    """Tell what was asked, how to check the answer, what it takes for granted, and where it comes from."""
    precision = ("precision asked for", f"a gap of at most {100 * result.gap_target:g} %")
    question = Definitions([*state_question(instance), precision])
    data = tables.list_class_data(instance, _MOST_ROWS, "in the result's file")
    return [
        Section("question", "What was asked", [question, data], place="folded"),
        tell_proof(result, beside, explain_check(result), steps=explain_proof(instance, result)),
        Section(
            "assumptions", "What is taken for granted", [Items(list_assumptions(instance))], "Assumptions", "folded"
        ),
        tell_sources(instance, result, *state_sources(instance)),
    ]


def _require_own_frontier(instance: BoaInstance, frontier: Frontier, results: Sequence[Result[Solution]]) -> None:
    # It may have been computed for another budget, so its hash does not tell; but no plan of its problem lies below it.
    if frontier.instance_name != instance.name:
        message = f"the frontier is that of {frontier.instance_name!r}, not of {instance.name!r}; compute it anew"
        raise UsageError(message)
    for result in results:
        if result.objective is None:
            continue
        point = look_up(frontier, use_of_budget(instance, result) * (1.0 + _TOLERANCE))
        if point is None or result.objective < point.objective * (1.0 - _TOLERANCE):
            raise UsageError(
                f"the frontier is not this problem's: the plan of {result.solver!r} lies below it; compute it anew "
                "from the same instance"
            )


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
