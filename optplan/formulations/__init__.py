"""The formulations: one folder each, found by looking, and those that other packages register by entry points.

A package outside names them in its metadata: in the group ``optplan.formulations`` a formulation under its name, in the
group ``optplan.solvers`` a solver under ``FORMULATION.SOLVER``. Both name a declaration of
:mod:`optplan.contracts.registry`, as ``module:NAME``.
"""

from __future__ import annotations

import pkgutil
import warnings
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from optplan.contracts.instance import Instance
from optplan.contracts.registry import Formulation, SolverEntry
from optplan.errors import DataError, RegistrationWarning, UsageError, nearest_name_hint, show_value

Declared = TypeVar("Declared", Formulation, SolverEntry)

FORMULATION_GROUP = "optplan.formulations"
SOLVER_GROUP = "optplan.solvers"


@cache
def formulations() -> dict[str, Formulation]:
    """Return every formulation by name: the own ones first, then those of other packages.

    What another package declares wrongly is left out, with a RegistrationWarning that names it.
    """
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg)
    own = {name: getattr(import_module(f"{__name__}.{name}"), "FORMULATION", None) for name in names}
    found = {name: formulation for name, formulation in own.items() if formulation is not None}
    for entry in _list_entries(FORMULATION_GROUP):
        formulation = _load(entry, Formulation)
        if formulation is None:
            continue
        if formulation.name in found or formulation.name != entry.name:
            known = "is taken" if formulation.name in found else f"is not that of its entry point, {entry.name!r}"
            _leave_out(entry, f"its name {formulation.name!r} {known}")
        else:
            found[formulation.name] = formulation
    for entry in _list_entries(SOLVER_GROUP):
        _add_solver(found, entry)
    return found


def _add_solver(found: dict[str, Formulation], entry: EntryPoint) -> None:
    of, _, name = entry.name.partition(".")
    solver = _load(entry, SolverEntry)
    if solver is None:
        return
    if of not in found:
        _leave_out(entry, f"there is no formulation {of!r}")
    elif solver.name != name or any(solver.name == known.name for known in found[of].solvers):
        _leave_out(entry, f"its name {solver.name!r} is taken, or not that of its entry point, {name!r}")
    else:
        found[of] = found[of].with_solvers(solver)


def _list_entries(group: str) -> list[EntryPoint]:
    return sorted(entry_points(group=group), key=lambda entry: entry.name)


def _load(entry: EntryPoint, kind: type[Declared]) -> Declared | None:
    """Load what an entry point names; None, with a warning, when it is not what its group holds."""
    try:
        declared = entry.load()
    except Exception as error:  # noqa: BLE001 - whatever another package does, the others are there
        _leave_out(entry, f"it cannot be loaded ({type(error).__name__}: {error})")
        return None
    if not isinstance(declared, kind):
        _leave_out(entry, f"it is {show_value(declared)}, not a {kind.__name__}")
        return None
    return declared


def _leave_out(entry: EntryPoint, why: str) -> None:
    package = "another package" if entry.dist is None else entry.dist.name
    message = f"{package} registers {entry.name!r} in {entry.group} as {entry.value}, which is left out: {why}"
    warnings.warn(message, RegistrationWarning, stacklevel=4)


def formulation_of(instance: Instance) -> Formulation:
    """Return the formulation that an instance belongs to.

    Raises
    ------
    UsageError
        When it is no instance, but perhaps the name of one.
    """
    _require_instance(instance)
    return formulation_named(str(getattr(instance, "formulation", "")))


def _require_instance(instance: object) -> None:
    if not isinstance(instance, Instance):
        example = show_value(instance) if isinstance(instance, str) else "'boa-newtrace'"
        message = f"instance: got {show_value(instance)}; an Instance is needed, such as read_instance({example})"
        raise UsageError(message)


def formulation_named(name: str) -> Formulation:
    """Return the formulation of that name.

    Raises
    ------
    DataError
        When there is none.
    """
    known = formulations()
    if name not in known:
        raise DataError("formulation", f"got {name!r}", nearest_name_hint(name, known))
    return known[name]
