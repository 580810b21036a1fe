"""What ``verify`` found, as a table for the terminal."""

from __future__ import annotations

from optplan.contracts import Check, Verification
from optplan.reporting.phrases import format_seconds
from optplan.reporting.tables import Column, Shown, Table, numbers, plain_text

_COLUMNS = (
    Column(""),
    Column("check"),
    *numbers("left", "right"),
    Column("what must hold"),
)


def verification_table(verification: Verification) -> Shown:
    """List what was checked, failures one by one and first, the rest by kind; then what was not."""
    from rich.console import Group

    rows = [
        ("FAILS", f"{check.family} {check.index}".strip(), f"{check.left:.12g}", f"{check.right:.12g}", check.message)
        for check in verification.failures
    ]
    groups: dict[tuple[str, str], list[Check]] = {}
    for check in verification.checks:
        if check.holds:
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
        *(plain_text(f"never checked: {claim}") for claim in verification.never_checked),
        *(plain_text(f"taken on trust: {claim}", "yellow") for claim in verification.on_trust),
        plain_text(f"{verdict} ({format_seconds(verification.seconds)})", style),
    )
