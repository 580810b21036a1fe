"""Closed forms: their speeds at whole widths, and the best width against a grid."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optplan.formulations.boa.laws.bands import best_width, formula_speed
from optplan.speedup import AmdahlSpeedup, PowerSpeedup

CURVES = [
    AmdahlSpeedup(serial_fraction=np.array(0.1)),
    AmdahlSpeedup(serial_fraction=np.array([0.0, 0.3, 1.0])),
    PowerSpeedup(exponent=np.array(0.6)),
]
CURVES.append(PowerSpeedup(exponent=np.array([0.0, 0.5, 1.0])))


@pytest.mark.parametrize("curve", CURVES, ids=str)
def test_at_whole_widths_the_formula_is_the_curve(curve: AmdahlSpeedup | PowerSpeedup) -> None:
    """A real width that is whole has the speed that the curve itself gives."""
    at = curve.at(np.arange(1, 9))
    for column, width in enumerate(range(1, 9)):
        assert formula_speed(curve, np.full(len(at), float(width))) == pytest.approx(at[:, column], rel=1e-14)


def test_amdahl_by_hand() -> None:
    """A quarter serial, an hour costs 12 and a GPU 1: k = sqrt(12 * 0.75 / 0.25) = 6, cost 18 * (0.25 + 0.75 / 6)."""
    curve = AmdahlSpeedup(serial_fraction=np.array(0.25))
    width = best_width(curve, 12.0, 1.0, 1.0, 64.0)
    assert width == pytest.approx(6.0)
    assert (12.0 + width) / formula_speed(curve, width) == pytest.approx(18 * 0.375)


def test_power_law_by_hand() -> None:
    """S = k^0.5, an hour costs 4 and a GPU 1: k = 0.5 * 4 / 0.5 = 4."""
    assert best_width(PowerSpeedup(exponent=np.array(0.5)), 4.0, 1.0, 1.0, 64.0) == pytest.approx(4.0)


@given(
    curve=st.sampled_from(CURVES),
    wait=st.floats(0.0, 100.0),
    price=st.floats(0.0, 10.0),
    ends=st.tuples(st.floats(1.0, 8.0), st.floats(0.0, 60.0)),
)
def test_no_width_of_a_grid_is_better(
    curve: AmdahlSpeedup | PowerSpeedup, wait: float, price: float, ends: tuple[float, float]
) -> None:
    """The closed form costs no more than any width of a grid over the same range."""
    if wait == price == 0.0:
        return
    least, largest = ends[0], ends[0] + ends[1]
    width = np.broadcast_to(best_width(curve, wait, price, least, largest), len(curve.at(np.array([1]))))
    assert ((least <= width) & (width <= largest)).all()
    best = (wait + price * width) / formula_speed(curve, width)
    for other in np.linspace(least, largest, 101):
        assert (best <= (wait + price * other) / formula_speed(curve, np.full(width.size, other)) * (1 + 1e-12)).all()
