"""What is told of frontiers, one or several: a section with their chart, and tables of some budgets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optplan.contracts import Frontier, FrontierPoint, Instance
from optplan.reporting.boa import tables
from optplan.reporting.boa.figures import FrontierCurve, choose_unit, convert_unit, draw_frontiers
from optplan.reporting.boa.phrases import BUDGET_WORDS, look_up
from optplan.reporting.pages import Block, Charts, Section
from optplan.reporting.phrases import NOTHING, compare_durations, format_gpus
from optplan.reporting.sections import name_status, warn_of_untried
from optplan.reporting.tables import Column, Shown, Table, numbers
from optplan.units import format_duration

#: Budgets in the table of several frontiers, up to so many times the least for which all have a plan.
_BUDGETS, _BEYOND = 8, 3.0


def present_frontier(
    label: str, instance: Instance, frontier: Frontier, shown: Sequence[FrontierPoint], *, more: str = ""
) -> list[Shown]:
    """Show some points of a frontier; ``more`` is how to see the others."""
    title = f"Frontier of {label}: {len(frontier.budgets)} points"
    if len(shown) < len(frontier.budgets):
        title += f", {len(shown)} of them shown{more}"
    return [title, *warn_of_untried(instance), "", tables.list_budgets(instance, shown)]


def tell_curves(curves: Sequence[FrontierCurve]) -> Section:
    """Tell what frontiers buy at the same budgets, what was asked of them, and what solvers reach."""
    unit = choose_unit(curves)
    factors = [convert_unit(curve.instance, unit) for curve in curves]
    reading = "Each line is the best that any plan can do with so much budget: proven, point by point."
    if any(curve.sweeps for curve in curves):
        reading += " Marks are what solvers reach; a mark above its line is time left on the table."
    label = "Line chart: best possible completion time for every budget, curve by curve; the table below has some"
    blocks: list[Block] = [
        Charts([(label, draw_frontiers(curves))], reading),
        list_budgets(curves, factors, BUDGET_WORDS[unit].name),
    ]
    asked = list_asked(curves, factors, BUDGET_WORDS[unit].name)
    if asked.rows:
        said = (
            "The bounds were derived again from the certificates, without the solver: no plan within these budgets is "
            "better, mixed ones included."
        )
        blocks += [asked, said]
    reached = list_reached(curves, factors, BUDGET_WORDS[unit].name)
    return Section("frontiers", "What every budget buys", [*blocks, *([reached] if reached.rows else [])], "Frontiers")


def list_budgets(curves: Sequence[FrontierCurve], factors: Sequence[float], budget_name: str) -> Table:
    """Look all frontiers up at budgets in equal ratios; ``factors`` lead from each curve's unit to the chart's."""
    leasts = [factor * curve.least for factor, curve in zip(factors, curves, strict=True)]
    rows = []
    for budget in np.geomspace(min(leasts), _BEYOND * max(leasts), _BUDGETS).tolist():
        points = (look_up(curve.frontier, budget / factor) for factor, curve in zip(factors, curves, strict=True))
        cells = ("no plan" if point is None else format_duration(point.objective) for point in points)
        rows.append((format_gpus(budget), *cells))
    columns = (Column(curve.label, is_number=True, style="name") for curve in curves)
    budgets = Column(budget_name, is_number=True)
    return Table("The best possible mean completion time at some budgets", (budgets, *columns), rows)


def list_asked(curves: Sequence[FrontierCurve], factors: Sequence[float], budget_name: str) -> Table:
    """List what was asked of frontiers, with its proven bound, at the chart's budgets."""
    columns = (Column("frontier"), Column("asked for"), *numbers(budget_name, "best possible", "proven bound"))
    rows = [
        (
            curve.label,
            asked.say_question(),
            format_gpus(factor * asked.point.budget),
            format_duration(asked.point.objective),
            f"{asked.proven:,.6g} s",
        )
        for factor, curve in zip(factors, curves, strict=True)
        for asked in curve.asked
    ]
    return Table("What was asked", columns, rows, 2)


def list_reached(curves: Sequence[FrontierCurve], factors: Sequence[float], budget_name: str) -> Table:
    """List what solvers reach beside frontiers, at the chart's budgets."""
    columns = (Column("solver"), *numbers(budget_name, "mean completion time", "against the best"))
    rows = []
    for factor, curve in zip(factors, curves, strict=True):
        for solver, points in curve.sweeps.items():
            name = solver if len(curves) == 1 else f"{curve.label}: {solver}"
            for point in points:
                found = point.result
                objective = name_status(found)[0] if found.objective is None else format_duration(found.objective)
                above = NOTHING if point.above is None else compare_durations(point.above)
                rows.append((name, format_gpus(factor * point.best.budget), objective, above))
    return Table("What solvers reach", columns, rows, 2)
