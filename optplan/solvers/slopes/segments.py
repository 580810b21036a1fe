"""Hull segments: what a unit consumes more, and which option it then has, at falling slopes.

On the lower-left hull of its options a unit starts at its least consumption and moves along
segments whose slopes (value saved per consumption added) fall. A unit is at the end of every
segment steeper than the multiplier. Only the segments with slopes inside a bracket of multipliers
are collected; what is steeper is part of the start.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from optplan.errors import UsageError
from optplan.solvers.slopes.blocks import (
    IndexArray,
    LazyTableBlock,
    SharedTableBlock,
    Slab,
    Table,
    reduce_values,
    require_entries,
)
from optplan.solvers.slopes.smooth import FloatArray, SmoothBlock, SmoothPart
from optplan.speedup.hulls import lower_left_hull

Block = LazyTableBlock | SharedTableBlock | SmoothBlock

_Places = NDArray[np.int64]


class Bracket(NamedTuple):
    """Multipliers between which the answer is sought; 0 and ``inf`` are allowed."""

    low: float
    high: float

    def shows(self, budget: float, least: float, most: float) -> bool:
        """Whether a budget is spent inside, given what is consumed at the high and low end."""
        return (budget >= least or math.isinf(self.high)) and (budget <= most or self.low == 0.0)


EVERYTHING = Bracket(0.0, math.inf)


class Parts:
    """An instance, its table blocks and its smooth blocks apart.

    Parameters
    ----------
    blocks
        The blocks in the caller's order.

    Raises
    ------
    UsageError
        When there is no row at all.
    """

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.blocks = tuple(blocks)
        self.tables: tuple[Table, ...] = tuple(b for b in self.blocks if isinstance(b, Table))
        self.smooth = SmoothPart([b for b in self.blocks if isinstance(b, SmoothBlock)])
        self.num_units = sum(table.units for table in self.tables)
        if not self.num_units and not any(block.rows for block in self.smooth.blocks):
            raise UsageError("blocks has no row; give at least one choice to decide on")


@dataclass(frozen=True, eq=False)
class SlabVertices:
    """The hull vertices of a slab's units, each unit's in order of consumption.

    Parameters
    ----------
    consumption, value
        (vertices,) Coordinates.
    first
        (units,) Where each unit's vertices start.
    columns
        Number of columns of the slab.
    place
        (vertices,) Position in the flattened slab; None when every entry is a vertex.
    """

    consumption: FloatArray
    value: FloatArray
    first: _Places
    columns: int
    place: _Places | None

    @cached_property
    def last(self) -> _Places:
        """(units,) Where each unit's vertices end, that vertex included."""
        return np.append(self.first, self.consumption.size)[1:] - 1

    def locate(self, vertex: _Places) -> tuple[_Places, IndexArray]:
        """Return the unit and the column of given vertices."""
        place = vertex if self.place is None else self.place[vertex]
        unit = place // self.columns
        return unit, (place - unit * self.columns).astype(np.int32)

    @cached_property
    def steps(self) -> tuple[FloatArray, FloatArray]:
        """(vertices - 1,) Slope and added consumption of the segment from each vertex to the next.

        Both are 0 from one unit's last vertex to the next unit's first.
        """
        added = np.diff(self.consumption)
        added[self.last[:-1]] = 0.0
        saved = self.value[:-1] - self.value[1:]
        slope = np.zeros_like(added)
        np.divide(saved, added, out=slope, where=added > 0.0)
        np.maximum(slope, 0.0, out=slope)
        _level_rises(slope)
        return slope, added


@dataclass(frozen=True, eq=False)
class Segments:
    """The segments with slopes inside a bracket, and where the units stand before them.

    Parameters
    ----------
    slope, consumption
        (segments,) Value saved per consumption added, and consumption added; a unit's segments
        stand together, in order.
    unit, column
        (segments,) Whose segment it is (units are counted through all table blocks), and the column
        it leads to.
    base_column
        (units,) The column before the first segment.
    base_consumption
        Consumption of all units before their first segments.
    """

    slope: FloatArray
    consumption: FloatArray
    unit: IndexArray
    column: IndexArray
    base_column: IndexArray
    base_consumption: float

    @cached_property
    def total_consumption(self) -> float:
        """Consumption that all segments add."""
        return float(self.consumption.sum())


def find_vertices(slab: Slab, first_unit: int) -> SlabVertices:
    """Return the hull vertices of every unit of a slab.

    Parameters
    ----------
    first_unit
        Place of the slab's first unit in its block, for messages.

    Raises
    ------
    DataError
        When an entry is negative or NaN, or a unit has no allowed option.
    """
    units, columns = slab.consumption.shape
    if not slab.convex:
        require_entries(slab, first_unit)
        mask = lower_left_hull(slab.consumption, slab.value)
        in_order = slab.consumption[:, :-1] < slab.consumption[:, 1:]
        if not (mask.all() and in_order.all()):
            return _pick_vertices(slab, mask)
    first = np.arange(units) * columns
    return SlabVertices(slab.consumption.ravel(), slab.value.ravel(), first, columns, None)


