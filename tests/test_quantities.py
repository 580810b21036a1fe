"""Rounding to the digits that processors share."""

from __future__ import annotations

import numpy as np

from optplan.quantities import round_shared


def test_last_bits_are_rounded_away() -> None:
    """Pi and its neighbour are the same nine digits; the shape stays, and so do zeros and whole numbers."""
    assert round_shared([[np.pi, np.nextafter(np.pi, 4.0)], [0.0, 128.0]]).tolist() == [[3.14159265] * 2, [0.0, 128.0]]


def test_digits_are_counted_from_the_first_one() -> None:
    """Small and large numbers lose equally little: 1/3 of 1e-12 and of 1e12."""
    assert round_shared([1e-12 / 3.0, 1e12 / 3.0, -2.0 / 3.0]).tolist() == [
        3.33333333e-13,
        333333333000.0,
        -0.666666667,
    ]
    assert float(round_shared(0.1 + 0.2)) == 0.3
