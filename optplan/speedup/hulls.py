"""Hulls of speedup curves, for many rows (epochs, classes) at once.

A width k with speedup s(k) costs ``k / s(k)`` GPU-time and takes ``1 / s(k)`` time per unit of work. The map from
(k, s) to (k / s, 1 / s) is projective, so it takes lines to lines: running a fraction of the jobs at each of two widths
is a point between the two, in either picture. Two hulls follow.

The lower-left hull of (k / s, 1 / s) is what optimisation over mixtures of widths needs: no measured width lies below
it. The non-decreasing concave hull of s over k >= 1 is what BOA (section 3.2; Algorithm 1, line 17) assumes. The first
is the image of the second, less a dominated piece left of the largest s(k) / k when the table is superlinear there.

Numbers whose relative difference is below :data:`SAME` are the same to within rounding.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optplan.errors import DataError
from optplan.schema import FloatArray, IntArray
from optplan.speedup.curves import list_widths

BoolArray = NDArray[np.bool_]

#: Relative difference below which two consumptions, values or slopes count as one. It absorbs the rounding of
#: expressions such as rho * k / s(k); without it equal widths of a linear table make slopes of 1e15 out of noise.
SAME = 1e-12

#: Rows handled together: enough to drown the cost of a call, few enough for the working set to stay in the cache.
_BLOCK_ROWS = 4096


def lower_left_hull(consumption: FloatArray, value: FloatArray) -> BoolArray:
    """Mark the vertices (rows, widths) of each row's lower convex hull of (consumption, value), where it decreases."""
    # The hull runs from the least consumption (of equal ones the least value) to the least value (of equal ones the
    # least consumption). Columns may come in any order, ``inf`` is a point that is not allowed. A point on a segment
    # between two vertices is no vertex; of points that coincide, the one in the lowest column counts.
    vertices = np.empty(consumption.shape, dtype=np.bool_)
    for start in range(0, consumption.shape[0], _BLOCK_ROWS):
        rows = slice(start, start + _BLOCK_ROWS)
        _mark_block(consumption[rows], value[rows], vertices[rows], start)
    return vertices


def monotone_concave_hull(gpus: IntArray, speedup: FloatArray) -> FloatArray:
    """Return the least non-decreasing concave curve (rows, widths) nowhere below the speedup (BOA, section 3.2)."""
    # First the running maximum (a job may leave GPUs idle), then the least concave majorant over the widths listed; the
    # origin is not one of its points, so a superlinear table keeps s(k) > k.
    table = np.atleast_2d(speedup)
    k = gpus.astype(np.float64)
    vertices = lower_left_hull(np.broadcast_to(k, table.shape), -np.maximum.accumulate(table, axis=1))
    left, right = _neighbours(vertices)
    right = np.where(right == k.size, left, right)
    # Beside the vertices the table can stick out by the rounding of the interpolation.
    return np.maximum(_interpolate(k, k, table, left, right), table).reshape(speedup.shape)


def describe_hull_changes(gpus: IntArray, speedup: FloatArray) -> str:
    """Say in a sentence what the non-decreasing concave hull changes in a table; empty when the hull is the table."""
    table = np.atleast_2d(speedup)
    gain = np.atleast_2d(monotone_concave_hull(gpus, speedup)) / table - 1.0
    raised = np.flatnonzero((gain > SAME).any(axis=0))
    if not raised.size:
        return ""
    row, column = np.unravel_index(np.argmax(gain), gain.shape)
    by_epoch = speedup.ndim == 2
    text = (
        f"the non-decreasing concave hull raises the speedup at {list_widths(gpus[raised])}, "
        f"at most by {100.0 * gain[row, column]:.3g} % (at {gpus[column]} GPUs"
        + (f" in epoch {row + 1} of {len(table)}" if by_epoch else "")
        + f", from {table[row, column]:.4g} to {table[row, column] * (1.0 + gain[row, column]):.4g})"
    )
    falls = np.flatnonzero((table < np.maximum.accumulate(table, axis=1) * (1.0 - SAME)).any(axis=0))
    if falls.size:
        text += f"; at {list_widths(gpus[falls])} the table is slower than with fewer GPUs"
        text += " in some epoch" if by_epoch else ""
    return text


