"""Disciplined convex programs in CVXPY, solved by Clarabel: settings, endings and failures."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING

from optplan.contracts.result import Termination
from optplan.errors import EngineError
from optplan.progress import Stopwatch

if TYPE_CHECKING:
    import cvxpy as cp

#: What Clarabel is asked for, relative and absolute, on a program whose totals are about one.
_ENGINE_TOLERANCE = 1e-10

#: Settings that are tried one after another: with shorter steps it gets out of corners of power cones in which it
#: otherwise makes no progress.
_ATTEMPTS: tuple[dict[str, float], ...] = ({}, {"max_step_fraction": 0.9}, {"linesearch_backtrack_step": 0.5})

#: Whether the engine ran to its end, by the final statuses of CVXPY that mean something here; every other one is a
#: failure. "Inaccurate" is good enough where neither the plan nor the bound is taken on trust.
_ENDINGS = {"optimal": True, "optimal_inaccurate": True, "user_limit": False}

#: Rows from which on a program is stated and solved in a process of its own: CVXPY heeds no limit.
MANY_ROWS = 2_000

#: Name of the engine in answers.
ENGINE = "Clarabel through CVXPY"


@dataclass(frozen=True)
class ConicRun:
    """How a run ended; the variables hold its values.

    Parameters
    ----------
    termination
        Whether it ran to its end.
    iterations
        Of the interior-point method.
    warnings
        What users should know.
    """

    termination: Termination
    iterations: float = 0.0
    warnings: tuple[str, ...] = ()


def engine_version() -> str:
    """Return Clarabel's version."""
    return version("clarabel")


def solve_program(problem: cp.Problem, stopwatch: Stopwatch) -> ConicRun:
    """Solve a feasible and bounded program whose totals are about one.

    Parameters
    ----------
    problem
        The program; its variables and constraints get their values.
    stopwatch
        For the time limit of Clarabel; what CVXPY does to the program first heeds none.

    Raises
    ------
    EngineError
        When the engine fails.
    """
    _solve(problem, stopwatch)
    if problem.status not in _ENDINGS:
        message = f"Clarabel, called by CVXPY, ended with {problem.status!r}, which has no meaning for this problem"
        raise EngineError(message)
    limit = Termination.TIME_LIMIT if stopwatch.expired else Termination.WORK_LIMIT
    return ConicRun(
        termination=Termination.COMPLETED if _ENDINGS[problem.status] else limit,
        iterations=float(problem.solver_stats.num_iters or 0),
        warnings=("the engine stopped short of its own tolerance",) if problem.status == "optimal_inaccurate" else (),
    )


def _solve(problem: cp.Problem, stopwatch: Stopwatch) -> None:
    """Solve the program with the first settings that do not fail."""
    import cvxpy as cp

    tolerances = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), _ENGINE_TOLERANCE)
    failure = ""
    for settings in _ATTEMPTS:
        options = tolerances | settings
        if stopwatch.remaining_s is not None:
            options["time_limit"] = stopwatch.remaining_s
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # CVXPY warns of inaccurate solutions; the status says so, too
            try:
                problem.solve(solver=cp.CLARABEL, **options)
            except cp.error.SolverError as error:
                failure = str(error)
            else:
                return
    raise EngineError(f"Clarabel, called by CVXPY, failed: {failure}")
