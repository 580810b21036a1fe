"""Programs solved by CP-SAT, which knows whole numbers only: each row is rounded so that what it says stays true.

Whole columns stay as they are, and the others count whole units. A row, or the objective, whose numbers are all whole
multiples of one of them is divided by it and loses nothing. Any other is multiplied by a power of two, so that scaling
itself does not round, and then rounded:

* *Bound.* Coefficients are rounded down and ends are not, so that whatever keeps a row keeps it rounded, and no rounded
  objective is above the real one. The bound of CP-SAT on the rounded program is one on the real program. It is weaker
  than one without rounding would be, by at most a unit for each column that is not zero.
* *Incumbent.* What CP-SAT returns may miss a real row by as much. One that does, by more than an engine's tolerance, is
  discarded, and the program solved once more with coefficients rounded up: whatever that returns keeps the real rows.
  The bound stays that of the first solve.

A unit is ``1 / resolution`` of a row's end, or of its largest term, but never so small that the terms of a row add up
to more than 64-bit integers hold. With the default resolution the second solve is not needed.

CP-SAT runs in a process of its own that is kept for the next call (:mod:`optplan.solvers.engine_process`): OR-Tools
brings a HiGHS along, and beside another one either may not load (google/or-tools#5246). It also ends in time where
CP-SAT heeds no limit, as while it presolves a large model, with the best that was reported.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from optplan.contracts.result import SolveRequest, Status, Termination
from optplan.errors import EngineError, MissingExtraError
from optplan.progress import Stopwatch
from optplan.schema import FloatArray
from optplan.solvers.engine_process import OutcomeT, Report, call_elsewhere
from optplan.solvers.programs.program import Program, ProgramOutcome
from optplan.solvers.programs.rounding import Rounded, count_units, round_program

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

#: Name of the engine in answers.
ENGINE = "CP-SAT"
#: Units that the end of a row, or its largest term, is divided into.
DEFAULT_RESOLUTION = 2**40
#: By how much, relatively, what is returned may miss a row.
_ENGINE_TOLERANCE = 5e-10
#: Seconds between looks at the stopwatch while CP-SAT runs.
_LOOK_S = 0.05
#: CP-SAT stops a little before the gap that was asked for, so that scaling back does not leave it a little after.
_GAP_SHARE = 0.999

#: What each final status of CP-SAT means; every other one is a failure.
_ENDINGS = {
    "OPTIMAL": (Status.OPTIMAL, Termination.COMPLETED),
    "FEASIBLE": (Status.FEASIBLE, Termination.TIME_LIMIT),
    "INFEASIBLE": (Status.INFEASIBLE, Termination.COMPLETED),
    "UNKNOWN": (Status.UNKNOWN, Termination.TIME_LIMIT),
}


class _Values(Protocol):
    """What knows the values of variables: a solver that has run, or one that has found a solution."""

    def value(self, expression: cp_model.LinearExprT) -> int:
        """Return the value of a variable."""


def solve_program(program: Program, request: SolveRequest, *, resolution: int = DEFAULT_RESOLUTION) -> ProgramOutcome:
    """Solve a program with CP-SAT, with one worker, so that the same request gives the same answer.

    Parameters
    ----------
    program
        What to minimise, on the model's own scale: scaling is done here.
    request
        Gap, seed and time limit.
    resolution
        Units that the end of a row, or its largest term, is divided into.

    Returns
    -------
    ProgramOutcome
        The values keep the rows, the bound holds for the program. OPTIMAL is about the rounded one; the real gap is
        that between the objective of the values and the bound.

    Raises
    ------
    EngineError
        When CP-SAT refuses the model or fails.
    UnsupportedError
        When a column has no bounds.
    """
    request.stopwatch.emit("cp-sat")
    count_units(program, resolution)  # raises with the names, which the other process does not get
    bare = replace(program, columns=(), rows=())
    found = call_with_cp_sat(run_cp_sat, (bare, request.gap, request.seed, resolution), request.stopwatch)
    return nothing_yet() if found is None else found


def call_with_cp_sat(
    target: Callable[..., OutcomeT], arguments: tuple[Any, ...], stopwatch: Stopwatch
) -> OutcomeT | None:
    """Call a function that uses CP-SAT in the process that is kept for it, and stop it once the stopwatch has expired.

    Parameters and outcome are those of :func:`~optplan.solvers.engine_process.call_elsewhere`.

    Raises
    ------
    MissingExtraError
        Without OR-Tools.
    """
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
    """Solve a program with CP-SAT in this process, which has to be one of its own.

    Parameters
    ----------
    program, gap, seed, resolution
        As in :func:`solve_program`.
    stopwatch
        CP-SAT is asked to stop when it has expired.
    report
        Called with better incumbents and bounds as CP-SAT finds them; None where nobody listens.
    """
    known = nothing_yet()
    runs: list[ProgramOutcome] = []

    def tell(values: FloatArray, bound: float | None) -> None:
        nonlocal known
        known = replace(known, bound=known.bound if runs else bound)
        if _keeps_rows(program, values):
            known = replace(known, status=Status.FEASIBLE, values=values)
        if report is not None:
            report(known)

    settings = (gap, seed, stopwatch, None if report is None else tell)
    runs.append(_solve_rounded(round_program(program, resolution, upwards=False), *settings))
    known = replace(known, bound=runs[0].bound)
    if runs[0].values is not None and not _keeps_rows(program, runs[0].values):
        found = _solve_rounded(round_program(program, resolution, upwards=True), *settings)
        # This solve excludes what is close to the ends of rows, so it proves nothing.
        if found.values is not None and _keeps_rows(program, found.values):
            runs.append(replace(found, status=Status.FEASIBLE))
        else:
            runs.append(replace(found, status=Status.UNKNOWN, values=None))
    counters = {name: sum(run.counters[name] for run in runs) for name in runs[0].counters}
    return replace(runs[-1], bound=runs[0].bound, counters=counters)


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
    *,
    is_feasible: bool = False,
) -> str:
    """Run CP-SAT, stop it once a stopwatch has expired, and hear signals meanwhile.

    Parameters
    ----------
    solver, model, callback
        As CP-SAT's own ``solve`` takes them; a limit is set by the stopwatch.
    stopwatch
        Looked at while CP-SAT runs in a thread of its own.
    is_feasible
        Whether there is a solution for sure, so that INFEASIBLE is no answer.

    Returns
    -------
    str
        Name of CP-SAT's status: OPTIMAL, FEASIBLE, INFEASIBLE or UNKNOWN.

    Raises
    ------
    EngineError
        When CP-SAT refuses the model, or ends otherwise.
    """
    wrong = model.validate()
    if wrong:
        raise EngineError(f"CP-SAT refuses the model: {wrong}")
    if stopwatch.remaining_s is not None:
        solver.parameters.max_time_in_seconds = stopwatch.remaining_s
    solver.parameters.catch_sigint_signal = False  # it would be CP-SAT's alone, and go unnoticed here
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(solver.solve, model, callback)
        try:
            while not wait([running], timeout=_LOOK_S).done:
                if stopwatch.expired:
                    solver.stop_search()
        finally:
            solver.stop_search()
        name = str(running.result().name)
    if name not in _ENDINGS or (is_feasible and name == "INFEASIBLE"):
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
        counters = dict.fromkeys(("solves", "branches", "conflicts"), 0.0)
        return replace(nothing_yet(), status=Status.INFEASIBLE, termination=Termination.COMPLETED, counters=counters)
    model = cp_model.CpModel()
    columns = [model.new_bool_var("") if span == 1 else model.new_int_var(0, span, "") for span in rounded.span]
    for row in rounded.rows:
        own = [columns[column] for column in row.columns]
        model.add_linear_constraint(cp_model.LinearExpr.weighted_sum(own, row.coefficients), row.least, row.most)
    model.minimize(cp_model.LinearExpr.weighted_sum(columns, rounded.cost))

    def read(values: _Values) -> FloatArray:
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
    solver.parameters.relative_gap_limit = gap * _GAP_SHARE
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
        counters={"solves": 1.0, "branches": float(solver.num_branches), "conflicts": float(solver.num_conflicts)},
    )