def speed_on_hull(widths: FloatArray, gpus: IntArray, speedup: FloatArray, *, tolerance: float = SAME) -> FloatArray:
    """Return the speedup that mixtures of whole widths reach at real-valued widths (rows,) or (rows, points)."""
    # Between neighbouring vertices of the lower-left hull of (k / s, 1 / s) the speedup is linear in k: a fraction of
    # the jobs runs at each of the two widths. With one point a row, hulls are made only for rows whose width is no
    # vertex. A width outside the hull by no more than the relative tolerance is moved to its end; others are an error.
    table = np.atleast_2d(speedup)
    k = gpus.astype(np.float64)
    wanted = widths.reshape(len(table), -1)
    if wanted.shape[1] > 1:
        return _read_hulls(wanted, k, table, np.arange(len(table)), tolerance).reshape(widths.shape)
    # Most widths are vertices, and to see that of one is cheaper than a hull.
    rows, column = np.arange(len(table)), np.minimum(k.searchsorted(wanted[:, 0]), k.size - 1)
    speed: FloatArray = table[rows, column]
    others = np.flatnonzero((k[column] != wanted[:, 0]) | ~_is_vertex(k, table, rows, column))
    if others.size:
        speed[others] = _read_hulls(wanted[others], k, table[others], others, tolerance)[:, 0]
    return speed.reshape(widths.shape)


def _is_vertex(k: FloatArray, table: FloatArray, rows: IntArray, column: IntArray) -> BoolArray:
    """Whether a width of each row is best for some multiplier, and so on the hull of (k / s, 1 / s)."""
    # Dearer widths are no better from some multiplier on, cheaper ones up to some multiplier: the two must meet.
    use, hours = k / table, 1.0 / table
    dearer_by = use - use[rows, column][:, None]
    quicker_by = hours[rows, column][:, None] - hours
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = quicker_by / dearer_by
    at_least = np.where(dearer_by > 0, slope, 0.0).max(axis=1)
    at_most = np.where(dearer_by < 0, slope, np.inf).min(axis=1)
    beaten = ((dearer_by == 0) & (quicker_by > 0)).any(axis=1)
    vertex: BoolArray = (np.maximum(at_least, 0.0) <= at_most) & ~beaten
    return vertex


def _read_hulls(wanted: FloatArray, k: FloatArray, table: FloatArray, names: IntArray, tolerance: float) -> FloatArray:
    """Return the speedup at widths (rows, points) on the rows' hulls; ``names`` are the rows' places in the whole."""
    vertices = lower_left_hull(k / table, 1.0 / table)
    inside = _clip_rounding(wanted, k, vertices, names, tolerance)
    left, right = _neighbours(vertices)
    left = np.take_along_axis(left, np.searchsorted(k, inside, side="right") - 1, axis=1)
    right = np.take_along_axis(right, np.searchsorted(k, inside, side="left"), axis=1)
    return _interpolate(inside, k, table, left, right)


def _clip_rounding(
    wanted: FloatArray, k: FloatArray, vertices: BoolArray, names: IntArray, tolerance: float
) -> FloatArray:
    """Return the widths, those outside the hull by no more than the tolerance moved to its end; raise for others."""
    least = k[np.argmax(vertices, axis=1)][:, None]
    largest = k[k.size - 1 - np.argmax(vertices[:, ::-1], axis=1)][:, None]
    outside = np.argwhere(~((wanted >= least * (1.0 - tolerance)) & (wanted <= largest * (1.0 + tolerance))))
    if outside.size:
        row, point = outside[0]
        low, high, place = least[row, 0], largest[row, 0], names[row]
        problem = (
            f"row {place}: got {wanted[row, point]:.10g} GPUs; the row's hull reaches from {low:g} to {high:g} GPUs"
        )
        raise DataError("widths", problem, "choose widths in that range")
    return np.clip(wanted, least, largest)


def _interpolate(wanted: FloatArray, k: FloatArray, table: FloatArray, left: IntArray, right: IntArray) -> FloatArray:
    """Return the speedup between the given columns of each row, linear in the width; the two columns may be one."""
    s_left, s_right = np.take_along_axis(table, left, axis=1), np.take_along_axis(table, right, axis=1)
    share = (wanted - k[left]) / np.where(left == right, 1.0, k[right] - k[left])
    return s_left + share * (s_right - s_left)


def _neighbours(vertices: BoolArray) -> tuple[IntArray, IntArray]:
    """Return, for each column, the nearest vertex at or left of it (-1: none) and at or right of it (widths: none)."""
    columns = np.arange(vertices.shape[1])
    left = np.maximum.accumulate(np.where(vertices, columns, -1), axis=1)
    right = np.minimum.accumulate(np.where(vertices, columns, columns.size)[:, ::-1], axis=1)[:, ::-1]
    return left, right


