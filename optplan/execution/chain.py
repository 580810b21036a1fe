"""Records as a hash chain: each carries a digest of itself and of the digest before it.

Linked time-stamps: S. Haber and W. S. Stornetta, "How to time-stamp a digital document", Journal of Cryptology 3, 1991.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import NamedTuple

from optplan.units import format_duration

NOTHING_LEFT = "none of its records can be read"


class Row(NamedTuple):
    """A record as it is stored: its number from 0, seconds since 1970, JSON, and the digest."""

    number: int
    wall: float
    body: str
    digest: str


def digest_of(before: str, number: int, wall: float, body: str) -> str:
    """Return the digest of a record that follows one with the digest ``before``; the first follows an empty one."""
    return hashlib.sha256(f"{before} {number} {wall!r} {body}".encode()).hexdigest()


def follow(rows: Sequence[Row]) -> tuple[int, str]:
    """Return how many records from the first one on are as they were written, and why no more; empty for all."""
    before = ""
    for at, row in enumerate(rows):
        if row.number != at or row.digest != digest_of(before, *row[:3]):
            return at, _explain_break(rows, at, before)
        before = row.digest
    return len(rows), ""


def _explain_break(rows: Sequence[Row], at: int, before: str) -> str:
    """Say why the record at a place is not the one that was written there."""
    row = rows[at]
    twice = next((each.number for each in rows[:at] if each.digest == row.digest), None)
    if twice is not None:
        return f"record {row.number} is record {twice} again"
    follows = [each.number for each in rows[at:] if each.digest == digest_of(before, at, each.wall, each.body)]
    if follows:
        return f"records are out of order: record {at} stands as record {follows[0]}"
    if row.number == at:
        return f"record {at} is not as it was written"
    missing = f"record {at} is" if row.number == at + 1 else f"records {at} to {row.number - 1} are"
    return f"{missing} missing"


def say_readable(rows: Sequence[Row], count: int) -> str:
    """Say what can still be read of so many records: how many, and up to when on the run's clock."""
    if not rows:
        return NOTHING_LEFT
    until_s = json.loads(rows[-1].body).get("t", 0.0)
    return f"of {count} records the first {len(rows)} can be read, up to {format_duration(until_s)} of the run"
