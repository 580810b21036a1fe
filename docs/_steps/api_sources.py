"""Prepares the sources that mkdocstrings makes the API page of.

pydantic makes the ``__init__`` of frozen records at run time: their fields are made its parameters here. What stands
behind or above a field of a record or a dataclass after ``#:`` is made its description. In docstrings, roles such as
``:func:`solve``` become plain code, because the page is Markdown, and names that are described together are taken
apart, because griffe would give all of them the type of the first.
"""

from __future__ import annotations

import re
from typing import Any

from griffe import (
    Attribute,
    Class,
    Expr,
    ExprBinOp,
    ExprCall,
    ExprKeyword,
    ExprSubscript,
    ExprTuple,
    Extension,
    Function,
    Module,
    Object,
    Parameter,
    ParameterKind,
    Parameters,
)

#: Every record inherits from it.
RECORD = "optplan.schema.FrozenModel"
_ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):`(?:~[\w.]*\.)?([^`]+)`")

#: What is said of a field, and of which others above which it stands.
_SAID = re.compile(r"#: (?P<text>.*)")
_OF_SEVERAL = re.compile(r"(?P<names>\w+(?:, \w+)+): (?P<text>.*)")
_TOGETHER = re.compile(r"^(?P<names>\w+(?:, \w+)+)\n(?P<text>(?: +.*(?:\n|\Z))+)", re.MULTILINE)


class ApiSources(Extension):
    """Gives every frozen record the ``__init__`` that pydantic makes for it, and every docstring plain names."""

    def on_object(self, *, obj: Object, **_: Any) -> None:  # noqa: ANN401 - whatever griffe adds
        """Prepare a docstring."""
        if obj.docstring is not None:
            obj.docstring.value = _prepare(obj.docstring.value)

    def on_package(self, *, pkg: Module, **_: Any) -> None:  # noqa: ANN401 - whatever griffe adds
        """Complete the classes of a package once all of it is loaded."""
        for found in _classes(pkg):
            bases = [found, *found.mro()]
            is_record = any(base.path == RECORD for base in bases[1:])
            if found.docstring is not None and (is_record or "dataclass" in found.labels):
                said = _describe_fields(found)
                found.docstring.value += f"\n\nParameters\n----------\n{_prepare(said)}" if said else ""
            if is_record:
                fields = {name: field for base in reversed(bases) for name, field in _fields(base).items()}
                parameters = Parameters(*(_parameter(name, field) for name, field in fields.items()))
                found.set_member("__init__", Function("__init__", parent=found, parameters=parameters))


def _prepare(text: str) -> str:
    return _TOGETHER.sub(_take_apart, _ROLE.sub(r"`\1`", text))


def _describe_fields(record: Class) -> str:
    """Write what is said of the fields of a class as entries of a section."""
    lines, entries = record.lines_collection[record.filepath], []
    for name, field in _fields(record).items():
        first, last = field.lineno or 1, field.endlineno or 1
        said, above = _SAID.search(lines[last - 1]), first - 2
        texts = [said["text"]] if said else []
        while not said and (comment := _SAID.fullmatch(lines[above].strip())):
            texts.insert(0, comment["text"])
            above -= 1
        if texts:
            several = _OF_SEVERAL.fullmatch(" ".join(texts))
            names, text = several.group("names", "text") if several else (name, " ".join(texts))
            entries.append(f"{names}\n    {text}\n")
    return "".join(entries)


def _take_apart(item: re.Match[str]) -> str:
    text = item["text"].rstrip("\n")
    return "".join(f"{name}\n{text}\n" for name in item["names"].split(", "))


def _classes(module: Module) -> list[Class]:
    own = [member for member in module.members.values() if not member.is_alias]
    deeper = [found for member in own if isinstance(member, Module) for found in _classes(member)]
    return [member for member in own if isinstance(member, Class)] + deeper


def _fields(record: Class) -> dict[str, Attribute]:
    return {
        name: member
        for name, member in record.members.items()
        if isinstance(member, Attribute)
        and member.annotation is not None
        and not name.startswith("_")
        and name != "model_config"
        and "property" not in member.labels
        and ("class-attribute" not in member.labels or "instance-attribute" in member.labels)  # no ClassVar
    }


def _parameter(name: str, field: Attribute) -> Parameter:
    return Parameter(
        name, annotation=_bare(field.annotation), kind=ParameterKind.keyword_only, default=_default(field.value)
    )


def _bare(annotation: str | Expr | None) -> str | Expr | None:
    """Take ``Annotated`` and ``Takes`` away wherever they stand: other arguments are for pydantic and type checkers."""
    if isinstance(annotation, ExprSubscript):
        if str(annotation.left) in ("Annotated", "Takes"):
            inner = annotation.slice
            return _bare(inner.elements[0] if isinstance(inner, ExprTuple) else inner)
        annotation.slice = _bare(annotation.slice) or ""
    elif isinstance(annotation, ExprTuple):
        annotation.elements = [_bare(element) or "" for element in annotation.elements]
    elif isinstance(annotation, ExprBinOp):
        annotation.left, annotation.right = _bare(annotation.left) or "", _bare(annotation.right) or ""
    return annotation


def _default(value: str | Expr | None) -> str | Expr | None:
    if isinstance(value, ExprCall) and str(value.function) == "usual":
        return _default(value.arguments[0])
    if isinstance(value, ExprCall) and str(value.function) == "Field":
        arguments = {argument.name: argument.value for argument in value.arguments if isinstance(argument, ExprKeyword)}
        made = arguments.get("default_factory")
        return f"{made}()" if made is not None else arguments.get("default")
    return value
