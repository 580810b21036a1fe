"""The report: one HTML page that needs nothing else, neither network nor server.

The page is for somebody who has read no paper. How it is kept safe stands in :mod:`optplan.reporting.rendering`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from optplan.contracts import Frontier, Instance, Result, Solution, Verification
from optplan.errors import UsageError
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.instances.files import write_text
from optplan.reporting.boa.breakdown import require_boa, require_same_problem
from optplan.reporting.boa.budgets import use_of_budget
from optplan.reporting.boa.class_figures import MOST_CLASSES, draw_gpu_use, draw_time_shares, draw_widths
from optplan.reporting.boa.content import gather_content
from optplan.reporting.boa.figures import draw_frontier
from optplan.reporting.boa.frontier_figures import draw_frontiers
from optplan.reporting.boa.sensitivity_views import draw_panels
from optplan.reporting.boa.views import Views, gather_views
from optplan.reporting.phrases import look_up
from optplan.reporting.rendering import Drawn, load_template, place_charts, render
from optplan.reporting.style import load_plotly
from optplan.units import BudgetUnit

#: What the report says where nobody knows the names of the user's files.
_VERIFY_COMMAND = "optplan verify instance.json result.json"

_NO_VIEWS = Views()

#: Relative tolerance on a plan's being above the frontier; engines stop at such gaps.
_TOLERANCE = 1e-6


def require_packages() -> None:
    """Load what the report needs, so that a missing package is known before any work.

    Raises
    ------
    MissingExtraError
        When plotly or jinja2 is not installed.
    """
    load_plotly()
    load_template("report.html")


def write_report(  # noqa: PLR0913 - what the report shows, and where it goes
    path: Path | str,
    instance: Instance,
    result: Result[Solution],
    *,
    frontier: Frontier | None = None,
    comparisons: Sequence[Result[Solution]] = (),
    verification: Verification | None = None,
    verify_command: str = _VERIFY_COMMAND,
    views: Views = _NO_VIEWS,
    overwrite: bool = False,
) -> None:
    """Write the report to a file; see :func:`build_report`.

    Raises
    ------
    OutputError
        When the file exists and may not be replaced, or cannot be written.
    """
    page = build_report(
        instance,
        result,
        frontier=frontier,
        comparisons=comparisons,
        verification=verification,
        verify_command=verify_command,
        views=views,
    )
    write_text(page, path, overwrite=overwrite)


def write_page(path: Path | str, title: str, views: Views, *, overwrite: bool = False) -> None:
    """Write a page of views to a file; see :func:`build_page`.

    Raises
    ------
    OutputError
        When the file exists and may not be replaced, or cannot be written.
    """
    write_text(build_page(title, views), path, overwrite=overwrite)


def build_page(title: str, views: Views) -> str:
    """Build a page of views that belong to no single result: frontiers, a comparison, wrong estimates.

    Parameters
    ----------
    title
        Its heading.
    views
        At least one; an explanation needs a report.

    Returns
    -------
    str
        One HTML page with everything in it.

    Raises
    ------
    UsageError
        When there is an explanation, or frontiers' budgets have no unit in common.
    MissingExtraError
        When plotly or jinja2 is not installed.
    """
    template, told = load_template("page.html"), gather_views(views)
    charts, figures = place_charts(_draw_views(views))
    return render(template, figures, title=title, charts=charts, views=told)


def build_report(
    instance: Instance,
    result: Result[Solution],
    *,
    frontier: Frontier | None = None,
    comparisons: Sequence[Result[Solution]] = (),
    verification: Verification | None = None,
    verify_command: str = _VERIFY_COMMAND,
    views: Views = _NO_VIEWS,
) -> str:
    """Build the report.

    Parameters
    ----------
    instance
        The problem, with its budget.
    result
        Its result, of any status: the page also says why there is no plan and what would help.
    frontier
        What other budgets would buy; None leaves that part out.
    comparisons
        Results of other solvers for the same problem, in the order of the table; the first one with a solution is also
        drawn behind the widths.
    verification
        Of the result, when it is at hand.
    verify_command
        The command line that checks the result, with the names of the user's files.
    views
        What else to show: why the plan is as it is, what wrong estimates do to it, other frontiers, a comparison.

    Returns
    -------
    str
        One HTML page with everything in it. The same arguments give the same page.

    Raises
    ------
    UsageError
        When the instance is of a formulation that reports cannot show, a result belongs to another problem, or the
        frontier, the explanation or the sensitivity is another instance's.
    VerificationError
        When the verification failed.
    MissingExtraError
        When plotly or jinja2 is not installed.
    """
    boa = require_boa(instance)
    for one in (result, *comparisons):
        require_same_problem(boa, one)
    if frontier is not None:
        _require_own_frontier(boa, frontier, (result, *comparisons))
    if verification is not None:
        verification.require()
    template = load_template("report.html")
    content = gather_content(
        boa,
        result,
        frontier=frontier,
        comparisons=comparisons,
        verification=verification,
        verify_command=verify_command,
    )
    rival = next((other for other in comparisons if other.solution is not None), None)
    told = gather_views(views, boa, result)
    charts, figures = place_charts(_draw_charts(boa, result, frontier, comparisons, rival) | _draw_views(views))
    return render(
        template,
        figures,
        title=content.title,
        content=content,
        charts=charts,
        most_charts=MOST_CLASSES,
        views=told,
        rival="" if rival is None else rival.solver,
    )


def _require_own_frontier(instance: BoaInstance, frontier: Frontier, results: Sequence[Result[Solution]]) -> None:
    """Refuse a frontier of another problem.

    It may have been computed for another budget, so its hash does not tell; but no plan of its problem lies below it.
    """
    if frontier.instance_name != instance.name:
        message = f"the frontier is that of {frontier.instance_name!r}, not of {instance.name!r}; compute it anew"
        raise UsageError(message)
    for result in results:
        if result.objective is None:
            continue
        point = look_up(frontier, use_of_budget(instance, result) * (1.0 + _TOLERANCE))
        if point is None or result.objective < point.objective * (1.0 - _TOLERANCE):
            message = (
                f"the frontier is not this problem's: the plan of {result.solver!r} lies below it; compute it anew "
                "from the same instance"
            )
            raise UsageError(message)


def _draw_charts(
    instance: BoaInstance,
    result: Result[Solution],
    frontier: Frontier | None,
    comparisons: Sequence[Result[Solution]],
    rival: Result[Solution] | None,
) -> Drawn:
    """Draw the charts of a result, by section."""
    labelled: Drawn = {"frontier": [], "widths": [], "use": []}
    if frontier is not None:
        every = "number of GPUs" if instance.budget_unit is BudgetUnit.GPU else "number of dollars an hour"
        label = f"Line chart: best possible completion time for every {every}; the table below has the figures"
        labelled["frontier"].append((label, draw_frontier(instance, frontier, result, comparisons)))
    if result.solution is not None:
        labelled["widths"] = [
            (f"Step chart: GPUs of a job of class {name}, epoch by epoch; the plan's table has the figures", figure)
            for name, figure in draw_widths(instance, result, rival).items()
        ]
        labelled["use"] = [
            ("Bar chart: GPUs in use by class; the table below has the figures", draw_gpu_use(instance, result)),
            ("Bar chart: part of the mean by class; the table below has it", draw_time_shares(instance, result)),
        ]
    return labelled


def _draw_views(views: Views) -> Drawn:
    """Draw the charts of the views, by section."""
    drawn: Drawn = {"sensitivity": [], "curves": []}
    if views.sensitivity is not None:
        times, uses = draw_panels(views.sensitivity)
        drawn["sensitivity"] = [
            ("Step chart: mean completion time in the samples; the table below has means and quantiles", times),
            ("Step chart: use of the budget in the samples; the table below has means", uses),
        ]
    if views.curves:
        label = "Line chart: best possible completion time for every budget, curve by curve; the table below has some"
        drawn["curves"] = [(label, draw_frontiers(views.curves))]
    return drawn
