"""A Pyomo model while its user holds it: what was changed, what an engine says of it, and what the values stand for."""

from __future__ import annotations

from typing import Any, Literal

import pyomo.environ as pyo

from optplan.contracts.instance import Solution
from optplan.contracts.result import SolveRequest, Status
from optplan.errors import UnsupportedError
from optplan.solvers.programs.changes import Changes, Snapshot
from optplan.solvers.programs.engines import HIGHS, find_violations, run_engine
from optplan.solvers.programs.highs import write_program
from optplan.solvers.programs.program import ProgramOutcome, read_program
from optplan.solvers.programs.statement import Statement


class PyomoModel:
    """A statement whose Pyomo model is in somebody else's hands.

    Parameters
    ----------
    statement
        As the formulation makes it.
    """

    default_engine = HIGHS

    def __init__(self, statement: Statement) -> None:
        self.native: Any = statement.native
        self.leaves_out = statement.leaves_out
        self.index: dict[str, list[Any]] = {}
        self.expressions: dict[str, Any] = {}
        self._statement = statement
        self._snapshot = Snapshot(statement.native)

    def compare(self) -> Changes:
        """Say what its user has changed."""
        return self._snapshot.compare(self.native)

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
        """Write it as text: CPLEX LP or free MPS.

        Raises
        ------
        UnsupportedError
            When it is not linear.
        """
        return write_program(read_program(self.native).program, form)

    def has_none_without_own(self, request: SolveRequest) -> bool:
        """Whether the model is infeasible without one's own constraints, too; fixed variables stay as they are."""
        own = [
            each
            for each in self.native.component_data_objects(pyo.Constraint, active=True)
            if self._snapshot.is_own(each)
        ]
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
            return find_violations(self.native, self._snapshot, request)
        except UnsupportedError:
            return None
