"""Problem (7) as a linear program on HiGHS, with tangents in place of curves.

Points, curves, ``u`` and ``z`` are those of :mod:`optplan.formulations.boa.models.pieces`. Variables: the fraction
``y`` of a row's jobs at a point, and on a curve the fraction ``p``, the GPU-time ``U`` and the time ``Z`` of that
fraction::

    minimise    sum rho[n] (sum over points of z y  +  sum over curves of Z)          (weighted, seconds)
    subject to  sum rho[n] c[h] (sum over points of u y  +  sum over curves of U) <= b       (family ``budget``)
                the same without c[h], over points and curves of type h, <= q[h]             (family ``quota.<type>``)
                sum over points of y  +  sum over curves of p = 1 in each row                (family ``fraction-sum``)
                p u(least width) <= U <= p u(largest width)                                  (family ``allowed-width``)
                Z >= z(u) p + z'(u) (U - u p)              for some u on the curve           (tangents)

Where all speedups are tables that is the problem itself. Tangents lie below their curve, so with curves it is a
relaxation: new tangents are added where its optimum lies until that touches the curves (Kelley's cutting planes). The
fractions and GPU-times of every such optimum keep the limits, so each also is a plan.

This is the independent check of ``sorted-slopes`` and ``typed-choices`` by a simplex method. The bound is re-derived
from the engine's multipliers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from optplan.contracts.result import Answer, BoundProof, SolveRequest, Termination, status_of
from optplan.errors import EngineError
from optplan.formulations.boa.data.instance import BoaInstance, BoaSolution
from optplan.formulations.boa.exact.answers import certificate_at
from optplan.formulations.boa.exact.barred import without_barred
from optplan.formulations.boa.exact.feasibility import answer_if_infeasible
from optplan.formulations.boa.exact.orders import in_order
from optplan.formulations.boa.models.pieces import Division, Pieces, collect_pieces
from optplan.progress import Stopwatch
from optplan.schema import FloatArray, IntArray
from optplan.solvers.engine_process import Report, call_bounded

if TYPE_CHECKING:
    import scipy.sparse as sp

#: Rows from which on programs are solved in a process of its own.
_MANY_ROWS = 2_000
#: And curves: each has its tangents, and nobody hears a signal while SciPy runs. Up to here that is about a second.
_MANY_CURVES = 250
#: Tangents per curve to begin with, at widths in geometric progression.
_FIRST_TANGENTS = 5
#: The relaxation touches the curves when it lies below them by no more than this, relative to the objective.
_TOUCHING = 1e-9
#: Rounds of tangents; each roughly squares the distance.
_MOST_ROUNDS = 60
#: Absolute tolerance of HiGHS on a program whose entries are about one.
_ENGINE_TOLERANCE = 1e-10
#: Smaller fractions need no tangent.
_NEGLIGIBLE = 1e-9


@dataclass(frozen=True, eq=False)
class _Tangents:
    """Tangents (T,): whose curve, and the width where they touch it."""

    curve: IntArray
    width: FloatArray

    def join(self, curve: IntArray, width: FloatArray) -> _Tangents:
        return _Tangents(np.append(self.curve, curve), np.append(self.width, width))


@dataclass(frozen=True, eq=False)
class _Optimum:
    """The optimum of one relaxation: its value, the division, the times (C,) by tangents, the limits' multipliers."""

    objective_s: float
    division: Division
    time: FloatArray
    multipliers: FloatArray
    iterations: int


_Ended = tuple[_Optimum | None, Termination]


@in_order
@without_barred
def solve_highs_lp(instance: BoaInstance, request: SolveRequest) -> Answer[BoaSolution]:
    """Solve problem (7) as a linear program on HiGHS.

    The bound is re-derived from HiGHS's multipliers.

    Raises
    ------
    EngineError
        When HiGHS fails.
    """
    infeasible = answer_if_infeasible(instance, request.stopwatch)
    if infeasible is not None:
        return infeasible
    request.stopwatch.emit("highs-lp")
    pieces = collect_pieces(instance)
    leanest, factor = pieces.find_leanest()
    nothing_yet: _Ended = None, Termination.TIME_LIMIT
    optimum, termination = call_bounded(
        run_highs_lp,
        (pieces, pieces.limits * max(1.0, factor)),
        request.stopwatch,
        is_large=pieces.gpus.size >= _MANY_ROWS or pieces.curves.row.size >= _MANY_CURVES,
        otherwise=nothing_yet,
    )
    certificate = certificate_at(instance, *(np.zeros(pieces.limits.size) if optimum is None else optimum.multipliers))
    solution = objective = None
    if optimum is not None:
        kept = pieces.keep_limits(pieces.settle(optimum.division), leanest)
        solution, objective = pieces.write_solution(kept), pieces.value(kept)
    bound = certificate.bound if objective is None else min(certificate.bound, objective)
    return Answer(
        status=status_of(objective, bound, request.gap),
        termination=termination,
        solution=solution,
        objective=objective,
        bound=bound,
        bound_proof=BoundProof.LAGRANGIAN,
        certificates=(certificate,),
        counters={"simplex_iterations": 0.0 if optimum is None else float(optimum.iterations)},
        engine="HiGHS through SciPy",
    )


