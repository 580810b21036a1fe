"""Choices whose options are a smooth convex curve with a closed form: power laws and Amdahl's law.

A choice of real width k with speedup s(k) has value ``scale * weight / s(k)`` and consumption
``scale * k / s(k)``. For a multiplier mu the width that minimises value + mu * consumption is

- power law s = k^a: k = a * weight / (mu * (1 - a));
- Amdahl s = 1 / (f + (1 - f) / k): k = sqrt(weight * (1 - f) / (mu * f));

clipped to the allowed widths. Where more width is free (a = 1, f = 0) the widest is taken, where it
is useless (a = 0, f = 1, no weight) the narrowest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from optplan.errors import DataError

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

#: A budget within this share of a breakpoint is spent at the breakpoint, so that rounding splits no
#: row.
SNAP_TOLERANCE = 1e-12

#: A root in log(multiplier) is bracketed to this, relative to the larger of 1 and the logarithm: a
#: few roundings.
ROOT_TOLERANCE = 2.0**-49

#: Parameters below this are zero: no width that anybody can rent makes a difference of them, and
#: their inverses would overflow.
_NO_SHARE = 1e-30


class SmoothForm(StrEnum):
    """Which closed form a block of smooth choices has."""

    #: s = k^a; the parameter is a.
    POWER_LAW = "power-law"
    #: s = 1 / (f + (1 - f) / k); the parameter is the serial fraction f.
    AMDAHL = "amdahl"


@dataclass(frozen=True)
class SmoothChoice:
    """What a block of smooth choices does.

    Parameters
    ----------
    width
        (rows,) The width of each row.
    """

    width: FloatArray


@dataclass(frozen=True, eq=False)
class SmoothBlock:
    """Rows that choose a real width on a power law or an Amdahl curve.

    Parameters
    ----------
    form
        The curve.
    scale
        (rows,) Multiplies value and consumption; finite, at least 0.
    weight
        (rows,) Multiplies the value only; finite, at least 0.
    parameter
        (rows,) The exponent a, or the serial fraction f; from 0 to 1.
    width_min, width_max
        (rows,) The allowed widths; positive and finite, ``width_max`` not below ``width_min``.

    Raises
    ------
    DataError
        When lengths differ or a number is outside its range.
    """

    form: SmoothForm
    scale: FloatArray
    weight: FloatArray
    parameter: FloatArray
    width_min: FloatArray
    width_max: FloatArray

    def __post_init__(self) -> None:
        """Check lengths and ranges."""
        for path in ("scale", "weight", "parameter", "width_min", "width_max"):
            array = getattr(self, path)
            if array.ndim != 1 or array.shape != self.scale.shape:
                problem = f"got shape {array.shape} next to scales of shape {self.scale.shape}"
                raise DataError(path, problem, "give one number per row")
        require_factors("scale", self.scale)
        require_factors("weight", self.weight)
        _require(
            "parameter",
            self.parameter,
            (self.parameter >= 0.0) & (self.parameter <= 1.0),
            "numbers from 0 to 1 are allowed",
        )
        _require(
            "width_min",
            self.width_min,
            (self.width_min > 0.0) & np.isfinite(self.width_min),
            "finite numbers above 0 are allowed",
        )
        _require(
            "width_max",
            self.width_max,
            (self.width_max >= self.width_min) & np.isfinite(self.width_max),
            "finite numbers of at least width_min are allowed",
        )

    @property
    def rows(self) -> int:
        """Number of choices."""
        return self.scale.size

    @cached_property
    def _widest_is_free(self) -> BoolArray:
        return self.parameter == 1.0 if self.form is SmoothForm.POWER_LAW else self.parameter < _NO_SHARE

    @cached_property
    def _moves(self) -> BoolArray:
        """Which rows change their width with the multiplier at all."""
        useless = self.parameter < _NO_SHARE if self.form is SmoothForm.POWER_LAW else self.parameter == 1.0
        still = self._widest_is_free | useless
        still |= (self.weight == 0.0) | (self.scale == 0.0)
        return ~still & (self.width_min < self.width_max)

    def widths(self, multiplier: float) -> FloatArray:
        """Return the best width of each row, shape (rows,), for a multiplier from 0 to ``inf``.

        Where several widths are equally good, the one of least consumption among those of least
        value.
        """
        a = self.parameter
        width = np.where(self._widest_is_free, self.width_max, self.width_min)
        moves = self._moves
        with np.errstate(divide="ignore", over="ignore", under="ignore"):
            if self.form is SmoothForm.POWER_LAW:
                free = a[moves] / (1.0 - a[moves]) * self.weight[moves] / multiplier
            else:
                free = np.sqrt((1.0 / a[moves] - 1.0) * self.weight[moves] / multiplier)
        width[moves] = np.clip(free, self.width_min[moves], self.width_max[moves])
        return width

    def consumption(self, width: FloatArray) -> FloatArray:
        """Return ``scale * k / s(k)`` for given widths, shape (rows,)."""
        if self.form is SmoothForm.POWER_LAW:
            return self.scale * width ** (1.0 - self.parameter)
        return self.scale * (self.parameter * width + (1.0 - self.parameter))

    def value(self, width: FloatArray) -> FloatArray:
        """Return ``scale * weight / s(k)`` for given widths, shape (rows,)."""
        if self.form is SmoothForm.POWER_LAW:
            return self.scale * self.weight * width**-self.parameter
        return self.scale * self.weight * (self.parameter + (1.0 - self.parameter) / width)

    def totals(self, choice: SmoothChoice) -> tuple[float, float]:
        """Return total consumption and total value of a choice."""
        return (
            float(self.consumption(choice.width).sum()),
            float(self.value(choice.width).sum()),
        )

    def least_reduced(self, multiplier: float) -> float:
        """Return the sum over rows of the least value + multiplier * consumption."""
        width = self.widths(multiplier)
        return float((self.value(width) + multiplier * self.consumption(width)).sum())

    def turning_multipliers(self) -> tuple[FloatArray, FloatArray]:
        """Return where moving rows leave their largest and reach their least width as it grows.

        Returns
        -------
        tuple
            (moving rows,) twice: at or below the first a row is at ``width_max``, at or above the
            second at ``width_min``.
        """
        moves = self._moves
        a, weight = self.parameter[moves], self.weight[moves]
        widest, least = self.width_max[moves], self.width_min[moves]
        if self.form is SmoothForm.POWER_LAW:
            factor = a / (1.0 - a) * weight
            return factor / widest, factor / least
        factor = (1.0 / a - 1.0) * weight
        return factor / widest**2, factor / least**2


class SmoothPart:
    """All smooth blocks of an instance together, as functions of the multiplier.

    Parameters
    ----------
    blocks
        The smooth blocks; none is allowed.
    """

    def __init__(self, blocks: Sequence[SmoothBlock]) -> None:
        self.blocks = tuple(blocks)
        turning = [block.turning_multipliers() for block in self.blocks]
        self._leaves_widest = np.concatenate([np.empty(0), *(pair[0] for pair in turning)])
        self._reaches_least = np.concatenate([np.empty(0), *(pair[1] for pair in turning)])

    def consumption(self, multiplier: float) -> float:
        """Return the total consumption at a multiplier from 0 to ``inf``."""
        return math.fsum(float(b.consumption(b.widths(multiplier)).sum()) for b in self.blocks)

    def value(self, multiplier: float) -> float:
        """Return the total value at a multiplier from 0 to ``inf``."""
        return math.fsum(float(b.value(b.widths(multiplier)).sum()) for b in self.blocks)

    def moving_range(self) -> tuple[float, float] | None:
        """Return the multipliers outside which no width changes, or None when none ever does."""
        if not self._leaves_widest.size:
            return None
        return float(self._leaves_widest.min()), float(self._reaches_least.max())

    def still_range(self, multiplier: float) -> tuple[float, float]:
        """Return the interval around a multiplier in which no width moves; a point if one does."""
        widest = self._leaves_widest >= multiplier
        least = self._reaches_least <= multiplier
        if not (widest | least).all():
            return multiplier, multiplier
        low = self._reaches_least[least].max(initial=0.0)
        high = self._leaves_widest[widest].min(initial=math.inf)
        return float(low), float(high)

    def solve_between(self, measure: Callable[[float], float], target: float, low: float, high: float) -> float:
        """Return the multiplier at which a decreasing measure of the smooth part meets a target.

        Parameters
        ----------
        measure
            Decreasing with the multiplier, and constant where no width moves.
        target
            Wanted, positive; not above ``measure(low)``, not below ``measure(high)``.
        low, high
            Bracket; 0 and ``inf`` are allowed.

        Returns
        -------
        float
            A multiplier whose measure is at most the target (``low`` when its measure is the target
            to within :data:`SNAP_TOLERANCE`), to a relative :data:`ROOT_TOLERANCE` the least.
        """
        moving = self.moving_range()
        if moving is None:
            return high
        if low >= moving[1] or high <= moving[0]:
            return high
        low, high = max(low, moving[0]), min(high, moving[1])
        return _find_root(measure, target, low, high)


def require_factors(path: str, array: FloatArray) -> None:
    """Raise unless all numbers are finite and at least 0.

    Parameters
    ----------
    path
        Name of the field in the message.
    array
        (rows,) Its numbers.

    Raises
    ------
    DataError
        Naming the first number that is not.
    """
    allowed = (array >= 0.0) & np.isfinite(array)
    _require(path, array, allowed, "finite numbers of at least 0 are allowed")


def _require(path: str, array: FloatArray, allowed: BoolArray, rule: str) -> None:
    wrong = np.flatnonzero(~allowed)
    if wrong.size:
        problem = f"got {array[wrong[0]]:g}; {rule}"
        raise DataError(f"{path}[{wrong[0]}]", problem, "correct the number or leave the row out")


def _find_root(measure: Callable[[float], float], target: float, low: float, high: float) -> float:
    """Bracket the root in log-log coordinates, where these curves are nearly straight.

    Illinois' variant of regula falsi; a step that fails to halve the bracket is followed by a
    bisection. Steps keep the tolerance from both ends, so that the last one closes the bracket from
    the far side.
    """
    left, right = math.log(low), math.log(high)
    above, below = _log_ratio(measure(low), target), _log_ratio(measure(high), target)
    if above <= SNAP_TOLERANCE:
        return low
    tolerance = ROOT_TOLERANCE * max(1.0, abs(left), abs(right))
    bisect, side, at_high = False, 0, high
    while right - left > 2.0 * tolerance and below < 0.0:
        span = right - left
        if bisect or not above > below:
            middle = left + 0.5 * span
        else:
            middle = left + span * above / (above - below)
        middle = min(max(middle, left + tolerance), right - tolerance)
        multiplier = math.exp(middle)
        excess = _log_ratio(measure(multiplier), target)
        if excess > 0.0:
            left, above = middle, excess
            below = below * 0.5 if side > 0 else below
            side = 1
        else:
            right, below, at_high = middle, excess, multiplier
            above = above * 0.5 if side < 0 else above
            side = -1
        bisect = not bisect and right - left > 0.5 * span
    return at_high


def _log_ratio(measured: float, target: float) -> float:
    return math.log(measured / target) if measured > 0.0 else -math.inf
