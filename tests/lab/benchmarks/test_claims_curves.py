"""Completion times at equal GPU-hours, on curves with two points, and what is averaged over time."""

from __future__ import annotations

import pytest
from claims.boa_running import Curve, Point, average_efficiency, compare


def make_curve(name: str, *points: tuple[float, float]) -> Curve:
    """Make a curve of (node GPU-hours, mean); P95 is twice the mean."""
    return Curve(name, [Point("", hours, hours, mean, 2 * mean, 1) for hours, mean in points])


def test_between_points_a_line_of_powers() -> None:
    """From (100, 400) to (400, 100): at 200, halfway in logarithms, 200; below 100 there is none."""
    curve = make_curve("own", (100.0, 400.0), (400.0, 100.0))
    assert curve.at(200.0) == pytest.approx(200.0)
    assert curve.at(200.0, "p95_s") == pytest.approx(400.0)
    assert curve.at(99.0) is None
    assert curve.at(1000.0) == pytest.approx(100.0)
    assert curve.hours_for(200.0) == pytest.approx(200.0)
    assert curve.hours_for(50.0) is None


def test_what_fewer_hours_reach_more_hours_reach_too() -> None:
    """A point that is dearer and slower than another counts as the other."""
    assert make_curve("own", (100.0, 300.0), (200.0, 500.0)).at(200.0) == pytest.approx(300.0)


def test_rivals_are_compared_at_their_own_hours() -> None:
    """A rival with 300 at 200 is 1.5 times the 200 there; one below all hours of the curve is left out."""
    own = make_curve("own", (100.0, 400.0), (400.0, 100.0))
    rival = make_curve("rival", (50.0, 900.0), (200.0, 300.0), (400.0, 110.0))
    assert [factor for _, factor in compare(own, rival)] == pytest.approx([1.5, 1.1])
    # Who gets 300 for 200 does not choose 800 for 300.
    worse = make_curve("rival", (200.0, 300.0), (300.0, 800.0))
    assert [factor for _, factor in compare(own, worse)] == pytest.approx([1.5])


def test_the_nearest_point_is_nearest_as_a_factor() -> None:
    """To 200, 390 is nearer than 100: less than twice as many."""
    assert make_curve("own", (100.0, 400.0), (390.0, 100.0)).nearest(200.0).node_gpu_hours == 390.0


def test_efficiency_is_averaged_over_time_and_over_hours() -> None:
    """8 of 10 rented GPUs at 0.5 make 0.4, and 2 of 2 at 1 make 1: 0.7 over time, (4 + 2) of 12 by hours."""
    over_time = {"efficiency": [0.5, 1.0, None], "gpus_used": [8, 2, 0], "gpus_rented": [10, 2, 0]}
    assert average_efficiency({"over_time": over_time}) == pytest.approx((0.7, 0.5))
