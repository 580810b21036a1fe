"""How quantities and names are read from the command line, and the options that many commands have."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import EnumType
from functools import partial
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import click
from annotated_types import Ge, Gt, Le, Lt

from optplan.errors import UsageError, nearest_name_hint
from optplan.units import PERIOD_HOURS, parse_bandwidth, parse_budget, parse_bytes, parse_duration

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


F = TypeVar("F", bound=Callable[..., Any])


class Kind(click.ParamType):  # type: ignore[type-arg]  # it is generic in the newest releases of click only
    """A kind of value that options take, as help names it; ``read`` gets the text, and as ``what`` the option."""

    def __init__(self, name: str, read: Callable[..., Any]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401, ARG002 - click's own
        """Read what the user typed; click calls this."""
        return self._read(value, what=flag(param)) if isinstance(value, str) and param is not None else value


class NumberRange(click.FloatRange):
    """A finite number of a range: nothing that is not a number lies in one, and nobody means infinity."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401 - click's own
        """Read what the user typed; click calls this."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{number} is no finite number.", param, ctx)
        return number


class _PathKind(click.Path):
    """A path, which is called as its option asks for."""

    def __init__(self, name: str) -> None:
        super().__init__(path_type=Path)
        self.name = name


class _DataKind(_PathKind):
    """A file of YAML or JSON, as the plain data that it holds; an empty one would be taken for none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401, ARG002 - click's own
        """Read the file that the user named; click calls this."""
        from optplan.instances.plain_data import read_data

        data = read_data(Path(value)) if isinstance(value, str) else value
        if data is None and param is not None:
            raise UsageError(f"{value}: is empty; fill it, or leave out {flag(param)}")
        return data


def parse_price(text: str, *, what: str) -> float:
    """Read a price into US dollars per hour."""
    amount = parse_budget(text, what=what)
    if amount.unit not in PERIOD_HOURS:
        needed = "money for an hour, a day or a month is needed, as in 0.978usd/hour"
        raise UsageError(f"{what}: got {text!r}; {needed}")
    return amount.value / PERIOD_HOURS[amount.unit]


def parse_share(text: str) -> float:
    """Read a share, ``5%`` or ``0.05``; what is none is not a number."""
    try:
        return float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
    except ValueError:
        return math.nan


def parse_gap(text: str, *, what: str) -> float:
    """Read a relative gap, ``1e-6`` or ``1%``."""
    gap = parse_share(text)
    if not 0.0 <= gap < 1.0:
        raise UsageError(f"{what}: got {text!r}; a relative gap from 0 to below 1 is needed, such as 1e-6 or 1%")
    return gap


