"""From files to plain data: JSON and YAML, refusing what is ambiguous, and bounding sizes before anything is built.

A file has to be of a size that a person or a program may have meant. YAML's aliases and merge keys make a few lines
stand for billions of values, so what they stand for is counted before it is built.
"""

from __future__ import annotations

import errno
import json
import math
import re
import sys
from collections.abc import Hashable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from optplan.errors import DataError, show_value

YAML_ENDINGS = (".yaml", ".yml")
#: Stands for standard input.
STDIN = Path("-")

#: Bytes of a file; the largest of the library has less than a hundredth of that.
LARGEST_FILE = 100_000_000
#: The same of YAML, which takes some ten seconds for a megabyte.
LARGEST_YAML = 10_000_000
#: Values that the aliases and merge keys of a YAML file may stand for.
MOST_VALUES = 10_000_000
#: Objects and lists within one another; instances need fewer than ten.
DEEPEST = 100

#: Whole numbers that are read: larger ones are no floats, which figures become.
LARGEST_WHOLE = 10**308
#: Bytes that are read at a time.
_CHUNK = 1_000_000

#: A JSON text as far as names are concerned: strings (with the colon that makes one a name) and brackets.
_JSON_NAMES = re.compile(r'("(?:[^"\\]|\\.)*")(\s*:)?|[{}]')

#: A number that YAML 1.1 takes for text, because it has no point or no sign in its exponent.
_YAML_EXPONENT = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)[eE][-+]?\d+$")

_TOO_DEEP = f"is nested too deeply; up to {DEEPEST} objects and lists within one another are read"


def read_data(path: Path, *, most_bytes: int | None = None) -> Any:  # noqa: ANN401 - whatever the file holds
    """Read a JSON or YAML file of so many bytes at most; standard input is JSON if it begins with a brace."""
    is_stdin = path == STDIN
    is_yaml = path.suffix.lower() in YAML_ENDINGS
    most = LARGEST_FILE if most_bytes is None else most_bytes
    text = read_text(path, most_bytes=min(LARGEST_YAML, most) if is_yaml or is_stdin else most)
    if is_stdin and not text.strip():
        raise DataError("-", "standard input is empty", "pipe an instance into it, as in `... | optplan solve -`")
    is_yaml = is_yaml or (is_stdin and not text.lstrip().startswith("{"))
    return parse_yaml(text, path.name) if is_yaml else parse_json(text, path.name)


def read_text(path: Path, *, most_bytes: int = LARGEST_FILE) -> str:
    """Read a text file, no further than it may be long."""
    try:
        content = bytearray()
        with _open(path) as file:
            while len(content) <= most_bytes and (more := file.read(_CHUNK)):  # devices and pipes have no size
                content += more
    except FileNotFoundError:
        fix = "check the path, or see `optplan list` for named instances"
        raise DataError(str(path), "no such file", fix) from None
    except (OSError, ValueError) as error:  # a path with a NUL in it is a ValueError
        why = error.strerror if isinstance(error, OSError) else error
        raise DataError(str(path), f"cannot be read ({why})", "a file that you may read is needed") from None
    if len(content) > most_bytes:
        problem = f"is larger than {most_bytes:,} bytes, which is what is read at most"
        raise DataError(str(path), problem, "is it the file that you mean? JSON may be ten times as large as YAML")
    try:
        return content.decode("utf-8-sig")  # some editors begin a file with a byte order mark
    except UnicodeDecodeError as error:
        raise DataError(path.name, f"is not UTF-8 (at byte {error.start})", "save it as UTF-8 text") from None


def _open(path: Path) -> AbstractContextManager[BinaryIO]:
    """Open a file for its bytes, or take standard input, which is not closed."""
    if path != STDIN:
        return path.open("rb")
    if sys.stdin is None:  # what Python makes of a descriptor that is closed
        raise OSError(errno.EBADF, "it is closed")
    return nullcontext(sys.stdin.buffer)


class _RepeatedNameError(Exception):
    """A name stands twice in one object."""


def parse_json(text: str, name: str) -> Any:  # noqa: ANN401 - whatever the file holds
    """Parse JSON into plain data, refusing duplicate names; ``name`` is what messages call it."""
    try:
        data = json.loads(text, object_pairs_hook=_unique_pairs)
    except _RepeatedNameError:
        key, line = _find_repeated_name(text)
        raise DataError(f"{name}:{line}", f"names {key!r} twice in one object", "rename or remove one") from None
    except json.JSONDecodeError as error:
        where = f"{name}:{error.lineno}"
        fix = "is the file cut short?"
        if not name.endswith(".json") and text.strip() and text.lstrip()[0] not in "{[":
            fix = "give JSON or YAML; `optplan import` makes an instance of other files, such as a log of jobs"
        raise DataError(where, f"is not JSON ({error.msg}, column {error.colno})", fix) from None
    except RecursionError:
        raise DataError(name, _TOO_DEEP, "is it an optplan file?") from None
    except ValueError as error:  # a whole number of thousands of digits
        raise DataError(name, f"is not JSON that can be read ({error})", "shorten the number") from None
    _require_plain(data, name)
    return data


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        raise _RepeatedNameError
    return unique


def _find_repeated_name(text: str) -> tuple[str, int]:
    """Return the first name that repeats one of its object, and its line: the parser knows neither."""
    seen: list[set[str]] = []
    for token in _JSON_NAMES.finditer(text):
        if token[0] == "{":
            seen.append(set())
        elif token[0] == "}":
            seen.pop()
        elif token[2]:
            key = json.loads(token[1])
            if key in seen[-1]:
                return key, text.count("\n", 0, token.start()) + 1
            seen[-1].add(key)
    raise ValueError("no name repeats")