def collect_segments(parts: Parts, bracket: Bracket) -> Segments:
    """Collect the segments with slopes above ``bracket.low`` and up to ``bracket.high``.

    Raises
    ------
    DataError
        As :func:`find_vertices`.
    """
    pieces: list[_SlabSegments] = []
    base_column = np.empty(parts.num_units, dtype=np.int32)
    base_consumption: list[float] = []
    first_unit = 0
    for table in parts.tables:
        for start, stop in table.spans():
            piece = _cut_slab(table.slab(start, stop), start, bracket)
            units = slice(first_unit + start, first_unit + stop)
            base_column[units] = piece.base_column
            base_consumption.append(piece.base_consumption)
            piece.unit[...] += first_unit + start
            pieces.append(piece)
        first_unit += table.units
    return Segments(
        slope=np.concatenate([np.empty(0), *(piece.slope for piece in pieces)]),
        consumption=np.concatenate([np.empty(0), *(piece.consumption for piece in pieces)]),
        unit=_join_indices([piece.unit for piece in pieces]),
        column=_join_indices([piece.column for piece in pieces]),
        base_column=base_column,
        base_consumption=math.fsum(base_consumption),
    )


def sample_slabs(table: Table, rate: int, size: int, least_pieces: int) -> Iterator[tuple[Slab, int, float]]:
    """Yield evenly spread pieces of a table block.

    Parameters
    ----------
    rate
        About one unit in this many is taken.
    size
        Units of one piece; less where so few units are wanted.
    least_pieces
        Pieces that a block has at least: many where it is one of few blocks and must show its own variety.

    Yields
    ------
    tuple
        A slab, the place of its first unit, and how many units of the block stand behind each unit
        sampled.
    """
    pieces = max(least_pieces, table.units // (rate * size))
    size = min(size, max(1, math.ceil(table.units / rate))) if least_pieces == 1 else size
    if table.units <= pieces * size:
        for start, stop in table.spans():
            yield table.slab(start, stop), start, 1.0
        return
    behind = table.units / (pieces * size)
    gap = (table.units - size) / max(1, pieces - 1)
    for piece in range(pieces):
        start = int(piece * gap) if pieces > 1 else (table.units - size) // 2
        yield table.slab(start, start + size), start, behind


class _SlabSegments(NamedTuple):
    slope: FloatArray
    consumption: FloatArray
    unit: IndexArray
    column: IndexArray
    base_column: IndexArray
    base_consumption: float


def _cut_slab(slab: Slab, first_unit: int, bracket: Bracket) -> _SlabSegments:
    """Collect a slab's segments inside a bracket; units are counted from the slab's first."""
    if bracket.low == 0.0 or math.isinf(bracket.high):
        return _cut_vertices(find_vertices(slab, first_unit), bracket)
    require_entries(slab, first_unit)
    base_column = reduce_values(slab, bracket.high).argmin(axis=1).astype(np.int32)
    moving = np.flatnonzero(base_column != reduce_values(slab, bracket.low).argmin(axis=1))
    narrow = Slab(slab.consumption[moving], slab.value[moving], slab.convex)
    piece = _cut_vertices(find_vertices(narrow, first_unit), bracket)
    base_column[moving] = piece.base_column
    base = slab.consumption[np.arange(base_column.size), base_column]
    return piece._replace(
        unit=moving[piece.unit].astype(np.int32),
        base_column=base_column,
        base_consumption=float(base.sum()),
    )


def _cut_vertices(vertices: SlabVertices, bracket: Bracket) -> _SlabSegments:
    slope, added = vertices.steps
    base = vertices.first
    inside = slope > bracket.low
    if math.isfinite(bracket.high):
        passed = slope > bracket.high
        inside &= ~passed
        so_far = np.concatenate([[0], np.cumsum(passed)])
        base = base + so_far[vertices.last] - so_far[base]
    start = np.flatnonzero(inside)
    unit, column = vertices.locate(start + 1)
    return _SlabSegments(
        slope=slope[start],
        consumption=added[start],
        unit=unit.astype(np.int32),
        column=column,
        base_column=vertices.locate(base)[1],
        base_consumption=float(vertices.consumption[base].sum()),
    )


def _pick_vertices(slab: Slab, mask: NDArray[np.bool_]) -> SlabVertices:
    place = np.flatnonzero(mask)
    count = np.count_nonzero(mask, axis=1)
    first = np.cumsum(count) - count
    consumption = slab.consumption.ravel()[place]
    backwards = np.diff(consumption) < 0.0
    backwards[first[1:] - 1] = False
    if backwards.any():
        order = np.lexsort((consumption, np.repeat(np.arange(count.size), count)))
        place, consumption = place[order], consumption[order]
    value = slab.value.ravel()[place]
    return SlabVertices(consumption, value, first, mask.shape[1], place)


def _level_rises(slope: FloatArray) -> None:
    """Lower, in place, slopes that rounding left above the one before in the same unit.

    Then sorting by slope keeps every unit's segments in order. Units are parted by slopes of 0.
    """
    while True:
        rises = np.flatnonzero((slope[1:] > slope[:-1]) & (slope[:-1] > 0.0))
        if not rises.size:
            return
        slope[rises + 1] = slope[rises]


def _join_indices(arrays: list[IndexArray]) -> IndexArray:
    return np.concatenate([np.empty(0, dtype=np.int32), *arrays])
