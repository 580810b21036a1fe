"""What is shown of problems of a formulation that has no presenter of its own: what every result has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from optplan.contracts import Instance, Result, Solution, Status
from optplan.reporting.pages import Card, Column, Page, PageTable, ReportWriter, Section
from optplan.reporting.standing import add_trust, name_status
from optplan.reporting.tables import add_row, fact_table, new_table, plain_text

if TYPE_CHECKING:
    from rich.console import RenderableType

_COLUMNS = (("solver", False), ("status", False), ("objective", True), ("bound", True), ("gap", True), ("proof", False))


def present_instance(instance: Instance) -> list[RenderableType]:
    """Show an instance's description and limits."""
    facts = [("instance", instance.name), ("formulation", str(getattr(instance, "formulation", "")))]
    facts += [("description", instance.description)] if instance.description else []
    return [fact_table([*facts, *_list_limits(instance), ("hash", instance.content_hash())])]


def present_result(instance: Instance, result: Result[Solution]) -> list[RenderableType]:
    """Say what was found, how good it is, and what was decided."""
    parts: list[RenderableType] = [plain_text(add_trust(say_answer(result), result), "bold"), ""]
    parts.append(fact_table([*_list_facts(result), *_list_limits(instance)]))
    return [*parts, *(plain_text(f"note: {warning}") for warning in result.warnings)]


def present_comparison(instance: Instance, results: Sequence[Result[Solution]]) -> list[RenderableType]:  # noqa: ARG001
    """Set the results of several solvers side by side."""
    table = new_table(*_COLUMNS)
    for result in results:
        add_row(table, *_row(result))
    return [table]


def _build_page(instance: Instance, result: Result[Solution], **shown: Any) -> Page:  # noqa: ANN401 - of the writer
    status, kind = name_status(result)
    rows = [_row(one) for one in (result, *shown["rivals"])]
    columns = [Column(name, is_number) for name, is_number in _COLUMNS]
    facts = [Column("name"), Column("value")]
    return Page(
        name=instance.name,
        title=say_answer(result),
        badge=status,
        badge_kind=kind,
        warnings=result.warnings,
        cards=[Card(name, text) for name, text in _list_limits(instance)],
        sections=[
            Section("plan", "Result", tables=[PageTable("What was found", facts, _list_facts(result))]),
            Section("solvers", "Solvers", tables=[PageTable("Solvers", columns, rows)]),
            Section("check", "Check it", command=shown["verify_command"]),
        ],
    )


write_report = ReportWriter("this formulation", _build_page)


def say_answer(result: Result[Solution]) -> str:
    """Say in a sentence what was found."""
    if result.infeasibility is not None:
        return f"No plan of {result.instance_name} keeps the limits: {result.infeasibility.reason}."
    if result.status is Status.UNKNOWN:
        return f"No plan of {result.instance_name} was found (stopped: {result.termination.value})."
    return f"{result.instance_name}: {_number(result.objective)} {result.objective_unit}, {name_status(result)[0]}."


def _list_limits(instance: Instance) -> list[tuple[str, str]]:
    given = {limit: instance.limit_as_given(limit) for limit in instance.limits}
    return [(limit, f"{_number(amount)} {unit}") for limit, (amount, unit) in given.items()]


def _list_facts(result: Result[Solution]) -> list[tuple[str, str]]:
    solution = {} if result.solution is None else result.solution.to_json_data()
    facts = [(name, str(value)) for name, value in solution.items()]
    facts += [(name, _number(value)) for name, value in result.measures.items()]
    return [*facts, ("solver", result.solver), ("proof", result.bound_proof.value)]


def _row(result: Result[Solution]) -> list[str]:
    gap = "" if result.gap is None else f"{result.gap:.2%}"
    return [
        result.solver,
        result.status.value,
        _number(result.objective),
        _number(result.bound),
        gap,
        result.bound_proof.value,
    ]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.6g}"
