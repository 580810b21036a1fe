"""What a formulation states of an instance: a Pyomo model by the names of its sheet, and how decisions are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyomo.environ as pyo

from optplan.contracts.instance import Solution
from optplan.solvers.programs.program import Scaling


@dataclass(frozen=True, eq=False)
class Statement:
    """A declarative model of an instance.

    Parameters
    ----------
    native
        A ``pyomo.environ.ConcreteModel`` with the sheet's names.
    read
        Returns the decisions that the values of the variables stand for; None where the choices that they make are not
        whole, as those of a relaxation.
    choices
        The binary variables that decisions are read from: each set of ones among them is another decision.
    scaling
        What engines divide rows and objective by.
    leaves_out
        What the instance has and the model has not, so that the model is a relaxation: it lets pass all that the
        instance does, at no worse an objective, and perhaps more. Empty where it is exact.
    presolve
        Whether engines find anything when they prepare the model.
    """

    native: Any
    read: Callable[[], Solution | None]
    choices: tuple[Any, ...]
    scaling: Scaling = field(default_factory=Scaling)
    leaves_out: str = ""
    presolve: bool = True

    #: Name of the constraints that forbid decisions.
    CUTS: ClassVar[str] = "cut_off"

    def cut_off(self) -> Any:  # noqa: ANN401 - Pyomo has no types
        """Forbid the decisions that the variables have now, and return the constraint that does (a no-good cut)."""
        if self.native.component(self.CUTS) is None:
            self.native.add_component(self.CUTS, pyo.ConstraintList())
        chosen = list_ones(self.choices)
        return self.native.component(self.CUTS).add(pyo.quicksum(chosen) <= len(chosen) - 1)


def list_ones(variables: tuple[Any, ...]) -> list[Any]:
    """List the variables that are one."""
    return [each for variable in variables for each in variable.values() if each.value is not None and each.value > 0.5]


def are_whole(variables: tuple[Any, ...], tolerance: float = 1e-6) -> bool:
    """Whether all the variables are nearly zero or one."""
    values = (each.value for variable in variables for each in variable.values())
    return all(value is not None and min(abs(value), abs(value - 1.0)) <= tolerance for value in values)
