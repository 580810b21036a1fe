"""Choices given as tables: each row picks one option, or mixes two, of its own finite list.

An option has a consumption and a value, both at least 0; ``inf`` in either means that it is not
allowed. A *unit* is what the engine decides on: a row, or a group of rows of a shared table whose
trade-offs are the same.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from optplan.errors import DataError, UsageError
from optplan.solvers.slopes.smooth import FloatArray, require_factors
from optplan.speedup.hulls import lower_left_hull

IndexArray = NDArray[np.int32]
RealArray = NDArray[np.floating]

#: Entries of a table handled together: few enough for the working set to stay in the cache.
SLAB_ENTRIES = 2**18


class Slab(NamedTuple):
    """Some units of a block.

    ``consumption`` and ``value`` have shape (units, columns); ``convex`` says that every unit's
    columns already are the vertices of its hull in order of consumption.
    """

    consumption: FloatArray
    value: FloatArray
    convex: bool = False


class SplitUnit(NamedTuple):
    """The one unit that ends between two columns, and the share of it that runs at the second."""

    unit: int
    column: int
    fraction: float


@dataclass(frozen=True)
class TableChoice:
    """What a block of table rows does.

    Parameters
    ----------
    lower, upper
        (rows,) The options of less and of more consumption; equal where a row does not mix.
    fraction
        (rows,) Share run at ``upper``, from 0 to below 1; not 0 in at most one row of the whole
        instance.
    """

    lower: IndexArray
    upper: IndexArray
    fraction: FloatArray


class Table(ABC):
    """What the engine asks of a block of table rows."""

    @property
    @abstractmethod
    def units(self) -> int:
        """Number of units."""

    @property
    @abstractmethod
    def columns(self) -> int:
        """Number of columns of every unit."""

    @abstractmethod
    def slab(self, start: int, stop: int) -> Slab:
        """Return the units from ``start`` to before ``stop``."""

    @abstractmethod
    def spread(self, column: IndexArray, mixture: SplitUnit | None) -> TableChoice:
        """Turn the columns chosen by units, shape (units,), into options chosen by rows."""

    @abstractmethod
    def totals(self, choice: TableChoice) -> tuple[float, float]:
        """Return total consumption and total value of a choice."""

    def least_reduced(self, multiplier: float) -> float:
        """Return the sum over rows of the least value + multiplier * consumption."""
        return math.fsum(
            float(reduce_values(self.slab(start, stop), multiplier).min(axis=1).sum()) for start, stop in self.spans()
        )

    def least_consumption(self, multiplier: float) -> float:
        """Return the consumption of all units at their best columns for a multiplier above 0."""
        sums = []
        for start, stop in self.spans():
            slab = self.slab(start, stop)
            best = reduce_values(slab, multiplier).argmin(axis=1)
            sums.append(float(slab.consumption[np.arange(best.size), best].sum()))
        return math.fsum(sums)

    def spans(self) -> Iterator[tuple[int, int]]:
        """Cut the units into pieces that fit the cache."""
        step = max(1, SLAB_ENTRIES // self.columns)
        for start in range(0, self.units, step):
            yield start, min(start + step, self.units)


@dataclass(frozen=True, eq=False)
class LazyTableBlock(Table):
    """Rows whose options are made when they are needed, a few thousand rows at a time.

    Parameters
    ----------
    rows, options
        Shape of the whole table.
    make
        ``make(start, stop)`` returns consumption and value, each of shape (stop - start, options),
        of the rows from ``start`` to before ``stop``. It is called several times for the same rows
        and must return the same numbers.
    """

    rows: int
    options: int
    make: Callable[[int, int], tuple[RealArray, RealArray]]

    @property
    def units(self) -> int:
        """Number of rows."""
        return self.rows

    @property
    def columns(self) -> int:
        """Number of options."""
        return self.options

    def slab(self, start: int, stop: int) -> Slab:
        """Return rows ``start`` to before ``stop``.

        Raises
        ------
        UsageError
            When ``make`` returns another shape.
        """
        consumption, value = self.make(start, stop)
        shape = (stop - start, self.options)
        if consumption.shape != shape or value.shape != shape:
            raise UsageError(
                f"make({start}, {stop}) returned shapes {consumption.shape} and {value.shape}; both must be {shape}"
            )
        # Tables may be kept as single precision or whole numbers.
        return Slab(np.asarray(consumption, np.float64), np.asarray(value, np.float64))

    def spread(self, column: IndexArray, mixture: SplitUnit | None) -> TableChoice:
        """Give every row its column; the row of the mixture moves on in part."""
        upper = column
        fraction = np.zeros(self.units)
        if mixture is not None:
            upper = column.copy()
            upper[mixture.unit] = mixture.column
            fraction[mixture.unit] = mixture.fraction
        return TableChoice(column, upper, fraction)

    def totals(self, choice: TableChoice) -> tuple[float, float]:
        """Return total consumption and total value of a choice."""
        sums = []
        for start, stop in self.spans():
            slab = self.slab(start, stop)
            rows, part = np.arange(stop - start), slice(start, stop)
            sums.append([float(_mix(table, rows, choice, part).sum()) for table in (slab.consumption, slab.value)])
        return math.fsum(pair[0] for pair in sums), math.fsum(pair[1] for pair in sums)


@dataclass(frozen=True, eq=False)
class SharedTableBlock(Table):
    """Rows that share one list of options up to a scale and a weight.

    Row n has consumption ``scale[n] * consumption`` and value ``scale[n] * weight[n] * value``. The
    hull is computed once, and rows of equal weight are decided together.

    Parameters
    ----------
    consumption, value
        (options,) Numbers of at least 0, or ``inf`` for an option that is not allowed.
    scale, weight
        (rows,) Finite, at least 0.

    Raises
    ------
    UsageError
        When shapes do not match.
    DataError
        When a number is outside its range.
    """

    consumption: FloatArray
    value: FloatArray
    scale: FloatArray
    weight: FloatArray

    def __post_init__(self) -> None:
        """Check shapes and numbers."""
        shape = self.consumption.shape
        if len(shape) != 1 or not shape[0] or shape != self.value.shape:
            raise UsageError(
                f"consumption has shape {shape} and value {self.value.shape}; "
                "both must be (options,) with at least one option"
            )
        if self.scale.ndim != 1 or self.scale.shape != self.weight.shape:
            raise UsageError(f"scale has shape {self.scale.shape} and weight {self.weight.shape}; both must be (rows,)")
        require_factors("scale", self.scale)
        require_factors("weight", self.weight)
        require_entries(Slab(self.consumption[None], self.value[None]), 0)

    @cached_property
    def _hull(self) -> IndexArray:
        """The options at the vertices of the hull, in order of consumption."""
        vertices = np.flatnonzero(lower_left_hull(self.consumption[None], self.value[None])[0])
        order = np.argsort(self.consumption[vertices], kind="stable")
        return vertices[order].astype(np.int32)

    @cached_property
    def _groups(self) -> tuple[FloatArray, FloatArray, IndexArray]:
        """Weights (units,) and total scales (units,) of the groups, and the group of each row."""
        weight, group = np.unique(self.weight, return_inverse=True)
        scale: FloatArray = np.zeros(weight.size)
        np.add.at(scale, group, self.scale)
        return weight, scale, group.astype(np.int32)

    @property
    def units(self) -> int:
        """Number of groups of equal weight."""
        return self._groups[0].size

    @property
    def columns(self) -> int:
        """Number of vertices of the hull."""
        return self._hull.size

    def slab(self, start: int, stop: int) -> Slab:
        """Return groups ``start`` to before ``stop``."""
        weight, scale, _ = self._groups
        consumption = np.multiply.outer(scale[start:stop], self.consumption[self._hull])
        value = np.multiply.outer(scale[start:stop] * weight[start:stop], self.value[self._hull])
        return Slab(consumption, value, convex=True)

    def least_reduced(self, multiplier: float) -> float:
        """Return the sum over rows of the least value + multiplier * consumption, over all options.

        It does not use the hull, so that a bound does not rest on it.
        """
        allowed = np.isfinite(self.consumption) & np.isfinite(self.value)
        priced = multiplier * self.consumption[allowed]
        weight, scale, _ = self._groups
        sums = []
        for start, stop in self.spans():
            reduced = np.multiply.outer(weight[start:stop], self.value[allowed])
            reduced += priced
            sums.append(float((scale[start:stop] * reduced.min(axis=1)).sum()))
        return math.fsum(sums)

    def spread(self, column: IndexArray, mixture: SplitUnit | None) -> TableChoice:
        """Give every row its group's option; in a mixed group the first rows move on, one mixes."""
        _, scale, group = self._groups
        lower = self._hull[column][group]
        fraction = np.zeros(group.size)
        if mixture is None:
            return TableChoice(lower, lower, fraction)
        rows = np.flatnonzero((group == mixture.unit) & (self.scale > 0.0))
        moved = np.cumsum(self.scale[rows])
        wanted = mixture.fraction * scale[mixture.unit]
        place = min(int(np.searchsorted(moved, wanted, side="right")), rows.size - 1)
        option = self._hull[mixture.column]
        lower[rows[:place]] = option
        upper = lower.copy()
        upper[rows[place]] = option
        before = moved[place] - self.scale[rows[place]]
        fraction[rows[place]] = min(max((wanted - before) / self.scale[rows[place]], 0.0), 1.0)
        return TableChoice(lower, upper, fraction)

    def totals(self, choice: TableChoice) -> tuple[float, float]:
        """Return total consumption and total value of a choice."""
        mixed = [
            (1.0 - choice.fraction) * table[choice.lower] + choice.fraction * table[choice.upper]
            for table in (self.consumption, self.value)
        ]
        return (
            float((self.scale * mixed[0]).sum()),
            float((self.scale * self.weight * mixed[1]).sum()),
        )


