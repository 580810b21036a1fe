from __future__ import annotations

import numpy as np
import pytest

from optplan.formulations.rubberband.laws.rounding import round_times


def test_times_move_to_the_points_before_and_after() -> None:
    """A time of 0 (0.2), of 1.5 (0.5) and of 9 (0.3) on the grid 0, 1, 2, 3."""
    rounded = round_times(np.array([0.2, 0.2, 0.7, 0.7]))
    assert rounded.up == pytest.approx([0.2, 0.0, 0.5, 0.0, 0.3])
    assert rounded.down == pytest.approx([0.2, 0.5, 0.0, 0.0, 0.3])


def test_sums_of_rounded_times_enclose_the_sum() -> None:
    """Of two exponential times, P(sum <= 3) = 1 - 4 exp(-3) lies between the sums of those rounded up and down."""
    grid = np.linspace(0.0, 3.0, 301)
    rounded = round_times(1.0 - np.exp(-grid))
    true = 1.0 - 4.0 * np.exp(-3.0)
    up, down = (np.convolve(part[:-1], part[:-1])[:301].sum() for part in (rounded.up, rounded.down))
    assert up < true < down
    assert down - up < 0.01
