"""A result in a few lines: what printing it shows, and a notebook."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optplan.contracts.result import Result

#: A relative gap below this is rounding.
_ROUNDING = 1e-9


def write_headline(result: Result[Any]) -> str:
    """Say in a line what was found."""
    if result.infeasibility is not None:
        return f"{result.instance_name}: infeasible, because {result.infeasibility.reason}"
    if result.objective is None:
        return f"{result.instance_name}: nothing found (stopped: {result.termination})"
    return f"{result.instance_name}: {result.status}, {_amount(result.objective, result.objective_unit)}"


def write_text(result: Result[Any]) -> str:
    """Write headline and lines, the names of one width."""
    lines = list_lines(result)
    width = max(len(name) for name, _ in lines)
    return "\n".join([write_headline(result), *(f"{name:<{width}}  {text}" for name, text in lines)])


def write_html(result: Result[Any]) -> str:
    """Write headline and lines as a heading and a table; text from files is escaped."""
    rows = (f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in list_lines(result))
    return f"<p><strong>{escape(write_headline(result))}</strong></p><table>{''.join(rows)}</table>"


def list_lines(result: Result[Any]) -> list[tuple[str, str]]:
    """List by name what a reader wants to know first: how good it is, what that rests on, who found it."""
    lines: list[tuple[str, str]] = []
    if result.bound is not None:
        lines.append(("bound", _amount(result.bound, result.objective_unit)))
    if result.gap is not None:
        lines.append(("gap", f"{result.gap:.3g}" if result.gap > _ROUNDING else "0"))
    if result.infeasibility is not None:
        lines += [
            (one.limit, f"given {one.given:,.6g}, least that works {_amount(one.least_feasible, one.unit)}")
            for one in result.infeasibility.relaxations
        ]
    if result.rests_on_trust:
        lines.append(("proof", "on trust: no certificate"))
    elif result.bound is not None or result.infeasibility is not None:
        lines.append(("proof", "certificate"))
    lines.append(("solver", f"{result.solver} ({result.engine} {result.engine_version})"))
    verified = f"verified in {result.verify_seconds:.3g} s" if result.verify_seconds else "not verified"
    lines.append(("time", f"{result.solve_seconds:.3g} s, {verified}"))
    return [*lines, *(("note", warning) for warning in result.warnings)]


def _amount(value: float, unit: str) -> str:
    return f"{value:,.7g} {unit}"
