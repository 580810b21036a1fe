"""The wings: packages beside the core that bring commands and lists of their own, where they are installed.

The core solves, proves, plans and reports without them and imports none. A wing's ``__init__.py`` names what it brings,
as ``module:attribute``, loaded when it is used: in ``COMMANDS`` by the words after ``optplan``, in ``LISTS`` by what
``optplan list`` calls it, in ``RECORDS`` by what kind of file it writes; ``FOLDERS`` makes pages of the folders that
its commands write, ``REPORTS`` serves the report of a result.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

WINGS = ("execution", "lab", "profiling")


def wings() -> list[ModuleType]:
    """Return the wings that are here."""
    names = [f"{__package__}.{wing}" for wing in WINGS]
    return [import_module(name) for name in names if find_spec(name) is not None]


def commands(group: str = "") -> dict[str, str]:
    """Return where the commands are that wings bring to a group, by name; without one, to ``optplan`` itself."""
    words = f"{group} " if group else ""
    found = [pair for wing in wings() for pair in wing.COMMANDS.items()]
    return {
        name.removeprefix(words): home
        for name, home in found
        if name.startswith(words) and " " not in name.removeprefix(words)
    }


def service(name: str) -> str | None:
    """Return where the one function is that some wing brings, as ``FOLDERS`` or ``REPORTS``, if any does."""
    return next((getattr(wing, name) for wing in wings() if hasattr(wing, name)), None)


def named(kind: str) -> dict[str, str]:
    """Return where all things are that wings bring by name, as ``LISTS`` or ``RECORDS``."""
    return {name: home for wing in wings() for name, home in getattr(wing, kind, {}).items()}
