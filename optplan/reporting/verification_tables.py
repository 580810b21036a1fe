"""What ``verify`` found, as a table for the terminal."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from optplan.contracts import Check, Instance, Result, Solution, Status, Verification
from optplan.contracts.judgement import Judged
from optplan.contracts.result import OPTIMAL_GAP
from optplan.reporting.phrases import format_gap, format_seconds
from optplan.reporting.sections import bounds_nothing, say_evidence
from optplan.reporting.tables import Column, Shown, Table, numbers, plain_text
from optplan.speedup import UNTRIED

_COLUMNS = (Column(""), Column("check"), *numbers("left", "right"), Column("what must hold"))
#: Failures, and claims of a kind, that are shown; --json has all of them.
_MOST_SHOWN = 100

if TYPE_CHECKING:
    from rich.text import Text


def say_verdict(instance: Instance, given: Result[Solution] | Judged, verification: Verification, gap: float) -> Text:
    """Say in a line what a result or an audit is, and what is believed; ``gap`` is that of plans called optimal."""
    changes = ", ".join(_cut(verification.changes))
    changed = f", changed as the result says ({changes})" if changes else ""
    said = [f"{instance.name}{changed}: {_say_status(given, verification, gap)}"]
    if not verification.failures:
        if UNTRIED.keys() & verification.evidence.keys():
            said.append(f"of speedups {say_evidence(verification.evidence)}")
        if verification.on_trust:
            said.append(f"taken on trust: {', '.join(_cut(verification.on_trust))}")
    style = "bold red" if verification.failures else "bold green" if verification.ok else "bold yellow"
    return plain_text("; ".join(said), style)


def _cut(claims: Sequence[str]) -> list[str]:
    more = len(claims) - _MOST_SHOWN
    return [*claims[:_MOST_SHOWN], *([f"{more:,} more, which --json lists"] if more > 0 else [])]


def _say_status(given: Result[Solution] | Judged, verification: Verification, gap: float) -> str:
    """Say how good a plan is; what nobody checked is not called proven."""
    how = "proven" if verification.proven else "said to be"
    if verification.failures:
        failed = verification.failures[0]
        return f"refused, {f'{failed.family} {failed.index}'.strip()} does not hold"
    if not isinstance(given, Result):
        return "an audit whose bounds are proven"
    match verification.status:
        case Status.INFEASIBLE:
            return f"{how} infeasible"
        case Status.UNKNOWN:
            return "no plan, and none excluded"
        case Status.FEASIBLE if verification.gap is None or bounds_nothing(given):
            return "a plan that keeps the limits; nothing says how good it is"
    found = verification.gap or 0.0
    if verification.status is Status.FEASIBLE:
        return f"a plan within {format_gap(found)} of the bound, not optimal"
    if found > OPTIMAL_GAP:
        return f"a plan within {format_gap(found)} of the bound, {how} optimal within {gap:g} as asked"
    return f"{how} optimal, gap {format_gap(found)}"


def verification_table(verification: Verification, kinds: Collection[str] | None = None) -> Shown:
    """List what was checked, failures one by one and first, the rest by kind, or some kinds; then what was not."""
    from rich.console import Group

    rows = [
        ("FAILS", f"{check.family} {check.index}".strip(), f"{check.left:.12g}", f"{check.right:.12g}", check.message)
        for check in verification.failures[:_MOST_SHOWN]
    ]
    if (more := len(verification.failures) - _MOST_SHOWN) > 0:
        rows.append(("FAILS", f"{more:,} more", "", "", "--json lists up to a thousand"))
    groups: dict[tuple[str, str], list[Check]] = {}
    for check in verification.checks:
        if check.holds and (kinds is None or check.family in kinds):
            groups.setdefault((check.family, check.message), []).append(check)
    for (family, message), checks in groups.items():
        only = checks[0] if len(checks) == 1 else None
        sides = ("", "") if only is None else (f"{only.left:.12g}", f"{only.right:.12g}")
        name = f"{family} ({len(checks)} times)" if only is None else f"{family} {only.index}".strip()
        rows.append(("holds", name, *sides, message))
    table = Table("What was checked", _COLUMNS, rows, num_keys=2)
    failed, count = len(verification.failures), len(verification.checks)
    verdict = f"{failed} of {count} checks fail" if failed else f"all {count} checks hold"
    if verification.on_trust and not failed:
        verdict += ", but not all that is claimed could be checked"
    style = "bold red" if failed else "bold yellow" if verification.on_trust else "bold green"
    return Group(
        table,
        plain_text(""),
        *(plain_text(f"never checked: {claim}") for claim in _cut(verification.never_checked)),
        *(plain_text(f"taken on trust: {claim}", "yellow") for claim in _cut(verification.on_trust)),
        plain_text(f"{verdict} ({format_seconds(verification.seconds)})", style),
    )
