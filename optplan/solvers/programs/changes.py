"""What the user of a declarative model has changed in it: what was added, what was left out, and what is gone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyomo.environ as pyo


@dataclass(frozen=True)
class Changes:
    """What is not as the formulation states it; names of components.

    Parameters
    ----------
    added
        Constraints of one's own, constraints with another body, variables that are fixed or have tighter bounds.
    left_out
        Constraints that are not active any more or have another body, variables that are relaxed.
    missing
        Variables of the sheet that the model has no more.
    has_own_objective
        Whether another objective is asked for.
    """

    added: tuple[str, ...]
    left_out: tuple[str, ...]
    missing: tuple[str, ...]
    has_own_objective: bool


class Snapshot:
    """A model as it was stated.

    Parameters
    ----------
    native
        A ``pyomo.environ.ConcreteModel``, which nobody has changed yet.
    """

    def __init__(self, native: Any) -> None:  # noqa: ANN401 - Pyomo has no types
        self._constraints = {
            id(each): (each, each.expr) for each in native.component_data_objects(pyo.Constraint, active=True)
        }
        self._variables = [(each, each.lb, each.ub, each.is_continuous()) for each in _list_variables(native)]
        (self._objective,) = native.component_data_objects(pyo.Objective, active=True)
        self._expression = self._objective.expr

    def compare(self, native: Any) -> Changes:  # noqa: ANN401 - Pyomo has no types
        """Say what has been changed since in the same model."""
        active = {id(each): each for each in native.component_data_objects(pyo.Constraint, active=True)}
        own = [each for key, each in active.items() if key not in self._constraints]
        known = self._constraints.items()
        altered = [each for key, (each, expr) in known if key in active and each.expr is not expr]
        left_out = [each for key, (each, _) in known if key not in active]
        added, relaxed = _name(own), []
        added += [f"{name} (changed)" for name in _name(altered)]
        present = {id(each) for each in _list_variables(native)}
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
        objectives = list(native.component_data_objects(pyo.Objective, active=True))
        is_own = [id(each) for each in objectives] != [id(self._objective)]
        is_own |= self._objective.expr is not self._expression
        return Changes(
            added=tuple(added),
            left_out=(*_name(left_out), *(f"{name} (changed)" for name in _name(altered)), *_name(relaxed)),
            missing=tuple(_name(missing)),
            has_own_objective=is_own,
        )

    def is_own(self, constraint: Any) -> bool:  # noqa: ANN401 - Pyomo has no types
        """Whether a constraint of the model is not one of the statement's."""
        known = self._constraints.get(id(constraint))
        return known is None or constraint.expr is not known[1]


def _negate(bound: float | None) -> float | None:
    """Turn a bound from above into one from below."""
    return None if bound is None else -bound


def _is_above(bound: float | None, other: float | None) -> bool:
    """Whether a bound from below is above another; None is none."""
    return bound is not None and (other is None or bound > other)


def _list_variables(native: Any) -> Iterable[Any]:  # noqa: ANN401 - Pyomo has no types
    return native.component_data_objects(pyo.Var)  # type: ignore[no-any-return]


def _name(data: Iterable[Any]) -> list[str]:
    """Name the components that data belong to, each once, in their order."""
    return list(dict.fromkeys(each.parent_component().name if _is_attached(each) else "a removed one" for each in data))


def _is_attached(data: Any) -> bool:  # noqa: ANN401 - Pyomo has no types
    return data.parent_component() is not None
