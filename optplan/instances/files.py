"""Readers, which refuse what they do not understand, and writers, which never overwrite unless told to."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, cast

from optplan.contracts import Instance, Result, Solution
from optplan.errors import OutputError, UsageError, show_value
from optplan.instances.parsing import parse_instance, parse_plan, parse_record, parse_result
from optplan.instances.plain_data import STDIN, read_data
from optplan.schema import FrozenModel

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from optplan.contracts import Plan

    InstanceT = TypeVar("InstanceT", bound=Instance, default=Instance)
    PlanT = TypeVar("PlanT", bound=Plan, default=Plan)
    RecordT = TypeVar("RecordT", bound=FrozenModel)

#: Bytes of a result: what is written of the largest ones has a tenth of that.
LARGEST_RESULT = 10_000_000


def read_instance(name_or_path: str | Path, kind: type[InstanceT] | None = None) -> InstanceT:
    """Read an instance by its name in the library, or from a JSON or YAML file.

    Parameters
    ----------
    name_or_path
        A path (it has an ending or a folder in it, as no name has; ``-`` is standard input), or a name such as
        ``boa-newtrace``.
    kind
        Of which class it has to be, such as ``optplan.BoaInstance``; type checkers take it for one, then.

    Returns
    -------
    Instance
        Validated.

    Raises
    ------
    DataError
        When there is no such name or file, or its content is not valid; the message names file, field and value.
    UsageError
        When it is neither, or an instance of another kind.
    """
    from optplan.instances.library import build_named  # the library is read only when a name is asked for

    _require_path(name_or_path)
    path = Path(name_or_path)
    if isinstance(name_or_path, str) and not is_path(name_or_path):
        instance = build_named(name_or_path)
    else:
        instance = parse_instance(read_data(path), path=path.name)
    return _require_type(instance, kind, name_or_path)


def read_result(path: Path | str) -> Result[Solution]:
    """Read a result written by :func:`write_json`.

    Raises
    ------
    DataError
        When the file cannot be read or is not a result, or its version is not understood.
    UsageError
        When the path is none.
    """
    _require_path(path)
    return parse_result(read_data(Path(path), most_bytes=LARGEST_RESULT), path=Path(path).name)


def read_plan(path: Path | str, kind: type[PlanT] | None = None) -> PlanT:
    """Read a plan written by :func:`write_json`.

    Parameters
    ----------
    path
        Where from.
    kind
        Of which class it has to be, such as ``optplan.BoaPlan``; type checkers take it for one, then.

    Raises
    ------
    DataError
        When the file cannot be read or is not a plan, or its version is not understood.
    UsageError
        When the path is none, or the plan of another kind.
    """
    from optplan.instances.library import names  # the library is read only when a plan is asked for

    _require_path(path)
    if str(path) in names() and not Path(path).exists():
        made = f"`optplan solve {path} --plan plan.json` makes one"
        raise UsageError(f"{path}: is an instance, and a plan is needed; {made}")
    return _require_type(parse_plan(read_data(Path(path)), path=Path(path).name), kind, path)


def read_record(name_or_path: str | Path) -> Instance | Result[Solution] | Plan:
    """Read an instance, a result or a plan, whichever the name or the file is.

    Parameters
    ----------
    name_or_path
        As in :func:`read_instance`, or a file that :func:`write_json` wrote.

    Raises
    ------
    DataError
        When there is no such name or file, or its content is not valid.
    UsageError
        When it is neither.
    """
    _require_path(name_or_path)
    if isinstance(name_or_path, str) and not is_path(name_or_path):
        return read_instance(name_or_path)
    path = Path(name_or_path)
    return parse_record(read_data(path), path=path.name)


def write_json(record: FrozenModel, path: Path | str, *, overwrite: bool = False) -> None:
    """Write a record as JSON, whole or not at all.

    Parameters
    ----------
    record
        An instance, a result, a plan, an explanation or a sensitivity.
    path
        Where to.
    overwrite
        Whether a file that exists may be replaced.

    Raises
    ------
    OutputError
        When the file exists and may not be replaced, or cannot be written.
    """
    write_text(format_json(record.to_json_data()) + "\n", path, overwrite=overwrite)


def format_json(data: object, indent: int = 0) -> str:
    """Write plain data as JSON for readers: an object's fields one to a line, a row of numbers on one line."""
    margin, inner = " " * indent, " " * (indent + 1)
    if isinstance(data, dict) and data:
        names = (json.dumps(str(key), ensure_ascii=False) for key in data)
        fields = (f"{inner}{n}: {format_json(v, indent + 1)}" for n, v in zip(names, data.values(), strict=True))
        return "{\n" + ",\n".join(fields) + f"\n{margin}}}"
    if isinstance(data, list | tuple) and any(isinstance(item, dict | list | tuple) for item in data):
        return "[\n" + ",\n".join(inner + format_json(item, indent + 1) for item in data) + f"\n{margin}]"
    return json.dumps(data, allow_nan=False, ensure_ascii=False)


def write_text(text: str | bytes, path: Path | str, *, overwrite: bool = False) -> None:
    """Write a file of text, or of bytes, whole or not at all; missing folders are made."""
    _require_path(path)
    target = require_target(Path(path), overwrite=overwrite)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = target.with_name(f".{os.urandom(8).hex()}.part")
        handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)  # less what the umask takes away
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(text.encode("utf-8") if isinstance(text, str) else text)
            if target.exists():
                scratch.chmod(stat.S_IMODE(target.stat().st_mode))
            scratch.replace(target)
        except BaseException:
            scratch.unlink(missing_ok=True)
            raise
    except (OSError, UnicodeEncodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise OutputError(f"{path} cannot be written ({why or error}); give another path") from None


def require_target(path: Path, *, overwrite: bool, what: str = "") -> Path:
    """Return the file that a path, ``what`` in messages, leads to, links followed, when it may be written."""
    # Only regular files are ever replaced: replacing a device or a pipe would remove it, and not write to it.
    said = f"{what}: {path}" if what else str(path)
    try:
        target = path.resolve()
        mode = target.stat().st_mode
    except FileNotFoundError:
        return target
    except (OSError, RuntimeError, ValueError) as error:  # links in a circle, and a NUL in the path
        why = getattr(error, "strerror", None) or error
        raise OutputError(f"{said} cannot be written ({why}); give another path") from None
    if not overwrite:
        raise OutputError(f"{said} exists; give another path, or --force to replace it")
    if stat.S_ISDIR(mode):
        raise OutputError(f"{said} cannot be written (Is a directory); give another path")
    if not stat.S_ISREG(mode):
        message = f"{said} is a device, a pipe or a socket, and only regular files are replaced; give another path"
        raise OutputError(message)
    return target


def _require_type(record: FrozenModel, kind: type[RecordT] | None, path: str | Path) -> RecordT:
    if kind is not None and not isinstance(record, kind):
        raise UsageError(f"{path} is a {type(record).__name__}; a {kind.__name__} is needed")
    return cast("RecordT", record)


def _require_path(path: object) -> None:
    if not isinstance(path, str | os.PathLike):
        raise UsageError(f"path: got {show_value(path)}; the path of a file is needed, such as 'result.json'")


def is_path(text: str) -> bool:
    """Whether a text names a file or standard input, and no instance of the library."""
    return text == str(STDIN) or "/" in text or os.sep in text or "." in text
