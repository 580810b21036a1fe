"""Programs of whole numbers that say what a program says: coefficients are rounded down, or up, and ends are not."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optplan.errors import UnsupportedError
from optplan.schema import FloatArray
from optplan.solvers.programs.program import Program

#: Columns that are no whole numbers count units that are so many times as small: bounds may be far from what is best.
_FINER = 16
#: Terms of one row add up to no more than this; CP-SAT wants room within 64-bit integers.
_LARGEST_SUM = 2.0**60
#: The same for rows that are divided: beyond it their numbers are no whole ones as floats.
_LARGEST_EXACT = 2.0**52
#: An end that is none.
_NO_END = -(2**62)
#: Numbers that differ by less, relatively, are multiples of one another up to the rounding of what made them.
_SAME = 1e-12


@dataclass(frozen=True, eq=False)
class WholeRow:
    """A row of whole numbers: columns, their coefficients, and the ends between which it stays."""

    columns: list[int]
    coefficients: list[int]
    least: int
    most: int


@dataclass(frozen=True, eq=False)
class Rounded:
    """A program of whole numbers: columns t from 0 to ``span``, which stand for x = start + unit t.

    The objective in natural units is ``offset + value_unit * (cost t)``.
    """

    start: FloatArray
    unit: FloatArray
    span: list[int]
    rows: list[WholeRow]
    cost: list[int]
    value_unit: float
    offset: float

    @property
    def is_empty(self) -> bool:
        """Whether bounds leave a column nothing, which CP-SAT refuses, or a row without terms, which it overlooks."""
        return min(self.span, default=0) < 0 or any(
            not any(row.coefficients) and not row.least <= 0 <= row.most for row in self.rows
        )

    def read(self, counts: FloatArray) -> FloatArray:
        """Return the columns that counts stand for."""
        values: FloatArray = self.start + self.unit * counts
        return values


def round_program(program: Program, resolution: int, *, upwards: bool) -> Rounded:
    """Round coefficients down, or up; the ends of the rows stay.

    Parameters
    ----------
    resolution
        Units that the end of a row, or its largest term, is divided into.
    upwards
        False for a program that lets pass whatever the given one does, at no worse an objective; True for one that lets
        pass nothing else.
    """
    start, unit, span = count_units(program, resolution)
    matrix, rows = program.matrix, []
    steps = unit * (span > 0.0)  # a column that is fixed adds nothing, however large its coefficients
    starts, indices, terms = matrix.indptr.tolist(), matrix.indices, matrix.data * steps[matrix.indices]
    base = matrix @ start
    ends = zip(base.tolist(), program.row_lower.tolist(), program.row_upper.tolist(), strict=True)
    for row, (known, lower, upper) in enumerate(ends):
        entries = slice(starts[row], starts[row + 1])
        columns = indices[entries]
        own = _RealRow(columns, terms[entries], span[columns], program.integral[columns])
        # What is within the rounding of the sums is at the ends.
        least, most = (
            end - known + side * _SAME * (abs(known) + abs(end)) if math.isfinite(end) else end
            for side, end in ((-1.0, lower), (1.0, upper))
        )
        rows += own.round(least, most, resolution, upwards=upwards)
    cost = program.cost * steps
    scale, is_exact = _find_scale(cost, math.inf, span, resolution)
    return Rounded(
        start=start,
        unit=unit,
        span=[int(each) for each in span],
        rows=rows,
        cost=_to_whole(cost * scale, np.round if is_exact else np.floor),
        value_unit=1.0 / scale,
        # A column that is no whole number is up to a unit more than it counts.
        offset=program.offset + float(program.cost @ start) + float(np.minimum(cost, 0.0)[~program.integral].sum()),
    )


def count_units(program: Program, resolution: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return (N,) where columns start, their units, and how many units there are.

    Raises
    ------
    UnsupportedError
        When a column has not both bounds; with its name.
    """
    whole = program.integral
    lower, upper = program.tighten()
    lower = np.where(whole, np.ceil(lower - _SAME), lower)
    upper = np.where(whole, np.floor(upper + _SAME), upper)
    width = upper - lower
    if not np.isfinite(width).all():
        which = int(np.flatnonzero(~np.isfinite(width))[0])
        name = program.columns[which] if program.columns else f"number {which + 1}"
        raise UnsupportedError(f"CP-SAT needs a lower and an upper bound of every variable, and {name} has not both")
    unit = np.ones(width.size)
    some = ~whole & (width > 0.0)
    unit[some] = 2.0 ** np.ceil(np.log2(width[some] / (_FINER * resolution)))
    return lower, unit, np.floor(width / unit)


