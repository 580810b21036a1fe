"""What people see of a record in Python: lines when it is printed, a page in a notebook, a picture; loaded on use."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import Any, ClassVar, NamedTuple, TypeVar

_ABOUT = "_about"


class About(NamedTuple):
    """Of what a record was made: the instance, the result or None, and the gap of what a judge calls optimal."""

    # Both are records that are shown themselves, and stand on this module.
    instance: Any
    result: Any
    gap: float


class Shown:
    """A record that says what it holds, and draws it."""

    #: What shows it, a function of the record as ``module:function``; wings have one of their own.
    SHOWN_BY: ClassVar[str] = "optplan.reporting.faces:face_of"

    def __str__(self) -> str:
        """Say in at most 15 lines what a person wants to know; :meth:`to_json_data` has everything."""
        text: str = resolve_name(self.SHOWN_BY)(self).write()
        return text

    def _repr_html_(self) -> str:
        """Show the same in a notebook, with the picture where there is one and what draws it is installed."""
        page: str = resolve_name(self.SHOWN_BY)(self).write_html()
        return page

    def plot(self) -> Any:  # noqa: ANN401 - plotly has no types
        """Draw it, as a figure of plotly.

        Raises
        ------
        UnsupportedError
            When there is nothing to draw.
        UsageError
            When it holds no plan, or was read from a file and its instance is not known.
        MissingExtraError
            When plotly is not installed.
        """
        return resolve_name(self.SHOWN_BY)(self).draw()

    def __getstate__(self) -> Any:  # noqa: ANN401 - what its other base makes of it
        """Pickle without what it was made of."""
        state: Any = super().__getstate__()
        held = {name: value for name, value in state["__dict__"].items() if name != _ABOUT}
        return {**state, "__dict__": held}


ShownT = TypeVar("ShownT", bound=Shown)


def remember(record: ShownT, instance: Any, result: Shown | None = None, gap: float = 0.0) -> ShownT:  # noqa: ANN401 - an instance
    """Let a record know what it was made of, to be shown by it; copies, files and comparisons leave that out."""
    record.__dict__[_ABOUT] = About(instance, result, gap)
    return record


def about(record: Shown) -> About | None:
    """Return what a record was made of; None where it does not know."""
    known: About | None = record.__dict__.get(_ABOUT)
    return known
