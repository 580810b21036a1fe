"""Other budgets to try on a page: the frontier's plans, what it proves between them, and the words that follow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from optplan.contracts import Frontier, Result, Solution
from optplan.contracts.result import CERTIFIED
from optplan.formulations.boa.data.instance import BUDGET, BoaInstance, BoaSolution, Branch
from optplan.formulations.boa.judge.duality import dual_bound
from optplan.formulations.boa.judge.evaluation import evaluate
from optplan.reporting.boa import phrases
from optplan.reporting.boa.breakdown import break_down_class, has_types
from optplan.reporting.boa.facts import describe_plan, frame_bound, frame_cards, frame_more, frame_price
from optplan.reporting.boa.tables import PLAN_COLUMNS
from optplan.reporting.pages import Control
from optplan.reporting.phrases import capitalise
from optplan.reporting.presenters import Beside
from optplan.reporting.sections import say_evidence, share_load, solve_again
from optplan.reporting.segments import paint
from optplan.reporting.style import color_types
from optplan.reporting.trying import AMOUNT, frame_control
from optplan.speedup import UNTRIED
from optplan.units import HOURS_PER_DAY, HOURS_PER_MONTH, Amount, BudgetUnit, format_duration

#: Breakpoints that a page has at most, classes times breakpoints that are judged, and the fewest worth a control.
_MOST_POINTS, _MOST_JUDGED, _FEWEST = 300, 3000, 3
_FEWEST_OF_MANY = 12  #: Where others are left out.
#: Breakpoints at most where a plan may have to be solved for.
_MOST_SOLVED = 100
#: Digits of a figure in the page.
_DIGITS = 11


def build_control(
    instance: BoaInstance, result: Result[Solution], frontier: Frontier | None, beside: Beside, rows: int, listed: int
) -> Control | None:
    """Gather what a page needs to move along a frontier: plans that keep every limit, as the judge finds, and bounds.

    Classes beyond the first ``rows`` are in no picture, so their widths are left out; a table has ``listed``. None
    without a plan, or where too few plans of the frontier are plans of this instance, as pure ones with further limits.
    """
    if frontier is None or result.solution is None or (len(instance.limits) > 1 and not instance.is_mixed):
        return None
    budgets = choose_budgets(instance, frontier)
    mixes = instance.is_mixed and instance.most_gpus is None
    points = [(budget, cast(BoaSolution, frontier.solution_at(budget))) for budget in budgets]
    own = phrases.use_of_budget(instance, result), cast(BoaSolution, result.solution)
    states = _list_states(instance, points if mixes else [*points, own])
    if len(states) < _FEWEST:
        return None
    given, unit = instance.limit_as_given(BUDGET)
    per = given / instance.limits[BUDGET]
    plan = "mixed plans" if mixes else "plans"
    between = (
        "between two, a share of the jobs takes the widths of the one and the rest those of the other"
        if mixes
        else "between two it shows the lesser one: the best that is known there, and not proven to be the best possible"
    )
    said = (
        f"Figures, plan and pictures follow, without a server, through {len(states)} {plan} that no other beats at "
        f"what they use; {between}. Plans and bounds were checked without the solver when this page was written. "
        "Exactly: "
    )
    again = solve_again(beside.verify_command, "--budget", f"{AMOUNT}{unit}", "--report", "report.html", but="--budget")
    certified = result.bound is not None and result.bound_proof in CERTIFIED
    data = {
        **frame_control(BUDGET, unit, given, per, **{instance.budget_unit.value: per}),
        "parts": ["plan", "widths"],
        "mixes": mixes,
        "plans": _write_plans(instance, states, rows),
        "bounds": [_round(each) for each in _list_bounds(instance, frontier, budgets)],
        "ceiling": [instance.limits[BUDGET], result.bound] if certified else None,
        "classes": list(instance.classes)[:rows],
        "listed": listed,
        "types": list(instance.gpu_types) if has_types(instance) else [],
        "colors": _paint_cells(instance, states),
        "month": HOURS_PER_MONTH,
        "day": HOURS_PER_DAY,
        "usd": phrases.usd_per_unit(instance),
        "figures": describe_plan(instance, result.objective or 0.0, result.measures),
        "words": _write_words(instance, result),
    }
    return Control("budget", unit, said, again, data)


def choose_budgets(instance: BoaInstance, frontier: Frontier) -> list[float]:
    """Choose breakpoints, both ends among them, as many as there is room and time for."""
    solved = has_types(instance) or len(instance.limits) > 1
    most = min(_MOST_SOLVED if solved else _MOST_POINTS, _MOST_JUDGED // len(instance.classes))
    if most < min(_FEWEST_OF_MANY, len(frontier.budgets)):
        return []
    places = np.linspace(0, len(frontier.budgets) - 1, min(most, len(frontier.budgets))).round().astype(int)
    return [float(budget) for budget in frontier.budgets[places]]


def _list_states(
    instance: BoaInstance, points: list[tuple[float, BoaSolution]]
) -> list[tuple[dict[str, Any], BoaSolution]]:
    """List the plans that keep all limits at the budget that they use, each better than all that use less."""
    found: list[tuple[dict[str, Any], BoaSolution]] = []
    for budget, solution in sorted(points, key=lambda point: point[0]):
        judged = evaluate(instance.replace(budget=Amount(budget, instance.budget_unit)), solution)
        if not all(check.holds for check in judged.checks):
            continue
        if found and judged.objective >= found[-1][0]["objective"]:
            continue
        used = judged.consumption[BUDGET]
        found.append(({"used": used} | describe_plan(instance, judged.objective, judged.measures), solution))
    return found


def _list_bounds(instance: BoaInstance, frontier: Frontier, budgets: list[float]) -> Iterator[list[float]]:
    """Derive again what certificates of the frontier prove: a budget, the bound there, and what more of it may save."""
    for budget in budgets:
        multipliers = dict(frontier.at(budget).certificate.multipliers)
        at = instance.replace(budget=Amount(budget, instance.budget_unit))
        yield [budget, dual_bound(at, multipliers), multipliers[BUDGET]]


def _write_plans(
    instance: BoaInstance, states: list[tuple[dict[str, Any], BoaSolution]], rows: int
) -> list[dict[str, Any]]:
    """Write plans by their figures and the classes, by place, whose ways differ from those of the plan before."""
    types = list(instance.gpu_types)
    written, before = list[dict[str, Any]](), dict[str, list[Any]]()
    for figures, solution in states:
        changed = {}
        for place, name in enumerate(list(instance.classes)[:rows]):
            ways = _write_ways(instance, name, solution.branches[name], types)
            if before.get(name) != ways:
                changed[str(place)] = before[name] = ways
        written.append({name: _round(figure) for name, figure in figures.items()} | {"ways": changed})
    return written


def _write_ways(instance: BoaInstance, name: str, branches: tuple[Branch, ...], types: list[str]) -> list[Any]:
    """Write the ways of a class's jobs: the share of each, and by range of epochs the last, GPUs, type and seconds."""
    return [
        [
            _round(path.share),
            [
                [each.last, _round(each.gpus), types.index(each.gpu_type or types[0]), float(f"{each.duration_s:.6g}")]
                for each in path.ranges
            ],
        ]
        for path in break_down_class(instance, name, branches).paths
    ]