def _require_plain(data: object, name: str) -> None:
    """Refuse what is nested too deeply, text that no file could hold, and numbers beyond floats; aliases count once."""
    level, seen = [data], set()
    for _ in range(DEEPEST + 1):
        inner: list[object] = []
        for value in level:
            if isinstance(value, dict | list | tuple | set):
                if id(value) not in seen:
                    seen.add(id(value))
                    inner += value
                    inner += value.values() if isinstance(value, dict) else ()
            elif isinstance(value, str) and not value.isascii():
                _require_unicode(value, name)
            elif isinstance(value, int) and abs(value) > LARGEST_WHOLE:
                problem = f"has the whole number {show_value(value)}; up to {float(LARGEST_WHOLE):g} are read"
                raise DataError(name, problem, "shorten it")
        if not inner:
            return
        level = inner
    raise DataError(name, _TOO_DEEP, "is it an optplan file?")


def require_json(data: object, path: str) -> None:
    """Refuse what JSON has no form for: numbers that are not finite, names that are not text, YAML's sets and bytes."""
    if isinstance(data, Mapping):
        for name, value in data.items():
            if not isinstance(name, str):
                raise DataError(path, f"has the name {show_value(name)}", "names are text; put it in quotes")
            require_json(value, f"{path}.{name}")
    elif isinstance(data, list):
        for place, value in enumerate(data):
            require_json(value, f"{path}.{place}")
    elif isinstance(data, float) and not math.isfinite(data):
        raise DataError(path, f"got {data!r}", "finite numbers are allowed; write it as text where it is a word")
    elif not (data is None or isinstance(data, str | int | float)):
        raise DataError(path, f"got {show_value(data)}", "numbers, text, lists and mappings are allowed")


def _require_unicode(text: str, name: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        problem = f"has the text {show_value(text)}, with half of a character (a lone surrogate)"
        raise DataError(name, problem, "write the character as such, in UTF-8") from None


def parse_yaml(text: str, name: str) -> Any:  # noqa: ANN401 - whatever the file holds
    """Parse YAML as :func:`parse_json` parses JSON; as there, 1e-3 is a number and a date is text."""
    import yaml  # read only for YAML files

    try:
        loader = _strict_loader()(text)
        loader.source_name = name
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            _require_size(node, name)
            data = loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{name}:{mark.line + 1}" if mark is not None else name
        raise DataError(where, f"is not YAML ({getattr(error, 'problem', error)})", "is the file cut short?") from None
    except RecursionError:
        raise DataError(name, _TOO_DEEP, "is it an optplan file?") from None
    except DataError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # What PyYAML raises for values that their tags do not fit, and for whole numbers of thousands of digits.
        raise DataError(name, f"has a value that YAML cannot read ({error})", "write it as plain text") from None
    _require_plain(data, name)
    return data


@cache
def _strict_loader() -> Any:  # noqa: ANN401 - PyYAML's own types
    """Make the loader. Not that of libyaml: deep nesting crashes the interpreter there."""
    import yaml

    class StrictLoader(yaml.SafeLoader):
        """Counts how deep it is, because PyYAML takes seconds for what is too deep."""

        source_name, depth = "", 0

        def compose_node(self, parent: Any, index: Any) -> Any:  # noqa: ANN401 - PyYAML's own types
            self.depth += 1
            if self.depth > DEEPEST + 1:  # the values within are a level of their own
                raise DataError(self.source_name, _TOO_DEEP, "is it an optplan file?")
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

    StrictLoader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    StrictLoader.add_implicit_resolver("tag:yaml.org,2002:float", _YAML_EXPONENT, list("-+.0123456789"))
    StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _build_mapping)
    return StrictLoader


def _build_mapping(loader: Any, node: Any) -> dict[Any, Any]:  # noqa: ANN401 - PyYAML's own types
    own: set[object] = set()
    for key_node, _ in node.value:
        if key_node.tag.endswith(":merge"):
            continue  # `<<` adds names, which the mapping's own ones may replace
        key = loader.construct_object(key_node, deep=True)
        where = f"{loader.source_name}:{key_node.start_mark.line + 1}"
        if not isinstance(key, Hashable):
            raise DataError(where, f"has the name {show_value(key)}", "names are text")
        if key in own:
            raise DataError(where, f"names {show_value(key)} twice in one object", "rename or remove one")
        own.add(key)
    loader.flatten_mapping(node)
    return {loader.construct_object(k, deep=True): loader.construct_object(v, deep=True) for k, v in node.value}


def _require_size(root: Any, name: str) -> None:  # noqa: ANN401 - PyYAML's own types
    """Refuse a tree that stands for too many values: an alias and a merge key count as all that they stand for."""
    measured: dict[int, tuple[int, int]] = {}

    def measure(node: Any) -> tuple[int, int]:  # noqa: ANN401 - PyYAML's own types
        """Return how many values a node stands for, and how deeply they are nested."""
        if id(node) not in measured:
            measured[id(node)] = 0, 0  # an alias within what it stands for, which PyYAML refuses when it builds
            parts = node.value if isinstance(node.value, list) else ()
            inner = [part for pair in parts for part in (pair if isinstance(pair, tuple) else (pair,))]
            found = [measure(part) for part in inner]
            height = 1 + max((height for _, height in found), default=0)
            if height > DEEPEST + 1:
                raise DataError(name, _TOO_DEEP, "is it an optplan file?")
            measured[id(node)] = 1 + sum(size for size, _ in found), height
        return measured[id(node)]

    size, _ = measure(root)
    if size > MOST_VALUES:
        problem = f"stands for {size:,} values with its aliases and merge keys; up to {MOST_VALUES:,} are read"
        raise DataError(name, problem, "write out what is meant, or leave aliases out")
