"""optplan: plan elastic machine-learning training on rented GPUs, with proofs.

>>> import optplan
>>> instance = optplan.read_instance("boa-two-epochs")
>>> result = optplan.solve(instance)
>>> result.status
<Status.OPTIMAL: 'optimal'>

The public names stand in ``__init__.pyi``, for type checkers and for this module alike. They are loaded on first use,
so that importing the package is quick and loads no engine.
"""

from __future__ import annotations

import ast
from functools import cache
from importlib import import_module


def _read_homes() -> dict[str, str]:
    """Return by public name the module that it comes from, as the stub imports it."""
    with open(f"{__file__}i", encoding="utf-8") as stub:  # beside this file, with the ending .pyi
        imports = [node for node in ast.parse(stub.read()).body if isinstance(node, ast.ImportFrom)]
    return {name.name: node.module for node in imports if node.module for name in node.names}


_HOMES = _read_homes()

__all__ = sorted(_HOMES)  # noqa: PLE0605 - a list


def __getattr__(name: str) -> object:
    """Load a public name on first use."""
    if name == "__version__":
        return _read_version()
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'optplan' has no attribute {name!r}")


@cache  # looking it up takes a good part of a small solve
def _read_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("optplan")
    except PackageNotFoundError:  # run from a source tree
        return "0+source"


def __dir__() -> list[str]:
    """List the public names."""
    return list(__all__)
