from __future__ import annotations

import numpy as np
import pytest

from optplan.formulations.rubberband.laws.rounding import round_down


def test_times_move_to_the_points_before() -> None:
    """A time of 0 (0.2), of 1.5 (0.5) and of 9 (0.3), which is left out, on the grid 0, 1, 2, 3."""
    assert round_down(np.array([0.2, 0.2, 0.7, 0.7])) == pytest.approx([0.2, 0.5, 0.0, 0.0])


def test_sums_of_rounded_times_are_never_later() -> None:
    """Of two exponential times, P(sum <= 3) = 1 - 4 exp(-3) is little below that of the sum of those rounded down."""
    grid = np.linspace(0.0, 3.0, 301)
    rounded = round_down(1.0 - np.exp(-grid))
    true = 1.0 - 4.0 * np.exp(-3.0)
    assert true < np.convolve(rounded, rounded)[:301].sum() < true + 0.01
