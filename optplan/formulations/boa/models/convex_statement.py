"""BOA's continuous problem in CVXPY as a statement that users hold; its sheet is that of the module ``conic``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Problem
from optplan.formulations.boa.models.pieces import Division, Pieces, collect_pieces
from optplan.schema import FloatArray, IntArray

if TYPE_CHECKING:
    import cvxpy as cp

    from optplan.solvers.programs.convex import ConvexStatement


def state_convex_model(instance: BoaInstance) -> ConvexStatement | None:
    """State the continuous problem; None of the problems with whole widths, which are linear.

    Variables ``y``, ``p`` are the shares of the jobs of each (class, epoch) at points and on curves; expressions ``U``
    and ``Z`` are the GPU-time and the time per unit of work on the curves, ``gpus`` the time-average GPUs of each
    (class, epoch), and ``mean_jct_s`` the objective in seconds.
    """
    if instance.problem is not Problem.CONTINUOUS:
        return None
    pieces = collect_pieces(instance)
    return state_pieces(pieces, pieces.limits)[0]


def state_pieces(pieces: Pieces, limits: FloatArray) -> tuple[ConvexStatement, Callable[[], Division]]:
    """State the program within limits (L,), divided so that these and the objective are about one.

    The first constraint is that of the limits, the second that all jobs are divided. With the statement comes what
    reads the division that the variables stand for.
    """
    import cvxpy as cp

    from optplan.solvers.programs.convex import ConvexStatement

    points, curves = pieces.points, pieces.curves
    y = cp.Variable(points.row.size, nonneg=True, name="y")
    p = cp.Variable(curves.row.size, nonneg=True, name="p")
    time, use, kept = _state_curves(pieces, p)
    scale_s = float((pieces.seconds * _least_times(pieces)).sum())
    seconds = (pieces.seconds[points.row] * points.time) @ y + pieces.seconds[curves.row] @ time
    used = pieces.point_consumption / limits[:, None] @ y + pieces.curve_consumption / limits[:, None] @ use
    whole = pieces.add_up(points.row) @ y + pieces.add_up(curves.row) @ p == 1.0
    at_points = cp.multiply(pieces.gpus[points.row] * points.use, y)
    gpus = pieces.add_up(points.row) @ at_points
    gpus += pieces.add_up(curves.row) @ cp.multiply(pieces.gpus[curves.row], use)

    def read() -> Division:
        values = (np.asarray(each.value, dtype=np.float64).reshape(-1) for each in (y, p, use))
        return pieces.settle(Division(*values))

    statement = ConvexStatement(
        native=cp.Problem(cp.Minimize(seconds / scale_s), [used <= 1.0, whole, *kept]),
        read=lambda: _write(pieces, read()),
        index={
            "y": _name(pieces, points.row, points.gpu_type, points.width),
            "p": _name(pieces, curves.row, curves.gpu_type),
            "gpus": _name(pieces, np.arange(pieces.gpus.size)),
        },
        unit=scale_s,
        expressions={"U": use, "Z": time, "gpus": gpus, "mean_jct_s": seconds},
    )
    return statement, read


def _name(
    pieces: Pieces, rows: IntArray, types: IntArray | None = None, widths: FloatArray | None = None
) -> list[tuple[object, ...]]:
    """List class, epoch, and where there are such type and width, of the entries of a variable."""
    cells = [(name, epoch) for name, own in pieces.rows.items() for epoch in range(1, own.stop - own.start + 1)]
    known = list(pieces.instance.gpu_types)
    named = [cells[row] for row in rows.tolist()]
    if types is not None:
        named = [(*each, known[int(which)]) for each, which in zip(named, types.tolist(), strict=True)]
    if widths is not None:
        named = [(*each, width) for each, width in zip(named, widths.tolist(), strict=True)]
    return named


def _write(pieces: Pieces, division: Division) -> BoaSolution:
    """Write the shares as widths, moved towards the leanest plan by as much as limits are exceeded."""
    kept = pieces.keep_limits(division, pieces.find_leanest()[0])
    is_plain = not pieces.instance.is_typed and not pieces.instance.quotas
    return pieces.write_widths(kept) if is_plain else pieces.write_solution(kept)


def _least_times(pieces: Pieces) -> FloatArray:
    """Return the least time (N,) of each row."""
    least = np.full(pieces.gpus.size, np.inf)
    np.minimum.at(least, pieces.points.row, pieces.points.time)
    np.minimum.at(least, pieces.curves.row, pieces.curves.time_at(pieces.curves.largest))
    return least


def _state_curves(pieces: Pieces, p: cp.Variable) -> tuple[cp.Expression, cp.Expression, list[cp.Constraint]]:
    """Return time and GPU-time (C,) of the fractions on the curves, and what they have to keep."""
    import cvxpy as cp

    curves = pieces.curves
    if not curves.row.size:
        return p, p, []
    a = curves.parameter
    middle = np.sqrt(curves.least * curves.largest)
    # Per curve how wide its jobs run, and GPU-time and time of them, in units of those at the middle width.
    wide, spent, long = cp.Variable(a.size), cp.Variable(a.size, nonneg=True), cp.Variable(a.size, nonneg=True)
    ends = [np.where(curves.is_power, np.log(end / middle), end / middle) for end in (curves.least, curves.largest)]
    kept = [wide >= cp.multiply(ends[0], p), wide <= cp.multiply(ends[1], p)]
    amdahl, power = np.flatnonzero(~curves.is_power), np.flatnonzero(curves.is_power)
    if amdahl.size:
        sides = cp.vstack([2.0 * p[amdahl], wide[amdahl] - long[amdahl]])
        kept += [cp.SOC(wide[amdahl] + long[amdahl], sides, axis=0), spent[amdahl] == wide[amdahl]]
    if power.size:
        b = a[power]
        kept.append(cp.ExpCone(cp.multiply(-b, wide[power]), p[power], long[power]))
        kept.append(cp.ExpCone(cp.multiply(1.0 - b, wide[power]), p[power], spent[power]))
    own = np.where(curves.is_power, 0.0, 1.0)
    time = cp.multiply(own * a, p) + cp.multiply(np.where(curves.is_power, middle**-a, (1.0 - a) / middle), long)
    use = cp.multiply(own * (1.0 - a), p)
    use += cp.multiply(np.where(curves.is_power, middle ** (1.0 - a), a * middle), spent)
    return time, use, kept
