"""What users ask for by themselves: pictures of frontiers and plans, and the report of a result, each one HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from optplan.contracts import Explanation, Frontier, Instance, ParetoFrontier, Result, Solution
from optplan.errors import UnsupportedError, UsageError
from optplan.formulations import formulation_of
from optplan.instances.files import write_text
from optplan.reporting.pages import Charts, Page, Section, build_page
from optplan.reporting.presentation import presenter_of
from optplan.reporting.presenters import Beside, find_module, gather, plan_words_of
from optplan.reporting.style import Figure
from optplan.verification import verify

_ALONE = Beside()


def build_report(instance: Instance, result: Result[Solution], beside: Beside = _ALONE) -> str:
    """Build the report of a result, the same for the same arguments; what failed verification is not reported."""
    if beside.verification is not None:
        beside.verification.require()
        result = result.replace(on_trust=beside.verification.on_trust)
    return build_page(presenter_of(instance).build_page(instance, result, beside))


def write_report(
    path: Path | str,
    instance: Instance,
    result: Result[Solution],
    *,
    rivals: Sequence[Result[Solution]] = (),
    explanation: Explanation | None = None,
    verify_command: str = _ALONE.verify_command,
    overwrite: bool = False,
) -> None:
    """Write the HTML report of a result, which is verified for it; what else it shows is solved for.

    Parameters
    ----------
    path
        Where to.
    instance, result
        The problem and its result, of any status.
    rivals
        Results of other solvers, to be set beside it; they are verified, too.
    explanation
        Of the result; refused where the formulation has none.
    verify_command
        How to check the result, as the page says it.
    overwrite
        Whether a file that exists may be replaced.

    Raises
    ------
    UsageError
        When something belongs to another problem.
    VerificationError
        When the result does not hold what it says.
    MissingExtraError
        When plotly or jinja2 is not installed.
    OutputError
        When the file exists and may not be replaced, or cannot be written.
    """
    beside = prepare_report(instance, result, rivals=rivals, explanation=explanation, verify_command=verify_command)
    write_text(build_report(instance, result, beside), path, overwrite=overwrite)


def prepare_report(
    instance: Instance,
    result: Result[Solution],
    *,
    rivals: Sequence[Result[Solution]] = (),
    explanation: Explanation | None = None,
    verify_command: str = _ALONE.verify_command,
) -> Beside:
    """Verify a result and its rivals, and solve for what else the report shows."""
    for rival in rivals:
        verify(instance, rival).require(given=True)
    verification = verify(instance, result)
    verification.require(given=True)  # what else the page shows is solved for from the result's figures
    return gather(instance, result, Beside(rivals, None, verification, verify_command, explanation))


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
