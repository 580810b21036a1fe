"""The pictures that users ask for by themselves: frontiers and plans, as figures of plotly and as pages."""

from __future__ import annotations

from collections.abc import Sequence

from optplan.contracts import Frontier, Instance, ParetoFrontier, Result, Solution
from optplan.errors import UnsupportedError, UsageError
from optplan.formulations import formulation_of
from optplan.reporting.pages import Charts, Page, Section, build_page
from optplan.reporting.presentation import presenter_of
from optplan.reporting.presenters import find_module, plan_words_of
from optplan.reporting.style import Figure


def draw_frontier(instance: Instance, frontier: Frontier | ParetoFrontier) -> Figure:
    """Draw what every amount of a limit buys.

    Parameters
    ----------
    instance
        The problem.
    frontier
        Its own, from :func:`optplan.frontier` or :func:`optplan.pareto`.

    Returns
    -------
    Figure
        Of plotly. Horizontal: the limit. Vertical: the objective. A line where plans can be mixed, steps where between
        two plans the one before is still the best.

    Raises
    ------
    UsageError
        When the frontier is another instance's.
    UnsupportedError
        When its formulation comes from another package and draws no frontiers.
    MissingExtraError
        When plotly is not installed.
    """
    # Its limits may have been others, so hashes do not tell.
    if (frontier.formulation, frontier.instance_name) != (formulation_of(instance).name, instance.name):
        raise UsageError(
            f"frontier: it is that of {frontier.instance_name!r} (formulation {frontier.formulation}), not of "
            f"{instance.name!r}; give the instance that it was computed for"
        )
    if isinstance(frontier, ParetoFrontier):
        from optplan.reporting.pareto import draw_pareto

        return draw_pareto(instance, frontier, plan_words_of(instance))
    figures = find_module(frontier.formulation, "figures")
    if figures is None:
        raise UnsupportedError(f"there is no figure of a frontier of formulation {frontier.formulation!r}")
    drawn: Figure = figures.draw_frontier(instance, frontier)
    return drawn


def draw_plan(instance: Instance, result: Result[Solution]) -> Figure:
    """Draw the plan of a result: GPUs by class and epoch, or a cluster, trials or an iteration over time.

    Parameters
    ----------
    instance
        The problem.
    result
        With a plan.

    Returns
    -------
    Figure
        Of plotly.

    Raises
    ------
    UnsupportedError
        When the formulation comes from another package and makes no plans.
    UsageError
        When the result has no plan.
    MissingExtraError
        When plotly is not installed.
    """
    if result.solution is None:
        raise UsageError(f"the result has no plan to draw (status {result.status})")
    return presenter_of(instance).draw_plan(instance, result)


def build_figures(name: str, title: str, figures: Sequence[tuple[str, Figure]]) -> str:
    """Build a page of figures alone, each with what it shows for those who cannot see it; it behaves as reports do."""
    sections = [
        Section(f"figure-{number}", label, [Charts([(label, figure)])])
        for number, (label, figure) in enumerate(figures, start=1)
    ]
    return build_page(Page(name, title, sections=sections))
