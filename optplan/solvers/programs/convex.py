"""Disciplined convex programs in CVXPY: solved, held by their users, and made of linear ones of Pyomo."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from typing import Any, Literal

import cvxpy as cp
import numpy as np

from optplan.contracts.instance import Solution
from optplan.contracts.result import SolveRequest, Status, Termination
from optplan.errors import EngineError, UnsupportedError
from optplan.progress import Stopwatch
from optplan.solvers.programs.program import ProgramOutcome, read_program
from optplan.solvers.programs.statement import Changes, Statement

#: What final statuses of CVXPY mean; every other one is a failure.
_ENDINGS = {
    "optimal": (Status.OPTIMAL, Termination.COMPLETED),
    "optimal_inaccurate": (Status.OPTIMAL, Termination.COMPLETED),
    "infeasible": (Status.INFEASIBLE, Termination.COMPLETED),
    "infeasible_inaccurate": (Status.INFEASIBLE, Termination.COMPLETED),
    "unbounded": (Status.UNKNOWN, Termination.COMPLETED),
    "unbounded_inaccurate": (Status.UNKNOWN, Termination.COMPLETED),
    "user_limit": (Status.UNKNOWN, Termination.TIME_LIMIT),
}
#: What engines call their limit on seconds; of others nothing ends a solve.
_TIME_OPTIONS = {"clarabel": "time_limit", "scs": "time_limit_secs", "highs": "time_limit"}
#: What Clarabel is asked for, relative and absolute, on a program whose totals are about one.
_ENGINE_TOLERANCE = 1e-10
#: Settings of Clarabel that are tried one after another: with shorter steps it gets out of corners of power cones in
#: which it otherwise makes no progress. Of other engines there is one way.
_ATTEMPTS: tuple[dict[str, float], ...] = ({}, {"max_step_fraction": 0.9}, {"linesearch_backtrack_step": 0.5})
#: Engines that are called otherwise in CVXPY.
_NAMES = {"clarabel": "Clarabel", "scs": "SCS", "highs": "HiGHS"}


def solve_convex(problem: cp.Problem, engine: str, stopwatch: Stopwatch) -> ProgramOutcome:
    """Solve a program by an engine of CVXPY's; an inaccurate optimum is one, as nothing is taken on trust."""
    if engine.upper() not in cp.installed_solvers():
        known = ", ".join(each.lower() for each in cp.installed_solvers())
        raise UnsupportedError(f"engine: CVXPY finds no solver {engine!r} here; it has {known}")
    who = f"{_NAMES.get(engine, engine)}, called by CVXPY,"
    _call(problem, engine, stopwatch, who)
    name = problem.status
    if name not in _ENDINGS:
        raise EngineError(f"{who} ended with {name!r}, which has no meaning for this problem")
    status, termination = _ENDINGS[name]
    if termination is not Termination.COMPLETED and not stopwatch.expired:
        termination = Termination.WORK_LIMIT
    found = status is Status.OPTIMAL
    values = [np.asarray(each.value, dtype=np.float64).ravel() for each in problem.variables()] if found else []
    return ProgramOutcome(
        status=status,
        termination=termination,
        values=np.concatenate(values) if found else None,
        bound=float(problem.value) if found else None,
        is_unbounded=name.startswith("unbounded"),
        counters={"iterations": float(getattr(problem.solver_stats, "num_iters", None) or 0)},
        engine=f"{_NAMES.get(engine, engine)} through CVXPY",
        engine_version=version("clarabel") if engine == "clarabel" else cp.__version__,
        warnings=("the engine stopped short of its own tolerance",) if name == "optimal_inaccurate" else (),
    )


def _call(problem: cp.Problem, engine: str, stopwatch: Stopwatch, who: str) -> None:
    """Call the engine with the first settings that do not fail."""
    is_precise = engine == "clarabel"
    tolerances = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), _ENGINE_TOLERANCE) if is_precise else {}
    failure = ""
    for settings in _ATTEMPTS if is_precise else ({},):
        options: dict[str, Any] = tolerances | settings
        if stopwatch.remaining_s is not None and engine in _TIME_OPTIONS:
            options[_TIME_OPTIONS[engine]] = stopwatch.remaining_s
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # CVXPY warns of inaccurate solutions; the status says so, too
            try:
                problem.solve(solver=engine.upper(), **options)
            except cp.error.DCPError as error:
                raise UnsupportedError(f"the problem is not convex by CVXPY's rules: {error}") from None
            except cp.error.SolverError as error:
                failure = str(error)
            else:
                return
    raise EngineError(f"{who} failed: {failure}")


@dataclass(frozen=True, eq=False)
class ConvexStatement:
    """A convex model of an instance in CVXPY."""

    #: The problem; its variables have the names of the sheet.
    native: cp.Problem
    #: Returns the decisions that the values of the variables stand for.
    read: Callable[[], Solution | None]
    #: By variable, what each of its entries is about.
    index: dict[str, list[Any]]
    #: What one unit of the model's objective is worth in the instance's own.
    unit: float = 1.0
    #: By the name in the sheet, what is added up of the variables.
    expressions: dict[str, Any] = field(default_factory=dict)


