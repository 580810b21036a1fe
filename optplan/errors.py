"""Errors that optplan raises; every one is an :class:`OptplanError`.

Each class also inherits the matching builtin, so code that catches ``ValueError`` keeps working, and carries the exit
code that the command line reports for it.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, ClassVar
from unicodedata import category

if TYPE_CHECKING:
    from collections.abc import Iterable


#: How the names of files end that people write: paths of fields end otherwise.
FILE_ENDINGS = (".json", ".yaml", ".yml", ".toml")
#: What files hold, in words.
_KINDS = {
    type(None): "nothing",
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "an object",
}
#: Characters of a value that a message shows.
_LONGEST_VALUE = 60
#: Ends of lines in a message, and three or more of them as Python writes them in a literal.
_LINE_END = re.compile(r"\s*[\r\n]\s*")
_REPEATED_END = re.compile(r"(\\[nrt])\1{2,}")
#: Characters of a message, and of a name for which a similar one is looked for.
_LONGEST_MESSAGE, _LONGEST_NAME = 2000, 200


class OptplanError(Exception):
    """Root of every error that optplan raises on purpose."""

    exit_code: ClassVar[int] = 70


class DataError(OptplanError, ValueError):
    """The user's data is wrong: at a path (empty: the whole file) a problem was found, which a fix mends."""

    exit_code: ClassVar[int] = 1

    def __init__(self, path: str, problem: str, fix: str = "") -> None:
        self.path = path
        self.problem = problem
        self.fix = fix
        message = f"{path}: {problem}" if path else problem
        super().__init__(f"{message}; {fix}" if fix else message)

    def __reduce__(self) -> tuple[type[DataError], tuple[str, str, str]]:
        """Pickle by the three parts, not by the joined message."""
        return type(self), (self.path, self.problem, self.fix)


class UsageError(OptplanError, ValueError):
    """The call is wrong although the data may be right: an unknown solver, a missing budget."""

    exit_code: ClassVar[int] = 2


class UnsupportedError(UsageError):
    """The chosen solver cannot take this instance; the message says why and which solver can."""


class MissingExtraError(OptplanError, ModuleNotFoundError):
    """An optional dependency is not installed, which an extra of optplan brings."""

    exit_code: ClassVar[int] = 2

    def __init__(self, module: str, extra: str) -> None:
        self.module = module
        self.extra = extra
        super().__init__(f'{module} is not installed; run: pip install "optplan[{extra}]"')


class OutputError(OptplanError, OSError):
    """A result could not be written; the file that stood there before is untouched."""

    exit_code: ClassVar[int] = 1


class InfeasibleError(OptplanError, ValueError):
    """A look-up asks for what no plan can do; the message names the nearest value that can be had."""

    exit_code: ClassVar[int] = 3


class EngineError(OptplanError, RuntimeError):
    """A general engine failed, or answered with a status that has no meaning here."""

    exit_code: ClassVar[int] = 70


class MeasurementError(OptplanError, RuntimeError):
    """A measurement failed, or gave figures that cannot be used; the message says what to try."""

    exit_code: ClassVar[int] = 1


class VerificationError(OptplanError, ValueError):
    """A result, which may have been given, does not hold what it says; one that was made here and fails is a bug."""

    exit_code: ClassVar[int] = 5

    def __init__(self, message: str, *, given: bool = False) -> None:
        super().__init__(message)
        self.given = given


class InternalError(OptplanError, RuntimeError):
    """Code of optplan, or of a package that extends it, made a record that is not valid: a bug, and nobody's data."""

    exit_code: ClassVar[int] = 70


class DataWarning(UserWarning):
    """The user's data is accepted, and this is how it is understood."""


class RegistrationWarning(UserWarning):
    """Another package registers something that cannot be taken; the message says what and why."""


def name_field(place: str, *names: str) -> str:
    """Name a field by its path in a file, ``mine.yaml: classes.bert``, or in fields, ``plan.instance.classes``."""
    path = ".".join(names)
    if not place or not path:
        return place or path
    return f"{place}{': ' if place.endswith(FILE_ENDINGS) else '.'}{path}"


def name_kind(value: object) -> str:
    """Name what a file holds as people would: ``a list``, ``nothing``."""
    return _KINDS.get(type(value), "something else")


def show_value(value: object) -> str:
    """Write a value for a message, cut short where it is long or repeats the ends of lines."""
    shown = _REPEATED_END.sub(r"\1...", repr(value))
    return shown if len(shown) <= _LONGEST_VALUE else shown[: _LONGEST_VALUE - 3] + "..."


def show_text(text: str) -> str:
    """Write what a terminal or a page would obey, and not show, as Python does in a literal, with a backslash."""
    # These are control characters, newlines among them, overrides of the direction of writing, other characters without
    # a shape, and halves of characters. Spaces of any width stay.
    if text.isprintable():
        return text
    shown = (
        each if each.isprintable() or category(each) == "Zs" else each.encode("unicode_escape").decode("ascii")
        for each in text
    )
    return "".join(shown)


def one_line(text: str) -> str:
    """Write a message on one line that a terminal shows as it is, spaces for ends of lines, cut where very long."""
    return shorten(show_text(_LINE_END.sub(" ", text.strip())))


def shorten(text: str) -> str:
    """Cut a very long text in its middle: what to do stands at the end of a message."""
    if len(text) <= _LONGEST_MESSAGE:
        return text
    end = " ... " + text[-_LONGEST_MESSAGE // 4 :]
    return text[: _LONGEST_MESSAGE - len(end)] + end


#: Names that are looked for where they have no place, and why.
_ELSEWHERE = {
    "commitments": "GPUs are committed for streams of jobs, in gpu_types.TYPE.commitments of formulation boa: they are "
    "paid for years at all hours, whether a single search or job holds them or not, and change none of its decisions",
}


def nearest_name_hint(name: str, known: Iterable[str]) -> str:
    """Say what the user may have meant: ``did you mean 'x'?`` when a known name is close, else the list of them."""
    if name in _ELSEWHERE:
        return _ELSEWHERE[name]
    names = [str(name) for name in known]
    close = get_close_matches(name, names, n=1, cutoff=0.6) if len(name) <= _LONGEST_NAME else []
    if close:
        return f"did you mean {close[0]!r}?"
    return "known: " + ", ".join(names) if names else "none are known here"
