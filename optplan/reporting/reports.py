"""The report of a result: one HTML page that needs nothing else, neither network nor server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from optplan.contracts import Explanation, Instance, Result, Solution
from optplan.reporting.presenters import presenter_of
from optplan.verification import verify


def write_report(
    path: Path | str,
    instance: Instance,
    result: Result[Solution],
    *,
    rivals: Sequence[Result[Solution]] = (),
    explanation: Explanation | None = None,
    overwrite: bool = False,
) -> None:
    """Write the HTML report of a result, which is verified for it.

    Parameters
    ----------
    path
        Where to.
    instance, result
        The problem and its result, of any status.
    rivals
        Results of other solvers, to be set beside it.
    explanation
        Of the result; refused where the formulation has none.
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
    presenter_of(instance).write_report(
        Path(path),
        instance,
        result,
        rivals=rivals,
        explanation=explanation,
        verification=verify(instance, result),
        verify_command="optplan verify instance.json result.json",
        overwrite=overwrite,
    )
