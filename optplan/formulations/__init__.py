"""The formulations: one folder each, found by looking, so that a new one is registered by being there."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from optplan.contracts.instance import Instance
from optplan.contracts.registry import Formulation
from optplan.errors import DataError, UsageError, nearest_name_hint, show_value


@cache
def formulations() -> dict[str, Formulation]:
    """Return every formulation by name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg)
    found = {name: getattr(import_module(f"{__name__}.{name}"), "FORMULATION", None) for name in names}
    return {name: formulation for name, formulation in found.items() if formulation is not None}


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
