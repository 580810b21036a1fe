"""The suite of audits: its rows, and what they have to agree with."""

from __future__ import annotations

from suites import run_suite


def test_no_width_for_all_is_below_the_least_mean() -> None:
    """The quick suite has one width beside its bound, and many jobs against their goal."""
    one, many = run_suite("audit", quick=True)
    assert isinstance(one["objective"], float)
    assert isinstance(one["bound"], float)
    assert one["objective"] >= one["bound"] * (1.0 - 1e-9)
    assert (one["solver"], many["solver"]) == ("one-width:4", "audit")
    assert many["status"] in {"met", "missed"}