def reduce_values(slab: Slab, multiplier: float) -> FloatArray:
    """Return value + multiplier * consumption, ``inf`` where an option is not allowed."""
    if multiplier == 0.0:
        return np.where(np.isfinite(slab.consumption), slab.value, np.inf)
    reduced = slab.consumption * multiplier
    reduced += slab.value
    return reduced


def require_entries(slab: Slab, first_row: int) -> None:
    """Raise for a negative entry, NaN, or a row without an allowed option.

    Parameters
    ----------
    first_row
        Place of the slab's first unit in its block, for the message.

    Raises
    ------
    DataError
        Naming the first wrong entry or row.
    """
    for path, table in (("consumption", slab.consumption), ("value", slab.value)):
        if table.size and not table.min() >= 0.0:
            row, option = np.argwhere(~(table >= 0.0))[0]
            problem = f"got {table[row, option]:g}; numbers of at least 0, or inf, are allowed"
            fix = "give inf for an option that is not allowed"
            raise DataError(f"{path}[{first_row + row}][{option}]", problem, fix)
    if slab.value.size and math.isinf(max(slab.consumption.max(), slab.value.max())):
        allowed = np.isfinite(slab.consumption) & np.isfinite(slab.value)
        empty = np.flatnonzero(~allowed.any(axis=1))
        if empty.size:
            problem = "no option has both a finite consumption and a finite value"
            raise DataError(f"consumption[{first_row + empty[0]}]", problem, "allow one option")


def _mix(table: FloatArray, rows: NDArray[np.int64], choice: TableChoice, part: slice) -> FloatArray:
    """Return the entries that a choice takes from some rows, shape (rows,)."""
    taken = table[rows, choice.lower[part]]
    mixed = np.flatnonzero(choice.fraction[part])
    fraction = choice.fraction[part][mixed]
    upper = table[mixed, choice.upper[part][mixed]]
    taken[mixed] = (1.0 - fraction) * taken[mixed] + fraction * upper
    return taken
