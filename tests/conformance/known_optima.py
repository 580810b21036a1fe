"""What conformance is tried on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from optplan.contracts import Instance


@dataclass(frozen=True)
class Case:
    """An instance and its optimum, or what finds that; None: there is no plan within its limits."""

    name: str
    instance: Instance
    known: float | Callable[[], float] | None

    @cached_property
    def optimum(self) -> float | None:
        """The optimum: found when it is first asked for, so that whoever only lists the tests does not wait for it."""
        return self.known() if callable(self.known) else self.known
