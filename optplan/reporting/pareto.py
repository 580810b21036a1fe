"""Frontiers of plans that cannot be mixed: a table, and a chart of steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from optplan.contracts import Instance, ParetoFrontier, ParetoPoint, Result, Solution
from optplan.reporting import style
from optplan.reporting.pages import Charts, Section
from optplan.reporting.presenters import PlanWords, plan_words_of
from optplan.reporting.sections import warn_of_untried
from optplan.reporting.style import Figure, Point, add_points, choose_scale, escape_text, new_figure, title_axis
from optplan.reporting.tables import Column, Shown, Table


def pareto_table(
    instance: Instance, frontier: ParetoFrontier, points: Sequence[ParetoPoint], words: PlanWords
) -> Table:
    """Make the table of some plans on a frontier."""
    sampled = any(point.low is not None for point in points)
    interval = [Column("95 % interval", is_number=True)] if sampled else []
    amounts = (Column(frontier.limit_name, is_number=True), Column(words.name_objective(instance), is_number=True))
    rows = []
    for point in points:
        amount = words.format_limit(instance, point.limit, frontier.limit_name)
        between = [_write_interval(instance, frontier, point, words)] if sampled else []
        objective = words.format_objective(instance, point.objective)
        rows.append((amount, objective, *between, words.name_plan(instance, point.solution)))
    return Table("Plans on the frontier", [*amounts, *interval, Column("plan")], rows)


def present_pareto(instance: Instance, found: ParetoFrontier, most: int, *, more: str = "") -> list[Shown]:
    """Show up to so many plans of a frontier, and say what may be missing; ``more`` is how to see the others."""
    points = [found.points[row] for row in thin(len(found.points), most)]
    title = f"Frontier of {instance.name}: {count_plans(len(found.points))} no other beats"
    if len(points) < len(found.points):
        title += f", {len(points)} of them shown{more}"
    table = pareto_table(instance, found, points, plan_words_of(instance))
    return [title, *warn_of_untried(instance), "", table, "", _say_completeness(found)]


def count_plans(points: int) -> str:
    """Begin to say how many plans there are."""
    return "1 plan that" if points == 1 else f"{points} plans that"


def _say_completeness(found: ParetoFrontier) -> str:
    """Say what may be missing: nothing, limits between those tried, or better plans at these."""
    if found.exact:
        return "Every plan that is best for some limit is among them."
    between = f"Other amounts of the {found.limit_name} were not tried."
    if any(point.low is not None for point in found.points):
        return f"Each is the best plan found for an amount of the {found.limit_name}, by sampling. {between}"
    if all(point.bound is not None and math.isclose(point.bound, point.objective) for point in found.points):
        return f"Each is proven best for an amount of the {found.limit_name}. {between}"
    return f"There may be better ones. {between}"


def thin(count: int, most: int) -> list[int]:
    """Choose at most ``most`` of ``count`` rows, the first and the last among them, evenly."""
    rows = min(count, most)
    return [0] if rows == 1 else [round(row * (count - 1) / (rows - 1)) for row in range(rows)]


def draw_pareto(
    instance: Instance,
    frontier: ParetoFrontier,
    words: PlanWords,
    *,
    results: Sequence[tuple[Result[Solution], float]] = (),
    limit: float | None = None,
) -> Figure:
    """Draw a frontier of plans as steps: between two plans, the one before is still the best."""
    # Horizontal: the limit, and the instance's own as a line. Vertical: the objective. Results come each with how much
    # of the limit it takes.
    figure = new_figure(height=380, top=36)
    points = frontier.points
    drawn = [(result, amount) for result, amount in results if result.solution is not None]
    across = choose_scale(frontier.limit_unit, [*(point.limit for point in points), *(amount for _, amount in drawn)])
    up = choose_scale(frontier.objective_unit, [point.objective for point in points])

    def place(amount: float, objective: float, solution: Solution, *above: str) -> Point:
        lines = (
            *above,
            words.name_plan(instance, solution),
            f"{frontier.limit_name}: {words.format_limit(instance, amount, frontier.limit_name)}",
            words.format_objective(instance, objective),
        )
        return amount / across.seconds, objective / up.seconds, "<br>".join(escape_text(line) for line in lines)

    add_points(
        figure,
        "best possible" if frontier.exact else "best found",
        [place(point.limit, point.objective, point.solution) for point in points],
        mode="lines+markers",
        line={"shape": "hv", "color": style.BLUE, "width": 2},
        marker={"size": 6, "color": style.BLUE},
        error_y=_write_intervals(points, up.seconds),
    )
    for number, (result, amount) in enumerate(drawn):
        if result.solution is None or result.objective is None:
            continue
        # Solvers that found the same plan lie on one another: the first, which is drawn below, is the largest.
        size = max(7, 15 - 3 * number)
        marker = {"size": size, "symbol": "diamond", "color": style.COLORS[number % len(style.COLORS)]}
        mark = place(amount, result.objective, result.solution, result.solver)
        add_points(figure, escape_text(result.solver), [mark], mode="markers", marker=marker)
    if limit is not None:
        figure.add_vline(x=limit / across.seconds, line={"color": style.GREY, "dash": "dot", "width": 1})
    names = title_axis(frontier.limit_name, across.unit), title_axis(words.name_objective(instance), up.unit)
    return style.finish(figure, *names)


def tell_frontier(
    instance: Instance,
    found: ParetoFrontier,
    words: PlanWords,
    results: Sequence[tuple[Result[Solution], float]],
    *,
    limit: float | None,
    plans: str,
    reading: str,
) -> Section:
    """Tell what ``plans`` there are between the quickest and the cheapest, and whether all are shown."""
    if len(found.points) == 1 and found.exact:
        said = f"One of all {plans} is the best in both time and cost, so that other limits buy nothing else."
        return Section("frontier", "Time against cost", [said])
    figure = draw_pareto(instance, found, words, results=results, limit=limit)
    label = f"Least {words.name_objective(instance)} for every {found.limit_name}: {len(found.points)} {plans}."
    each = f"such {plans.removesuffix('s')} is shown"
    complete = f"Every {each}." if found.exact else f"Not every {each}: the search was cut short."
    return Section("frontier", "Time against cost", [Charts([(label, figure)], f"{reading} {complete}")])


def _write_interval(instance: Instance, frontier: ParetoFrontier, point: ParetoPoint, words: PlanWords) -> str:
    """Write the ends of a point's interval, the unit once where it stands behind the number."""
    ends = [words.format_objective(instance, end) for end in (point.low, point.high) if end is not None]
    unit = f" {frontier.objective_unit}"
    return " to ".join([*(end.removesuffix(unit) for end in ends[:-1]), *ends[-1:]])


def _write_intervals(points: Sequence[ParetoPoint], seconds: float) -> dict[str, Any] | None:
    """Write the intervals of sampled objectives as bars above and below; None where nothing is sampled."""
    if all(point.low is None or point.high is None for point in points):
        return None
    ends = [
        (point.objective if point.low is None else point.low, point.objective if point.high is None else point.high)
        for point in points
    ]
    return {
        "type": "data",
        "symmetric": False,
        "array": [(high - point.objective) / seconds for point, (_, high) in zip(points, ends, strict=True)],
        "arrayminus": [(point.objective - low) / seconds for point, (low, _) in zip(points, ends, strict=True)],
        "thickness": 1,
    }
