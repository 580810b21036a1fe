"""The suite of the runtime: its rows, and that the search on the virtual clock costs what judge and simulator say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from suites import run_suite
from suites.runtime import plan_search

from optplan.execution.running import run

CENT = 0.01


@pytest.fixture(scope="module")
def rows() -> dict[tuple[str, float], dict[str, Any]]:
    """Run the quick suite once; rows by what is measured and how many are at once."""
    measured: list[dict[str, Any]] = run_suite("runtime", quick=True)
    json.dumps(measured, allow_nan=False)
    return {(row["solver"], row["extra"].get("nodes", 0.0)): row for row in measured}


def test_the_loop_is_watched_from_one_trial_to_the_next(rows: dict[tuple[str, float], dict[str, Any]]) -> None:
    """1,000 + 250 + 62 + 15 + 3 trials that end, and the first nodes: a round for each."""
    row = rows["the loop, a round", 1000.0]
    assert row["extra"]["rounds"] == 1331.0
    assert 0.0 < row["seconds"] <= row["extra"]["most_s"]
    assert row["status"] == ("met" if row["seconds"] <= row["extra"]["goal_s"] else "missed")


def test_512_trials_cost_what_judge_and_simulator_say(rows: dict[tuple[str, float], dict[str, Any]]) -> None:
    """To the cent, where nothing varies."""
    row = rows["virtual clock", 0.0]
    assert row["extra"]["trials"] == 512.0
    assert row["objective"] > 0
    assert abs(row["extra"]["above_evaluator_usd"]) < CENT / 2
    assert abs(row["extra"]["above_simulator_usd"]) < CENT / 2


def test_a_stage_change_is_a_loop_and_a_start(rows: dict[tuple[str, float], dict[str, Any]]) -> None:
    """From the end of the last trial to the first iteration; the loop's part ends when the process is started."""
    pytest.importorskip("psutil", reason='psutil is not installed; pip install "optplan[run]" brings it')
    row = rows["local workers", 0.0]
    assert row["extra"]["changes"] == 1.0
    assert 0.0 <= row["extra"]["loop_s"] < row["seconds"]


def test_the_searches_of_the_suite_run() -> None:
    """A quarter goes on, at last one: 6, 1 trials of 2 GPUs, two at a time on a node."""
    plan, _ = plan_search(6, 2, 2)
    assert [(each.members, each.at_once, each.gpus_per_worker * each.workers) for each in plan.segments] == [
        (6, 2, 2),
        (1, 1, 2),
    ]
    assert run(plan).code == 0
