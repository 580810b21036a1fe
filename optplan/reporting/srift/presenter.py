"""What a terminal and a page show of training jobs and the VMs that train them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from optplan.contracts import Instance, Result, Solution
from optplan.errors import UsageError
from optplan.reporting.pages import Page
from optplan.reporting.presenters import Beside
from optplan.reporting.sections import present_answer
from optplan.reporting.srift.tables import (
    compare_results,
    list_facts,
    list_fleet,
    list_notes,
    list_offers,
    list_result_facts,
    plan_of,
    take_fleets,
)
from optplan.reporting.srift.words import require_fleet, require_job, say_answer, say_how_good
from optplan.reporting.tables import fact_table, plain_text

if TYPE_CHECKING:
    from plotly.graph_objects import Figure
    from rich.console import RenderableType


def present_instance(instance: Instance) -> list[RenderableType]:
    """Say what an instance asks for, and which VMs are on offer."""
    job = require_job(instance)
    description: list[RenderableType] = [plain_text(job.description), ""] if job.description else []
    return [*description, fact_table(list_facts(job)), "", list_offers(job)]


def present_result(instance: Instance, result: Result[Solution]) -> list[RenderableType]:
    """Say what was found, how good it is, and what each VM does."""
    job = require_job(instance)
    tables = [list_fleet(job, plan_of(job, result))] if result.solution is not None else []
    return present_answer(
        result, say_answer(job, result), say_how_good(job, result), list_result_facts(job, result), *tables
    )


def present_comparison(instance: Instance, results: Sequence[Result[Solution]]) -> list[RenderableType]:
    """Set the results of several solvers side by side, ours first; fleets, which are long, and notes stand below."""
    require_job(instance)
    table, fleets = take_fleets(compare_results(results))
    notes = [*fleets, *list_notes(results)]
    parts: list[RenderableType] = [table]
    return [*parts, "", fact_table(notes)] if notes else parts


def draw_plan(instance: Instance, result: Result[Solution]) -> Figure:
    """Draw one iteration of the fleet, with its overlaps.

    Raises
    ------
    UsageError
        When the result has no solution.
    """
    from optplan.reporting.srift.iteration_figures import draw_iteration

    if result.solution is None:
        raise UsageError(f"the result has no solution to draw (status {result.status})")
    return draw_iteration(require_job(instance), require_fleet(result.solution))


def build_page(instance: Instance, result: Result[Solution], beside: Beside) -> Page:
    """Gather the report of a result, with an iteration's timeline and the frontier of fleets."""
    from optplan.reporting.srift import report

    beside.require_only_plans("fleets")
    return report.build_page(require_job(instance), result, beside)
