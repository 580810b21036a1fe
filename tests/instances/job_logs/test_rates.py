"""Arrival rates: intervals from tables, and arrivals that come in clumps."""

from __future__ import annotations

import numpy as np
import pytest

from optplan.instances.arrivals import estimate_rate

DAY = 86400.0


@pytest.mark.parametrize(
    ("count", "low", "high"),
    # Garwood's exact 95 % limits for counts of 1, 10 and 100, as in tables of the Poisson distribution.
    [(1, 0.0253, 5.572), (10, 4.795, 18.390), (100, 81.36, 121.63)],
)
def test_intervals_are_exact(count: int, low: float, high: float) -> None:
    """Over one day, the limits of the count are 24 times those of the rate an hour."""
    rate = estimate_rate(np.linspace(0, DAY, count, endpoint=False), 0.0, DAY)
    assert rate.per_hour == pytest.approx(count / 24)
    assert [24 * rate.low, 24 * rate.high] == pytest.approx([low, high], rel=1e-3)


def test_a_poisson_process_is_not_called_uneven() -> None:
    """300 arrivals over 30 days, drawn once: the error is one over the root of their number."""
    submits = np.sort(np.random.default_rng(1).uniform(0, 30 * DAY, 300))
    rate = estimate_rate(submits, 0.0, 30 * DAY)
    assert (rate.dispersion, rate.bin_h) == (1.0, 24.0)
    assert rate.relative_error == pytest.approx(300**-0.5)


def test_clumps_widen_the_error() -> None:
    """Sweeps of 30 on every third of 30 days are far more uneven than chance."""
    submits = np.repeat(DAY * np.arange(0.0, 30.0, 3.0), 30) + 1.0
    rate = estimate_rate(submits, 0.0, 30 * DAY)
    # Ten days of 30 and twenty of 0 around 10: (10 * 400 + 20 * 100) / 29 = 206.9, over 10.
    assert rate.dispersion == pytest.approx(20.69, rel=1e-3)
    assert rate.relative_error == pytest.approx((20.69 / 300) ** 0.5, rel=1e-3)


def test_a_short_log_has_no_dispersion() -> None:
    """Fewer than five hours are too few bins."""
    assert estimate_rate(np.zeros(50), 0.0, 4 * 3600.0).dispersion == 1.0
