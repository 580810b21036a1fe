"""What each part of a formulation is called with and returns, the instance first, and how it is found on use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Generic, Protocol, TypeVar, cast

from optplan.contracts.result import Answer, SolveRequest
from optplan.errors import UnsupportedError

PartT = TypeVar("PartT")


#: Imports once what is asked for on every use.
_import_module = cache(import_module)


def load(target: str) -> Any:  # noqa: ANN401 - the declared attribute may be anything
    """Import ``module:attribute``."""
    module, _, attribute = target.partition(":")
    return getattr(_import_module(module), attribute)


class Part(Generic[PartT]):
    """A field given as ``module:attribute`` and read as what stands there, loaded on use; users know its ``words``."""

    def __init__(self, words: str = "") -> None:
        self._words = words

    def __set_name__(self, owner: type[object], name: str) -> None:
        self._name = name

    def __get__(self, declared: object | None, owner: type[object]) -> PartT:
        if declared is None:
            return cast(PartT, "")  # of the class: the field's default
        fields = vars(declared)
        if not fields[self._name]:
            raise UnsupportedError(f"formulation {fields['name']!r} has no {self._words or self._name}")
        return cast(PartT, load(fields[self._name]))

    def __set__(self, declared: object, target: str) -> None:
        vars(declared)[self._name] = target


@dataclass(frozen=True)
class Description:
    """What solvers are matched against, in the formulation's own words."""

    problem: str
    policy: str
    cells: int  #: How large, in the formulation's count of choices.
    features: frozenset[str] = frozenset()  #: What it needs beyond the plainest ones.


class Solve(Protocol):
    """A solver."""

    def __call__(self, instance: Any, request: SolveRequest, /) -> Answer[Any]:  # noqa: ANN401 - the formulation's
        """Look for the best solution until it is proven or the time is over; a bound only where something proves it."""
