"""Sections of BOA's pages beside a result: why the plan is as it is, wrong estimates, frontiers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optplan.contracts import Direction, ExplainedChoice, Explanation, Result, Sensitivity, Solution
from optplan.errors import UsageError
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution
from optplan.formulations.boa.judge.evaluation import types_along
from optplan.reporting.boa.breakdown import has_types
from optplan.reporting.boa.budgets import BUDGET_NAMES
from optplan.reporting.boa.explanation_tables import (
    list_explanations,
    name_epochs,
    name_subject,
    say_rates,
    write_forced,
)
from optplan.reporting.boa.frontier_figures import FrontierCurve, choose_unit, convert_unit, draw_frontiers
from optplan.reporting.boa.phrases import look_up
from optplan.reporting.boa.sensitivity_views import draw_panels, list_figures, say_errors
from optplan.reporting.pages import Block, Charts, Reading, Section
from optplan.reporting.phrases import NOTHING, compare_durations, count_gpus, format_gpus
from optplan.reporting.standing import name_status
from optplan.reporting.tables import Cell, Column, Content, Table, numbers
from optplan.units import format_duration

#: Rows that a table of a page shows before it says how many more there are.
_MOST_ROWS = 300
#: Budgets in the table of several frontiers, and how far they go, as a multiple of the largest least budget.
_BUDGETS, _BEYOND = 8, 3.0

_READ_PLACES = (
    "Shaded: the GPUs that the plan gives a job of the class in these epochs. Elsewhere: what it costs to force the "
    "class to that type there, at its best width, within the same limits and with everything else decided anew."
)
_READ_CHOICES = (
    "Alone: the change of the mean completion time and of the use of the budget if this one choice changes and nothing "
    "else does. Forced: by how much the mean completion time grows when the choice is forced for all jobs of the "
    "class, the limits stay, and everything else is decided anew; these are solved, not estimated."
)
_READ_SAMPLES = (
    "The first chart shows how often the mean completion time comes out at a value when the estimates are wrong, the "
    "second one how much of the budget the plan then uses. The dashed lines are what was promised and the budget. A "
    "plan may exceed the budget, because the jobs stay longer than estimated."
)


def require_own(found: Explanation | Sensitivity, result: Result[Solution]) -> None:
    """Refuse what was said of another instance.

    Raises
    ------
    UsageError
        When the explanation or the sensitivity is for another instance than the page's result.
    """
    if found.instance_hash != result.instance_hash:
        raise UsageError(
            f"the {type(found).__name__.lower()} is for {found.instance_name!r} with hash {found.instance_hash[:12]}, "
            f"the result for {result.instance_name!r} with hash {result.instance_hash[:12]}; give what belongs together"
        )


def tell_explanation(instance: BoaInstance, result: Result[Solution], explanation: Explanation) -> Section:
    """Tell why each class gets its GPUs, and where it runs.

    Raises
    ------
    UsageError
        When it explains another instance's result.
    """
    require_own(explanation, result)
    places = list_places(instance, result, explanation)
    heading = "Why each class gets these GPUs" if places is None else "Which class runs where, and why"
    blocks: list[Block] = [] if places is None else [places, Reading(_READ_PLACES)]
    blocks += [say_rates(instance, explanation), list_explanations(explanation, _MOST_ROWS), Reading(_READ_CHOICES)]
    return Section("why", heading, blocks, link="Why these GPUs")


def list_places(instance: BoaInstance, result: Result[Solution], explanation: Explanation) -> Table | None:
    """List for each choice on which GPU type it runs, and what it costs to force it elsewhere.

    It has a column for each type of the instance, in its order; None where there is one type.
    """
    if not has_types(instance) or not isinstance(result.solution, BoaSolution):
        return None
    rows: list[list[Content]] = []
    before = None
    for choice in explanation.choices:
        branch = result.solution.branches[choice.subject][choice.branch - 1]
        own = str(types_along(instance, branch)[choice.first - 1])
        held = Cell(count_gpus(float(branch.widths[choice.first - 1])), "own")
        cells = _write_others(instance, explanation, choice, own) | {own: held}
        subject = "" if before == (choice.subject, choice.branch) else name_subject(choice)
        places = (cells.get(name, Cell("cannot run", "never")) for name in instance.gpu_types)
        rows.append([subject, name_epochs(choice), *places])
        before = (choice.subject, choice.branch)
    columns = (Column(name, is_number=True, style="name") for name in instance.gpu_types)
    caption = "Where each class runs, and by how much the mean completion time of all jobs would grow elsewhere"
    more = len(rows) - _MOST_ROWS
    rest = f"{more} more rows are in the JSON of optplan explain." if more > 0 else ""
    return Table(caption, (Column("class"), Column("epochs", is_number=True), *columns), rows[:_MOST_ROWS], 2, rest)


def _write_others(
    instance: BoaInstance, explanation: Explanation, choice: ExplainedChoice, own: str
) -> dict[str, Cell]:
    """Write what it costs to force a choice to each other type; they come in the order of the class's types."""
    others = [name for name in instance.options(choice.subject).gpu_types if name != own]
    forced = [one for one in choice.alternatives if one.direction is Direction.OTHER_TYPE]
    costs = [write_forced(explanation, one) for one in forced]
    return {
        name: Cell(f"{cost} s" if cost[-1].isdigit() else cost, "other")
        for name, cost in zip(others, costs, strict=True)
    }


