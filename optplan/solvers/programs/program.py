"""A mixed-integer linear program as matrices, read from the Pyomo model that states it.

Every engine takes its rows from here, so that a problem is stated once. Pyomo's own compiler of standard forms walks
the expressions (:mod:`pyomo.repn.plugins.standard_form`).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from optplan.contracts.result import Status, Termination
from optplan.errors import UnsupportedError
from optplan.schema import FloatArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array


#: Pyomo's compiler keeps what it imports, and the garbage collector's pause, for the whole process: one at a time.
_READING = threading.Lock()


@dataclass(frozen=True, eq=False)
class Program:
    """Minimise cost * x + offset, lower <= x <= upper, rows between their ends; N columns, M rows."""

    #: (N,) Of the columns.
    cost: FloatArray
    lower: FloatArray
    upper: FloatArray
    #: (N,) Which columns are whole numbers.
    integral: NDArray[np.bool_]
    #: (M, N) Sparse, row by row.
    matrix: csr_array
    #: (M,) Ends of the rows.
    row_lower: FloatArray
    row_upper: FloatArray
    #: What does not depend on any column.
    offset: float = 0.0
    #: Their names.
    columns: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    #: Whether the model asked for the most: then cost and offset have the opposite sign.
    maximises: bool = False

    def value_of(self, amount: float) -> float:
        """Return in the model's own sense what is minimised here."""
        return -amount if self.maximises else amount

    def tighten(self) -> tuple[FloatArray, FloatArray]:
        """Return the bounds (N,) of the columns, those among them that rows of one column only say."""
        lower, upper = self.lower.copy(), self.upper.copy()
        rows = np.flatnonzero(np.diff(self.matrix.indptr) == 1)
        places = self.matrix.indptr[rows]
        column, number = self.matrix.indices[places], self.matrix.data[places]
        ends = np.sort(np.array([self.row_lower[rows], self.row_upper[rows]]) / number, axis=0)
        np.maximum.at(lower, column, ends[0])
        np.minimum.at(upper, column, ends[1])
        return lower, upper

    def soften(self, chosen: NDArray[np.bool_]) -> Program:
        """Return the program of least relative violation of chosen rows, a column for each of their ends."""
        from scipy.sparse import csr_array, hstack

        over = np.flatnonzero(chosen & np.isfinite(self.row_upper))
        under = np.flatnonzero(chosen & np.isfinite(self.row_lower))
        place = np.concatenate([over, under])
        signs = np.repeat([-1.0, 1.0], [over.size, under.size])
        slack = csr_array((signs, (place, np.arange(place.size))), shape=(len(self.row_lower), place.size))
        ends = np.concatenate([self.row_upper[over], self.row_lower[under]])
        return replace(
            self,
            cost=np.concatenate([np.zeros(self.cost.size), 1.0 / np.maximum(1.0, np.abs(ends))]),
            lower=np.concatenate([self.lower, np.zeros(place.size)]),
            upper=np.concatenate([self.upper, np.full(place.size, np.inf)]),
            integral=np.concatenate([self.integral, np.zeros(place.size, dtype=np.bool_)]),
            matrix=hstack([self.matrix, slack], format="csr"),
            columns=(*self.columns, *(self.rows[row] for row in place.tolist())),
            offset=0.0,
            maximises=False,
        )


@dataclass(frozen=True, eq=False)
class ProgramOutcome:
    """What an engine says of a program, or of the model that states it."""

    #: As in :class:`~optplan.contracts.Result`; OPTIMAL is the engine's word.
    status: Status
    termination: Termination
    #: (N,) The best found; None without any. A model's variables have them, too.
    values: FloatArray | None = None
    #: On what is minimised, or of a model on its objective, in the instance's sense and unit; None when the engine has
    #: none.
    bound: float | None = None
    #: (M,) Dual values of the rows of a linear program; None of others.
    duals: FloatArray | None = None
    #: Whether the objective has no end.
    is_unbounded: bool = False
    #: Of an infeasible model, the constraint that no values keep; empty where there is no single one.
    culprit: str = ""
    #: What the engine counted, and who it was.
    counters: dict[str, float] = field(default_factory=dict)
    engine: str = ""
    engine_version: str = ""
    #: What users should know.
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Scaling:
    """What rows and objective are divided by for engines, whose tolerances are absolute; models are in own units."""

    #: For the objective.
    objective: float = 1.0
    #: By the identity of a Pyomo constraint; other rows are as they are.
    rows: Mapping[int, float] = field(default_factory=dict)
    #: By how much, relatively, the ends of these rows lie beyond what the model says: with the engine's own tolerance
    #: that is what may count as keeping a limit.
    slack: float = 0.0

    def without_scales(self) -> Scaling:
        """Return the same slack on the model's own scale, for engines that scale by themselves."""
        return replace(self, objective=1.0, rows=dict.fromkeys(self.rows, 1.0))

    def apply(self, program: Program, constraints: list[Any]) -> Program:
        """Return a program on this scale."""
        from scipy.sparse import diags_array

        factors = np.array([self.rows.get(id(each), 1.0) for each in constraints])
        slack = np.array([self.slack * (id(each) in self.rows) for each in constraints])
        lower, upper = program.row_lower / factors, program.row_upper / factors
        return replace(
            program,
            cost=program.cost / self.objective,
            offset=program.offset / self.objective,
            matrix=(diags_array(1.0 / factors) @ program.matrix).tocsr(),
            row_lower=lower - slack * np.abs(np.where(np.isfinite(lower), lower, 0.0)),
            row_upper=upper + slack * np.abs(np.where(np.isfinite(upper), upper, 0.0)),
        )


