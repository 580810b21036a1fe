"""The formulations: one folder each, found by looking, and those that other packages register by entry points.

A package outside names them in its metadata: in the group ``optplan.formulations`` a formulation under its name, in the
group ``optplan.solvers`` a solver under ``FORMULATION.SOLVER``. Both name a declaration of
:mod:`optplan.contracts.registry`, as ``module:NAME``.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint

from optplan.contracts.instance import Instance
from optplan.contracts.registry import Formulation, SolverEntry, leave_out, list_entries, load_entry
from optplan.errors import DataError, UsageError, nearest_name_hint, show_value

FORMULATION_GROUP = "optplan.formulations"
SOLVER_GROUP = "optplan.solvers"


@cache
def formulations() -> dict[str, Formulation]:
    """Return every formulation by name, our own first; a wrong one of another package is left out with a warning."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg)
    own = {name: getattr(import_module(f"{__name__}.{name}"), "FORMULATION", None) for name in names}
    found = {name: formulation for name, formulation in own.items() if formulation is not None}
    for entry in list_entries(FORMULATION_GROUP, SOLVER_GROUP):
        if entry.group == SOLVER_GROUP:
            _add_solver(found, entry)
            continue
        formulation = load_entry(entry, Formulation)
        if formulation is None:
            continue
        if formulation.name in found or formulation.name != entry.name:
            known = "is taken" if formulation.name in found else f"is not that of its entry point, {entry.name!r}"
            leave_out(entry, f"its name {formulation.name!r} {known}")
        else:
            found[formulation.name] = formulation
    return found


def _add_solver(found: dict[str, Formulation], entry: EntryPoint) -> None:
    of, _, name = entry.name.partition(".")
    solver = load_entry(entry, SolverEntry)
    if solver is None:
        return
    if of not in found:
        leave_out(entry, f"there is no formulation {of!r}")
    elif solver.name != name or any(solver.name == known.name for known in found[of].solvers):
        leave_out(entry, f"its name {solver.name!r} is taken, or not that of its entry point, {name!r}")
    else:
        found[of] = found[of].with_solvers(solver)


def formulation_of(instance: Instance) -> Formulation:
    """Return the formulation that an instance belongs to; refuse what is none, but perhaps the name of one."""
    _require_instance(instance)
    return formulation_named(str(getattr(instance, "formulation", "")))


def _require_instance(instance: object) -> None:
    if not isinstance(instance, Instance):
        example = show_value(instance) if isinstance(instance, str) else "'boa-newtrace'"
        message = f"instance: got {show_value(instance)}; an Instance is needed, such as read_instance({example})"
        raise UsageError(message)


def formulation_named(name: str) -> Formulation:
    """Return the formulation of that name; a DataError where there is none."""
    known = formulations()
    if name not in known:
        raise DataError("formulation", f"got {name!r}", nearest_name_hint(name, known))
    return known[name]
