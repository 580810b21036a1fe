"""The claims of the paper on BOA."""

from __future__ import annotations

from claims.record import Claim, Paper, Rows


def list_claims(_: Rows) -> list[Claim]:
    """List the claims, each judged from the rows."""
    return []


PAPER = Paper("boa", "BOA", "claims-boa.md", "", list_claims)
