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


def folder_pages() -> str | None:
    """Return where the function is that makes the page of folders that a wing's commands have written, if any."""
    return next((wing.FOLDERS for wing in wings() if hasattr(wing, "FOLDERS")), None)


def served_reports() -> str | None:
    """Return where the function is that serves a result's report, and solves for what its readers try, if any."""
    return next((wing.REPORTS for wing in wings() if hasattr(wing, "REPORTS")), None)


def lists() -> dict[str, str]:
    """Return where the functions are that list what wings know, by the name of the list."""
    return {name: home for wing in wings() for name, home in wing.LISTS.items()}


def records() -> dict[str, str]:
    """Return where the records are that wings write to files, by the names of these kinds of file."""
    return {name: home for wing in wings() for name, home in getattr(wing, "RECORDS", {}).items()}
