r"""BOA with real widths as a disciplined convex program: Theorem B.1 in CVXPY.

With ``z = 1 / s(k)`` as variable instead of k, problem (1) becomes (6)::

    minimise    sum rho[i,j] z[i,j]                 (weighted, and in seconds of mean completion time)
    subject to  sum rho[i,j] u[i,j] <= b            (family ``budget``)
                u[i,j] >= z[i,j] beta[i,j](1 / z[i,j])
                1 / s[i,j](largest width) <= z[i,j] <= 1 / s[i,j](least width)    (family ``allowed-width``)

where beta is the inverse of s and ``u = k / s(k)`` the GPU-time per unit of work. How each form of speedup is written:

table
    (u, z) is a mixture of the vertices of the lower-left hull of (k / s, 1 / s), with weights as variables: the same as
    u at least every line through two neighbouring vertices, without the steep slopes of flat tables.
Amdahl, serial fraction f
    With v = 1/k both are convex in v: ``z = f + (1 - f) v`` and ``u = (1 - f) + f / v``.
power law, exponent a
    ``u >= z^(1 - 1/a)`` is the power cone ``u^a z^(1-a) >= 1``, with a as it is, not rounded to a fraction.

A (class, epoch) in which nothing is to be decided (one width or vertex; s(k) = 1, where the least width is as fast as any;
s(k) = k, where the largest uses as little as any) is a constant.

Deviations and errata: the paper's proof calls beta decreasing; it is increasing and convex. The second derivative in the
proof is beta''(1/z) / z^3. The lower bound on z there has d_i for d_ij, and the upper bound 1 is 1 / s(least width).
Widths have an upper limit here, and tables are read on the lower-left hull, which assumes nothing about them.

This is the independent check of the solver ``sorted-slopes``. The widths are as accurate as an interior-point method
makes them. A solution that exceeds the budget by its tolerance is moved towards the least widths until it does not, and
the bound is re-derived from the engine's multiplier by the evaluator, so that neither rests on the engine's tolerances.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Protocol

import numpy as np

from optplan.contracts.result import Answer, BoundProof, ShadowPrice, SolveRequest, Status, Termination
from optplan.errors import EngineError, UnsupportedError
from optplan.formulations.boa.answers import PRICE_UNIT, certificate_at, status_of
from optplan.formulations.boa.data import BoaInstance, BoaSolution, Branch, Problem
from optplan.formulations.boa.evaluation import BUDGET, evaluate
from optplan.formulations.boa.feasibility import answer_if_infeasible
from optplan.schema import FloatArray, IntArray
from optplan.speedup import AmdahlSpeedup, PowerSpeedup, lower_left_hull
from optplan.speedup.hulls import BoolArray
from optplan.units import SECONDS_PER_HOUR

if TYPE_CHECKING:
    import cvxpy as cp

#: What Clarabel is asked for, relative and absolute, on a program whose totals are about one.
_ENGINE_TOLERANCE = 1e-9

#: What each final status of CVXPY means; every other one is a failure. "Inaccurate" is good enough, because neither the
#: plan nor the bound is taken on trust.
_ENDINGS = {
    "optimal": Termination.COMPLETED,
    "optimal_inaccurate": Termination.COMPLETED,
    "user_limit": Termination.TIME_LIMIT,
}


class _Family(Protocol):
    """The epochs of one class in which something is to be decided, and the variable y that decides it."""

    @property
    def light(self) -> FloatArray:
        """The y of least consumption."""

    def constrain(self, y: cp.Variable) -> tuple[cp.Expression, cp.Expression, list[cp.Constraint]]:
        """Return z and u by epoch, and what y has to keep."""

    def follow(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return k and u by epoch at a given y, which may miss its bounds by the engine's tolerance."""