def tell_sensitivity(found: Sensitivity) -> Section:
    """Tell what wrong estimates do to plans."""
    times, uses = draw_panels(found)
    charts = [
        ("Step chart: mean completion time in the samples; the table below has means and quantiles", times),
        ("Step chart: use of the budget in the samples; the table below has means", uses),
    ]
    said = f"{say_errors(found)} The widths stay as planned; the jobs run at their true speeds."
    blocks: list[Block] = [said, Charts(charts, _READ_SAMPLES, layout="pair"), list_figures(found)]
    return Section("estimates", "What wrong estimates do to the plan", blocks, link="Wrong estimates")


def tell_curves(curves: Sequence[FrontierCurve]) -> Section:
    """Tell what frontiers buy at the same budgets, what was asked of them, and what solvers reach.

    Raises
    ------
    UsageError
        When the frontiers' budgets have no unit in common.
    """
    unit = choose_unit(curves)
    factors = [convert_unit(curve.instance, unit) for curve in curves]
    reading = "Each line is the best that any plan can do with so much budget: proven, point by point."
    if any(curve.sweeps for curve in curves):
        reading += " Marks are what solvers reach; a mark above its line is time left on the table."
    label = "Line chart: best possible completion time for every budget, curve by curve; the table below has some"
    blocks: list[Block] = [
        Charts([(label, draw_frontiers(curves))], reading),
        list_budgets(curves, factors, BUDGET_NAMES[unit]),
    ]
    asked = list_asked(curves, factors, BUDGET_NAMES[unit])
    if asked.rows:
        said = (
            "The bounds were derived again from the certificates, without the solver: no plan within these budgets is "
            "better, mixed ones included."
        )
        blocks += [asked, said]
    reached = list_reached(curves, factors, BUDGET_NAMES[unit])
    return Section("frontiers", "What every budget buys", [*blocks, *([reached] if reached.rows else [])], "Frontiers")


def list_budgets(curves: Sequence[FrontierCurve], factors: Sequence[float], budget_name: str) -> Table:
    """Look every frontier up at the same budgets, in equal ratios from the least to well above the largest least.

    ``factors`` lead from the budget's unit of each curve to the chart's.
    """
    leasts = [factor * float(curve.frontier.budgets[0]) for factor, curve in zip(factors, curves, strict=True)]
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
            asked.question,
            format_gpus(factor * asked.point.budget),
            format_duration(asked.point.objective),
            f"{asked.proven_s:,.6g} s",
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
