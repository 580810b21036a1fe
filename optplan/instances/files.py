"""Reading and writing: instances (JSON or YAML), results, plans and what is said about them (JSON).

Readers refuse what they do not understand: unknown fields, duplicate names, unknown versions, truncated files. Writers
never overwrite unless told to, and never leave half a file.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Hashable
from pathlib import Path
from typing import Any, get_args

from optplan.contracts import Explanation, Instance, Plan, Result, Sensitivity, Solution
from optplan.contracts.registry import Formulation, load
from optplan.errors import DataError, OutputError, UsageError, nearest_name_hint, show_value
from optplan.formulations import formulations
from optplan.schema import FrozenModel

_YAML_ENDINGS = (".yaml", ".yml")

#: What is made for an instance, each with a field that no other kind of file has.
_MADE_KINDS = {
    "a result": "termination",
    "a plan": "steps",
    "an explanation": "choices",
    "a sensitivity": "plans",
    "a frontier": "points",
}

#: A JSON text as far as names are concerned: strings (with the colon that makes one a name) and brackets.
_JSON_NAMES = re.compile(r'("(?:[^"\\]|\\.)*")(\s*:)?|[{}]')

#: A number that YAML 1.1 takes for text, because it has no point or no sign in its exponent.
_YAML_EXPONENT = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)[eE][-+]?\d+")


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
    UsageError
        When it is neither.
    """
    from optplan.instances.library import build_named, names  # the library is read only when a name is asked for

    _require_path(name_or_path)
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
    fields, formulation = _take_apart(data, path, "an instance")
    instance: Instance = _parse_versioned(load(formulation.instance_type), fields, path)
    return instance


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
    name = Path(path).name
    fields, formulation = _take_apart(read_data(Path(path)), name, "a result")
    result: Result[Solution] = _parse_versioned(formulation.result_type(), fields, name)
    return result


def read_plan(path: Path | str) -> Plan:
    """Read a plan written by :func:`write_json`.

    Raises
    ------
    DataError
        When the file cannot be read or is not a plan, or its version is not understood.
    UsageError
        When the path is none.
    """
    _require_path(path)
    name = Path(path).name
    fields, formulation = _take_apart(read_data(Path(path)), name, "a plan")
    plan: Plan = _parse_versioned(load(formulation.plan_type), fields, name)
    return plan


def read_explanation(path: Path | str) -> Explanation:
    """Read an explanation written by :func:`write_json`.

    Raises
    ------
    DataError
        When the file cannot be read or is not an explanation, or its version is not understood.
    UsageError
        When the path is none.
    """
    _require_path(path)
    name = Path(path).name
    fields, _ = _take_apart(read_data(Path(path)), name, "an explanation")
    explanation: Explanation = _parse_versioned(Explanation, fields, name)
    return explanation


def read_sensitivity(path: Path | str) -> Sensitivity:
    """Read a sensitivity written by :func:`write_json`, its plans with solutions of their formulation's type.

    Raises
    ------
    DataError
        When the file cannot be read or is not a sensitivity, or its version is not understood.
    UnsupportedError
        When its formulation has none.
    UsageError
        When the path is none.
    """
    _require_path(path)
    name = Path(path).name
    fields, formulation = _take_apart(read_data(Path(path)), name, "a sensitivity")
    formulation.loaded("analyse_sensitivity")  # refuses formulations that have none
    sensitivity: Sensitivity = _parse_versioned(load(formulation.sensitivity_type), fields, name)
    return sensitivity


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
    if isinstance(name_or_path, str) and not _looks_like_path(name_or_path):
        return read_instance(name_or_path)
    path = Path(name_or_path)
    data = read_data(path)
    fields, formulation = _take_apart(data, path.name, "an instance, a result or a plan")
    if "instance_hash" not in fields:  # what is made for an instance names it
        return parse_instance(data, path=path.name)
    model = load(formulation.plan_type) if "steps" in fields else formulation.result_type()
    record: Result[Solution] | Plan = _parse_versioned(model, fields, path.name)
    return record


