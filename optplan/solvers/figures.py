"""How figures of limits are written: with the digits that tell them apart, and rounded so that they are enough."""

from __future__ import annotations

import math

from optplan.solvers.limits import LIMIT_TOLERANCE, ROUNDING


def count_digits(number: float, other: float) -> int:
    """Count the digits that tell two numbers apart, four at least: 74.62 against 60, but 74.6203 against 74.6201."""
    apart = abs(number - other) / max(number, other)
    return max(4, 2 - math.floor(math.log10(max(LIMIT_TOLERANCE, apart))))


def write_digits(number: float, digits: int) -> str:
    """Write a number to so many significant digits, without an exponent while it is readable: 53,270 or 74.62."""
    return f"{float(f'{number:.{digits}g}'):,.{max(digits, 12)}g}"


def write_apart(number: float, other: float) -> str:
    """Write a number with the digits that tell it from another."""
    return write_digits(number, count_digits(number, other))


def write_up(number: float, given: float) -> str:
    """Write a number rounded up, apart from a lesser one, so that the figure, given as a limit, is enough."""
    digits = count_digits(number, given)
    unit = 10.0 ** (math.floor(math.log10(number)) + 1 - digits)
    # Rounding errors of the division must not lift a number that is whole already.
    return write_digits(math.ceil(number / unit * (1 - ROUNDING)) * unit, digits)


def write_down(number: float) -> str:
    """Write a number rounded down to four digits, so that the figure, given as a floor, is low enough."""
    unit = 10.0 ** (math.floor(math.log10(number)) - 3)
    return write_digits(math.floor(number / unit * (1 + ROUNDING)) * unit, 4)
