"""What conformance is tried on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from optplan.contracts import Instance


@dataclass(frozen=True)
class Case:
    """An instance and its optimum, or what finds them; an optimum of None: there is no plan within its limits."""

    name: str
    stated: Instance | Callable[[], Instance]
    known: float | Callable[[], float] | None
    #: One of the same size and features with other amounts, where the instance has to be found: tests are listed by it.
    like: Instance | None = None

    @cached_property
    def instance(self) -> Instance:
        """The instance: found when it is first asked for."""
        return self.stated() if callable(self.stated) else self.stated

    @property
    def shape(self) -> Instance:
        """What tells which tests there are."""
        return self.instance if self.like is None else self.like

    @cached_property
    def optimum(self) -> float | None:
        """The optimum: found when it is first asked for, so that whoever only lists the tests does not wait for it."""
        return self.known() if callable(self.known) else self.known
