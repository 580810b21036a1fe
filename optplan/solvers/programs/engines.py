"""Pyomo models handed to an engine: to HiGHS as matrices, to any other one as Pyomo calls it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pyomo
import pyomo.environ as pyo
from pyomo.common.log import LoggingIntercept

from optplan.contracts.result import SolveRequest, Status, Termination
from optplan.errors import EngineError, UnsupportedError
from optplan.solvers.programs.changes import Snapshot
from optplan.solvers.programs.highs import solve_program
from optplan.solvers.programs.program import ProgramOutcome, Scaling, TrivialInfeasibilityError, read_program

#: The engine that is always there.
HIGHS = "highs"
#: A violation below this, relative to its row, is the engine's tolerance.
_MET = 1e-7

_Condition = pyo.TerminationCondition
#: What the conditions of Pyomo mean with which an engine may end; every other one is a failure.
_ENDINGS = {
    _Condition.optimal: (Status.OPTIMAL, Termination.COMPLETED),
    _Condition.locallyOptimal: (Status.FEASIBLE, Termination.COMPLETED),
    _Condition.globallyOptimal: (Status.OPTIMAL, Termination.COMPLETED),
    _Condition.infeasible: (Status.INFEASIBLE, Termination.COMPLETED),
    _Condition.unbounded: (Status.UNKNOWN, Termination.COMPLETED),
    _Condition.maxTimeLimit: (Status.UNKNOWN, Termination.TIME_LIMIT),
    _Condition.maxIterations: (Status.UNKNOWN, Termination.WORK_LIMIT),
}


def run_engine(
    native: Any,  # noqa: ANN401 - Pyomo has no types
    engine: str,
    request: SolveRequest,
    scaling: Scaling | None = None,
    *,
    presolve: bool = True,
) -> ProgramOutcome:
    """Solve a Pyomo model as it is now.

    Parameters
    ----------
    native
        A ``pyomo.environ.ConcreteModel``.
    engine
        ``highs``, or a name that Pyomo's ``SolverFactory`` knows.
    request
        Gap, seed and time limit; the gap and the seed are HiGHS's alone.
    scaling
        What HiGHS gets the matrices on; None for the model's own units.
    presolve
        Whether HiGHS may prepare the model.

    Raises
    ------
    UnsupportedError
        When the engine is not there, or does not take the model.
    EngineError
        When it fails.
    """
    if engine != HIGHS:
        return _run_other(native, engine, request)
    try:
        read = read_program(native, scaling, names=False)
    except TrivialInfeasibilityError as error:
        return ProgramOutcome(Status.INFEASIBLE, Termination.COMPLETED, culprit=str(error), engine="HiGHS")
    outcome = solve_program(read.program, request, presolve=presolve)
    if outcome.values is not None:
        read.load(outcome.values)
    if outcome.bound is None:
        return outcome
    unit = 1.0 if scaling is None else scaling.objective
    return replace(outcome, bound=read.program.value_of(outcome.bound) * unit)


def _run_other(native: Any, engine: str, request: SolveRequest) -> ProgramOutcome:  # noqa: ANN401 - Pyomo has no types
    """Have Pyomo call an engine; what it says of bounds is between its own tolerances."""
    with LoggingIntercept(module="pyomo"):  # it logs what it has not found; the message below says it
        solver = pyo.SolverFactory(engine)
        is_there = solver.available(exception_flag=False)
    if not is_there:
        message = f"engine: Pyomo finds no solver {engine!r} here; install it, or leave the engine out, which is HiGHS"
        raise UnsupportedError(message)
    if request.stopwatch.remaining_s is not None:
        solver.options[_TIME_OPTIONS.get(engine, "time_limit")] = request.stopwatch.remaining_s
    try:
        found = solver.solve(native, load_solutions=False)
    except Exception as error:
        raise EngineError(f"{engine}, called by Pyomo, failed: {error}") from error
    condition = found.solver.termination_condition
    if condition not in _ENDINGS:
        raise EngineError(f"{engine}, called by Pyomo, ended with {condition}, which has no meaning for this problem")
    status, termination = _ENDINGS[condition]
    values = None
    if len(found.solution) and status is not Status.INFEASIBLE:
        native.solutions.load_from(found)
        values = np.array([each.value for each in native.component_data_objects(pyo.Var)], dtype=np.float64)
        status = Status.FEASIBLE if status is Status.UNKNOWN else status
    (objective,) = native.component_data_objects(pyo.Objective, active=True)
    side = found.problem.lower_bound if objective.sense == pyo.minimize else found.problem.upper_bound
    bound = _read_number(side)
    return ProgramOutcome(
        status=status,
        termination=termination,
        values=values,
        bound=bound if status is not Status.INFEASIBLE else None,
        is_unbounded=condition is _Condition.unbounded,
        engine=f"{engine} through Pyomo",
        engine_version=pyomo.__version__,
    )


#: What engines call their limit on seconds, where it is not ``time_limit``.
_TIME_OPTIONS = {"cbc": "sec", "glpk": "tmlim", "gurobi": "TimeLimit", "cplex": "timelimit", "scip": "limits/time"}


def _read_number(side: Any) -> float | None:  # noqa: ANN401 - Pyomo has no types
    try:
        number = float(side)
    except (TypeError, ValueError):  # engines leave it out, each in its own way
        return None
    return number if math.isfinite(number) else None


def find_violations(native: Any, snapshot: Snapshot, request: SolveRequest) -> dict[str, float] | None:  # noqa: ANN401
    """Return by how much one's own constraints have to be missed at least, all together, for a model to have values.

    Parameters
    ----------
    native
        A linear Pyomo model that is infeasible.
    snapshot
        Of the model as it was stated.

    Returns
    -------
    dict or None
        The amounts by name, of the constraints that are missed; None where that does not help either, or is not known.
    """
    read = read_program(native)
    own = np.array([snapshot.is_own(each) for each in read.constraints], dtype=np.bool_)
    if not own.any():
        return None
    softened = read.program.soften(own)
    found = solve_program(softened, request)
    if found.values is None:
        return None
    place = read.program.cost.size
    amounts: dict[str, float] = {}
    for name, amount in zip(softened.columns[place:], found.values[place:].tolist(), strict=True):
        if amount > _MET:
            amounts[name] = amounts.get(name, 0.0) + amount
    return amounts