class CvxpyModel:
    """A statement whose CVXPY problem is in somebody else's hands, who replaces it to change it."""

    default_engine = "clarabel"
    leaves_out = ""

    def __init__(self, statement: ConvexStatement) -> None:
        self.native = statement.native
        self.index, self.expressions = statement.index, statement.expressions
        self._statement = statement

    def compare(self) -> Changes:
        """Say what its user has changed."""
        stated = {each.id: each for each in self._statement.native.constraints}
        now = {each.id: each for each in self.native.constraints}
        own = [each for key, each in now.items() if key not in stated]
        present = {each.id for each in self.native.variables()}
        return Changes(
            added=tuple(_name(each) for each in own),
            left_out=tuple(_name(each) for key, each in stated.items() if key not in now),
            missing=tuple(each.name() for each in self._statement.native.variables() if each.id not in present),
            has_own_objective=self.native.objective is not self._statement.native.objective,
        )

    def run(self, engine: str, request: SolveRequest) -> ProgramOutcome:
        """Solve it as it is; its variables have the values."""
        found = solve_convex(self.native, engine, request.stopwatch)
        return found if found.bound is None else replace(found, bound=found.bound * self._statement.unit)

    def read(self) -> Solution | None:
        """Return the decisions that the values stand for."""
        return self._statement.read()

    def cut_off(self) -> None:
        """Nothing: convex models are exact."""

    def forget_cuts(self) -> None:
        """Nothing: there are none."""

    def write(self, form: Literal["lp", "mps"]) -> str:
        """Refuse, with UnsupportedError: CVXPY writes no such text."""
        raise UnsupportedError(f"a CVXPY problem is not written as {form}; state a linear one with engine='pyomo'")

    def has_none_without_own(self, request: SolveRequest) -> bool:
        """Whether the problem as stated is infeasible."""
        mine, self.native = self.native, self._statement.native
        try:
            return self.run(self.default_engine, request).status is Status.INFEASIBLE
        finally:
            self.native = mine

    def find_violations(self, request: SolveRequest) -> dict[str, float] | None:  # noqa: ARG002 - as Pyomo's
        """Return nothing: amounts are known of linear constraints only."""
        return None


def _name(constraint: Any) -> str:  # noqa: ANN401 - CVXPY has types in part only
    """Name a constraint by the label that its user gave it, or else by what it says."""
    return getattr(constraint, "label", None) or str(constraint)


def state_linear(statement: Statement) -> ConvexStatement:
    """State Pyomo's linear program in CVXPY, variables by name; UnsupportedError for whole numbers."""
    read = read_program(statement.native, statement.scaling, names=False)
    program = read.program
    if program.integral.any():
        raise UnsupportedError("the problem is not convex: decisions are whole numbers; take engine='pyomo'")
    by_component: dict[str, list[int]] = {}
    for column, variable in enumerate(read.variables):
        by_component.setdefault(variable.parent_component().name, []).append(column)
    variables = {name: cp.Variable(len(columns), name=name) for name, columns in by_component.items()}
    order = np.argsort(np.concatenate(list(by_component.values())))
    x = cp.hstack(list(variables.values()))[order]
    constraints = [x >= program.lower, x <= program.upper]
    by_rows: dict[str, list[int]] = {}
    for row, constraint in enumerate(read.constraints):
        by_rows.setdefault(constraint.parent_component().name, []).append(row)
    for name, rows in by_rows.items():
        stated = _state_rows(program.matrix[rows] @ x, program.row_lower[rows], program.row_upper[rows])
        constraints += [_label(each, name) for each in stated]
    goal = program.cost @ x + program.offset
    native = cp.Problem(cp.Maximize(-goal) if program.maximises else cp.Minimize(goal), constraints)

    def read_values() -> Solution | None:
        read.load(np.asarray(x.value))
        return statement.read()

    index = {name: [read.variables[column].index() for column in columns] for name, columns in by_component.items()}
    return ConvexStatement(native, read_values, index, unit=statement.scaling.objective)


def _state_rows(sums: Any, lower: Any, upper: Any) -> list[Any]:  # noqa: ANN401 - CVXPY has types in part only
    """State rows of one family between their ends: equal, at most, at least."""
    equal = np.flatnonzero(lower == upper)
    most = np.flatnonzero((lower != upper) & np.isfinite(upper))
    least = np.flatnonzero((lower != upper) & np.isfinite(lower))
    stated = [sums[equal] == upper[equal]] if equal.size else []
    stated += [sums[most] <= upper[most]] if most.size else []
    return [*stated, *([sums[least] >= lower[least]] if least.size else [])]


def _label(constraint: Any, name: str) -> Any:  # noqa: ANN401 - CVXPY has types in part only
    if hasattr(constraint, "set_label"):
        constraint.set_label(name)
    return constraint