def read_data(path: Path) -> Any:  # noqa: ANN401 - whatever the file holds
    """Read a JSON or YAML file into plain data, refusing duplicate names.

    Raises
    ------
    DataError
        When the file cannot be read, is not valid, or names a field twice.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors begin a file with a byte order mark
    except FileNotFoundError:
        fix = "check the path, or see `optplan list` for named instances"
        raise DataError(str(path), "no such file", fix) from None
    except OSError as error:
        raise DataError(str(path), f"cannot be read ({error.strerror})", "a file that you may read is needed") from None
    except UnicodeDecodeError as error:
        raise DataError(path.name, f"is not UTF-8 (at byte {error.start})", "save it as UTF-8 text") from None
    return _parse_yaml(text, path.name) if path.suffix.lower() in _YAML_ENDINGS else _parse_json(text, path.name)


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


def write_text(text: str, path: Path | str, *, overwrite: bool = False) -> None:
    """Write a text file, whole or not at all; missing folders are made.

    Raises
    ------
    OutputError
        When the file exists and may not be replaced, or cannot be written.
    """
    _require_path(path)
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
    except (OSError, UnicodeEncodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        message = f"{path} cannot be written ({why or error}); give another path"
        raise OutputError(message) from None


def _require_path(path: object) -> None:
    if not isinstance(path, str | os.PathLike):
        message = f"path: got {show_value(path)}; the path of a file is needed, such as 'result.json'"
        raise UsageError(message)


def _looks_like_path(text: str) -> bool:
    return "/" in text or os.sep in text or text.lower().endswith((".json", *_YAML_ENDINGS))


def _take_apart(data: object, path: str, what: str) -> tuple[dict[str, Any], Formulation]:
    """Return a file's fields and the formulation that they name."""
    if not isinstance(data, dict):
        raise DataError(path, f"holds {type(data).__name__}, not {what}", "an object with named fields is needed")
    _require_kind(data, path, what)
    known = formulations()
    name = data.get("formulation")
    if isinstance(name, str) and name in known:
        return data, known[name]
    field = f"{path}.formulation" if path else "formulation"
    if "formulation" not in data:
        raise DataError(field, "is missing", f"{what} names one of: {', '.join(known)}")
    raise DataError(field, f"got {name!r}", nearest_name_hint(str(name), known))


def _require_kind(fields: dict[str, Any], path: str, what: str) -> None:
    """Refuse another kind of file by its kind, instead of by the first field that does not fit."""
    made = [kind for kind, field in _MADE_KINDS.items() if field in fields]
    if "instance_hash" in fields:
        if len(made) == 1 and made[0] not in what:
            known = f", such as the one it was made for, {fields.get('instance_name')!r}" if "instance" in what else ""
            raise DataError(path, f"is {made[0]}, not {what}", f"give {what}{known}")
    elif not made and "name" in fields and "instance" not in what:  # only instances have a name of their own
        raise DataError(path, f"is an instance, not {what}", f"give {what}")


def _parse_versioned(model: type[FrozenModel], fields: dict[str, Any], path: str) -> Any:  # noqa: ANN401 - of that type
    """Parse after a look at the version: what another version added would read like a misspelt field."""
    understood = get_args(model.model_fields["version"].annotation)
    version = fields.get("version", understood[-1])
    if version not in understood or isinstance(version, bool):
        field = f"{path}.version" if path else "version"
        numbers = ", ".join(str(number) for number in understood)
        raise DataError(field, f"got {version!r}; understood: {numbers}", "use the release of optplan that wrote it")
    return model.parse(fields, path=path)


class _RepeatedNameError(Exception):
    """A name stands twice in one object."""


def _parse_json(text: str, name: str) -> Any:  # noqa: ANN401 - whatever the file holds
    try:
        return json.loads(text, object_pairs_hook=_unique_pairs)
    except _RepeatedNameError:
        key, line = _find_repeated_name(text)
        raise DataError(f"{name}:{line}", f"names {key!r} twice in one object", "rename or remove one") from None
    except json.JSONDecodeError as error:
        where = f"{name}:{error.lineno}"
        raise DataError(where, f"is not JSON ({error.msg}, column {error.colno})", "is the file cut short?") from None
    except RecursionError:
        raise DataError(name, "is nested too deeply", "is it an optplan file?") from None
    except ValueError as error:  # a whole number of thousands of digits
        raise DataError(name, f"is not JSON that can be read ({error})", "shorten the number") from None


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
    message = "no name repeats"
    raise ValueError(message)


def _parse_yaml(text: str, name: str) -> Any:  # noqa: ANN401 - whatever the file holds
    import yaml  # read only for YAML files

    # As in JSON, 1e-3 is a number and a date is text. Not the loader of libyaml: deep nesting crashes the interpreter.
    known = {
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    strict_loader: Any = type("StrictLoader", (yaml.SafeLoader,), {"yaml_implicit_resolvers": known})
    strict_loader.add_implicit_resolver("tag:yaml.org,2002:float", _YAML_EXPONENT, list("-+.0123456789"))

    def build(loader: Any, node: Any) -> dict[Any, Any]:  # noqa: ANN401 - PyYAML's own types
        own: set[object] = set()
        for key_node, _ in node.value:
            if key_node.tag.endswith(":merge"):
                continue  # `<<` adds names, which the mapping's own ones may replace
            key = loader.construct_object(key_node, deep=True)
            where = f"{name}:{key_node.start_mark.line + 1}"
            if not isinstance(key, Hashable):
                raise DataError(where, f"has the name {key!r}", "names are text")
            if key in own:
                raise DataError(where, f"names {key!r} twice in one object", "rename or remove one")
            own.add(key)
        loader.flatten_mapping(node)
        return {loader.construct_object(k, deep=True): loader.construct_object(v, deep=True) for k, v in node.value}

    strict_loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, build)
    try:
        return yaml.load(text, Loader=strict_loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{name}:{mark.line + 1}" if mark is not None else name
        raise DataError(where, f"is not YAML ({getattr(error, 'problem', error)})", "is the file cut short?") from None
    except RecursionError:
        raise DataError(name, "is nested too deeply", "is it an optplan file?") from None
