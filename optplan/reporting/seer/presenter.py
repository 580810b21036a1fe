"""What a terminal and a page show of SEER's searches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from optplan.contracts import Instance, Result, Solution
from optplan.errors import UsageError
from optplan.reporting.pages import Page
from optplan.reporting.presenters import Beside
from optplan.reporting.sections import present_answer
from optplan.reporting.seer.quality import DELTA, compare_losses, list_guarantees
from optplan.reporting.seer.tables import (
    compare_results,
    list_brackets,
    list_facts,
    list_result_facts,
    list_rounds_of,
    say_quality,
)
from optplan.reporting.seer.words import require_brackets, require_seer, say_answer, seeks_quality
from optplan.reporting.tables import fact_table, plain_text

if TYPE_CHECKING:
    from plotly.graph_objects import Figure
    from rich.console import RenderableType


def present_instance(instance: Instance) -> list[RenderableType]:
    """Say what an instance asks for, and the rounds and brackets that follow from it."""
    search = require_seer(instance)
    description: list[RenderableType] = [plain_text(search.description), ""] if search.description else []
    parts: list[RenderableType] = [*description, fact_table(list_facts(search))]
    brackets, promised = list_brackets(search, None), list_guarantees(search)
    if brackets is not None:
        parts += ["", brackets]
    if promised is not None:
        said = f"What the paper's Theorem 2 promises of the published plan with probability {1 - DELTA:g}:"
        parts += ["", plain_text(said), "", promised]
    return parts


def present_result(instance: Instance, result: Result[Solution]) -> list[RenderableType]:
    """Say what was found, how good it is, and who trains in each round."""
    search, solution = require_seer(instance), result.solution
    tables = [] if solution is None else [list_rounds_of(search, require_brackets(solution))]
    facts = list_result_facts(search, result)
    return present_answer(result, say_answer(search, result), say_quality(search, result), facts, *tables)


def present_comparison(instance: Instance, results: Sequence[Result[Solution]]) -> list[RenderableType]:
    """Set the results of several solvers side by side, ours first."""
    return [compare_losses(results) if seeks_quality(require_seer(instance)) else compare_results(results)]


def draw_plan(instance: Instance, result: Result[Solution]) -> Figure:
    """Draw who trains on how many GPUs over time.

    Raises
    ------
    UsageError
        When the result has no solution.
    """
    from optplan.reporting.seer.round_figures import draw_rounds

    if result.solution is None:
        raise UsageError(f"the result has no solution to draw (status {result.status})")
    return draw_rounds(require_seer(instance), require_brackets(result.solution))


def build_page(instance: Instance, result: Result[Solution], beside: Beside) -> Page:
    """Gather the report of a result, with the picture of the search."""
    from optplan.reporting.seer import report

    beside.require_only_plans("searches")
    return report.build_page(require_seer(instance), result, beside)
