"""BOA's continuous problem in CVXPY as a statement that users hold; its sheet is that of the module ``conic``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution, Problem
from optplan.formulations.boa.models.conic import least_times, state_curves
from optplan.formulations.boa.models.pieces import Division, Pieces, collect_pieces
from optplan.schema import FloatArray, IntArray

if TYPE_CHECKING:
    from optplan.solvers.programs.convex import ConvexStatement


def state_convex_model(instance: BoaInstance) -> ConvexStatement | None:
    """State the continuous problem; None of the problems with whole widths, which are linear.

    Variables ``y``, ``p`` are the shares of the jobs of each (class, epoch) at points and on curves; expressions ``U``
    and ``Z`` are the GPU-time and the time per unit of work on the curves, ``gpus`` the time-average GPUs of each
    (class, epoch), and ``mean_jct_s`` the objective in seconds.
    """
    if instance.problem is not Problem.CONTINUOUS:
        return None
    import cvxpy as cp

    from optplan.solvers.programs.convex import ConvexStatement

    pieces = collect_pieces(instance)
    points, curves, limits = pieces.points, pieces.curves, pieces.limits
    y = cp.Variable(points.row.size, nonneg=True, name="y")
    p = cp.Variable(curves.row.size, nonneg=True, name="p")
    time, use, kept = state_curves(pieces, p)
    scale_s = float((pieces.seconds * least_times(pieces)).sum())
    seconds = (pieces.seconds[points.row] * points.time) @ y + pieces.seconds[curves.row] @ time
    used = pieces.point_consumption / limits[:, None] @ y + pieces.curve_consumption / limits[:, None] @ use
    whole = pieces.add_up(points.row) @ y + pieces.add_up(curves.row) @ p == 1.0
    at_points = cp.multiply(pieces.gpus[points.row] * points.use, y)
    gpus = pieces.add_up(points.row) @ at_points
    gpus += pieces.add_up(curves.row) @ cp.multiply(pieces.gpus[curves.row], use)
    return ConvexStatement(
        native=cp.Problem(cp.Minimize(seconds / scale_s), [used <= 1.0, whole, *kept]),
        read=lambda: _read(pieces, y.value, p.value, use.value),
        index={
            "y": _name(pieces, points.row, points.gpu_type, points.width),
            "p": _name(pieces, curves.row, curves.gpu_type),
            "gpus": _name(pieces, np.arange(pieces.gpus.size)),
        },
        unit=scale_s,
        expressions={"U": use, "Z": time, "gpus": gpus, "mean_jct_s": seconds},
    )


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


def _read(pieces: Pieces, *shares: Any) -> BoaSolution:  # noqa: ANN401 - what CVXPY calls values
    """Write the shares as widths, moved towards the leanest plan by as much as limits are exceeded."""
    values = (np.asarray(each, dtype=np.float64).reshape(-1) for each in shares)
    kept = pieces.keep_limits(pieces.settle(Division(*values)), pieces.find_leanest()[0])
    is_plain = not pieces.instance.is_typed and not pieces.instance.quotas
    return pieces.write_widths(kept) if is_plain else pieces.write_solution(kept)