def parse_numbers(text: str, *, what: str) -> tuple[int, ...]:
    """Read whole numbers between commas, as in ``2,4,8``."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise UsageError(f"{what}: got {text!r}; whole numbers with commas between them are needed, as in 2,4,8")
    return tuple(int(part) for part in parts)


def parse_widths(text: str, *, what: str) -> tuple[int, ...]:
    """Read numbers of GPUs: between commas, as in ``8,16``, or doublings of the first up to the last, ``8..256``."""
    first, dots, last = text.partition("..")
    if not dots:
        return parse_numbers(text, what=what)
    if not (first.isdecimal() and last.isdecimal() and 0 < int(first) <= int(last)):
        raise UsageError(f"{what}: got {text!r}; doublings from a first to a last number are needed, as in 8..256")
    return tuple(int(first) << power for power in range((int(last) // int(first)).bit_length()))


#: What options take: seconds, an amount with its unit, US dollars an hour, bytes, Gbit/s, a gap, whole numbers, numbers
#: of GPUs, paths, and what a file holds.
TIME = Kind("TIME", parse_duration)
BUDGET = Kind("AMOUNT", parse_budget)
PRICE = Kind("AMOUNT", parse_price)
SIZE = Kind("SIZE", parse_bytes)
BANDWIDTH = Kind("GBIT", parse_bandwidth)
GAP = Kind("GAP", parse_gap)
NUMBERS = Kind("N,N", parse_numbers)
WIDTHS = Kind("N..N", parse_widths)
FILE, DIR = _PathKind("FILE"), _PathKind("DIR")
DATA = _DataKind("FILE")


def named(*names: str) -> dict[str, str]:
    """Name the options that are called as parameters are: ``max_width`` is ``--max-width``."""
    return {name: f"--{name.replace('_', '-').replace(' ', '-')}" for name in names}


def known_name(what: str, list_names: Callable[[], list[str]]) -> dict[str, Any]:
    """Make the settings of an option that takes names from the registry, which is not read to show help."""

    def check(_: click.Context, option: click.Parameter, value: str | tuple[str, ...] | None) -> Any:  # noqa: ANN401
        for name in (value,) if isinstance(value, str) else value or ():
            if name not in list_names():
                raise UsageError(f"{flag(option)}: no {what} {name!r}; {nearest_name_hint(name, list_names())}")
        return value

    def complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[str | CompletionItem]:
        return [name for name in list_names() if name.startswith(incomplete)]

    return {"callback": check, "shell_complete": complete}


def by_name(
    needed: str, read: Callable[..., Any] | None = None, *, alone: bool = True, names_itself: bool = False
) -> dict[str, Any]:
    """Make the settings of an option that takes values by name, as in ``vision=linear``, each name once.

    A value ``alone`` is for all, under an empty name, or under itself. ``read`` gets each value, and as ``what`` the
    option; ``needed`` says what has to be given where nothing can be read.
    """

    def read_all(_: click.Context, option: click.Parameter, texts: Sequence[str]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for text in texts:
            name, equals, value = text.rpartition("=")
            if not value or not (equals or alone):
                raise UsageError(f"{flag(option)}: got {text!r}; {needed}")
            name = name or (value if names_itself else "")
            if name in found:
                raise UsageError(f"{flag(option)}: two values {f'for {name!r} ' if name else ''}are given; give one")
            found[name] = value if read is None else read(value, what=f"{flag(option)} {name}".rstrip())
        return found

    return {"multiple": True, "callback": read_all}


def flag(option: click.Parameter) -> str:
    """Return how the user writes an option or an argument."""
    return str(option.name).upper() if isinstance(option, click.Argument) else max(option.opts, key=len)


def complete_instance(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete library names, and files as the shell does."""
    from click.shell_completion import CompletionItem

    from optplan.instances.library import names

    found = [CompletionItem(name) for name in names() if name.startswith(incomplete)]
    return [*found, CompletionItem(incomplete, type="file")]


class Declared(NamedTuple):
    """What a parameter of a command's function is on the command line; it stands where its default would."""

    kind: type[click.Parameter]
    names: tuple[str, ...]
    settings: dict[str, Any]

    def make(self, name: str, cls: type[click.Parameter] | None = None, **more: Any) -> click.Parameter:  # noqa: ANN401 - as click's
        """Make the parameter of that name, of another class and with ``more`` settings if wanted."""
        names: Iterable[str] = [] if self.kind is click.Argument else self.names or named(name).values()
        return (cls or self.kind)([*names, name], **self.settings | more)


def option(*names: str, cls: type[click.Option] = click.Option, **settings: Any) -> Any:  # noqa: ANN401 - as click's
    """Declare an option, as :func:`click.option` does; unless named, ``max_width`` is called ``--max-width``."""
    return Declared(cls, names, settings)


def argument(**settings: Any) -> Any:  # noqa: ANN401 - as click's
    """Declare an argument, as :func:`click.argument` does."""
    return Declared(click.Argument, (), settings)


#: One instance, a file or a name of the library, and one or more of them.
INSTANCE = argument(metavar="INSTANCE", shell_complete=complete_instance)
INSTANCES = argument(metavar="INSTANCE...", nargs=-1, required=True, shell_complete=complete_instance)


