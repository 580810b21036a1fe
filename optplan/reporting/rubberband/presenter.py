"""What a terminal and a page show of searches on a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from optplan.contracts import Instance, Result, Solution
from optplan.reporting.pages import Page
from optplan.reporting.presenters import Beside
from optplan.reporting.rubberband.tables import (
    compare_results,
    list_asked,
    list_facts,
    list_result_facts,
    list_stages,
    plan_of,
)
from optplan.reporting.rubberband.words import require_search, say_answer, say_how_good
from optplan.reporting.sections import present_answer
from optplan.reporting.tables import fact_table, plain_text

if TYPE_CHECKING:
    from plotly.graph_objects import Figure
    from rich.console import RenderableType


def present_instance(instance: Instance) -> list[RenderableType]:
    """Say what an instance asks for."""
    search = require_search(instance)
    description: list[RenderableType] = [plain_text(search.description), ""] if search.description else []
    return [*description, fact_table(list_facts(search)), "", list_asked(search)]


def present_result(instance: Instance, result: Result[Solution]) -> list[RenderableType]:
    """Say what was found, how good it is, and how large the cluster is in each stage."""
    search = require_search(instance)
    tables = [list_stages(plan_of(search, result))] if result.solution is not None else []
    facts = list_result_facts(search, result)
    return present_answer(result, say_answer(search, result), say_how_good(search, result), facts, *tables)


def present_comparison(instance: Instance, results: Sequence[Result[Solution]]) -> list[RenderableType]:
    """Set the results of several solvers side by side, ours first."""
    return [compare_results(require_search(instance), results)]


def draw_plan(instance: Instance, result: Result[Solution]) -> Figure:
    """Draw how large the cluster is over time."""
    from optplan.reporting.rubberband.report import draw_sizes

    return draw_sizes([(result.solver, plan_of(require_search(instance), result))])


def build_page(instance: Instance, result: Result[Solution], beside: Beside) -> Page:
    """Gather the report of a result."""
    from optplan.reporting.rubberband import report

    beside.require_only_plans("searches")
    return report.build_page(require_search(instance), result, beside)