@dataclass(frozen=True, eq=False)
class _RealRow:
    """The terms of a row: columns, what a unit of each adds, how many units there are, and whether they are whole."""

    columns: NDArray[np.int32]
    terms: FloatArray
    span: FloatArray
    whole: NDArray[np.bool_]

    def round(self, least: float, most: float, resolution: int, *, upwards: bool) -> list[WholeRow]:
        """Round it between its ends: in one row where that loses nothing, otherwise in one for each end."""
        if self.whole.all():
            end = max((abs(each) for each in (least, most) if math.isfinite(each)), default=0.0)
            scale, is_exact = _find_scale(self.terms, end, self.span, resolution)
            if is_exact:
                ends = (-_find_room(-least, scale), _find_room(most, scale))
                return [WholeRow(self.columns.tolist(), _to_whole(self.terms * scale, np.round), *ends)]
        sides = ((1.0, most), (-1.0, -least))
        return [self._round_end(sign, end, resolution, upwards=upwards) for sign, end in sides if math.isfinite(end)]

    def _round_end(self, sign: float, most: float, resolution: int, *, upwards: bool) -> WholeRow:
        """Round ``sign terms t <= most``."""
        terms = sign * self.terms
        if (terms >= 0.0).all() and most > 0.0:
            # What alone exceeds the end is excluded just as well by a little more than the end.
            terms = np.minimum(terms, 2.0 * most)
        scale, is_exact = _find_scale(terms, most, self.span, resolution)
        some = np.abs(terms[~self.whole & (terms != 0.0)])
        if some.size and not is_exact:
            # A unit of a column that is no whole number is not to be lost.
            scale = max(scale, 2.0 ** -math.floor(math.log2(float(some.min()))))
        coefficients = _to_whole(terms * scale, np.ceil if upwards else np.floor)
        room = _find_room(most, scale)
        if not upwards:
            # A column that is no whole number is up to a unit more than it counts.
            room -= sum(
                min(each, 0) for each, whole in zip(coefficients, self.whole.tolist(), strict=True) if not whole
            )
        return WholeRow(self.columns.tolist(), coefficients, _NO_END, room)


def _find_scale(terms: FloatArray, most: float, span: FloatArray, resolution: int) -> tuple[float, bool]:
    """Return what makes whole numbers of terms, and whether it loses nothing, as where all are multiples of one."""
    sizes = np.abs(terms[terms != 0.0])
    total = float(np.abs(terms) @ span)
    if total == 0.0:
        return 1.0, not sizes.size
    for unit in (1.0, float(sizes.min())):
        shares = sizes / unit
        if total / unit <= _LARGEST_EXACT and (np.abs(shares - np.round(shares)) <= _SAME * shares).all():
            return 1.0 / unit, True
    end = most if 0.0 < most < math.inf and (terms >= 0.0).all() else float((np.abs(terms) * span).max())
    return 2.0 ** math.floor(math.log2(min(resolution / end, _LARGEST_SUM / total))), False


def _to_whole(scaled: FloatArray, rounded: Callable[[FloatArray], FloatArray]) -> list[int]:
    return [int(each) for each in rounded(scaled).tolist()]


def _find_room(most: float, scale: float) -> int:
    """Return the end of a row in units, no further than 64-bit integers reach."""
    return math.floor(min(max(most * scale, _NO_END), -_NO_END))
