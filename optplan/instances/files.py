"""Reading and writing: instances (JSON or YAML), results and plans (JSON).

Readers refuse what they do not understand: unknown fields, duplicate names, unknown versions, truncated files. Writers
never overwrite unless told to, and never leave half a file.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from optplan.contracts import Instance, Plan, Result, Solution
from optplan.contracts.registry import load
from optplan.errors import DataError, OutputError, nearest_name_hint
from optplan.formulations import formulation_named, formulations
from optplan.schema import FrozenModel

_YAML_ENDINGS = (".yaml", ".yml")


def read_instance(name_or_path: str | Path) -> Instance:
    """Read an instance by its name in the library, or from a JSON or YAML file.

    Parameters
    ----------
    name_or_path
        A path (it ends in .json, .yaml or .yml, or has a folder in it), or a name such as ``boa-newtrace``.

    Returns
    -------
    Instance
        Validated.

    Raises
    ------
    DataError
        When there is no such name or file, or its content is not valid; the message names file, field and value.
    """
    from optplan.instances.library import build_named, names  # the library is read only when a name is asked for

    text = str(name_or_path)
    if isinstance(name_or_path, str) and not _looks_like_path(text):
        if text not in names():
            raise DataError("", f"no instance named {text!r} in the library", nearest_name_hint(text, names()))
        return build_named(text)
    return parse_instance(read_data(Path(text)), path=Path(text).name)


def parse_instance(data: object, *, path: str = "") -> Instance:
    """Build an instance from plain data.

    Parameters
    ----------
    data
        What a JSON or YAML reader returned.
    path
        File name for messages.

    Raises
    ------
    DataError
        When the data is not a valid instance.
    """
    if not isinstance(data, dict):
        raise DataError(path, f"holds {type(data).__name__}, not an instance", "an object with named fields is needed")
    name = data.get("formulation")
    if not isinstance(name, str):
        raise DataError(_within(path, "formulation"), "is missing", f"one of: {', '.join(formulations())}")
    instance: Instance = load(formulation_named(name).instance_type).parse(data, path=path)
    return instance


def read_result(path: Path | str) -> Result[Solution]:
    """Read a result written by :func:`write_json`.

    Raises
    ------
    DataError
        When the file cannot be read or is not a result.
    """
    data = read_data(Path(path))
    formulation = _formulation_in(data, Path(path).name, "a result")
    result: Result[Solution] = Result[load(formulation.solution_type)].parse(data, path=Path(path).name)  # type: ignore[misc]
    return result


def read_plan(path: Path | str) -> Plan:
    """Read a plan written by :func:`write_json`.

    Raises
    ------
    DataError
        When the file cannot be read or is not a plan, or its version is not understood.
    """
    data = read_data(Path(path))
    plan: Plan = load(_formulation_in(data, Path(path).name, "a plan").plan_type).parse(data, path=Path(path).name)
    return plan


def read_data(path: Path) -> Any:  # noqa: ANN401 - whatever the file holds
    """Read a JSON or YAML file into plain data, refusing duplicate names.

    Raises
    ------
    DataError
        When the file cannot be read, is not valid, or names a field twice.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataError(path.name, "no such file", "check the path, or see `optplan list` for named instances") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(path.name, f"cannot be read ({error})", "a UTF-8 text file is needed") from None
    return _parse_yaml(text, path.name) if path.suffix.lower() in _YAML_ENDINGS else _parse_json(text, path.name)


def write_json(record: FrozenModel, path: Path | str, *, overwrite: bool = False) -> None:
    """Write a record as JSON, whole or not at all.

    Parameters
    ----------
    record
        An instance, a result or a plan.
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
        fields = (f"{inner}{json.dumps(str(key))}: {format_json(value, indent + 1)}" for key, value in data.items())
        return "{\n" + ",\n".join(fields) + f"\n{margin}}}"
    if isinstance(data, list | tuple) and any(isinstance(item, dict | list | tuple) for item in data):
        return "[\n" + ",\n".join(inner + format_json(item, indent + 1) for item in data) + f"\n{margin}]"
    return json.dumps(data, allow_nan=False, ensure_ascii=False)


def write_text(text: str, path: Path | str, *, overwrite: bool = False) -> None:
    """Write a text file, whole or not at all; missing folders are made.

    Raises
    ------
    OutputError
        When the file exists and may not be replaced, or cannot be written.
    """
    path = Path(path)
    if path.exists() and not overwrite:
        message = f"{path} exists; give another path, or --force to replace it"
        raise OutputError(message)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            Path(scratch).chmod(0o644)
            Path(scratch).replace(path)
        except BaseException:
            Path(scratch).unlink(missing_ok=True)
            raise
    except OSError as error:
        message = f"{path} cannot be written ({error.strerror or error}); give another path"
        raise OutputError(message) from None


def _looks_like_path(text: str) -> bool:
    return "/" in text or os.sep in text or text.lower().endswith((".json", *_YAML_ENDINGS))


def _within(path: str, field: str) -> str:
    return f"{path}.{field}" if path else field


def _formulation_in(data: Any, name: str, what: str) -> Any:  # noqa: ANN401 - data of any shape comes in
    if not isinstance(data, dict) or not isinstance(data.get("formulation"), str):
        raise DataError(name, f"is not {what} of optplan", "it needs the field 'formulation'")
    return formulation_named(data["formulation"])


def _parse_json(text: str, name: str) -> Any:  # noqa: ANN401 - whatever the file holds
    try:
        return json.loads(text, object_pairs_hook=_unique_pairs(name))
    except json.JSONDecodeError as error:
        raise DataError(
            f"{name}:{error.lineno}", f"is not JSON ({error.msg}, column {error.colno})", "is the file cut short?"
        ) from None


def _unique_pairs(name: str) -> Callable[[list[tuple[str, Any]]], dict[str, Any]]:
    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in pairs:
            if key in result:
                raise DataError(name, f"names {key!r} twice in one object", "rename or remove one")
            result[key] = value
        return result

    return build


def _parse_yaml(text: str, name: str) -> Any:  # noqa: ANN401 - whatever the file holds
    import yaml  # read only for YAML files

    class UniqueLoader(yaml.SafeLoader):  # type: ignore[misc, name-defined]
        """A safe loader that refuses a key given twice, which YAML would quietly overwrite."""

    def build(loader: Any, node: Any) -> dict[Any, Any]:  # noqa: ANN401 - PyYAML's own types
        loader.flatten_mapping(node)
        result: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = loader.construct_object(key_node, deep=True)
            if key in result:
                line = key_node.start_mark.line + 1
                raise DataError(f"{name}:{line}", f"names {key!r} twice in one object", "rename or remove one")
            result[key] = loader.construct_object(value_node, deep=True)
        return result

    UniqueLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, build)
    try:
        return yaml.load(text, Loader=UniqueLoader)  # noqa: S506 - a subclass of the safe loader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{name}:{mark.line + 1}" if mark is not None else name
        raise DataError(where, f"is not YAML ({getattr(error, 'problem', error)})", "is the file cut short?") from None
