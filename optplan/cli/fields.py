"""Options that are made from the fields that they fill, which say type, range, default and help.

The fields are those of a dataclass that loads nothing heavy; what stands behind or above one after ``#:`` is the help.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from enum import EnumType
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

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
        said = " ".join([*re.findall("#: (.*)", above), behind]).replace("``", "").strip().removesuffix(".")
        if not said:  # it is that of another class
            continue
        hint, notes = _unfold(hints[name])
        words = {note.startswith("--"): note for note in notes if isinstance(note, str)}
        stem, _, unit = name.rpartition("_")
        classes = {**(elsewhere or {}), "by default": record}  # which has the last word where both say the same
        usual = {_write(unit, getattr(one, name, None)): where for where, one in classes.items()}
        told = ", ".join(f"{text} {where}" for text, where in usual.items() if text)
        kind = (kinds or {}).get(name) or (_UNITS[unit][0] if unit in _UNITS else _find_kind(hint, notes))
        yield HeadedOption(
            [words.get(True, *named(stem if unit in (*_UNITS, "usd") else name).values()), name],
            heading=heading,
            help=f"{said}; {told}." if told else f"{said}.",
            type=kind,
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
    return (hint, []) if NoneType not in get_args(hint) else _unfold(get_args(hint)[0])


def _find_kind(hint: Any, notes: list[Any]) -> click.ParamType | None:  # type: ignore[type-arg]  # noqa: ANN401 - a type
    if get_origin(hint) is Literal or isinstance(hint, EnumType):
        return click.Choice([str(each) for each in get_args(hint) or hint])
    if hint in (bool, str):
        return None  # click knows
    low = next((note for note in notes if isinstance(note, Ge | Gt)), None)
    high = next((note for note in notes if isinstance(note, Le | Lt)), None)
    ends: dict[str, Any] = {"min": getattr(low, "ge", getattr(low, "gt", None)), "min_open": isinstance(low, Gt)}
    ends |= {"max": getattr(high, "le", getattr(high, "lt", None)), "max_open": isinstance(high, Lt)}
    return click.IntRange(**ends) if hint is int else click.FloatRange(**ends)


def _write(unit: str, value: object) -> str:
    """Write a default as it would be typed; empty where that says nothing."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return str(value or "")
    _, sizes = _UNITS.get(unit, (None, {"": 1.0}))
    exact = [unit for unit, size in sizes.items() if value >= size and value % size == 0]
    unit = exact[0] if exact else [*sizes][-1]
    return f"{value / sizes[unit]:g}{unit}"