def _paint_cells(instance: BoaInstance, states: list[tuple[dict[str, Any], BoaSolution]]) -> dict[str, list[str]]:
    """Return the colours of the map's cells and of the numbers in them: by the place of a type, or by GPUs."""
    if has_types(instance):
        return {
            str(place): [*paint(1.0, color)] for place, color in enumerate(color_types(instance.gpu_types).values())
        }
    held = [
        width for _, solution in states for ways in solution.branches.values() for way in ways for width in way.widths
    ]
    return {f"{_round(gpus)!r}".removesuffix(".0"): [*paint(gpus)] for gpus in np.unique(held).tolist()}


def _round(figure: Any) -> Any:  # noqa: ANN401 - numbers, alone or in lists and dictionaries
    if isinstance(figure, dict):
        return {name: _round(each) for name, each in figure.items()}
    if isinstance(figure, list):
        return [_round(each) for each in figure]
    return float(f"{figure:.{_DIGITS}g}")


def _write_words(instance: BoaInstance, result: Result[Solution]) -> dict[str, Any]:
    """Write what is said at other budgets, with places for figures that the page's script fills in."""
    limits = phrases.describe_limits(instance).replace(
        phrases.describe_budget(instance), phrases.frame_budget(instance), 1
    )
    price, *others = frame_price(instance)
    shares = share_load(instance)
    return {
        "limits": limits,
        "title": phrases.say_mean(instance, limits, "{objective:duration}"),
        "none": f"No plan keeps to {limits}.",
        "unknown": f"This page has no plan for {limits}.",
        "amount": phrases.frame_amount(instance),
        "own": f"{format_duration(result.objective or 0.0)}, the plan that this page was written for",
        "cards": [list(card) for card in (*frame_cards(instance, result.measures), price, frame_bound(), frame_more())],
        "least": others[0].note,
        "less": f"This is the plan for {phrases.frame_amount(instance)}.",
        "used": "{used:count}" if instance.budget_unit is BudgetUnit.GPU else "{used:usd} an hour",
        "fewest": f"The least for which this page has a plan is {phrases.frame_amount(instance).partition(',')[0]}.",
        "stays": f"This part is about the plan for {phrases.describe_budget(instance)}.",
        "columns": [capitalise(column.name) for column in PLAN_COLUMNS],
        "evidence": f"Speedups behind the load: {say_evidence(shares)}." if shares else "",
        "untried": bool(UNTRIED.keys() & shares.keys()),
    }
