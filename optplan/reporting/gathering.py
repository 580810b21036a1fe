"""What has to be solved before a report can be drawn, such as the frontier that a plan lies on.

Each formulation gathers what its reports show in ``optplan.reporting.<formulation>.gathering``. These modules are the
only ones of reporting that solve.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from optplan.contracts import Instance, Result, Solution
from optplan.formulations import formulation_of
from optplan.reporting.presenters import find_module


def gather_background(  # the type is the formulation's own
    instance: Instance, result: Result[Solution], rivals: Sequence[Result[Solution]] = ()
) -> Any:  # noqa: ANN401
    """Solve what a result's report shows besides the result; it takes some seconds at most.

    Parameters
    ----------
    instance, result
        The problem and its result, of any status.
    rivals
        Results of other solvers that the report shows.

    Returns
    -------
    object
        For :class:`~optplan.reporting.presenters.Beside`; None where the formulation gathers nothing.
    """
    module = find_module(formulation_of(instance).name, "gathering")
    return None if module is None else module.gather_background(instance, result, rivals)
