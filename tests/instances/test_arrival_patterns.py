"""Hours of the day and clumps, learned from times of arrivals."""

from __future__ import annotations

import numpy as np
import pytest

from optplan.instances.arrivals import learn_patterns, tell_patterns


def test_a_short_log_says_nothing_of_the_day() -> None:
    """8 hours are no day, and 47 jobs are too few for 24 hours."""
    assert learn_patterns({"a": np.linspace(0, 7.9, 500)}, 0.0, 8.0) == {}
    assert learn_patterns({"a": np.linspace(0, 47.9, 47)}, 0.0, 48.0) == {}


def test_even_arrivals_have_a_flat_day() -> None:
    """One job every 20 minutes for two days: all hours alike, and dispersion cannot fall below that of Poisson."""
    pattern = learn_patterns({"a": (np.arange(144) + 0.5) / 3}, 0.0, 48.0)["a"]
    assert pattern.hourly == pytest.approx(np.ones(24), abs=1e-4)
    assert pattern.dispersion == 1.0


def test_clumps_show_in_the_dispersion() -> None:
    """Four jobs every 80 minutes: of four bins of 20 minutes one has 4: variance (9 + 3 * 1) / 4 = 3, mean 1."""
    pattern = learn_patterns({"a": np.repeat((np.arange(36) + 0.1) * 4 / 3, 4)}, 0.0, 48.0)["a"]
    # An hour of the day has 3 bins a day and 0 or 4 of the jobs in them, which the learned day follows a little.
    assert 2.5 < pattern.dispersion <= 3.05


def test_days_are_found_wherever_the_log_begins() -> None:
    """Jobs come at hour 5 only; a log that begins at hour 30 (6 in the morning) says so as well."""
    rng = np.random.default_rng(0)
    days = np.arange(2, 40)
    times = np.sort((24.0 * days[:, None] + 5.0 + rng.random((38, 60))).ravel())
    pattern = learn_patterns({"a": times}, 30.0, 966.0)["a"]
    # 2280 jobs at hour 5 and the prior of 48 jobs an hour, all of it there too: the shape is the class's own.
    assert pattern.relative[5] == pytest.approx(24.0, rel=1e-3)
    assert pattern.dispersion < 1.2
    assert "a 1" in tell_patterns({"a": pattern}, hours="midnight")["hours and clumps"]


def test_a_class_with_few_jobs_has_the_shape_of_all() -> None:
    """One job at noon beside 960 in the first hours: its day is nearly that of all of them."""
    many = np.sort(np.random.default_rng(1).random(960) * 6.0)
    patterns = learn_patterns({"many": many, "few": np.array([36.0])}, 0.0, 48.0)
    assert patterns["few"].relative[:6].sum() > 0.9 * 24
