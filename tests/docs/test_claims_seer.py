"""SEER's tasks and what is planned for them: whole tables, past runs of other tasks only, figures by hand."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
from claims.record import Verdict
from claims.seer_choice import shortfalls
from claims.seer_tables import above, join, judge_small, level
from claims.seer_tasks import (
    ALIKE,
    FOLDER,
    TASKS,
    TRAINED,
    Setting,
    load_task,
    others_of,
    past_runs,
    run_searches,
    seer,
)


@pytest.mark.parametrize("name", TRAINED)
def test_tables_are_those_that_were_trained(name: str) -> None:
    """Shares of all configurations, runs and epochs, with the hash that the script wrote, in little space."""
    told = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as arrays:
        assert hashlib.sha256(arrays["correct_steps"].tobytes()).hexdigest() == told["source"]["sha256"]
    curves, worst = load_task(name)
    assert curves.accuracy.shape == (288, 2, told["epochs"])
    assert 0.0 <= curves.accuracy.min() <= worst < curves.accuracy.max() <= 1.0
    assert (FOLDER / f"{name}.npz").stat().st_size < 300_000


def test_a_task_is_planned_without_itself_and_those_like_it() -> None:
    """Perceptrons on the same images know nothing of one another; a search meets one of the others."""
    assert not {"digits-cnn"} & set(others_of("digits-cnn"))
    assert not set(ALIKE) & set(others_of("digits"))
    prior = past_runs(others_of("digits"), 2.0)
    assert prior.task_count == len(TASKS) - len(ALIKE)
    assert prior.epoch_min == 2.0


def test_a_search_without_an_epoch_is_worth_the_worst_configuration() -> None:
    """Half an epoch in one round of 0.5 min: nobody shows anything."""
    setting = Setting(0.5, 4)
    search = seer(setting, 0.5, pause_s=0.0)
    assert search is not None
    found = run_searches("teacher", setting, search, range(2), pause_s=0.0)
    assert found is not None
    # On 4 GPUs half a minute is 1.7 epochs, on 1 GPU none.
    assert all(each >= load_task("teacher")[1] for each in found.accuracy)


def test_gains_and_shortfalls_by_hand() -> None:
    """0.03 is above by three errors of 0.01, 0.02 level by two; 0.8 after the fact, 0.79 chosen: a point."""
    assert above({"gain": 0.03, "gain_error": 0.01})
    assert level({"gain": -0.02, "gain_error": 0.01})
    sweep = {"1": {"accuracy": 0.8}, "2": {"accuracy": 0.7}}
    chosen = {"accuracy": 0.79}
    rows = join({"sweep, t": {"4x15": sweep}, "informed, t": {"4x15": chosen}})
    told = shortfalls(rows)
    assert [points for *_, points in told["informed"]] == [pytest.approx(1.0)]
    assert [points for *_, points in told["2 epochs"]] == [pytest.approx(10.0)]


@pytest.mark.parametrize(
    ("gain", "asha", "verdict"),
    [
        (-0.03, 0.90, Verdict.HOLDS),
        (-0.03, 0.945, Verdict.IN_PART),
        (0.0, 0.95, Verdict.IN_PART),
        (0.03, 0.95, Verdict.NOT),
    ],
)
def test_hypersched_is_above_both_of_its_rivals_or_not(gain: float, asha: float, verdict: Verdict) -> None:
    """0.95 with an error of 0.003: 0.90 ± 0.004 is 10 errors of 0.005 below it, 0.945 one; SEER's gain has 0.01."""
    small = {"accuracy": 0.95, "error": 0.003, "gain": gain, "gain_error": 0.01}
    claim = judge_small(small, {"accuracy": asha, "error": 0.004})
    assert claim.verdict is verdict
    assert f"{-gain:+.3f} ± 0.010 over SEER" in claim.here
