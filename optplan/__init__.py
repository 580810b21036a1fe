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

from functools import cache

from optplan.public_names import load_on_use

_load, __all__ = load_on_use(__name__, __file__)


def __getattr__(name: str) -> object:
    """Load a public name on first use."""
    return _read_version() if name == "__version__" else _load(name)


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