@dataclass(frozen=True)
class _Tables:
    """Tables; y has a weight for each vertex, epoch by epoch in order of the widths.

    ``row`` and ``first`` say for each vertex which epoch it belongs to and whether it is that epoch's first.
    """

    row: IntArray
    first: BoolArray
    use: FloatArray
    time: FloatArray

    @property
    def light(self) -> FloatArray:
        return self.first.astype(np.float64)

    def constrain(self, y: cp.Variable) -> tuple[cp.Expression, cp.Expression, list[cp.Constraint]]:
        import scipy.sparse as sp

        adds = sp.csr_array((np.ones(self.row.size), (self.row, np.arange(self.row.size))))
        return (adds * self.time) @ y, (adds * self.use) @ y, [y >= 0.0, adds @ y == 1.0]

    def follow(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        weight = np.maximum(y, 0.0)
        total, use, time = (np.bincount(self.row, weight * each) for each in (np.ones(y.size), self.use, self.time))
        # Rounding must not carry the width past the ends of the hull.
        last = np.append(self.first[1:], True)
        widths = self.use / self.time
        return np.clip(use / time, widths[self.first], widths[last]), use / total


@dataclass(frozen=True)
class _Amdahl:
    """Amdahl's law, 0 < f < 1; y is 1 / k."""

    serial: FloatArray
    least: float
    largest: float

    @property
    def light(self) -> FloatArray:
        return np.full(self.serial.size, 1.0 / self.least)

    def constrain(self, y: cp.Variable) -> tuple[cp.Expression, cp.Expression, list[cp.Constraint]]:
        import cvxpy as cp

        parallel = 1.0 - self.serial
        bounds = [y >= 1.0 / self.largest, y <= 1.0 / self.least]
        return self.serial + cp.multiply(parallel, y), parallel + cp.multiply(self.serial, cp.inv_pos(y)), bounds

    def follow(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        k = np.clip(1.0 / y, self.least, self.largest)
        return k, (1.0 - self.serial) + self.serial * k


@dataclass(frozen=True)
class _Powers:
    """Power laws, 0 < a < 1; y is z."""

    exponent: FloatArray
    least: float
    largest: float

    @property
    def light(self) -> FloatArray:
        return np.asarray(self.least**-self.exponent)

    def constrain(self, y: cp.Variable) -> tuple[cp.Expression, cp.Expression, list[cp.Constraint]]:
        import cvxpy as cp

        u = cp.Variable(self.exponent.size)
        bounds = [y >= self.largest**-self.exponent, y <= self.light]
        return y, u, [*bounds, cp.PowCone3D(u, y, np.ones(self.exponent.size), self.exponent)]

    def follow(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        k = np.clip(y ** (-1.0 / self.exponent), self.least, self.largest)
        return k, k ** (1.0 - self.exponent)


@dataclass(frozen=True)
class _ClassRows:
    """The epochs of one class: what a unit of z and of u costs, widths that are constants, and the family of the rest.

    ``column`` is the allowed width of an epoch with nothing to decide, and -1 in the others.
    """

    seconds: FloatArray
    gpus: FloatArray
    allowed: IntArray
    speeds: FloatArray
    column: IntArray
    family: _Family | None

    @property
    def free(self) -> IntArray:
        """Epochs in which something is to be decided."""
        return np.flatnonzero(self.column < 0)

    def constants(self) -> tuple[float, float]:
        """Return seconds and GPUs of the epochs with nothing to decide."""
        held = np.flatnonzero(self.column >= 0)
        speed, width = self.speeds[held, self.column[held]], self.allowed[self.column[held]]
        return float((self.seconds[held] / speed).sum()), float((self.gpus[held] * width / speed).sum())


@dataclass(frozen=True)
class _Run:
    """What the engine said: y for each class that has a family, or None, and the dual value of the budget."""

    termination: Termination
    decided: list[FloatArray] | None
    multiplier: float
    iterations: float = 0.0
    warnings: tuple[str, ...] = ()


def solve_conic(instance: BoaInstance, request: SolveRequest) -> Answer[BoaSolution]:
    """Solve the continuous problem with CVXPY and Clarabel.

    Parameters
    ----------
    instance
        Problem continuous, with a budget.
    request
        Gap and time limit; the method has no randomness.

    Returns
    -------
    Answer
        One row of real widths per class. The bound is what the engine's dual value of the budget proves. The shadow price
        is that dual value; at a kink of a table's frontier it lies between the prices of the two sides.

    Raises
    ------
    UsageError
        When the instance has no budget.
    UnsupportedError
        When the problem is not the continuous one.
    EngineError
        When the engine fails.
    """
    if instance.problem is not Problem.CONTINUOUS:
        message = f"the conic program has real widths; the problem {instance.problem.value!r} needs another solver"
        raise UnsupportedError(message)
    infeasible = answer_if_infeasible(instance)
    if infeasible is not None:
        return infeasible
    request.stopwatch.emit("conic")
    rows = {name: _collect_rows(instance, name) for name in instance.classes}
    budget = instance.budget_gpus()
    run = _run(list(rows.values()), budget, request)
    certificate = certificate_at(instance, run.multiplier)
    solution = objective = None
    if run.decided is not None:
        solution = _write_solution(rows, _keep_budget(list(rows.values()), run.decided, budget))
        objective = evaluate(instance, solution).objective
    price = ShadowPrice(less=run.multiplier, more=run.multiplier, unit=PRICE_UNIT)
    return Answer(
        status=status_of(objective, certificate.bound, request),
        termination=run.termination,
        solution=solution,
        objective=objective,
        bound=certificate.bound,
        bound_proof=BoundProof.LAGRANGIAN,
        certificates=(certificate,),
        shadow_prices={BUDGET: price} if solution is not None else {},
        counters={"iterations": run.iterations},
        engine="Clarabel through CVXPY",
        engine_version=version("clarabel"),
        warnings=run.warnings,
    )


def _collect_rows(instance: BoaInstance, name: str) -> _ClassRows:
    job_class, allowed = instance.classes[name], instance.allowed_widths(name)
    curve = job_class.speedup[instance.only_gpu_type]
    epochs = job_class.num_epochs
    speeds = np.broadcast_to(instance.speeds(name), (epochs, allowed.size))
    gpus = job_class.arrival_rate_per_hour * job_class.epoch_size_gpu_hours
    ends = float(allowed[0]), float(allowed[-1])
    family: _Family
    if isinstance(curve, AmdahlSpeedup | PowerSpeedup):
        amdahl = isinstance(curve, AmdahlSpeedup)
        shape = np.broadcast_to(curve.serial_fraction if isinstance(curve, AmdahlSpeedup) else curve.exponent, epochs)
        linear, flat = (0.0, 1.0) if amdahl else (1.0, 0.0)
        column = np.select([(shape == flat) | (allowed.size == 1), shape == linear], [0, allowed.size - 1], -1)
        free = shape[column < 0]
        family = _Amdahl(free, *ends) if amdahl else _Powers(free, *ends)
    else:
        use, time = allowed / speeds, 1.0 / speeds
        vertex = lower_left_hull(use, time)
        column = np.where(vertex.sum(axis=1) == 1, vertex.argmax(axis=1), -1)
        row, at = np.nonzero(vertex[column < 0])
        free_use, free_time = use[column < 0], time[column < 0]
        family = _Tables(row, np.diff(row, prepend=-1) > 0, free_use[row, at], free_time[row, at])
    return _ClassRows(
        seconds=SECONDS_PER_HOUR / instance.total_weighted_rate_per_hour * job_class.weight * gpus,
        gpus=gpus,
        allowed=allowed,
        speeds=speeds,
        column=column,
        family=family if (column < 0).any() else None,
    )


def _run(rows: Sequence[_ClassRows], budget: float, request: SolveRequest) -> _Run:
    """State program (6), divided so that budget and value are about one, and solve it."""
    import cvxpy as cp

    free = [each for each in rows if each.family is not None]
    if not free:
        return _Run(Termination.COMPLETED, [], 0.0)
    scale_s = sum(float((each.seconds / each.speeds.max(axis=1)).sum()) for each in rows)
    variables = [cp.Variable(each.family.light.size) for each in free if each.family is not None]
    seconds, gpus, constraints = [], [], []
    for each, y in zip(free, variables, strict=True):
        if each.family is not None:
            z, u, kept = each.family.constrain(y)
            seconds.append((each.seconds[each.free] / scale_s) @ z)
            gpus.append((each.gpus[each.free] / budget) @ u)
            constraints += kept
    held = sum(each.constants()[1] for each in rows)
    within = cp.sum(gpus) <= 1.0 - held / budget
    problem = cp.Problem(cp.Minimize(cp.sum(seconds)), [within, *constraints])
    notes = _solve(problem, request)
    if problem.status not in _ENDINGS:
        message = f"Clarabel, called by CVXPY, ended with {problem.status!r}, which has no meaning for this problem"
        raise EngineError(message)
    dual = within.dual_value
    found = all(y.value is not None for y in variables)
    return _Run(
        termination=_ENDINGS[problem.status],
        decided=[np.asarray(y.value, dtype=np.float64) for y in variables] if found else None,
        multiplier=max(0.0, float(dual)) * scale_s / budget if dual is not None else 0.0,
        iterations=float(problem.solver_stats.num_iters or 0),
        warnings=notes,
    )


def _solve(problem: cp.Problem, request: SolveRequest) -> tuple[str, ...]:
    """Run Clarabel and return what the user should know about it."""
    import cvxpy as cp

    options: dict[str, float] = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), _ENGINE_TOLERANCE)
    if request.stopwatch.remaining_s is not None:
        options["time_limit"] = request.stopwatch.remaining_s
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # CVXPY warns of inaccurate solutions; the status says so, too
        try:
            problem.solve(solver=cp.CLARABEL, **options)
        except cp.error.SolverError as error:
            message = f"Clarabel, called by CVXPY, failed: {error}"
            raise EngineError(message) from None
    if problem.status == "optimal_inaccurate":
        return ("the engine stopped before its own tolerance; plan and bound were checked without it",)
    return ()


def _keep_budget(rows: Sequence[_ClassRows], decided: Sequence[FloatArray], budget: float) -> list[FloatArray]:
    """Return the widths of each class, moved towards the least consumption by as much as the budget is exceeded.

    GPU-time u is convex in y, so a step of share t towards the least consumption takes at least t of the difference.
    """
    held = sum(each.constants()[1] for each in rows)
    free = [(each, each.family) for each in rows if each.family is not None]
    lights = [family.light for _, family in free]

    def spend(decisions: Sequence[FloatArray]) -> float:
        pairs = zip(free, decisions, strict=True)
        return held + sum(float(each.gpus[each.free] @ family.follow(y)[1]) for (each, family), y in pairs)

    used, least = spend(decided), spend(lights)
    step = min(1.0, (used - budget) / (used - least)) if used > budget and used > least else 0.0
    moved = iter([y + step * (light - y) for y, light in zip(decided, lights, strict=True)])
    widths = []
    for each in rows:
        row = each.allowed[each.column].astype(np.float64)
        if each.family is not None:
            row[each.free] = each.family.follow(next(moved))[0]
        widths.append(row)
    return widths


def _write_solution(rows: dict[str, _ClassRows], widths: Sequence[FloatArray]) -> BoaSolution:
    return BoaSolution(branches={name: (Branch(widths=row),) for name, row in zip(rows, widths, strict=True)})
