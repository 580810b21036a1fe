"""The rivals of SEER on made-up curves: hand-sized runs, the rules of each, and what they may take."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from suites.bohb import run_bohb
from suites.rivals import run_asha, run_grid, run_hyperband, run_hypersched, run_random
from suites.search_clock import SearchOutcome, SearchSetting

from optplan.errors import InfeasibleError

GRID = np.array(list(itertools.product(range(6), range(3), range(2))))
needs_statsmodels = pytest.mark.skipif(
    find_spec("statsmodels") is None, reason="benchmarks/requirements.txt is not installed"
)
SEARCHES: dict[str, Callable[..., SearchOutcome]] = {
    "random": run_random,
    "grid": run_grid,
    "hyperband": run_hyperband,
    "asha": run_asha,
    "hypersched": run_hypersched,
}
if find_spec("statsmodels") is not None:
    SEARCHES["bohb"] = lambda setting, rng, **more: run_bohb(setting, rng, levels=GRID, **more)
FIXED = ("random", "asha", "hypersched", "bohb")


def linear(gpus: int) -> float:
    """Scale perfectly."""
    return float(gpus)


def make_setting(seed: int = 0, *, deadline_min: float = 32.0, gpus: float = 8.0, **more: float) -> SearchSetting:
    """Make rising curves of 36 configurations; the better their end, the higher their number."""
    rng = np.random.default_rng(seed)
    ends = np.linspace(0.1, 0.9, len(GRID))
    epochs = np.arange(1, 41)
    values = ends[:, None] * (1 - np.exp(-rng.uniform(0.05, 0.5, (len(GRID), 1)) * epochs))
    return SearchSetting(values, linear, deadline_min, deadline_min * gpus, **more)


def test_random_trains_one_configuration_on_everything() -> None:
    """8 GPUs for 32 min are 256 epochs, far beyond the curve's 40."""
    outcome = run_random(make_setting(), np.random.default_rng(0))
    assert (outcome.trials, outcome.spent_gpu_min, outcome.epochs, outcome.held) == (1, 256.0, 256.0, True)
    assert [(s.gpus, s.start_min, s.stop_min) for s in outcome.stretches] == [(8, 0.0, 32.0)]


def test_grid_explores_with_what_exploitation_leaves() -> None:
    """256 GPU-minutes less 4 * 16 leave 12 trials of 16 min; the best then gets 16 min on 4 GPUs."""
    outcome = run_grid(make_setting(), np.random.default_rng(0))
    assert (outcome.trials, outcome.spent_gpu_min, outcome.minutes) == (12, 256.0, 32.0)
    last = outcome.stretches[-1]
    assert (last.gpus, last.start_min, last.stop_min) == (4, 16.0, 32.0)


def test_hyperband_runs_its_brackets_side_by_side() -> None:
    """With eta 4 and R = 16 min: 16, 6 and 3 trials; 16 + 4 * 3 + 12, 6 * 4 + 12 and 3 * 16 GPU-minutes on one GPU.

    Those are 40 + 36 + 48 = 124, so that R = 16 takes 124 GPU-minutes; 32 min and 256 GPU-minutes allow R = 32.
    """
    outcome = run_hyperband(make_setting(deadline_min=16.0, gpus=8.0), np.random.default_rng(0))
    assert (outcome.trials, outcome.spent_gpu_min, outcome.minutes) == (25, 124.0, 16.0)
    firsts = sorted(s.stop_min for s in outcome.stretches if s.start_min == 0.0)
    assert firsts == [1.0] * 16 + [4.0] * 6 + [16.0] * 3
    seconds = [s for s in outcome.stretches if s.start_min == 1.0]
    assert [(s.gpus, s.stop_min) for s in seconds] == [(1, 4.0)] * 4


def test_hyperband_gives_trials_more_gpus_where_the_budget_pays_them() -> None:
    """124 GPU-minutes on one GPU each are 248 on two."""
    outcome = run_hyperband(make_setting(deadline_min=16.0, gpus=16.0), np.random.default_rng(0), most_gpus=4)
    assert outcome.spent_gpu_min == 248.0
    assert {s.gpus for s in outcome.stretches} == {2}


