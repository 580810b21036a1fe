"""What a terminal and a page show of BOA's instances and results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from optplan.contracts import (
    Explanation,
    Instance,
    LagrangianCertificate,
    Result,
    Solution,
    Verification,
)
from optplan.contracts.result import relative_gap
from optplan.formulations.boa.data.instance import Policy
from optplan.reporting.boa.breakdown import has_types, require_boa
from optplan.reporting.boa.limit_tables import type_tables
from optplan.reporting.phrases import format_share
from optplan.reporting.tables import class_table, comparison_table, instance_summary, result_summary, width_table

if TYPE_CHECKING:
    from rich.console import RenderableType


def present_instance(instance: Instance) -> list[RenderableType]:
    """Say what an instance asks for."""
    return [instance_summary(instance)]


def present_result(instance: Instance, result: Result[Solution]) -> list[RenderableType]:
    """Say what was found, how good it is, and which class gets which widths."""
    parts: list[RenderableType] = [result_summary(instance, result)]
    mixed = say_mixed(instance, result)
    if mixed:
        parts += ["", mixed]
    if result.solution is not None:
        parts += ["", width_table(instance, result)]
        if has_types(require_boa(instance)):
            parts += ["", class_table(instance, result)]
        tables = type_tables(instance, result)
        parts += ["", *tables] if tables else []
    return parts


def present_comparison(instance: Instance, results: Sequence[Result[Solution]]) -> list[RenderableType]:
    """Set the results of several solvers side by side, ours first."""
    return [comparison_table(instance, results)]


def write_report(
    path: Path,
    instance: Instance,
    result: Result[Solution],
    *,
    rivals: Sequence[Result[Solution]],
    explanation: Explanation | None,
    verification: Verification | None,
    verify_command: str,
    overwrite: bool,
) -> None:
    """Write the HTML report of a result, with the frontier that it lies on.

    Raises
    ------
    OutputError
        When the file exists and may not be replaced, or cannot be written.
    """
    from optplan.reporting.boa.html import write_report as write_page
    from optplan.reporting.boa.views import Views
    from optplan.solving import frontier

    write_page(
        path,
        instance,
        result,
        frontier=frontier(instance),
        comparisons=rivals,
        verification=verification,
        verify_command=verify_command,
        views=Views(explanation=explanation),
        overwrite=overwrite,
    )


def say_mixed(instance: Instance, result: Result[Solution]) -> str:
    """Say what a mixed plan could save over a pure one: a Lagrangian bound holds for mixed plans too."""
    bounds = [c.bound for c in result.certificates if isinstance(c, LagrangianCertificate)]
    distance = relative_gap(result.objective, max(bounds, default=None))
    if distance is None or require_boa(instance).policy is not Policy.PURE:
        return ""
    if distance == 0.0:
        return "No mixed plan (shares of a class's jobs differ in their widths) can be better either."
    better = f"at most {format_share(distance)} better"
    return f"A mixed plan (shares of a class's jobs differ in their widths) can be {better}."
