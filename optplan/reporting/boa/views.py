"""Views that a page shows besides a result: why the plan is as it is, wrong estimates, frontiers, a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from optplan.contracts import Direction, ExplainedChoice, Explanation, Result, Sensitivity, Solution
from optplan.errors import UsageError
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution
from optplan.formulations.boa.judge.evaluation import types_along
from optplan.reporting.boa.breakdown import has_types
from optplan.reporting.boa.budgets import BUDGET_NAMES
from optplan.reporting.boa.explanation_tables import (
    ExplanationRow,
    list_explanations,
    name_epochs,
    name_subject,
    say_rates,
    unit_words,
    write_forced,
)
from optplan.reporting.boa.frontier_figures import FrontierCurve, choose_unit, convert_unit
from optplan.reporting.boa.sensitivity_views import list_figures, say_errors
from optplan.reporting.comparison import Comparison
from optplan.reporting.differences import Difference, cut_ranges, write_change, write_values
from optplan.reporting.phrases import NOTHING, compare_durations, count_gpus, format_gpus, look_up
from optplan.reporting.standing import name_status
from optplan.units import format_duration

#: Rows that a table of a page shows before it says how many more there are.
_MOST_ROWS = 300
#: Budgets in the table of several frontiers, and how far they go, as a multiple of the largest least budget.
_BUDGETS, _BEYOND = 8, 3.0


@dataclass(frozen=True)
class Views:
    """What a page shows besides a result; what is not given is left out.

    Parameters
    ----------
    explanation
        Of the page's result.
    sensitivity
        Of the page's result.
    curves
        Frontiers for one chart.
    comparison
        Of two instances, results or plans.
    """

    explanation: Explanation | None = None
    sensitivity: Sensitivity | None = None
    curves: Sequence[FrontierCurve] = ()
    comparison: Comparison | None = None


@dataclass(frozen=True)
class PlaceCell:
    """What it means for a class to be on a GPU type: ``kind`` is ``own``, ``other`` or ``never``."""

    text: str
    kind: str


@dataclass(frozen=True)
class PlaceRow:
    """Where a class runs in some epochs, and what other types would cost: a cell for each GPU type.

    The subject is empty where it is that of the row above.
    """

    subject: str
    epochs: str
    cells: tuple[PlaceCell, ...]


@dataclass(frozen=True)
class ExplanationContent:
    """What is told of an explanation."""

    intro: str
    unit: str
    rows: tuple[ExplanationRow, ...]
    rest: str
    types: tuple[str, ...]
    places: tuple[PlaceRow, ...]


@dataclass(frozen=True)
class SensitivityContent:
    """What is told of wrong estimates: a column for each plan."""

    intro: str
    plans: tuple[str, ...]
    rows: tuple[tuple[str, list[str]], ...]


@dataclass(frozen=True)
class ReachedRow:
    """What a solver reaches at one budget, and how far above the frontier that is."""

    name: str
    budget: str
    objective: str
    above: str


@dataclass(frozen=True)
class AskedRow:
    """What was asked of a frontier, and the answer with its proven bound."""

    name: str
    question: str
    budget: str
    objective: str
    proven: str


@dataclass(frozen=True)
class CurvesContent:
    """What frontiers buy at the same budgets, a column for each curve; what was asked of them, what solvers reach."""

    budget_name: str
    labels: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    asked: tuple[AskedRow, ...]
    reached: tuple[ReachedRow, ...]


@dataclass(frozen=True)
class ComparisonRow:
    """One figure of two things."""

    what: str
    a: str
    b: str
    change: str
    percent: str


@dataclass(frozen=True)
class ComparisonGroup:
    """The figures that concern one class, GPU type or the whole; ``rest`` says what was left out."""

    name: str
    rows: tuple[ComparisonRow, ...]
    rest: str


@dataclass(frozen=True)
class ComparisonContent:
    """What is told of a comparison."""

    a: str
    b: str
    summary: str
    notes: tuple[str, ...]
    groups: tuple[ComparisonGroup, ...]


@dataclass(frozen=True)
class ViewContent:
    """What the views say, as text; None for those that are left out."""

    explanation: ExplanationContent | None = None
    sensitivity: SensitivityContent | None = None
    curves: CurvesContent | None = None
    comparison: ComparisonContent | None = None


def gather_views(
    views: Views, instance: BoaInstance | None = None, result: Result[Solution] | None = None
) -> ViewContent:
    """Gather what the views say.

    Parameters
    ----------
    views
        What there is.
    instance, result
        Of the page; an explanation needs them.

    Raises
    ------
    UsageError
        When an explanation or a sensitivity is for another instance than the page's result, or the frontiers' budgets
        have no unit in common.
    """
    explained = views.explanation
    if explained is not None and (instance is None or result is None):
        raise UsageError("an explanation is shown beside the result that it explains; give instance and result")
    for view in (explained, views.sensitivity):
        if view is not None and result is not None and view.instance_hash != result.instance_hash:
            message = f"the {type(view).__name__.lower()} is for {view.instance_name!r} with hash "
            raise UsageError(
                f"{message}{view.instance_hash[:12]}, the result for {result.instance_name!r} with hash "
                f"{result.instance_hash[:12]}; give what belongs together"
            )
    return ViewContent(
        explanation=None
        if explained is None or instance is None or result is None
        else _gather_explanation(instance, result, explained),
        sensitivity=None if views.sensitivity is None else _gather_sensitivity(views.sensitivity),
        curves=_gather_curves(views.curves) if views.curves else None,
        comparison=None if views.comparison is None else _gather_comparison(views.comparison),
    )


def list_places(instance: BoaInstance, result: Result[Solution], explanation: Explanation) -> list[PlaceRow]:
    """List for each choice on which GPU type it runs, and what it costs to force it elsewhere.

    Parameters
    ----------
    instance, result
        The problem, and the result explained.
    explanation
        Of the result.

    Returns
    -------
    list of PlaceRow
        A cell for each type of the instance, in its order; empty where there is one type.
    """
    if not has_types(instance) or not isinstance(result.solution, BoaSolution):
        return []
    rows = []
    before = None
    for choice in explanation.choices:
        branch = result.solution.branches[choice.subject][choice.branch - 1]
        own = str(types_along(instance, branch)[choice.first - 1])
        held = PlaceCell(count_gpus(float(branch.widths[choice.first - 1])), "own")
        cells = _write_others(instance, explanation, choice, own) | {own: held}
        rows.append(
            PlaceRow(
                subject="" if before == (choice.subject, choice.branch) else name_subject(choice),
                epochs=name_epochs(choice),
                cells=tuple(cells.get(name, PlaceCell("cannot run", "never")) for name in instance.gpu_types),
            )
        )
        before = (choice.subject, choice.branch)
    return rows


def _write_others(
    instance: BoaInstance, explanation: Explanation, choice: ExplainedChoice, own: str
) -> dict[str, PlaceCell]:
    """Write what it costs to force a choice to each other type; they come in the order of the class's types."""
    others = [name for name in instance.options(choice.subject).gpu_types if name != own]
    forced = [one for one in choice.alternatives if one.direction is Direction.OTHER_TYPE]
    costs = [write_forced(explanation, one) for one in forced]
    return {
        name: PlaceCell(f"{cost} s" if cost[-1].isdigit() else cost, "other")
        for name, cost in zip(others, costs, strict=True)
    }