def test_asha_promotes_the_best_quarter() -> None:
    """Rungs of 1, 4, 16 and 32 epochs; of four that ended the first rung, the best goes on to the second."""
    outcome = run_asha(make_setting(gpus=1.0), np.random.default_rng(3))
    stretches = outcome.stretches
    # One GPU: four trials of one epoch each, then three more epochs for the best of them.
    assert [(s.start_min, s.stop_min) for s in stretches[:5]] == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 7)]
    setting = make_setting(gpus=1.0)
    order = np.random.default_rng(3).permutation(len(GRID))
    assert stretches[4].trial == int(np.argmax(setting.values[order[:4], 0]))


def test_hypersched_stops_exploring_and_hands_gpus_on() -> None:
    """Late in the search no trial starts, and those that train hold more than one GPU."""
    outcome = run_hypersched(make_setting(), np.random.default_rng(1))
    starts: dict[int, float] = {}
    for s in outcome.stretches:
        starts.setdefault(s.trial, s.start_min)
    assert max(starts.values()) < 32.0 * 0.9
    assert max(s.gpus for s in outcome.stretches if s.start_min < 4.0) == 1
    assert max(s.gpus for s in outcome.stretches) > 1


@needs_statsmodels
def test_bohb_comes_to_draw_from_where_results_are_good() -> None:
    """The mean number (the merit, here) of what is drawn late is above that of what is drawn first."""
    early, late = [], []
    for seed in range(20):
        outcome = run_bohb(make_setting(gpus=2.0), np.random.default_rng(seed), levels=GRID)
        assert outcome.trials > 8
        # The order of trials is the order of drawing.
        drawn = outcome.configurations
        early.append(np.mean(drawn[:6]))
        late.append(np.mean(drawn[6:12]))
    assert np.mean(late) > np.mean(early) + 2.0


@pytest.mark.parametrize("name", SEARCHES)
def test_the_same_seed_gives_the_same_search(name: str) -> None:
    """Another one another."""
    outcomes = [SEARCHES[name](make_setting(), np.random.default_rng(seed)) for seed in (5, 5, 6)]
    assert outcomes[0] == outcomes[1]
    assert outcomes[0] != outcomes[2]


@pytest.mark.parametrize("name", SEARCHES)
def test_a_failed_configuration_is_never_returned(name: str) -> None:
    """As long as one that works was tried."""
    setting = make_setting()
    setting.values[::2] = np.nan
    outcome = SEARCHES[name](setting, np.random.default_rng(0))
    assert outcome.trials == 1 or outcome.configuration % 2 == 1


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(sorted(SEARCHES)),
    seed=st.integers(0, 1000),
    deadline_min=st.floats(2.0, 70.0),
    gpus=st.floats(5.0, 20.0),
    resize_min=st.sampled_from([0.0, 0.3]),
)
def test_no_search_takes_more_than_it_has(
    name: str, seed: int, deadline_min: float, gpus: float, resize_min: float
) -> None:
    """Neither time nor budget; a fixed cluster never holds more GPUs than it has; no configuration is tried twice."""
    setting = make_setting(seed, deadline_min=deadline_min, gpus=gpus, resize_min=resize_min)
    outcome = SEARCHES[name](setting, np.random.default_rng(seed))
    assert outcome.minutes <= deadline_min * (1 + 1e-9)
    assert outcome.spent_gpu_min <= setting.budget_gpu_min * (1 + 1e-9)
    assert len(set(outcome.configurations)) == outcome.trials <= len(GRID)
    if name in FIXED:
        changes = sorted(
            [(s.start_min, 1, s.gpus) for s in outcome.stretches]
            + [(s.stop_min, 0, -s.gpus) for s in outcome.stretches]
        )
        assert max(itertools.accumulate(change for _, _, change in changes)) <= setting.cluster_gpus


@pytest.mark.parametrize(
    ("name", "more", "message"),
    [
        ("random", {}, "16 GPU-minutes do not pay one GPU for 32 min; raise the budget to 32 GPU-minutes"),
        ("asha", {}, "do not pay one GPU"),
        ("hypersched", {}, "do not pay one GPU"),
        pytest.param("bohb", {}, "do not pay one GPU", marks=needs_statsmodels),
        ("grid", {}, "grid search needs 80 GPU-minutes for one trial of each half, and the budget is 16; raise"),
        ("hyperband", {"least_round_min": 20.0}, "one trial on 1 GPUs for 20 min does not fit 32 min and 16 GPU-min"),
    ],
)
def test_too_little_is_said(name: str, more: dict[str, Any], message: str) -> None:
    """With what would do, or what does not fit."""
    with pytest.raises(InfeasibleError, match=message):
        SEARCHES[name](make_setting(gpus=0.5), np.random.default_rng(0), **more)
