"""BOA with real widths as a disciplined convex program in CVXPY: problem (7), and with it (1) by Theorem B.1.

Rows n are the (class, epoch)s; points, curves, ``u`` and ``z`` are those of
:mod:`optplan.formulations.boa.models.pieces`. Variables: the fraction ``y`` of a row's jobs at a point, and on a curve
the fraction ``p``, the GPU-time ``U`` and the time ``Z`` of that fraction, per unit of work, all at least 0::

    minimise    sum rho[n] (sum over points of z y  +  sum over curves of Z)          (weighted, seconds)
    subject to  sum rho[n] c[h] (sum over points of u y  +  sum over curves of U) <= b       (family ``budget``)
                the same without c[h], over points and curves of type h, <= q[h]             (family ``quota.<type>``)
                sum over points of y  +  sum over curves of p = 1 in each row                (family ``fraction-sum``)
                p u(least width) <= U <= p u(largest width)                                  (family ``allowed-width``)
                Z >= p z(U / p)                                                              (perspective of z)

The perspective is a rotated second-order cone for Amdahl's law, ``Z = f p + (1 - f) R`` with ``R K >= p^2`` and ``U =
(1 - f) p + f K``, and two exponential cones for a power law, ``Z >= p exp(-a L / p)`` and ``U >= p exp((1 - a) L /
p)`` with L the logarithm of the width, times p; that is better conditioned than the paper's ``u >= z^(1 - 1 / a)``.
All are stated in units of the geometric mean of the curve's ends. A point's weight is the perspective of a table's
piecewise linear z. With one GPU type and no quota this is the paper's problem (6), which has ``z = 1 / s(k)`` as its
variable: the fractions of a row then stand for one real width, ``k = sum u / sum z``.

Deviations and errata: the paper's proof calls beta, the inverse of s, decreasing; it is increasing and convex. The
second derivative in the proof is beta''(1/z) / z^3. The lower bound on z there has d_i for d_ij, the upper bound 1 is
1 / s(least width). Widths have an upper limit here, and tables are read on the lower-left hull, which assumes nothing
about them.

This solves closed forms, and is the independent check of mixed plans on tables, with which it shares no statement. The
engine's point is moved towards one that all limits have room for until it keeps them, and the bound is re-derived from
the engine's multipliers, so that neither rests on the engine's tolerances. An interior-point method
ends in the middle of a set of optima, so more rows may be divided than limits bind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from optplan.contracts.result import Answer, BoundProof, SolveRequest, Status, Termination, status_of
from optplan.errors import EngineError
from optplan.formulations.boa.data.instance import BUDGET, QUOTA, BoaInstance, BoaSolution, Problem
from optplan.formulations.boa.exact.costs import find_least, in_order, list_closed
from optplan.formulations.boa.exact.feasibility import answer_if_infeasible, least_budget
from optplan.formulations.boa.exact.paths import certify_bound, price_at
from optplan.formulations.boa.models.pieces import Division, Pieces, collect_pieces
from optplan.progress import Stopwatch
from optplan.schema import FloatArray, IntArray
from optplan.solvers.engine_process import Report, call_bounded
from optplan.solvers.limits import LIMIT_TOLERANCE
from optplan.solvers.programs.program import ProgramOutcome

if TYPE_CHECKING:
    import cvxpy as cp

    from optplan.solvers.programs.convex import ConvexStatement

#: Name of the engine in answers.
_ENGINE = "Clarabel through CVXPY"
#: Rows from which on a program is stated and solved in a process of its own: CVXPY heeds no limit.
_MANY_ROWS = 2_000
#: By how much limits have to leave room, relatively, for the program to have an interior.
_ROOM = 1e-7
#: A limit of which more than this share is left is not used up.
_SPENT = 1e-6
#: Steps in which the price of a quota of nothing is found, and values that are the same, relatively.
_DOUBLINGS, _HALVINGS, _SAME = 100, 50, 1e-12


@dataclass(frozen=True)
class _Found:
    """What the engine said; no division when it was stopped before it had any."""

    outcome: ProgramOutcome
    division: Division | None
    multipliers: FloatArray


@in_order
def solve_conic(instance: BoaInstance, request: SolveRequest) -> Answer[BoaSolution]:
    """Solve the continuous problem with CVXPY and Clarabel.

    With one GPU type and no quota there is one row of real widths per class, otherwise there are branches; nothing when
    time ran out before the engine had the program. The method has no randomness. The bound is what the engine's dual
    values of the limits prove. Shadow prices are these; where the optimum has a kink, they lie between the prices of
    the two sides, and are not proven.
    """
    infeasible = answer_if_infeasible(instance, request.stopwatch)
    if infeasible is not None:
        return infeasible
    request.stopwatch.emit("conic")
    pieces = collect_pieces(instance)
    leanest, factor = pieces.find_leanest()
    is_least = pieces.are_plain and factor >= 1.0 - LIMIT_TOLERANCE
    is_settled = not pieces.curves.row.size and pieces.points.row.size == pieces.gpus.size
    if pieces.are_plain and (is_least or is_settled):
        # Nothing is to be decided; at the least budget the program has no interior either.
        steepest = pieces.find_steepest() if is_least else 0.0
        found = replace(_nothing(pieces, Termination.COMPLETED), division=leanest, multipliers=np.array([steepest]))
    else:
        found = call_bounded(
            run_conic,
            (pieces, pieces.limits * max(1.0, factor * (1.0 + _ROOM))),
            request.stopwatch,
            is_large=pieces.gpus.size >= _MANY_ROWS,
            otherwise=_nothing(pieces),
        )
    multipliers = _raise_closed(instance, found.multipliers)
    certificate = certify_bound(instance, *multipliers.tolist())
    solution = objective = None
    if found.division is not None:
        kept = pieces.keep_limits(found.division, leanest)
        solution = pieces.write(kept)
        objective = pieces.value(kept)
        # What is not used up is worth nothing, of which an interior point leaves a little.
        spent = pieces.consumption(kept) >= pieces.limits * (1.0 - _SPENT)
        closed = pieces.limits > np.array(list(instance.limits.values()))
        without = certify_bound(instance, *np.where(spent | closed, multipliers, 0.0).tolist())
        certificate = max(without, certificate, key=lambda proof: proof.bound)
    bound = certificate.bound if objective is None else min(certificate.bound, objective)
    prices = {limit: price_at(instance, limit, certificate.multipliers) for limit in instance.limit_names}
    for limit in [limit for limit, amount in instance.limits.items() if not amount]:
        prices[limit] = prices[limit].replace(less=None, less_multipliers={})
    if pieces.limits[0] <= least_budget(instance)[0] * (1.0 + LIMIT_TOLERANCE):
        alone = {limit: float(limit == BUDGET) for limit in instance.limit_names}
        prices[BUDGET] = prices[BUDGET].replace(less=None, less_multipliers={} if len(alone) == 1 else alone)
    status = status_of(objective, bound, request.gap)
    return Answer(
        status=status,
        termination=found.outcome.termination,
        solution=solution,
        objective=objective,
        bound=bound,
        bound_proof=BoundProof.LAGRANGIAN,
        certificates=(certificate,),
        shadow_prices=prices if found.outcome.termination is Termination.COMPLETED else {},
        counters=found.outcome.counters,
        engine=_ENGINE,
        engine_version=version("clarabel"),
        warnings=() if status is Status.OPTIMAL else found.outcome.warnings,  # what is proven leaves nothing to warn of
    )


def _raise_closed(instance: BoaInstance, multipliers: FloatArray) -> FloatArray:
    """Return multipliers (L,) with those of quotas of nothing just so high that using their types gains nothing."""
    raised = multipliers.copy()
    places = [instance.limit_names.index(f"{QUOTA}{gpu_type}") for gpu_type in list_closed(instance)]

    def find_value(factor: float = 1.0) -> float:
        factors = np.where(np.isin(np.arange(raised.size), places), factor, 1.0)
        return sum(find_least(instance, factors * raised).values())

    raised[places] = 1.0
    for _ in range(_DOUBLINGS * len(places)):
        if find_value() >= find_value(2.0):
            break
        raised[places] *= 2.0
    best = find_value() * (1.0 - _SAME)
    for place in places:
        low, high = 0.0, float(raised[place])
        for _ in range(_HALVINGS):
            raised[place] = 0.5 * (low + high)
            low, high = (low, float(raised[place])) if find_value() >= best else (float(raised[place]), high)
        raised[place] = high
    return raised


def _nothing(pieces: Pieces, termination: Termination = Termination.TIME_LIMIT) -> _Found:
    outcome = ProgramOutcome(Status.UNKNOWN, termination, counters={"iterations": 0.0})
    return _Found(outcome, None, np.zeros(pieces.limits.size))


def run_conic(pieces: Pieces, limits: FloatArray, stopwatch: Stopwatch, report: Report[_Found] | None = None) -> _Found:
    """State the program, so that limits and value are about one, and solve it here; no report before the end."""
    del report
    if stopwatch.expired:
        return _nothing(pieces)
    from optplan.solvers.programs.convex import solve_convex

    statement, read = state_pieces(pieces, limits)
    outcome = solve_convex(statement.native, "clarabel", stopwatch)
    if outcome.status is Status.INFEASIBLE or outcome.is_unbounded:
        raise EngineError(f"{_ENGINE} finds no plan within the limits, although there is one")
    within, whole = statement.native.constraints[:2]
    # Where the engine was stopped, its last point is as good as any: it is moved to where the limits are kept. But
    # there may be none, or one that leaves out most of some jobs: the zeros that it may begin with.
    has_point = within.dual_value is not None and all(each.value is not None for each in statement.native.variables())
    if not (has_point and np.max(whole.violation()) <= 0.5):
        return replace(_nothing(pieces), outcome=outcome)
    multipliers = np.maximum(0.0, np.asarray(within.dual_value)) * statement.unit / limits
    return _Found(replace(outcome, values=None), read(), multipliers)


def state_convex_model(instance: BoaInstance) -> ConvexStatement | None:
    """State the continuous problem; None of the problems with whole widths, which are linear."""
    # ``y``, ``p`` are the shares of jobs at points and on curves, ``U``, ``Z`` GPU-time and time per unit of work
    # there.
    if instance.problem is not Problem.CONTINUOUS:
        return None
    pieces = collect_pieces(instance)
    return state_pieces(pieces, pieces.limits)[0]


def state_pieces(pieces: Pieces, limits: FloatArray) -> tuple[ConvexStatement, Callable[[], Division]]:
    """State the program, scaled to about one: limits first, then that all jobs are divided; and what reads it."""
    import cvxpy as cp

    from optplan.solvers.programs.convex import ConvexStatement

    points, curves, types = pieces.points, pieces.curves, np.array(list(pieces.instance.gpu_types))
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
        read=lambda: pieces.write(pieces.keep_limits(read(), pieces.find_leanest()[0])),
        index={
            "y": _name(pieces, points.row, types[points.gpu_type], points.width),
            "p": _name(pieces, curves.row, types[curves.gpu_type]),
            "gpus": _name(pieces, np.arange(pieces.gpus.size)),
        },
        unit=scale_s,
        expressions={"U": use, "Z": time, "gpus": gpus, "mean_jct_s": seconds},
    )
    return statement, read


def _name(pieces: Pieces, rows: IntArray, *more: NDArray[Any]) -> list[tuple[object, ...]]:
    """List class, epoch, and what more there is, of the entries of a variable."""
    cells = [(name, epoch) for name, own in pieces.rows.items() for epoch in range(1, own.stop - own.start + 1)]
    return [(*cells[row], *rest) for row, *rest in zip(*(each.tolist() for each in (rows, *more)), strict=True)]


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
