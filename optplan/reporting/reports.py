"""The report of a result: one HTML page that needs nothing else, for somebody who has read no paper."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from optplan.contracts import Explanation, Instance, Result, Solution
from optplan.instances.files import write_text
from optplan.reporting.pages import build_page
from optplan.reporting.presentation import presenter_of
from optplan.reporting.presenters import Beside, gather
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
