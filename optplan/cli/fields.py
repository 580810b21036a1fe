"""Options that are made from the fields that they fill, which say type, range, default and help.

The fields are those of a dataclass that loads nothing heavy; what stands behind or above one after ``#:`` is the help.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import click
from annotated_types import Ge, Gt, Le, Lt

from optplan.cli.commands import HeadedOption
from optplan.cli.options import SIZE, TIME, named

#: A field in the source of a class, with its comments above or behind it.
_FIELD = re.compile(r"^((?: {4}#: .*\n)*) {4}(\w+): .*?(?:  #: (.*))?$", re.MULTILINE)
#: By the end of a field's name what its option takes, and units in which defaults are written, the largest first.
_UNITS = {"s": (TIME, {"h": 3600.0, "min": 60.0, "s": 1.0}), "bytes": (SIZE, {"GB": 1e9, "B": 1.0})}


def list_fields(
    record: type,
    heading: str = "Options",
    kinds: Mapping[str, click.ParamType] | None = None,  # type: ignore[type-arg]  # as of options.Kind
    elsewhere: Mapping[str, type] | None = None,
) -> Iterator[click.Option]:
    """Yield the options that fill the fields of a dataclass, under a heading in the help.

    A text in the ``Annotated`` of a field is the option's name or its value's; ``kinds`` are what options take where
    neither types nor units say it; ``elsewhere`` are classes in which a field may have another default.
    """
    hints = get_type_hints(record, include_extras=True)
    for above, name, behind in _FIELD.findall(inspect.getsource(record)):
        said = " ".join([*re.findall("#: (.*)", above), behind]).strip()
        if not said:  # it is that of another class
            continue
        hint, notes = _unfold(hints[name])
        words = {note.startswith("--"): note for note in notes if isinstance(note, str)}
        unit = name.rpartition("_")[2]
        called = named(name.removesuffix(f"_{unit}") if unit in (*_UNITS, "usd") else name)
        usual = _write(name, getattr(record, name))
        others = {_write(name, getattr(one, name, None)): where for where, one in (elsewhere or {}).items()}
        differ = [f", {text} {where}" for text, where in others.items() if text not in ("", usual)]
        told = f"; {usual} by default{''.join(differ)}." if usual else "."
        kind: Any = (kinds or {}).get(name) or (_UNITS[unit][0] if unit in _UNITS else _find_kind(hint, notes))
        yield HeadedOption(
            [words.get(True, *called.values()), name],
            heading=heading,
            help=said.replace("``", "").removesuffix(".") + told,
            type=None if hint is bool else kind,
            is_flag=hint is bool,
            default=None,
            show_default=False,
            metavar=words.get(False),
        )


def _unfold(hint: Any) -> tuple[Any, list[Any]]:  # noqa: ANN401 - a type
    """Return a type without ``None`` and ``Annotated``, and what stands in these."""
    if get_origin(hint) is Annotated:
        inner, notes = _unfold(hint.__origin__)
        return inner, [*notes, *hint.__metadata__]
    if get_origin(hint) in (Union, UnionType):
        return _unfold(next(each for each in get_args(hint) if each is not NoneType))
    return hint, []


def _find_kind(hint: Any, notes: list[Any]) -> click.ParamType:  # type: ignore[type-arg]  # noqa: ANN401 - a type
    if get_origin(hint) is Literal or issubclass(hint, Enum):
        return click.Choice([str(each) for each in get_args(hint) or hint])
    if hint is str:
        return click.STRING
    low = next((note for note in notes if isinstance(note, Ge | Gt)), None)
    high = next((note for note in notes if isinstance(note, Le | Lt)), None)
    ends: dict[str, Any] = {"min": getattr(low, "ge", getattr(low, "gt", None)), "min_open": isinstance(low, Gt)}
    ends |= {"max": getattr(high, "le", getattr(high, "lt", None)), "max_open": isinstance(high, Lt)}
    return click.IntRange(**ends) if hint is int else click.FloatRange(**ends)


def _write(name: str, value: object) -> str:
    """Write a default as it would be typed; empty where that says nothing."""
    if value in (None, "") or isinstance(value, bool):
        return ""
    if not isinstance(value, int | float):
        return str(value)
    _, units = _UNITS.get(name.rpartition("_")[2], (None, {"": 1.0}))
    exact = [unit for unit, size in units.items() if value >= size and value % size == 0]
    unit = exact[0] if exact else [*units][-1]
    return f"{value / units[unit]:g}{unit}"