def run_highs_lp(
    pieces: Pieces, limits: FloatArray, stopwatch: Stopwatch, report: Report[_Ended] | None = None
) -> _Ended:
    """Solve relaxations in this process, each with the tangents at the one before; each optimum is reported."""
    curves = pieces.curves
    grid = np.linspace(0.0, 1.0, _FIRST_TANGENTS)[:, None]
    tangents = _Tangents(
        np.tile(np.arange(curves.row.size), _FIRST_TANGENTS),
        (curves.least ** (1.0 - grid) * curves.largest**grid).ravel(),
    )
    optimum = None
    for _ in range(_MOST_ROUNDS):
        found = None if stopwatch.expired else _solve(pieces, limits, tangents, stopwatch)
        if found is None:
            return optimum, Termination.TIME_LIMIT
        optimum = found
        if report is not None:
            report((optimum, Termination.TIME_LIMIT))
        used = np.flatnonzero(found.division.curves > _NEGLIGIBLE)
        share = found.division.curves[used]
        each = np.zeros(curves.row.size)
        each[used] = found.division.use[used] / share
        width = curves.width_at(each)
        below = pieces.seconds[curves.row[used]] * (share * curves.time_at(width)[used] - found.time[used])
        if below.sum() <= _TOUCHING * found.objective_s:
            return optimum, Termination.COMPLETED
        wanted = used[below > 0.1 * _TOUCHING * found.objective_s / used.size]
        tangents = tangents.join(wanted, width[wanted])
    return optimum, Termination.WORK_LIMIT


def _solve(pieces: Pieces, limits: FloatArray, tangents: _Tangents, stopwatch: Stopwatch) -> _Optimum | None:
    """Solve one relaxation; None when time runs out."""
    from scipy.optimize import linprog

    num_points, num_curves = pieces.points.row.size, pieces.curves.row.size
    value = np.concatenate(
        [
            pieces.seconds[pieces.points.row] * pieces.points.time,
            np.zeros(2 * num_curves),
            pieces.seconds[pieces.curves.row],
        ]
    )
    scale_s = float(value.max())
    within, room = _state_limits(pieces, limits, tangents)
    options = dict.fromkeys(("primal_feasibility_tolerance", "dual_feasibility_tolerance"), _ENGINE_TOLERANCE)
    if stopwatch.remaining_s is not None:
        options["time_limit"] = stopwatch.remaining_s
    found = linprog(
        value / scale_s,
        A_ub=within,
        b_ub=room,
        A_eq=pieces.add_up(np.concatenate([pieces.points.row, pieces.curves.row]), 2 * num_curves),
        b_eq=np.ones(pieces.gpus.size),
        method="highs",
        options=options,
    )
    if found.status == 1:
        return None
    if found.status != 0:
        raise EngineError(f"HiGHS, called by SciPy, ended a linear program that has an optimum: {found.message}")
    y, p, use, time = np.split(found.x, np.cumsum([num_points, num_curves, num_curves]))
    multipliers = np.maximum(0.0, -np.asarray(found.ineqlin.marginals)[: limits.size]) * scale_s / limits
    return _Optimum(float(found.fun) * scale_s, Division(y, p, use), time, multipliers, int(found.nit))


def _state_limits(pieces: Pieces, limits: FloatArray, tangents: _Tangents) -> tuple[sp.csr_array, FloatArray]:
    """Return the coefficients of what must not exceed something, the limits first, and that something."""
    import scipy.sparse as sp

    curves, num_points, num_curves = pieces.curves, pieces.points.row.size, pieces.curves.row.size
    one = sp.eye_array(num_curves)
    least, largest = (sp.diags_array(curves.use_at(end)) for end in (curves.least, curves.largest))
    touched = curves.take(tangents.curve)
    use, time, slope = (find(tangents.width) for find in (touched.use_at, touched.time_at, touched.slope_at))
    own, count = (np.arange(use.size), tangents.curve), (use.size, num_curves)
    from_p, from_use, from_time = (
        sp.csr_array((entry, own), shape=count) for entry in (time - slope * use, slope, -np.ones(use.size))
    )
    on_points, on_curves = (table / limits[:, None] for table in (pieces.point_consumption, pieces.curve_consumption))
    blocks = [
        [sp.csr_array(on_points), None, sp.csr_array(on_curves), sp.csr_array((limits.size, num_curves))],
        [None, least, -one, None],
        [None, -largest, one, None],
        [sp.csr_array((use.size, num_points)), from_p, from_use, from_time],
    ]
    room = np.append(np.ones(limits.size), np.zeros(2 * num_curves + use.size))
    if not num_curves:
        return sp.csr_array(on_points), room
    return sp.csr_array(sp.block_array(blocks)), room
