"""Packages whose names stand in a stub and are loaded on first use, so that importing them is quick."""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module


def load_on_use(package: str, file: str) -> tuple[Callable[[str], object], list[str]]:
    """Return what a package needs of this, ``__getattr__`` and ``__all__``, by the stub ``.pyi`` beside its file."""
    with open(f"{file}i", encoding="utf-8") as stub:
        imports = [node for node in ast.parse(stub.read()).body if isinstance(node, ast.ImportFrom)]
    homes = {name.name: node.module for node in imports if node.module for name in node.names}

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return load, sorted(homes)
