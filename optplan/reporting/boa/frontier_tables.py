"""What is told of frontiers, one or several: a section with their chart, and tables of some budgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from optplan.contracts import Frontier, FrontierPoint, Instance
from optplan.reporting.boa import tables
from optplan.reporting.boa.figures import FrontierCurve, choose_unit, convert_unit, draw_frontiers
from optplan.reporting.boa.phrases import BUDGET_WORDS, look_up
from optplan.reporting.pages import Block, Charts, Section
from optplan.reporting.phrases import format_gpus
from optplan.reporting.sections import warn_of_untried
from optplan.reporting.tables import Column, Shown, Table, numeric
from optplan.units import format_duration

#: Budgets in the table of several frontiers, up to so many times the least for which all have a plan.
_BUDGETS, _BEYOND = 8, 3.0
DERIVED = (
    "The bounds were derived again from the certificates, without the solver: no plan within these budgets is better, "
    "mixed ones included."
)


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
    reading = "Each line is the best that any plan can do with so much budget: proven, point by point."
    if any(curve.sweeps for curve in curves):
        reading += " Marks are what solvers reach; a mark above its line is time left on the table."
    label = "Line chart: best possible completion time for every budget, curve by curve; the table below has some"
    blocks: list[Block] = [Charts([(label, draw_frontiers(curves))], reading), list_budgets(curves)]
    for curve in curves:
        told = [*list_asked(curve), *list_reached(curve)]
        name = f"{curve.label}: " if len(curves) > 1 else ""
        blocks += [f"{name}{part}" if isinstance(part, str) and part != DERIVED else part for part in told]
    return Section("frontiers", "What every budget buys", blocks, "Frontiers")


def list_budgets(curves: Sequence[FrontierCurve]) -> Table:
    """Look all frontiers up at budgets in equal ratios, in the unit in which they can be compared."""
    unit = choose_unit(curves)
    factors = [convert_unit(curve.instance, unit) for curve in curves]
    leasts = [factor * curve.least for factor, curve in zip(factors, curves, strict=True)]
    rows = []
    for budget in np.geomspace(min(leasts), _BEYOND * max(leasts), _BUDGETS).tolist():
        points = (look_up(curve.frontier, budget / factor) for factor, curve in zip(factors, curves, strict=True))
        cells = ("no plan" if point is None else format_duration(point.objective) for point in points)
        rows.append((format_gpus(budget), *cells))
    columns = (Column(curve.label, is_number=True, style="name") for curve in curves)
    caption = "The best possible mean completion time at some budgets"
    return Table(caption, (numeric(BUDGET_WORDS[unit].name), *columns), rows)


def list_asked(curve: FrontierCurve) -> list[str | Table]:
    """List what was asked of a frontier, by which mean it was asked for, and with what is proven; nothing without."""
    told: list[str | Table] = []
    for asked_of in dict.fromkeys(answer.instance for answer in curve.asked):
        answers = [answer for answer in curve.asked if answer.instance == asked_of]
        points, proven = [answer.point for answer in answers], [answer.proven for answer in answers]
        heading = "As asked:" if asked_of == curve.instance else "As asked, all jobs counting alike:"
        table = tables.list_budgets(asked_of, points, bounds=proven)
        rows = [(answer.say_question(), *row.cells) for answer, row in zip(answers, table.set_rows, strict=True)]
        told += [heading, replace(table, columns=(Column("asked for"), *table.columns), rows=rows)]
    return [*told, DERIVED] if told else []


def list_reached(curve: FrontierCurve, *solvers: str) -> list[str | Table]:
    """List what solvers reach beside a frontier, all or some."""
    told: list[str | Table] = []
    for solver in solvers or curve.sweeps:
        if points := curve.sweeps[solver]:
            told += [f"{solver} at these budgets:", tables.list_sweep(curve.instance, points)]
    return told
