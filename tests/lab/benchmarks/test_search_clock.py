"""A search on a virtual clock: what trials pass, what they hold, and when they stop."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from suites.search_clock import SearchClock, SearchSetting

from optplan.errors import UsageError
from optplan.schema import FloatArray

#: Two configurations, four epochs: one is good early, the other late.
VALUES = np.array([[0.1, 0.2, 0.3, 0.4], [0.3, 0.3, 0.3, 0.3]])


def double(gpus: int) -> float:
    """Scale as 1, 1.5 on 1 and 2 GPUs, and so on."""
    return 0.5 + 0.5 * gpus


def setting(values: FloatArray = VALUES, **changes: float) -> SearchSetting:
    """Make a setting of 10 minutes."""
    asked = {"deadline_min": 10.0, "budget_gpu_min": 40.0, "epoch_min": 2.0, "resize_min": 0.5} | changes
    return SearchSetting(values, double, **asked)


def test_a_trial_passes_epochs_at_the_pace_of_its_gpus() -> None:
    """An epoch takes 2 min on one GPU and 2 / 1.5 on two; a resize pauses for half a minute and is paid."""
    clock = SearchClock(setting())
    trial = clock.add(0)
    clock.train(trial, 1, epochs=1)
    assert clock.wait() is trial
    assert (clock.now_min, trial.epochs, clock.value(trial), clock.spent_gpu_min) == (2.0, 1.0, 0.1, 2.0)
    clock.train(trial, 2, epochs=2)
    assert clock.wait() is trial
    # 2 + 0.5 + 2 / 1.5 min; two GPUs for 0.5 + 4/3 min
    assert clock.now_min == pytest.approx(2 + 0.5 + 4 / 3)
    assert clock.spent_gpu_min == pytest.approx(2 + 2 * (0.5 + 4 / 3))
    assert clock.value(trial) == 0.2


def test_going_on_at_once_with_as_many_gpus_needs_no_pause() -> None:
    """Neither does the first start; after a while without GPUs it does."""
    clock = SearchClock(setting())
    first, second = clock.add(0), clock.add(1)
    clock.train(first, 1, epochs=1)
    clock.wait()
    clock.train(first, 1, epochs=2)
    clock.train(second, 1, epochs=2)
    assert clock.wait() is first
    assert clock.now_min == 4.0
    assert clock.wait() is second
    assert clock.now_min == 6.0
    clock.train(first, 1, epochs=3)
    clock.wait()
    assert clock.now_min == 8.5


def test_the_deadline_stops_everything() -> None:
    """What was passed by then counts, in whole epochs where validation shows it."""
    clock = SearchClock(setting())
    trial = clock.add(0)
    clock.train(trial, 1, epochs=8)
    assert clock.wait() is None
    outcome = clock.finish()
    # 10 min are 5 epochs, of which the curve has 4: its end is held, and said.
    assert (outcome.epochs, outcome.value, outcome.held) == (5.0, 0.4, True)
    assert (outcome.minutes, outcome.spent_gpu_min, outcome.trials) == (10.0, 10.0, 1)
    assert clock.finish(cluster_gpus=4).spent_gpu_min == 40.0


def test_before_its_first_epoch_a_trial_shows_nothing() -> None:
    """It is worse than any other, as is one that failed; a search of such trials returns none."""
    values = np.array([[math.nan, math.nan], [0.0, 0.1]])
    clock = SearchClock(setting(values))
    failed, poor, new = clock.add(0), clock.add(1), clock.add(1)
    clock.train(failed, 1, epochs=1)
    clock.train(poor, 1, epochs=1)
    clock.train(new, 1, minutes=1.9)
    clock.wait_all()
    assert math.isnan(clock.value(new))
    assert math.isnan(clock.value(failed))
    assert clock.best([failed, new, poor]) is poor
    empty = SearchClock(setting()).finish()
    assert (empty.configuration, empty.trials, math.isnan(empty.value)) == (-1, 0, True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"deadline_min": 0.0}, "deadline_min: got 0.0; a finite number above zero is needed"),
        ({"budget_gpu_min": math.inf}, "budget_gpu_min: got inf; a finite number above zero is needed"),
        ({"epoch_min": -1.0}, "epoch_min: got -1.0; a finite number above zero is needed"),
        ({"resize_min": math.nan}, "resize_min: got nan; a finite number from zero on is needed"),
    ],
)
def test_settings_out_of_range_are_refused(changes: dict[str, float], message: str) -> None:
    """By name, with what is needed."""
    with pytest.raises(UsageError, match=message):
        setting(VALUES, **changes)


def test_curves_without_a_shape_are_refused() -> None:
    """Configurations by epochs, at least one of each."""
    with pytest.raises(
        UsageError, match=r"values: got an array of shape \(0, 3\); configurations by epochs are needed"
    ):
        setting(np.zeros((0, 3)))


def test_configurations_are_drawn_once_each() -> None:
    """In an order that the seed decides."""
    drawn = [list(setting(np.zeros((20, 1))).draw(np.random.default_rng(seed))) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert sorted(drawn[0]) == list(range(20))


@settings(max_examples=50)
@given(
    steps=st.lists(
        st.tuples(st.integers(0, 3), st.integers(1, 8), st.floats(0.01, 5.0), st.booleans()), min_size=1, max_size=20
    )
)
def test_what_is_spent_is_what_is_held(steps: list[tuple[int, int, float, bool]]) -> None:
    """The stretches add up to the bill, lie within the deadline, and those of a trial do not overlap."""
    clock = SearchClock(setting())
    trials = [clock.add(number % 2) for number in range(4)]
    for number, gpus, amount, waits in steps:
        if trials[number].gpus:
            clock.stop(trials[number])
        clock.train(trials[number], gpus, minutes=amount)
        if waits:
            clock.wait()
    outcome = clock.finish()
    assert outcome.spent_gpu_min == pytest.approx(sum(s.gpus * (s.stop_min - s.start_min) for s in outcome.stretches))
    assert all(0.0 <= s.start_min <= s.stop_min <= 10.0 for s in outcome.stretches)
    for trial in trials:
        own = [s for s in outcome.stretches if s.trial == trial.number]
        assert all(before.stop_min <= after.start_min for before, after in itertools.pairwise(own))
