"""What pydantic found wrong, told as users need it: the path, the value, what is allowed and what to do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from optplan.errors import FILE_ENDINGS, DataError, name_field, nearest_name_hint, show_value

#: Characters of a name for which a similar one is looked for.
_LONGEST_NAME = 200
#: Fields by which the members of a union are told apart.
_TAGS = ("form", "when")

#: Where pydantic's context holds the names that are allowed, by its kinds of error about one that is not.
_CHOICES = {"union_tag_invalid": "expected_tags", "enum": "expected", "literal_error": "expected"}


def translate_validation_error(error: ValidationError, model: type[BaseModel], prefix: str = "") -> DataError:
    """Turn pydantic's error into one about its first problem, at a path below ``prefix``, with the number of others."""
    problems = error.errors(include_url=False)
    # Unknown names come first: a misspelt field also shows up as a missing one, and the spelling is the cause.
    first = next((p for p in problems if p["type"] == "extra_forbidden"), problems[0])
    location, owner = _walk(model, first["loc"])
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, DataError):  # raised by a validator that knows where in its record the problem is
        location, problem, fix = [*location, *filter(None, [cause.path])], cause.problem, cause.fix
    else:
        problem, fix = _describe(dict(first), owner)
    if first["type"] in ("union_tag_invalid", "union_tag_not_found"):  # told of the record that lacks a known form
        location = [*location, first["ctx"]["discriminator"].strip("'")]
    path = name_field(prefix, *location)
    others = len(problems) - 1
    if others:
        fix = f"{fix} ({others} more to mend)" if fix else f"{others} more to mend"
    return DataError(path, problem, fix)


def _describe(problem: dict[str, Any], owner: type[BaseModel] | None) -> tuple[str, str]:
    kind, value = problem["type"], problem.get("input")
    if kind == "extra_forbidden":
        known = list(owner.model_fields) if owner is not None else []
        name = str(problem["loc"][-1])
        return f"unknown field {name!r}", nearest_name_hint(name, known)
    if kind in ("missing", "union_tag_not_found"):
        return "is missing", "add it"
    if kind == "value_error":
        return str(problem["ctx"]["error"]), ""
    if kind in ("model_type", "model_attributes_type"):
        is_file = isinstance(value, str) and value.lower().endswith(FILE_ENDINGS)
        fix = "files do not read others: write its content here" if is_file else ""
        return f"got {show_value(value)}; an object with named fields is needed", fix
    if kind in _CHOICES:
        given = problem["ctx"].get("tag", value)
        return _describe_choice(given, str(problem["ctx"][_CHOICES[kind]]))
    return f"got {show_value(value)}; {problem['msg'][0].lower()}{problem['msg'][1:]}", ""


def _describe_choice(given: object, listed: str) -> tuple[str, str]:
    """Say which names, or other values, are allowed, and which of them is the nearest."""
    names = re.findall("'([^']*)'", listed)
    close = get_close_matches(str(given)[:_LONGEST_NAME], names, n=1)
    allowed = ", ".join(names) or listed
    return f"got {show_value(given)}; allowed: {allowed}", f"did you mean {close[0]!r}?" if close else ""


def _walk(model: type[BaseModel], location: Sequence[int | str]) -> tuple[list[str], type[BaseModel] | None]:
    """Follow a location through the annotations: return the path as users write it, and the record at its end."""
    # Pydantic mixes the names of union members into the location.
    path: list[str] = []
    annotation: object = model
    owner: type[BaseModel] | None = None
    for part in location:
        member = _union_member(annotation, part)
        if member is not None:
            annotation = member
            continue
        path.append(str(part))
        members = list_members(annotation)
        annotation = members[0] if len(members) == 1 else None
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            owner = annotation
            field = annotation.model_fields.get(str(part))
            annotation = field.annotation if field is not None else None
        else:
            arguments = get_args(annotation)
            annotation = arguments[-1] if get_origin(annotation) is dict else next(iter(arguments), None)
    return path, owner


def list_members(annotation: object) -> list[object]:
    """List what an annotation allows besides None; a single type is its own only member."""
    if get_origin(annotation) is Annotated:
        return list_members(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return [member for part in get_args(annotation) if part is not type(None) for member in list_members(part)]
    return [annotation]


def _union_member(annotation: object, part: int | str) -> object | None:
    """Return the union member that a location part names, by its tag or its class."""
    members = list_members(annotation)
    if len(members) < 2:
        return None
    for member in members:
        fields = member.model_fields if isinstance(member, type) and issubclass(member, BaseModel) else {}
        tags = [fields[name].default for name in _TAGS if name in fields]
        if part in (getattr(member, "__name__", None), *tags):
            return member
    # Function validators and containers have descriptive names such as ``list[float]``: not the user's either.
    return object if isinstance(part, str) and "[" in part else None
