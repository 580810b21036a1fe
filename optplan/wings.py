"""The wings: packages beside the core that bring commands and lists of their own, where they are installed.

The core solves, proves, plans and reports without them and imports none. A wing's ``__init__.py`` names what it brings,
as ``module:attribute``, loaded when it is used: in ``COMMANDS`` by the words after ``optplan``, in ``LISTS`` by what
``optplan list`` calls it, in ``RECORDS`` by what kind of file it writes; ``FOLDERS`` makes pages of the folders that
its commands write, ``REPORTS`` serves the report of a result.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pkgutil import resolve_name
from types import ModuleType
from typing import Any

WINGS = ("execution", "lab", "profiling")


def wings() -> list[ModuleType]:
    """Return the wings that are here."""
    names = [f"{__package__}.{wing}" for wing in WINGS]
    return [import_module(name) for name in names if find_spec(name) is not None]


def brought(what: str) -> dict[str, str]:
    """Return where things are that wings bring, by name: their ``COMMANDS``, ``LISTS`` or ``RECORDS``."""
    return {name: home for wing in wings() for name, home in getattr(wing, what, {}).items()}


def commands(group: str = "") -> dict[str, str]:
    """Return where the commands are that wings bring to a group, by name; without one, to ``optplan`` itself."""
    words = f"{group} " if group else ""
    found = {name.removeprefix(words): home for name, home in brought("COMMANDS").items() if name.startswith(words)}
    return {name: home for name, home in found.items() if " " not in name}


def function(what: str) -> Callable[..., Any] | None:
    """Load the function that a wing names as its ``FOLDERS`` or ``REPORTS``; None where none does."""
    home = next((getattr(wing, what) for wing in wings() if hasattr(wing, what)), None)
    return None if home is None else resolve_name(home)