@dataclass(frozen=True, eq=False)
class ReadModel:
    """A program, and the Pyomo model that it was read from."""

    #: The matrices.
    program: Program
    #: (N,) Pyomo's variable behind each column.
    variables: list[Any]
    #: (M,) Pyomo's constraint behind each row.
    constraints: list[Any]

    def load(self, values: FloatArray) -> None:
        """Give the variables of the model their values."""
        whole = self.program.integral
        for variable, value, is_whole in zip(self.variables, values.tolist(), whole.tolist(), strict=True):
            variable.set_value(round(value) if is_whole else value, skip_validation=True)


def read_program(native: Any, scaling: Scaling | None = None, *, names: bool = True) -> ReadModel:  # noqa: ANN401 - Pyomo has no types
    """Read the matrices of a Pyomo model with one linear objective, in its own units unless scaled."""
    import pyomo.environ as pyo
    from pyomo.repn.plugins.standard_form import LinearStandardFormCompiler

    objectives = list(native.component_data_objects(pyo.Objective, active=True))
    if len(objectives) != 1:
        found = ", ".join(each.name for each in objectives) or "none"
        raise UnsupportedError(f"a model needs one active objective, and this one has {found}; deactivate() the others")
    maximises = objectives[0].sense == pyo.maximize
    form = _compile(LinearStandardFormCompiler(), native)
    matrix = form.A.tocsr()
    rhs, rows = np.asarray(form.rhs, dtype=float), form.rows
    bound_types = np.array([row.bound_type for row in rows], dtype=np.int64)
    cost = np.zeros(len(form.columns)) if not form.c.nnz else np.asarray(form.c.todense()).ravel()
    lower = np.array([-np.inf if v.lb is None else v.lb for v in form.columns], dtype=float)
    upper = np.array([np.inf if v.ub is None else v.ub for v in form.columns], dtype=float)
    program = Program(
        cost=cost,
        lower=lower,
        upper=upper,
        integral=np.array([not v.is_continuous() for v in form.columns], dtype=np.bool_),
        matrix=matrix,
        row_lower=np.where(bound_types <= 0, rhs, -np.inf),
        row_upper=np.where(bound_types >= 0, rhs, np.inf),
        offset=float(form.c_offset[0]) if len(form.c_offset) else 0.0,
        columns=tuple(v.name for v in form.columns) if names else (),
        rows=tuple(row.constraint.name for row in rows) if names else (),
        maximises=maximises,
    )
    constraints = [row.constraint for row in rows]
    scaled = program if scaling is None else scaling.apply(program, constraints)
    return ReadModel(scaled, list(form.columns), constraints)


def _compile(compiler: Any, native: Any) -> Any:  # noqa: ANN401 - Pyomo has no types
    """Compile the standard form, and say in a sentence what cannot be."""
    from pyomo.common.errors import InfeasibleConstraintException, InvalidConstraintError, InvalidExpressionError

    try:
        with _READING:
            return compiler.write(native, mixed_form=True)
    except InfeasibleConstraintException as error:
        raise TrivialInfeasibilityError(str(error)) from None
    except (InvalidConstraintError, InvalidExpressionError, ValueError) as error:
        message = f"only linear models can be handed over as matrices: {error}; choose an engine that takes others"
        raise UnsupportedError(message) from None


class TrivialInfeasibilityError(Exception):
    """A constraint that no values of the variables keep; the message names it. Caught here, never a user's."""
