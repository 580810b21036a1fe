"""Programs solved by CP-SAT, which knows whole numbers only: each row is rounded so that what it says stays true.

Whole columns stay as they are, and the others count whole units. A row, or the objective, whose numbers are all whole
multiples of one of them is divided by it and loses nothing. Any other is multiplied by a power of two, so that scaling
itself does not round, and then rounded:

* *Bound.* Coefficients are rounded down and ends are not, so that whatever keeps a row keeps it rounded, and no rounded
  objective is above the real one. The bound of CP-SAT on the rounded program is one on the real program. It is weaker
  than one without rounding would be, by at most a unit for each column that is not zero.
* *Incumbent.* What CP-SAT returns may miss a real row by as much. One that does, by more than an engine's tolerance, is
  discarded; at the default resolution none does.

A unit is ``1 / resolution`` of a row's end, or of its largest term, but never so small that the terms of a row add up
to more than 64-bit integers hold.

CP-SAT runs in a process of its own that is kept for the next call (:mod:`optplan.solvers.engine_process`): OR-Tools
brings a HiGHS along, and beside another one either may not load (google/or-tools#5246). It also ends in time where
CP-SAT heeds no limit, as while it presolves a large model, with the best that was reported.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from optplan.contracts.result import SolveRequest, Status, Termination
from optplan.errors import EngineError, MissingExtraError, UnsupportedError
from optplan.progress import Stopwatch
from optplan.schema import FloatArray
from optplan.solvers.engine_process import OutcomeT, Report, call_elsewhere
from optplan.solvers.programs import TUNING
from optplan.solvers.programs.program import Program, ProgramOutcome

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

#: Name of the engine in answers.
ENGINE = "CP-SAT"
#: Units that the end of a row, or its largest term, is divided into.
DEFAULT_RESOLUTION = 2**40
#: By how much, relatively, what is returned may miss a row.
_ENGINE_TOLERANCE = 5e-10
#: Terms of one row add up to no more than this; CP-SAT wants room within 64-bit integers.
_LARGEST_SUM = 2.0**60
#: The same for rows that are divided: beyond it their numbers are no whole ones as floats.
_LARGEST_EXACT = 2.0**52
#: An end that is none.
_NO_END = -(2**62)
#: Numbers that differ by less, relatively, are multiples of one another up to the rounding of what made them.
_SAME = 1e-12
#: What each final status of CP-SAT means; every other one is a failure.
_ENDINGS = {
    "OPTIMAL": (Status.OPTIMAL, Termination.COMPLETED),
    "FEASIBLE": (Status.FEASIBLE, Termination.TIME_LIMIT),
    "INFEASIBLE": (Status.INFEASIBLE, Termination.COMPLETED),
    "UNKNOWN": (Status.UNKNOWN, Termination.TIME_LIMIT),
}


def solve_program(program: Program, request: SolveRequest, *, resolution: int = DEFAULT_RESOLUTION) -> ProgramOutcome:
    """Solve a program with CP-SAT, with one worker, so that the same request gives the same answer."""
    # Scaling is done here, to so many units in the end of a row, or its largest term. The values keep the rows, the
    # bound holds for the program; OPTIMAL is about the rounded one. Every column needs bounds.
    request.stopwatch.emit("cp-sat")
    count_units(program, resolution)  # raises with the names, which the other process does not get
    bare = replace(program, columns=(), rows=())
    found = call_with_cp_sat(run_cp_sat, (bare, request.gap, request.seed, resolution), request.stopwatch)
    return nothing_yet() if found is None else found


def call_with_cp_sat(
    target: Callable[..., OutcomeT], arguments: tuple[Any, ...], stopwatch: Stopwatch
) -> OutcomeT | None:
    """Call a function that uses CP-SAT in the process kept for it, as :func:`call_elsewhere` does."""
    if find_spec("ortools") is None:
        raise MissingExtraError("ortools", "cp-sat")
    return call_elsewhere(target, arguments, stopwatch, keep=True)


def run_cp_sat(
    program: Program,
    gap: float,
    seed: int,
    resolution: int,
    stopwatch: Stopwatch,
    report: Report[ProgramOutcome] | None = None,
) -> ProgramOutcome:
    """Solve a program with CP-SAT in this process, of its own; better incumbents and bounds are reported."""
    known = nothing_yet()

    def tell(values: FloatArray, bound: float | None) -> None:
        nonlocal known
        known = replace(known, bound=bound)
        if _keeps_rows(program, values):
            known = replace(known, status=Status.FEASIBLE, values=values)
        if report is not None:
            report(known)

    rounded = round_program(program, resolution)
    found = _solve_rounded(rounded, gap, seed, stopwatch, None if report is None else tell)
    if found.values is None or _keeps_rows(program, found.values):
        return found
    return replace(found, status=known.status, values=known.values)


@cache
def nothing_yet() -> ProgramOutcome:
    """Return what is known when time runs out before CP-SAT has the program."""
    return ProgramOutcome(Status.UNKNOWN, Termination.TIME_LIMIT, engine=ENGINE, engine_version=version("ortools"))


def new_solver(seed: int) -> cp_model.CpSolver:
    """Return a solver with one worker: the same model and seed give the same answer."""
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    # This presolve step adds up coefficients in 32 bits in OR-Tools 9.15 and cuts optima off (google/or-tools#5293).
    solver.parameters.presolve_inclusion_work_limit = 0
    solver.parameters.random_seed = seed % 2**31
    return solver


def solve_watched(
    solver: cp_model.CpSolver,
    model: cp_model.CpModel,
    stopwatch: Stopwatch,
    callback: cp_model.CpSolverSolutionCallback | None = None,
) -> str:
    """Run CP-SAT in a thread, stop it once a stopwatch has expired, hear signals meanwhile; return its status."""
    wrong = model.validate()
    if wrong:
        raise EngineError(f"CP-SAT refuses the model: {wrong}")
    if stopwatch.remaining_s is not None:
        solver.parameters.max_time_in_seconds = stopwatch.remaining_s
    solver.parameters.catch_sigint_signal = False  # it would be CP-SAT's alone, and go unnoticed here
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(solver.solve, model, callback)
        try:
            while not wait([running], timeout=TUNING.look_s).done:
                if stopwatch.expired:
                    solver.stop_search()
        finally:
            solver.stop_search()
        name = str(running.result().name)
    if name not in _ENDINGS:
        raise EngineError(f"CP-SAT ended with status {name}, which has no meaning for this problem")
    return name


def _keeps_rows(program: Program, values: FloatArray) -> bool:
    sums = program.matrix @ values
    room = _ENGINE_TOLERANCE * np.maximum(1e-300, abs(program.matrix) @ np.abs(values))
    return bool((sums <= program.row_upper + room).all() and (sums >= program.row_lower - room).all())


def _solve_rounded(
    rounded: Rounded,
    gap: float,
    seed: int,
    stopwatch: Stopwatch,
    tell: Callable[[FloatArray, float | None], None] | None,
) -> ProgramOutcome:
    from ortools.sat.python import cp_model

    if rounded.is_empty:
        counters = dict.fromkeys(("branches", "conflicts"), 0.0)
        return replace(nothing_yet(), status=Status.INFEASIBLE, termination=Termination.COMPLETED, counters=counters)
    model = cp_model.CpModel()
    columns = [model.new_bool_var("") if span == 1 else model.new_int_var(0, span, "") for span in rounded.span]
    for row in rounded.rows:
        own = [columns[column] for column in row.columns]
        model.add_linear_constraint(cp_model.LinearExpr.weighted_sum(own, row.coefficients), row.least, row.most)
    model.minimize(cp_model.LinearExpr.weighted_sum(columns, rounded.cost))

    def read(values: cp_model.CpSolver | cp_model.CpSolverSolutionCallback) -> FloatArray:
        return rounded.read(np.array([values.value(column) for column in columns], dtype=np.float64))

    def scale_back(bound: float) -> float | None:
        # The bound is a whole number; as a float it may be a little beside it.
        return round(bound) * rounded.value_unit + rounded.offset if math.isfinite(bound) else None

    class Listener(cp_model.CpSolverSolutionCallback):
        def on_solution_callback(self) -> None:
            assert tell is not None
            tell(read(self), scale_back(self.best_objective_bound))

    solver = new_solver(seed)
    # Boolean clauses are part of the linear relaxation only from level 2 on; without it there is hardly a bound.
    solver.parameters.linearization_level = 2
    solver.parameters.relative_gap_limit = gap * TUNING.gap_share
    status, termination = _ENDINGS[solve_watched(solver, model, stopwatch, None if tell is None else Listener())]
    least = solver.best_objective_bound
    # Before the search has begun CP-SAT's bound is zero, whatever the program.
    has_bound = status is not Status.INFEASIBLE and (status is not Status.UNKNOWN or least != 0.0)
    return replace(
        nothing_yet(),
        status=status,
        termination=termination,
        values=read(solver) if status in (Status.OPTIMAL, Status.FEASIBLE) else None,
        bound=scale_back(least) if has_bound else None,
        counters={"branches": float(solver.num_branches), "conflicts": float(solver.num_conflicts)},
    )


@dataclass(frozen=True, eq=False)
class WholeRow:
    """A row of whole numbers: columns, their coefficients, and the ends between which it stays."""

    columns: list[int]
    coefficients: list[int]
    least: int
    most: int


@dataclass(frozen=True, eq=False)
class Rounded:
    """A program of whole numbers t, 0 to ``span``, for x = start + unit t; value is offset + value_unit * (cost t)."""

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


def round_program(program: Program, resolution: int) -> Rounded:
    """Round coefficients, in units of a row's end, down: nothing is kept out."""
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
        rows += own.round(least, most, resolution)
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
    """Return (N,) where columns start, their units, and how many; UnsupportedError where a bound is missing."""
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
    unit[some] = 2.0 ** np.ceil(np.log2(width[some] / (TUNING.finer * resolution)))
    return lower, unit, np.floor(width / unit)


