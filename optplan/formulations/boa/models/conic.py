"""BOA with real widths as a disciplined convex program: Theorem B.1 in CVXPY.

This module has one GPU type without a quota; problem (7) stands in :mod:`optplan.formulations.boa.models.conic_types`.
With ``z = 1 / s(k)`` as variable instead of k, problem (1) becomes (6)::

    minimise    sum rho[i,j] z[i,j]                 (weighted, and in seconds of mean completion time)
    subject to  sum rho[i,j] u[i,j] <= b            (family ``budget``)
                u[i,j] >= z[i,j] beta[i,j](1 / z[i,j])
                1 / s[i,j](largest width) <= z[i,j] <= 1 / s[i,j](least width)    (family ``allowed-width``)

where beta is the inverse of s and ``u = k / s(k)`` the GPU-time per unit of work. How each form of speedup is written
stands in :mod:`optplan.formulations.boa.models.convex_speedups`. A (class, epoch) in which nothing is to be decided
(one width or vertex; s(k) = 1, where the least width is as fast as any; s(k) = k, where the largest uses as little as
any) is a constant.

Deviations and errata: the paper's proof calls beta decreasing; it is increasing and convex. The second derivative in
the proof is beta''(1/z) / z^3. The lower bound on z there has d_i for d_ij, the upper bound 1 is 1 / s(least width).
Widths have an upper limit here, and tables are read on the lower-left hull, which assumes nothing about them.

This is the independent check of the solver ``sorted-slopes``. The widths are as accurate as an interior-point method
makes them. A solution that exceeds the budget by its tolerance is moved towards the least widths until it does not, and
the bound is re-derived from the engine's multiplier, so that neither rests on the engine's tolerances.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optplan.contracts.result import Answer, BoundProof, ShadowPrice, SolveRequest, Termination
from optplan.errors import UnsupportedError
from optplan.formulations.boa.data.instance import BUDGET, BoaInstance, BoaSolution, Branch, Problem
from optplan.formulations.boa.exact.answers import certificate_at, status_of
from optplan.formulations.boa.exact.barred import without_barred
from optplan.formulations.boa.exact.costs import load_of, seconds_per_hour
from optplan.formulations.boa.exact.feasibility import answer_if_infeasible
from optplan.formulations.boa.exact.orders import in_order
from optplan.formulations.boa.models.conic_types import solve_typed_conic
from optplan.formulations.boa.models.convex_speedups import ConvexAmdahl, ConvexPower, ConvexSpeedup, ConvexTables
from optplan.progress import Stopwatch
from optplan.schema import FloatArray, IntArray
from optplan.solvers.budgeted_paths import TOLERANCE
from optplan.solvers.conic import ENGINE, MANY_ROWS, engine_version, solve_program
from optplan.solvers.engine_process import Report, call_bounded
from optplan.speedup import AmdahlSpeedup, PowerSpeedup, lower_left_hull


@dataclass(frozen=True)
class _ClassEpochs:
    """The epochs of one class: what a unit of z and of u costs, widths that are constants, and the convex rest.

    ``column`` is the allowed width of an epoch with nothing to decide, and -1 in the others.
    """

    seconds: FloatArray
    gpus: FloatArray
    allowed: IntArray
    speeds: FloatArray
    column: IntArray
    convex: ConvexSpeedup

    @property
    def free(self) -> IntArray:
        """Epochs in which something is to be decided."""
        return np.flatnonzero(self.column < 0)

    @property
    def constant_gpus(self) -> float:
        """GPUs of the epochs with nothing to decide."""
        held = np.flatnonzero(self.column >= 0)
        speed, width = self.speeds[held, self.column[held]], self.allowed[self.column[held]]
        return float((self.gpus[held] * width / speed).sum())

    def value(self, row: FloatArray) -> float:
        """Return what real widths (E,) count in the objective; between whole ones tables are read on their hull."""
        held, free = np.flatnonzero(self.column >= 0), self.free
        value = float((self.seconds[held] / self.speeds[held, self.column[held]]).sum())
        return value + float(self.seconds[free] @ self.convex.time_at(row[free]))


@dataclass(frozen=True)
class _Run:
    """What the engine said: y for each class, and the dual value of the budget.

    ``least`` tells that the budget is the least one, so that nothing less has a plan.
    """

    termination: Termination
    decided: list[FloatArray] | None
    multiplier: float
    least: bool = False
    iterations: float = 0.0
    warnings: tuple[str, ...] = ()


_OUT_OF_TIME = _Run(Termination.TIME_LIMIT, None, 0.0)


@in_order
@without_barred
def solve_conic(instance: BoaInstance, request: SolveRequest) -> Answer[BoaSolution]:
    """Solve the continuous problem with CVXPY and Clarabel.

    One row of real widths per class; none when time ran out before the engine had the program. The bound is what
    the engine's dual value of the budget proves. The shadow price is that dual value; at a kink of a table's
    frontier it lies between the prices of the two sides. The time limit is looked at between classes while the
    program is stated; the method has no randomness.

    Raises
    ------
    UnsupportedError
        When the problem is not the continuous one.
    EngineError
        When the engine fails.
    """
    if instance.problem is not Problem.CONTINUOUS:
        message = f"the conic program has real widths; the problem {instance.problem.value!r} needs another solver"
        raise UnsupportedError(message)
    infeasible = answer_if_infeasible(instance, request.stopwatch)
    if infeasible is not None:
        return infeasible
    request.stopwatch.emit("conic")
    if instance.is_typed or instance.quotas:
        return solve_typed_conic(instance, request)
    classes = [_collect_epochs(instance, name) for name in instance.classes]
    budget = instance.budget_amount()
    run = call_bounded(
        run_conic,
        (classes, budget),
        request.stopwatch,
        is_large=sum(each.gpus.size for each in classes) >= MANY_ROWS,
        otherwise=_OUT_OF_TIME,
    )
    certificate = certificate_at(instance, run.multiplier)
    solution = objective = None
    if run.decided is not None:
        rows = _keep_budget(classes, run.decided, budget)
        solution = BoaSolution(
            branches={name: (Branch(widths=row),) for name, row in zip(instance.classes, rows, strict=True)}
        )
        objective = sum(each.value(row) for each, row in zip(classes, rows, strict=True))
    bound = certificate.bound if objective is None else min(certificate.bound, objective)
    less = None if run.least else run.multiplier
    price = ShadowPrice(less=less, more=run.multiplier, unit=instance.price_unit(BUDGET))
    return Answer(
        status=status_of(objective, bound, request),
        termination=run.termination,
        solution=solution,
        objective=objective,
        bound=bound,
        bound_proof=BoundProof.LAGRANGIAN,
        certificates=(certificate,),
        shadow_prices={BUDGET: price} if run.termination is Termination.COMPLETED else {},
        counters={"iterations": run.iterations},
        engine=ENGINE,
        engine_version=engine_version(),
        warnings=run.warnings,
    )


def _collect_epochs(instance: BoaInstance, name: str) -> _ClassEpochs:
    job_class, allowed = instance.classes[name], instance.allowed_widths(name)
    curve = job_class.speedup[instance.only_gpu_type]
    speeds = np.broadcast_to(instance.speeds(name), (job_class.num_epochs, allowed.size))
    gpus = load_of(instance, name)
    ends = float(allowed[0]), float(allowed[-1])
    convex: ConvexSpeedup
    if isinstance(curve, AmdahlSpeedup):
        serial = np.broadcast_to(curve.serial_fraction, gpus.shape)
        column = _constant_column(1.0 - serial, allowed.size)
        convex = ConvexAmdahl(serial[column < 0], *ends)
    elif isinstance(curve, PowerSpeedup):
        exponent = np.broadcast_to(curve.exponent, gpus.shape)
        column = _constant_column(exponent, allowed.size)
        convex = ConvexPower(exponent[column < 0], *ends)
    else:
        use, time = allowed / speeds, 1.0 / speeds
        vertex = lower_left_hull(use, time)
        column = np.where(vertex.sum(axis=1) == 1, vertex.argmax(axis=1), -1)
        free = vertex & (column < 0)[:, None]
        _, epoch = np.unique(np.nonzero(free)[0], return_inverse=True)
        convex = ConvexTables(epoch, use[free], time[free])
    return _ClassEpochs(
        seconds=seconds_per_hour(instance, name) * gpus,
        gpus=gpus,
        allowed=allowed,
        speeds=speeds,
        column=column,
        convex=convex,
    )


def _constant_column(scalable: FloatArray, num_widths: int) -> IntArray:
    """Return the first column where nothing scales or there is one width, the last where all scales, and -1 between."""
    return np.select([(scalable == 0.0) | (num_widths == 1), scalable == 1.0], [0, num_widths - 1], -1)


def run_conic(
    classes: Sequence[_ClassEpochs], budget: float, stopwatch: Stopwatch, report: Report[_Run] | None = None
) -> _Run:
    """State program (6), divided so that budget and value are about one, and solve it in this process.

    There is nothing to report before the end.
    """
    del report
    import cvxpy as cp

    lights = [each.convex.light for each in classes]
    free = [each for each in classes if each.free.size]
    least = _spend(classes, lights) >= budget * (1.0 - TOLERANCE)
    if not free:
        return _Run(Termination.COMPLETED, lights, 0.0, least=least)
    if least:
        # The program has no interior, but then there is nothing to decide either.
        prices = [each.seconds[each.free] / each.gpus[each.free] * each.convex.steepness for each in free]
        return _Run(Termination.COMPLETED, lights, float(np.concatenate(prices).max()), least=True)
    scale_s = sum(float((each.seconds / each.speeds.max(axis=1)).sum()) for each in classes)
    variables = [cp.Variable(each.convex.light.size) for each in free]
    seconds, gpus, constraints = [], [], []
    for each, y in zip(free, variables, strict=True):
        z, u, kept = each.convex.constrain(y)
        seconds.append((each.seconds[each.free] / scale_s) @ z)
        gpus.append((each.gpus[each.free] / budget) @ u)
        constraints += kept
        if stopwatch.expired:
            return _OUT_OF_TIME
    within = cp.sum(gpus) <= 1.0 - sum(each.constant_gpus for each in classes) / budget
    problem = cp.Problem(cp.Minimize(cp.sum(seconds)), [within, *constraints])
    ended = solve_program(problem, stopwatch)
    solved = iter(variables)
    return _Run(
        termination=ended.termination,
        decided=[
            each.convex.settle(np.asarray(next(solved).value, dtype=np.float64)) if each.free.size else light
            for each, light in zip(classes, lights, strict=True)
        ],
        multiplier=max(0.0, float(within.dual_value)) * scale_s / budget,
        iterations=ended.iterations,
        warnings=ended.warnings,
    )


def _keep_budget(classes: Sequence[_ClassEpochs], decided: Sequence[FloatArray], budget: float) -> list[FloatArray]:
    """Return the widths of each class, moved towards the least consumption by as much as the budget is exceeded.

    GPU-time u is convex in y, so a step of share t towards the least consumption takes at least t of the difference.
    """
    lights = [each.convex.light for each in classes]
    used, least = _spend(classes, decided), _spend(classes, lights)
    step = min(1.0, (used - budget) / (used - least)) if used > budget and used > least else 0.0
    rows = []
    for each, y, light in zip(classes, decided, lights, strict=True):
        row = each.allowed[each.column].astype(np.float64)
        row[each.free] = each.convex.follow(y + step * (light - y))[0]
        rows.append(row)
    return rows


def _spend(classes: Sequence[_ClassEpochs], decided: Sequence[FloatArray]) -> float:
    """Return the GPUs that decisions amount to, constants included."""
    return sum(
        each.constant_gpus + float(each.gpus[each.free] @ each.convex.follow(y)[1])
        for each, y in zip(classes, decided, strict=True)
    )