def _gather_explanation(
    instance: BoaInstance, result: Result[Solution], explanation: Explanation
) -> ExplanationContent:
    rows = list_explanations(explanation)
    more = len(rows) - _MOST_ROWS
    places = list_places(instance, result, explanation)
    return ExplanationContent(
        intro=say_rates(instance, explanation),
        unit=unit_words(explanation),
        rows=tuple(rows[:_MOST_ROWS]),
        rest=f"{more} more rows are in the JSON of optplan explain." if more > 0 else "",
        types=tuple(instance.gpu_types),
        places=tuple(places[:_MOST_ROWS]),
    )


def _gather_sensitivity(found: Sensitivity) -> SensitivityContent:
    plans = tuple(plan.name for plan in found.plans)
    return SensitivityContent(say_errors(found), plans, tuple(list_figures(found)))


def _gather_curves(curves: Sequence[FrontierCurve]) -> CurvesContent:
    """Look every frontier up at the same budgets, in equal ratios from the least to well above the largest least."""
    unit = choose_unit(curves)
    factors = [convert_unit(curve.instance, unit) for curve in curves]
    leasts = [factor * float(curve.frontier.budgets[0]) for factor, curve in zip(factors, curves, strict=True)]
    rows = []
    for budget in np.geomspace(min(leasts), _BEYOND * max(leasts), _BUDGETS).tolist():
        cells = []
        for factor, curve in zip(factors, curves, strict=True):
            point = look_up(curve.frontier, budget / factor)
            cells.append("no plan" if point is None else format_duration(point.objective))
        rows.append((format_gpus(budget), tuple(cells)))
    reached = [
        row for factor, curve in zip(factors, curves, strict=True) for row in _list_reached(curve, factor, len(curves))
    ]
    return CurvesContent(
        budget_name=BUDGET_NAMES[unit],
        labels=tuple(curve.label for curve in curves),
        rows=tuple(rows),
        asked=tuple(row for factor, curve in zip(factors, curves, strict=True) for row in _list_asked(curve, factor)),
        reached=tuple(reached),
    )


def _list_asked(curve: FrontierCurve, factor: float) -> list[AskedRow]:
    """List what was asked of a curve, at the chart's budgets."""
    return [
        AskedRow(
            name=curve.label,
            question=asked.question,
            budget=format_gpus(factor * asked.point.budget),
            objective=format_duration(asked.point.objective),
            proven=f"{asked.proven_s:,.6g} s",
        )
        for asked in curve.asked
    ]


def _list_reached(curve: FrontierCurve, factor: float, num_curves: int) -> list[ReachedRow]:
    """List what solvers reach beside a curve, at the chart's budgets."""
    rows = []
    for solver, points in curve.sweeps.items():
        name = solver if num_curves == 1 else f"{curve.label}: {solver}"
        for point in points:
            found = point.result
            objective = name_status(found)[0] if found.objective is None else format_duration(found.objective)
            above = NOTHING if point.above is None else compare_durations(point.above)
            rows.append(ReachedRow(name, format_gpus(factor * point.best.budget), objective, above))
    return rows


def _gather_comparison(comparison: Comparison) -> ComparisonContent:
    groups = []
    for of, differences in groupby(comparison.differing, key=lambda row: row.of):
        shown, rest = cut_ranges(list(differences))
        said = f"{rest} more rows of widths are in the JSON of optplan compare." if rest else ""
        groups.append(ComparisonGroup(of, tuple(_write_difference(row) for row in shown), said))
    return ComparisonContent(
        a=comparison.a.describe(),
        b=comparison.b.describe(),
        summary=comparison.summarise(with_equal=True),
        notes=comparison.notes,
        groups=tuple(groups),
    )


def _write_difference(row: Difference) -> ComparisonRow:
    return ComparisonRow(row.what, *write_values(row), *write_change(row))
