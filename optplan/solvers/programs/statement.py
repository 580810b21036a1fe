"""A declarative model in Pyomo: as a formulation states it of an instance, as users change it, as engines solve it.

HiGHS gets it as matrices, any other engine as Pyomo calls it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
import pyomo
import pyomo.environ as pyo
from pyomo.common.log import LoggingIntercept

from optplan.contracts.instance import Solution
from optplan.contracts.result import SolveRequest, Status, Termination
from optplan.contracts.time_and_money import BUDGET, DEADLINE, Objective, TimeAndMoney
from optplan.errors import EngineError, UnsupportedError
from optplan.solvers.limits import LIMIT_TOLERANCE
from optplan.solvers.programs import cpsat, highs
from optplan.solvers.programs.program import ProgramOutcome, Scaling, TrivialInfeasibilityError, read_program

#: The engine that is always there, and the other one that is not called through Pyomo.
HIGHS, CP_SAT = "highs", "cp-sat"
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
#: What engines call their limit on seconds, where it is not ``time_limit``.
_TIME_OPTIONS = {"cbc": "sec", "glpk": "tmlim", "gurobi": "TimeLimit", "cplex": "timelimit", "scip": "limits/time"}


@dataclass(frozen=True, eq=False)
class Statement:
    """A declarative model of an instance."""

    #: A ``pyomo.environ.ConcreteModel`` with the sheet's names.
    native: Any
    #: Returns the decisions that the values of the variables stand for; None where the choices that they make are not
    #: whole, as those of a relaxation.
    read: Callable[[], Solution | None]
    #: The binary variables that decisions are read from: each set of ones among them is another decision.
    choices: tuple[Any, ...]
    #: What engines divide rows and objective by.
    scaling: Scaling = field(default_factory=Scaling)
    #: What the instance has and the model has not, so that the model is a relaxation: it lets pass all that the
    #: instance does, at no worse an objective, and perhaps more. Empty where it is exact.
    leaves_out: str = ""
    #: Whether engines find anything when they prepare the model.
    presolve: bool = True

    #: Name of the constraints that forbid decisions.
    CUTS: ClassVar[str] = "cut_off"

    def cut_off(self) -> Any:  # noqa: ANN401 - Pyomo has no types
        """Forbid the decisions that the variables have now, and return the constraint that does (a no-good cut)."""
        if self.native.component(self.CUTS) is None:
            self.native.add_component(self.CUTS, pyo.ConstraintList())
        chosen = list_ones(self.choices)
        return self.native.component(self.CUTS).add(pyo.quicksum(chosen) <= len(chosen) - 1)


def ask_time_and_money(
    native: Any,  # noqa: ANN401 - Pyomo has no types
    instance: TimeAndMoney,
    time_s: Any,  # noqa: ANN401
    cost_usd: Any,  # noqa: ANN401
) -> Scaling:
    """Add to a model the limits of an instance, by their names, and its objective ``least``; return their scaling."""
    used = {DEADLINE: time_s, BUDGET: cost_usd}
    for limit, amount in instance.limits.items():
        native.add_component(limit, pyo.Constraint(expr=used[limit] <= amount))
    native.least = pyo.Objective(expr=cost_usd if instance.objective is Objective.COST else time_s)
    rows = {id(native.component(limit)): amount for limit, amount in instance.limits.items()}
    return Scaling(rows=rows, slack=0.5 * LIMIT_TOLERANCE)


def list_ones(variables: tuple[Any, ...]) -> list[Any]:
    """List the variables that are one."""
    return [each for variable in variables for each in variable.values() if each.value is not None and each.value > 0.5]


def are_whole(variables: tuple[Any, ...]) -> bool:
    """Whether all the variables are nearly zero or one."""
    values = (each.value for variable in variables for each in variable.values())
    return all(value is not None and min(abs(value), abs(value - 1.0)) <= 1e-6 for value in values)


@dataclass(frozen=True)
class Changes:
    """What is not as the formulation states it; names of components."""

    #: Constraints of one's own, constraints with another body, variables that are fixed or have tighter bounds.
    added: tuple[str, ...]
    #: Constraints that are not active any more or have another body, variables that are relaxed.
    left_out: tuple[str, ...]
    #: Variables of the sheet that the model has no more.
    missing: tuple[str, ...]
    #: Whether another objective is asked for.
    has_own_objective: bool


def _negate(bound: float | None) -> float | None:
    """Turn a bound from above into one from below."""
    return None if bound is None else -bound


def _is_above(bound: float | None, other: float | None) -> bool:
    """Whether a bound from below is above another; None is none."""
    return bound is not None and (other is None or bound > other)


def _name(data: Iterable[Any]) -> list[str]:
    """Name the components that data belong to, each once, in their order."""
    components = (each.parent_component() for each in data)
    return list(dict.fromkeys("a removed one" if each is None else each.name for each in components))


def run_engine(
    native: Any,  # noqa: ANN401 - Pyomo has no types
    engine: str,
    request: SolveRequest,
    scaling: Scaling | None = None,
    *,
    presolve: bool = True,
) -> ProgramOutcome:
    """Solve a Pyomo model as it is now, and give its variables the values of the best that was found.

    ``engine`` is ``highs``, ``cp-sat``, which scales by itself, or one of Pyomo's, which takes neither gap nor scaling.
    """
    if engine not in (HIGHS, CP_SAT):
        return _run_other(native, engine, request)
    called = cpsat if engine == CP_SAT else highs
    scaling = Scaling() if scaling is None else scaling
    scaling = scaling.without_scales() if engine == CP_SAT else scaling
    try:
        read = read_program(native, scaling, names=engine == CP_SAT)  # which says what has no bounds
    except TrivialInfeasibilityError as error:
        return ProgramOutcome(Status.INFEASIBLE, Termination.COMPLETED, culprit=str(error), engine=called.ENGINE)
    if engine == CP_SAT:
        outcome = cpsat.solve_program(read.program, request)
    else:
        outcome = highs.solve_program(read.program, request, presolve=presolve)
    if outcome.values is not None:
        read.load(outcome.values)
    if outcome.bound is None:
        return outcome
    return replace(outcome, bound=read.program.value_of(outcome.bound) * scaling.objective)


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


def _read_number(side: Any) -> float | None:  # noqa: ANN401 - Pyomo has no types
    try:
        number = float(side)
    except (TypeError, ValueError):  # engines leave it out, each in its own way
        return None
    return number if math.isfinite(number) else None


class PyomoModel:
    """A statement whose Pyomo model is in somebody else's hands, and what it was before."""

    default_engine = HIGHS

    def __init__(self, statement: Statement) -> None:
        self.native: Any = statement.native
        self.leaves_out = statement.leaves_out
        self.index: dict[str, list[Any]] = {}
        self.expressions: dict[str, Any] = {}
        self._statement = statement
        self._constraints = {id(each): (each, each.expr) for each in self._list_constraints()}
        self._variables = [
            (each, each.lb, each.ub, each.is_continuous()) for each in self.native.component_data_objects(pyo.Var)
        ]
        (self._objective,) = self.native.component_data_objects(pyo.Objective, active=True)
        self._expression = self._objective.expr

    def compare(self) -> Changes:
        """Say what its user has changed."""
        active = {id(each): each for each in self._list_constraints()}
        own = [each for key, each in active.items() if key not in self._constraints]
        known = self._constraints.items()
        altered = [each for key, (each, expr) in known if key in active and each.expr is not expr]
        left_out = [each for key, (each, _) in known if key not in active]
        added, relaxed = _name(own), []
        added += [f"{name} (changed)" for name in _name(altered)]
        present = {id(each) for each in self.native.component_data_objects(pyo.Var)}
        missing, fixed, tighter = [], [], []
        for each, lower, upper, was_continuous in self._variables:
            if id(each) not in present:
                missing.append(each)
                continue
            ends, stated = (each.lb, _negate(each.ub)), (lower, _negate(upper))
            if each.fixed:
                fixed.append(each)
            elif any(map(_is_above, ends, stated)) or (was_continuous and not each.is_continuous()):
                tighter.append(each)
            if any(map(_is_above, stated, ends)) or (each.is_continuous() and not was_continuous):
                relaxed.append(each)
        added += [f"{name} (fixed)" for name in _name(fixed)] + [f"{name} (bounds)" for name in _name(tighter)]
        objectives = list(self.native.component_data_objects(pyo.Objective, active=True))
        is_own = [id(each) for each in objectives] != [id(self._objective)]
        is_own |= self._objective.expr is not self._expression
        return Changes(
            added=tuple(added),
            left_out=(*_name(left_out), *(f"{name} (changed)" for name in _name(altered)), *_name(relaxed)),
            missing=tuple(_name(missing)),
            has_own_objective=is_own,
        )

    def _list_constraints(self) -> list[Any]:
        return list(self.native.component_data_objects(pyo.Constraint, active=True))

    def _is_own(self, constraint: Any) -> bool:  # noqa: ANN401 - Pyomo has no types
        """Whether a constraint of the model is not one of the statement's."""
        known = self._constraints.get(id(constraint))
        return known is None or constraint.expr is not known[1]

    def run(self, engine: str, request: SolveRequest) -> ProgramOutcome:
        """Solve it as it is; its variables have the values."""
        stated = self._statement
        return run_engine(self.native, engine, request, stated.scaling, presolve=stated.presolve)

    def read(self) -> Solution | None:
        """Return the decisions that the values stand for; None where they stand for none."""
        return self._statement.read()

    def cut_off(self) -> None:
        """Forbid the decisions that the values stand for (a no-good cut)."""
        self._statement.cut_off()

    def forget_cuts(self) -> None:
        """Forbid nothing any more."""
        if self.native.component(Statement.CUTS) is not None:
            self.native.del_component(Statement.CUTS)

    def write(self, form: Literal["lp", "mps"]) -> str:
        """Write it as text, CPLEX LP or free MPS; raises UnsupportedError when it is not linear."""
        return highs.write_program(read_program(self.native).program, form)

    def has_none_without_own(self, request: SolveRequest) -> bool:
        """Whether the model is infeasible without one's own constraints, too; fixed variables stay as they are."""
        own = [each for each in self._list_constraints() if self._is_own(each)]
        for each in own:
            each.deactivate()
        try:
            return run_engine(self.native, HIGHS, request, self._statement.scaling).status is Status.INFEASIBLE
        except UnsupportedError:  # not linear: nothing is known
            return False
        finally:
            for each in own:
                each.activate()

    def find_violations(self, request: SolveRequest) -> dict[str, float] | None:
        """Return the least amounts by which one's own constraints have to be missed; None where that is not known."""
        try:
            read = read_program(self.native)
        except UnsupportedError:
            return None
        own = np.array([self._is_own(each) for each in read.constraints], dtype=np.bool_)
        softened = read.program.soften(own)
        found = highs.solve_program(softened, request) if own.any() else None
        if found is None or found.values is None:
            return None
        place = read.program.cost.size
        amounts: dict[str, float] = {}
        for name, amount in zip(softened.columns[place:], found.values[place:].tolist(), strict=True):
            if amount > _MET:
                amounts[name] = amounts.get(name, 0.0) + amount
        return amounts
