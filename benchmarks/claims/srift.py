"""The claims of the paper on Srift."""

from __future__ import annotations

from claims.record import Claim, Paper, Rows


def list_claims(_: Rows) -> list[Claim]:
    """List the claims, each judged from the rows."""
    return []


PAPER = Paper("srift", "Srift", "claims-srift.md", "", list_claims)
