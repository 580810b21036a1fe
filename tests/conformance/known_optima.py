"""What conformance is tried on."""

from __future__ import annotations

from dataclasses import dataclass

from optplan.contracts import Instance


@dataclass(frozen=True)
class Case:
    """An instance and its optimum; None: there is no plan within its limits."""

    name: str
    instance: Instance
    optimum: float | None
