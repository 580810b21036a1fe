"""The suite of decisions that follow reality: its rows, and what they have to agree with."""

from __future__ import annotations

import json
from typing import Any

import pytest
from suites import online, run_suite


@pytest.fixture(scope="module")
def rows() -> dict[str, dict[str, Any]]:
    """Run the quick suite once, with a replay of two hours; rows by what is measured."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(online, "_HOURS", 12)  # of which the quick form takes a sixth
        measured: list[dict[str, Any]] = run_suite("online", quick=True)
    json.dumps(measured, allow_nan=False)
    return {row["solver"]: row for row in measured}


def test_decisions_serve_everybody_and_are_held_against_their_goals(rows: dict[str, dict[str, Any]]) -> None:
    """10,000 jobs keep their places, who comes takes that of who left; of 1,000 new ones on 500 nodes, some wait."""
    one, many = rows["decision, 1 left and 1 came"], rows["decision, 100 left and 100 came"]
    placed = rows["placement"]
    assert (one["extra"]["served"], many["extra"]["served"]) == (1.0, 100.0)
    assert rows["decision from nothing"]["extra"]["served"] == 10_000.0
    assert 0.0 < placed["extra"]["served"] <= 1_000.0
    for row in (one, many, placed):
        assert row["status"] == ("met" if row["seconds"] <= row["extra"]["goal_s"] else "missed")


def test_who_knows_the_rates_keeps_the_budget_best(rows: dict[str, dict[str, Any]]) -> None:
    """All four policies serve the same jobs, and each says how far it is behind the clairvoyant table at its GPUs."""
    policies = [rows[name] for name in ("clairvoyant table", "stale table", "BOA online", "budget held")]
    assert len({row["extra"]["jobs"] for row in policies}) == 1
    assert all(row["objective"] > 0 for row in policies)
    assert all(row["extra"]["gpus"] > 0 for row in policies)


def test_widths_are_proven_again_and_no_measurement_is_lost(rows: dict[str, dict[str, Any]]) -> None:
    """From nothing and from the result before the same optimum is proven; every measurement is on the disk."""
    afresh, again, intake = rows["from nothing"], rows["from the result before"], rows["taken in"]
    assert again["objective"] == pytest.approx(afresh["objective"])
    assert (again["gap"], afresh["gap"]) == pytest.approx((0.0, 0.0), abs=1e-6)
    assert (again["extra"]["goal_s"], intake["extra"]["goal_s"]) == (0.02, 1.0)
    assert intake["extra"]["lost"] == 0.0