def list_declared(function: Callable[..., Any], *cls: type[click.Parameter], **more: Any) -> list[click.Parameter]:  # noqa: ANN401 - as click's
    """List what the parameters of a function are on the command line, in their order; of a class and with ``more``."""
    found = {name: each.default for name, each in inspect.signature(function).parameters.items()}
    return [one.make(name, *cls, **more) for name, one in found.items() if isinstance(one, Declared)]


#: A field in the source of a class, with its comments above or behind it.
_FIELD = re.compile(r"^((?: {4}#: .*\n)*) {4}(\w+): .*?(?:  #: (.*))?$", re.MULTILINE)
#: What options take for times of which none at all is one.
_TIME_OR_NONE = Kind("TIME", partial(parse_duration, zero=True))
#: By the end of a field's name what its option takes, and units in which defaults are written, the largest first.
_UNITS = {
    "s": (TIME, {"h": 3600.0, "min": 60.0, "s": 1.0}),
    "h": (Kind("TIME", lambda text, what: parse_duration(text, what=what) / 3600.0), {"h": 1.0}),
    "bytes": (SIZE, {"GB": 1e9, "B": 1.0}),
}


class HeadedOption(click.Option):
    """An option that stands under a heading of its own in the help."""

    def __init__(self, *args: Any, heading: str, **kwargs: Any) -> None:  # noqa: ANN401 - click's own
        super().__init__(*args, **kwargs)
        self.heading = heading


def list_fields(
    record: type,
    heading: str = "Options",
    kinds: Mapping[str, Kind] | None = None,
    elsewhere: Mapping[str, type] | None = None,
) -> Iterator[click.Option]:
    """Yield the options that fill the fields of a dataclass, under a heading in the help.

    What stands behind or above a field after ``#:`` is the help, a text in its ``Annotated`` the option's name or its
    value's. ``kinds`` are what options take where neither types nor units say it; ``elsewhere`` are classes in which a
    field may have another default. The class stands in a module that loads nothing heavy.
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
        if kind is TIME and any(isinstance(note, Ge) and note.ge == 0 for note in notes):
            kind = _TIME_OR_NONE
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
    return click.IntRange(**ends) if hint is int else NumberRange(**ends)


def _write(unit: str, value: object) -> str:
    """Write a default as it would be typed; empty where that says nothing."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return str(value or "")
    _, sizes = _UNITS.get(unit, (None, {"": 1.0}))
    exact = [unit for unit, size in sizes.items() if value >= size and value % size == 0]
    unit = exact[0] if exact else [*sizes][-1]
    return f"{value / sizes[unit]:g}{unit}"


def with_options(params: Sequence[click.Parameter]) -> Callable[[F], F]:
    """Make what adds options and arguments to a command, in this order."""

    def add(command: F) -> F:
        declared = [*getattr(command, "__click_params__", []), *reversed(params)]  # click keeps the last first
        command.__click_params__ = declared  # type: ignore[attr-defined]
        return command

    return add


force_option = click.option("--force", is_flag=True, help="Replace output files that exist.")


def list_formulations() -> list[str]:
    """List the registered formulations."""
    from optplan.formulations import formulations

    return list(formulations())


def list_known(what: str) -> Callable[[], list[str]]:
    """Make what lists ``what`` the registered solvers take: ``problems``, or the ``policies`` of plans."""

    def find() -> list[str]:
        from optplan.formulations import formulations

        return sorted({name for each in formulations().values() for one in each.solvers for name in getattr(one, what)})

    return find


def list_solver_choices() -> list[str]:
    """List what ``--solver`` takes: a solver of any formulation, or none of them."""
    from optplan.formulations import formulations
    from optplan.solving.asking import AUTO

    return list(dict.fromkeys([AUTO, *(one.name for each in formulations().values() for one in each.solvers)]))
