"""Speedups that have a closed form, at real widths."""

from __future__ import annotations

import numpy as np

from optplan.schema import FloatArray
from optplan.speedup import AmdahlSpeedup, PowerSpeedup


def formula_speed(curve: AmdahlSpeedup | PowerSpeedup, width: FloatArray) -> FloatArray:
    """Return the speed (E,) of a closed form at real widths (E,): 1 / (f + (1 - f) / k), or k^a."""
    if isinstance(curve, AmdahlSpeedup):
        serial = np.asarray(curve.serial_fraction, dtype=float)
        return np.asarray(1.0 / (serial + (1.0 - serial) / width))
    return np.asarray(width ** np.asarray(curve.exponent, dtype=float))


def best_width(
    curve: AmdahlSpeedup | PowerSpeedup, wait: float, price: float, least: float, largest: float
) -> FloatArray:
    """Return the width in [least, largest] of the least (wait + price k) / s(k), by epoch (E,), or () for all alike."""
    # The derivative vanishes where s'(k) (wait + price k) = price s(k).
    if price == 0.0:
        return np.array(largest)
    if wait == 0.0:
        return np.array(least)  # k / s(k) never falls
    with np.errstate(divide="ignore", over="ignore"):
        if isinstance(curve, AmdahlSpeedup):
            serial = np.asarray(curve.serial_fraction, dtype=float)
            stationary = np.sqrt(wait * (1.0 - serial) / (price * serial))
        else:
            exponent = np.asarray(curve.exponent, dtype=float)
            stationary = exponent * wait / (price * (1.0 - exponent))
    return np.clip(stationary, least, largest)