def _mark_block(consumption: FloatArray, value: FloatArray, vertices: BoolArray, first_row: int) -> None:
    """Write the vertices of some rows; ``first_row`` is their place in the whole, for messages."""
    vertices[...] = True
    rest = np.flatnonzero(~_all_vertices(consumption, value))
    if not rest.size:
        return
    if rest.size < len(vertices):
        consumption, value = consumption[rest], value[rest]
    _check_points(consumption, value, first_row + rest)
    # A stable sort, so that of equal points the lowest column wins on every machine.
    column = np.ascontiguousarray(np.argsort(consumption, axis=1, kind="stable").T)
    flat = column + np.arange(rest.size) * column.shape[0]
    stack, height = _scan(np.take(consumption, flat), np.take(value, flat))
    depth, row = np.nonzero(np.arange(len(stack))[:, None] < height)
    hull = np.zeros(consumption.shape, dtype=np.bool_)
    hull[row, column[stack[depth, row], row]] = True
    vertices[rest] = hull


def _all_vertices(consumption: FloatArray, value: FloatArray) -> BoolArray:
    """Return which rows are sorted by consumption and strictly convex, so that every point is a vertex."""
    with np.errstate(invalid="ignore"):
        dx, dy = np.diff(consumption, axis=1), np.diff(value, axis=1)
        found: BoolArray = np.all(dx > SAME * np.abs(consumption[:, :-1]), axis=1)
        found &= (dy < -SAME * np.abs(value[:, 1:])).all(axis=1)
        found &= (dy[:, 1:] * dx[:, :-1] > (1.0 - SAME) * dy[:, :-1] * dx[:, 1:]).all(axis=1)
    # What is monotone between finite ends is finite.
    for ends in (consumption[:, 0], consumption[:, -1], value[:, 0], value[:, -1]):
        found &= np.isfinite(ends)
    return found


def _check_points(consumption: FloatArray, value: FloatArray, names: IntArray) -> None:
    """Raise for NaN, minus infinity and rows without an allowed point; ``names`` are the rows' places in the whole."""
    for path, array in (("consumption", consumption), ("value", value)):
        wrong = np.argwhere(~(array > -np.inf))
        if wrong.size:
            row, column = wrong[0]
            problem = f"entry [{names[row]}][{column}]: got {array[row, column]}; numbers, or inf, are allowed"
            raise DataError(path, problem, "give inf for a width that is not allowed")
    empty = np.flatnonzero(~(np.isfinite(consumption) & np.isfinite(value)).any(axis=1))
    if empty.size:
        problem = f"row {names[empty[0]]} has no point whose consumption and value are both finite"
        raise DataError("consumption", problem, "allow at least one width")


def _scan(x: FloatArray, y: FloatArray) -> tuple[IntArray, IntArray]:
    """Run Andrew's monotone chain in all rows at once, one point of each row at a time; return stacks and heights."""
    # Points have shape (widths, rows) and ascend in x within a row; a point that is not below all before it is passed
    # over. Stacks hold indices into the first axis. The two topmost points (below, top) of each are kept apart, so that
    # memory is gathered only where something is popped.
    num_rows = x.shape[1]
    stack = np.zeros(x.shape, dtype=np.int64)
    height = np.zeros(num_rows, dtype=np.int64)
    below_x, below_y = np.zeros(num_rows), np.zeros(num_rows)
    top_x, top_y = np.zeros(num_rows), np.zeros(num_rows)
    for depth, (new_x, new_y) in enumerate(zip(x, np.where(np.isposinf(x), np.inf, y), strict=True)):
        pushed = np.flatnonzero((new_y + SAME * np.abs(new_y) < top_y) | ((height == 0) & np.isfinite(new_y)))
        at = pushed[height[pushed] > 0]
        while at.size:
            to_x, to_y = new_x[at], new_y[at]
            from_x, from_y = top_x[at], top_y[at]
            popped = to_x <= from_x + SAME * np.abs(from_x)
            before = (from_y - below_y[at]) * (to_x - from_x)
            after = (to_y - from_y) * (from_x - below_x[at])
            popped |= (after <= (1.0 - SAME) * before) & (height[at] > 1)
            at = at[popped]
            height[at] -= 1
            top_x[at], top_y[at] = below_x[at], below_y[at]
            at = at[height[at] > 0]
            under = stack[np.maximum(height[at] - 2, 0), at]
            below_x[at], below_y[at] = x[under, at], y[under, at]
        stack[height[pushed], pushed] = depth
        height[pushed] += 1
        below_x[pushed], below_y[pushed] = top_x[pushed], top_y[pushed]
        top_x[pushed], top_y[pushed] = new_x[pushed], new_y[pushed]
    return stack, height