@dataclass(frozen=True, eq=False)
class _RealRow:
    """The terms of a row: columns, what a unit of each adds, how many units there are, and whether they are whole."""

    columns: NDArray[np.int32]
    terms: FloatArray
    span: FloatArray
    whole: NDArray[np.bool_]

    def round(self, least: float, most: float, resolution: int) -> list[WholeRow]:
        """Round it between its ends: in one row where that loses nothing, otherwise in one for each end."""
        if self.whole.all():
            end = max((abs(each) for each in (least, most) if math.isfinite(each)), default=0.0)
            scale, is_exact = _find_scale(self.terms, end, self.span, resolution)
            if is_exact:
                ends = (-_find_room(-least, scale), _find_room(most, scale))
                return [WholeRow(self.columns.tolist(), _to_whole(self.terms * scale, np.round), *ends)]
        sides = ((1.0, most), (-1.0, -least))
        return [self._round_end(sign, end, resolution) for sign, end in sides if math.isfinite(end)]

    def _round_end(self, sign: float, most: float, resolution: int) -> WholeRow:
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
        coefficients = _to_whole(terms * scale, np.floor)
        # A column that is no whole number is up to a unit more than it counts.
        more = sum(min(each, 0) for each, whole in zip(coefficients, self.whole.tolist(), strict=True) if not whole)
        room = _find_room(most, scale) - more
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
