"""What other packages register by entry points: found in order, and left out with a warning where it is wrong."""

from __future__ import annotations

import warnings
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from optplan.errors import RegistrationWarning, show_value

DeclaredT = TypeVar("DeclaredT")


def list_entries(*groups: str) -> list[EntryPoint]:
    """Return what is registered in some groups, one group after the other, each by name."""
    registered = entry_points()  # once: it reads the metadata of every package that is installed
    return [each for group in groups for each in sorted(registered.select(group=group), key=lambda entry: entry.name)]


def load_entry(entry: EntryPoint, kind: type[DeclaredT]) -> DeclaredT | None:
    """Load what an entry point names; None, with a warning, when it is not what its group holds."""
    try:
        declared = entry.load()
    except Exception as error:  # noqa: BLE001 - whatever another package does, the others are there
        leave_out(entry, f"it cannot be loaded ({type(error).__name__}: {error})")
        return None
    if not isinstance(declared, kind):
        leave_out(entry, f"it is {show_value(declared)}, not a {kind.__name__}")
        return None
    return declared


def leave_out(entry: EntryPoint, why: str) -> None:
    """Warn that something which another package registers cannot be taken."""
    package = "another package" if entry.dist is None else entry.dist.name
    message = f"{package} registers {entry.name!r} in {entry.group} as {entry.value}, which is left out: {why}"
    warnings.warn(message, RegistrationWarning, stacklevel=4)
