"""The suite of Srift: every row proven, and no rival below the exact solver."""

from __future__ import annotations

from typing import Any

import pytest
from suites import run_suite


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    """Run the quick suite once."""
    return run_suite("srift", quick=True)


def test_the_exact_solver_proves_every_row_and_no_rival_is_better(rows: list[dict[str, Any]]) -> None:
    """The cases of the paper and the large problems; planners that break a limit have no objective."""
    exact = {row["instance"]: row for row in rows if row["solver"] == "best-first"}
    assert {"srift-case2", "srift-case3", "4x64-seed0@cheapest", "4x64-seed0@fastest-in-budget"} <= set(exact)
    assert all(row["status"] == "optimal" for row in exact.values())
    rivals = [row for row in rows if row["solver"].startswith("published")]
    assert {"published-eager", "published-cost-aware", "published-throughput-aware"} <= {r["solver"] for r in rivals}
    for row in rivals:
        if row["objective"] is not None:
            assert row["objective"] >= exact[row["instance"]]["objective"] * (1 - 1e-9)


def test_the_papers_conclusions_are_answered(rows: list[dict[str, Any]]) -> None:
    """Of each case by weak and by strong scaling."""
    studies = {row["instance"]: row["extra"] for row in rows if row["solver"] == "study"}
    assert set(studies) == {f"srift-case{case}@{mode}-scaling" for case in (2, 3) for mode in ("weak", "strong")}
    said = [answer for extra in studies.values() for answer in extra.values()]
    assert said
    assert all(answer.partition(";")[0] in {"holds", "does not hold", "cannot be said"} for answer in said)


def test_frontiers_and_evaluations_are_measured(rows: list[dict[str, Any]]) -> None:
    """How many fleets no other beats, and how many a second are judged."""
    frontiers = [row for row in rows if row["solver"] == "pareto"]
    assert [row["extra"]["points"] for row in frontiers] == [3.0, 1.0]
    assert all(row["status"] == "optimal" for row in frontiers)
    (evaluator,) = [row for row in rows if row["solver"] == "evaluator"]
    assert evaluator["extra"]["layers"] == 170.0
    assert evaluator["extra"]["evaluations_per_s"] > 0.0
