"""Modules that take long to load, and are loaded by the tests that use them: not by every process that collects."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any


class Later(ModuleType):
    """A module by its name, loaded when a public name of it is first asked for: pytest looks for others in it."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the module has
        """Return what the module has by a name."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(import_module(self.__name__), name)
