"""optplan: plan elastic machine-learning training on rented GPUs, with proofs.

>>> import optplan
>>> instance = optplan.read_instance("boa-two-epochs")
>>> result = optplan.solve(instance)
>>> result.status
<Status.OPTIMAL: 'optimal'>

Names are loaded on first use, so that importing the package is quick and loads no engine.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    __version__: str
    from optplan.contracts import Frontier, Instance, Plan, Result, Status, Verification
    from optplan.errors import OptplanError
    from optplan.formulations.boa.data.instance import BoaInstance
    from optplan.instances.files import (
        read_instance,
        read_plan,
        read_result,
        write_json,
    )
    from optplan.solving import analyse_sensitivity, build_plan, explain, frontier, pareto, solve
    from optplan.verification import verify

_HOMES = {
    "BoaInstance": "optplan.formulations.boa.data.instance",
    "Frontier": "optplan.contracts",
    "Instance": "optplan.contracts",
    "OptplanError": "optplan.errors",
    "Plan": "optplan.contracts",
    "Result": "optplan.contracts",
    "Status": "optplan.contracts",
    "Verification": "optplan.contracts",
    "analyse_sensitivity": "optplan.solving",
    "build_plan": "optplan.solving",
    "explain": "optplan.solving",
    "frontier": "optplan.solving",
    "pareto": "optplan.solving",
    "read_instance": "optplan.instances.files",
    "read_plan": "optplan.instances.files",
    "read_result": "optplan.instances.files",
    "solve": "optplan.solving",
    "verify": "optplan.verification",
    "write_json": "optplan.instances.files",
}

__all__ = [
    "BoaInstance",
    "Frontier",
    "Instance",
    "OptplanError",
    "Plan",
    "Result",
    "Status",
    "Verification",
    "analyse_sensitivity",
    "build_plan",
    "explain",
    "frontier",
    "pareto",
    "read_instance",
    "read_plan",
    "read_result",
    "solve",
    "verify",
    "write_json",
]


def __getattr__(name: str) -> object:
    """Load a public name on first use."""
    if name == "__version__":
        return _read_version()
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    message = f"module 'optplan' has no attribute {name!r}"
    raise AttributeError(message)


def _read_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("optplan")
    except PackageNotFoundError:  # run from a source tree
        return "0+source"


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(_HOMES)
