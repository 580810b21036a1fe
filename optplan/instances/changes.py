"""What if: changes of an instance written as text, such as ``classes.bert.arrival_rate*=1.5``.

A change is a path, an operator and a value. The parts of a path are separated by dots. A part that is a field may be
written without its unit (``price`` for ``price_usd_per_hour``) or as any other beginning that fits one field only. A
part that is a name of the user's, such as that of a class, is written in full, in quotes if it has a dot; ``*`` stands
for every name. Values are read as in a YAML file. ``=`` sets a value and ``=null`` removes it; ``*=``, ``+=``, ``-=``
and ``/=`` calculate with the one that is there: with numbers, with each number of a list, and with amounts such as
``120gpu``, which keep their unit.
"""

from __future__ import annotations

import json
import operator
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel

from optplan.complaints import list_members
from optplan.contracts import Instance, Result, Solution
from optplan.contracts.instance import CHANGES
from optplan.errors import DataError, DataWarning, UsageError, nearest_name_hint, show_value
from optplan.instances.plain_data import parse_yaml
from optplan.units import Amount, parse_budget

InstanceT = TypeVar("InstanceT", bound=Instance)

_EVERY_NAME = "*"
_PART = r"""(?:"[^"]+"|'[^']+'|[^.="']+?)"""
_CHANGE = re.compile(rf"(?P<path>{_PART}(?:\.{_PART})*?)(?P<operator>[*+/-]?=)(?P<value>.*)", re.DOTALL)
_EXAMPLES = "classes.bert.arrival_rate*=1.5 or budget=150gpu"

_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "*=": operator.mul,
    "+=": operator.add,
    "-=": operator.sub,
    "/=": operator.truediv,
}

#: Words of which the units at the end of field names are made.
_UNIT_WORDS = frozenset({"s", "h", "hour", "hours", "usd", "gpu", "gpus", "per"})


@dataclass(frozen=True)
class Change:
    """One change of an instance, with the user's text."""

    text: str
    path: tuple[str | None, ...]  #: None stands for every name.
    operator: str
    value: Any  #: None, with ``=``, removes.


@dataclass(frozen=True)
class _Names:
    """A mapping by names of the user's; all values are of one type."""

    value_type: object


@dataclass(frozen=True)
class _Place:
    """Where a value stands: who holds it, as plain data and as a type, and under which name."""

    holder: dict[str, Any]
    kind: type[BaseModel] | _Names
    name: str
    path: str

    @property
    def value_type(self) -> object:
        """What may stand there."""
        return self.kind.value_type if isinstance(self.kind, _Names) else self.kind.model_fields[self.name].annotation


def parse_change(text: str, *, what: str = "change") -> Change:
    """Read a change; names with a dot, ``=`` or a quote, or that end in an operator's sign, stand in other quotes."""
    match = _CHANGE.fullmatch(text)
    if match is None:
        message = f"{what}: cannot read {show_value(text)}; write a path, an operator and a value, as in {_EXAMPLES}"
        raise UsageError(message)
    if not match["value"].strip():
        raise UsageError(f"{what}: {text!r} has no value; give one, as in {_EXAMPLES}, or null to remove what is there")
    try:
        value = parse_yaml(match["value"], "value")
    except DataError as error:
        raise UsageError(f"{what}: the value of {text!r} {error.problem}; write it as in a YAML file") from None
    parts = [part.strip() for part in re.findall(_PART + r"(?=\.|$)", match["path"])]
    bare = [part[1:-1] if part[:1] in ("'", '"') else part for part in parts]
    path = tuple(None if part == _EVERY_NAME else name for part, name in zip(parts, bare, strict=True))
    if not all(part is None or part for part in path):
        raise UsageError(f"{what}: {text!r} has an empty part in its path; write it as in {_EXAMPLES}")
    return Change(text=text, path=path, operator=match["operator"], value=value)


def apply_changes(instance: InstanceT, changes: Sequence[Change], *, what: str = "change") -> InstanceT:
    """Change an instance's data, defaults included, one change after the other; validate the outcome like a file."""
    # It keeps its name, and ``source["changes"]`` says what was changed; so does the source of a figure that has one of
    # its own, such as a price.
    if not changes:
        return instance
    data = _change_data(instance, changes, what)
    try:
        changed = type(instance).parse(data)
    except DataError as error:
        culprit = _find_culprit(instance, changes, what, error)
        said = f"{what} {culprit.text!r} led to this"
        raise DataError(error.path, error.problem, f"{error.fix} ({said})" if error.fix else said) from None
    for change in changes:
        _require_effect(changed, change)
    return changed


def _require_effect(changed: Instance, change: Change) -> None:
    """Say that a field is not that of records with one of their own: `widths` of classes; refuse it where all have."""
    field = _find_field(str(change.path[0]), list(type(changed).model_fields), "the instance")
    for holder in type(changed).model_fields:
        records = getattr(changed, holder)
        if not isinstance(records, Mapping) or change.value is None:
            continue
        own = [name for name, record in records.items() if getattr(record, field, None) is not None]
        fix = f"change theirs, as in '{holder}.*.{change.text.strip()}'"
        if own and len(own) == len(records):
            raise UsageError(f"{field}: all {holder} have {field} of their own, so this changes nothing; {fix}")
        if own:
            message = f"{field}: not those of {', '.join(map(repr, own))}, which have {field} of their own; {fix}"
            warnings.warn(message, DataWarning, stacklevel=4)


def write_change(path: str, value: object) -> str:
    """Write the change that sets a value, as :func:`parse_change` reads it."""
    text = value if isinstance(value, str) else ""
    try:
        means_itself = bool(text.strip()) and parse_yaml(text, "value") == text
    except DataError:
        means_itself = False
    return f"{path}={text if means_itself else json.dumps(value)}"


def restore_changes(instance: InstanceT, result: Result[Solution]) -> InstanceT:
    """Make the changes that a result says were made in an instance, where that gives the one it solves."""
    if instance.content_hash() == result.instance_hash or not result.changes:
        return instance
    try:
        changed = apply_changes(instance, [parse_change(text) for text in result.changes])
    except (DataError, UsageError):  # of another instance, or not written by optplan
        return instance
    return changed if changed.content_hash() == result.instance_hash else instance


def _change_data(instance: Instance, changes: Sequence[Change], what: str) -> dict[str, Any]:
    data = instance.to_json_data()
    for change in changes:
        try:
            # Found before anything is changed: removing names would disturb the search.
            for place in list(_find_places(type(instance), data, change)):
                _change_place(place, change)
        except UsageError as error:
            raise UsageError(f"{what} {change.text!r}: {error}") from None
    source = data.setdefault("source", {})
    if isinstance(source, dict):  # what else a change may have put there is for the validation to refuse
        earlier = [source[CHANGES]] if CHANGES in source else []
        source[CHANGES] = "; ".join([*earlier, *(change.text for change in changes)])
    return data


def _find_culprit(instance: Instance, changes: Sequence[Change], what: str, error: DataError) -> Change:
    for count in range(1, len(changes)):
        with warnings.catch_warnings(action="ignore"):  # they were said when the whole was validated
            try:
                type(instance).parse(_change_data(instance, changes[:count], what))
            except DataError as earlier:
                if (earlier.path, earlier.problem) == (error.path, error.problem):
                    return changes[count - 1]
    return changes[-1]


def _find_places(record: type[BaseModel], data: dict[str, Any], change: Change) -> Iterator[_Place]:
    def descend(kind: type[BaseModel] | _Names, holder: dict[str, Any], depth: int, path: str) -> Iterator[_Place]:
        part, is_last = change.path[depth], depth == len(change.path) - 1
        adds = is_last and change.operator == "=" and change.value is not None
        for name in _match_names(kind, holder, part, path, adds=adds):
            here = f"{path}.{name}" if path else name
            place = _Place(holder, kind, name, here)
            if is_last:
                yield place
                continue
            inner = _kind_of(place.value_type, holder.get(name))
            if inner is None or not isinstance(holder.get(name, {}), dict):
                raise UsageError(f"{here} has no parts; change it as a whole, as in {here}=VALUE")
            yield from descend(inner, holder.setdefault(name, {}), depth + 1, here)

    return descend(record, data, 0, "")


def _match_names(
    kind: type[BaseModel] | _Names, holder: Mapping[str, Any], part: str | None, path: str, *, adds: bool
) -> list[str]:
    """Return the names that a part of a path stands for, here."""
    where = path or "the instance"
    if not isinstance(kind, _Names):
        if part is None:
            message = f"* stands for every name, and {where} has fields: {', '.join(kind.model_fields)}; write one"
            raise UsageError(message)
        return [_find_field(part, list(kind.model_fields), where)]
    if part is None:
        if not holder:
            raise UsageError(f"{where} is empty, so * stands for nothing; leave the change out")
        return list(holder)
    if part not in holder and not adds:
        raise UsageError(f"{where} has no {part!r}; {nearest_name_hint(part, holder)}")
    return [part]


def _find_field(part: str, fields: Sequence[str], where: str) -> str:
    """Find a field by its name, by its name without the unit, or by a beginning that no other field has."""
    if part in fields:
        return part
    found = [field for field in fields if _leave_out_unit(field) == part]
    found = found or [field for field in fields if field.startswith(part)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{part!r} may be {' or '.join(found)} of {where}; write more of it")
    raise UsageError(f"{where} has no field {part!r}; {nearest_name_hint(part, fields)}")


def _leave_out_unit(field: str) -> str:
    words = field.split("_")
    while len(words) > 1 and words[-1] in _UNIT_WORDS:
        words.pop()
    return "_".join(words)


def _kind_of(annotation: object, data: object) -> type[BaseModel] | _Names | None:
    """Return the record or the mapping that an annotation describes, None for what has no names in it."""
    members = list_members(annotation)
    for member in members:
        if get_origin(member) is dict:
            return _Names(get_args(member)[1])
    records = [member for member in members if isinstance(member, type) and issubclass(member, BaseModel)]
    if len(records) <= 1:
        return records[0] if records else None
    form = data.get("form") if isinstance(data, dict) else None
    return next((record for record in records if record.model_fields["form"].default == form), None)


def _change_place(place: _Place, change: Change) -> None:
    if change.operator == "=" and change.value is not None:
        place.holder[place.name] = change.value
    elif place.name not in place.holder:
        fix = "there is nothing to remove" if change.operator == "=" else f"set it first, as in {place.path}=VALUE"
        raise UsageError(f"{place.path} is absent; {fix}")
    elif change.operator == "=":
        del place.holder[place.name]
    else:
        place.holder[place.name] = _calculate(place, change)
    _note_source(place, change)


def _note_source(place: _Place, change: Change) -> None:
    """Say of a figure with a field for its source that it is not the source's any more."""
    field = f"{_leave_out_unit(place.name)}_source"
    if not isinstance(place.kind, _Names) and field in place.kind.model_fields:
        place.holder[field] = ", ".join(filter(None, [place.holder.get(field), f"changed: {change.text}"]))


def _calculate(place: _Place, change: Change) -> object:
    """Return the value that is there, times or plus or minus or by the one of the change."""
    operate, current, operand = _OPERATIONS[change.operator], place.holder[place.name], change.value
    try:
        if Amount in list_members(place.value_type) and isinstance(current, str):
            amount = parse_budget(current)
            return str(Amount(operate(amount.value, _number_for(amount, change)), amount.unit))
        return _combine(operate, current, operand, place.path)
    except ArithmeticError as error:
        raise UsageError(f"{place.path} cannot be calculated ({error}); use another number") from None


def _number_for(amount: Amount, change: Change) -> float:
    """Return the number that an amount is combined with; to add and to take away, it may have the same unit."""
    if _is_number(change.value):
        return float(change.value)
    if isinstance(change.value, str) and change.operator in ("+=", "-="):
        other = parse_budget(change.value, what="the value")
        if other.unit == amount.unit:
            return other.value
    message = f"got {change.value!r} for the amount {str(amount)!r}; use a number, which counts in {amount.unit.value}"
    raise UsageError(message)


def _combine(operate: Callable[[Any, Any], Any], current: object, operand: object, path: str) -> object:
    if isinstance(current, list):
        if not isinstance(operand, list):
            return [_combine(operate, item, operand, path) for item in current]
        if len(operand) != len(current):
            message = f"{path} has {len(current)} entries and the value has {len(operand)}; give one number, or as many"
            raise UsageError(message)
        return [_combine(operate, item, other, path) for item, other in zip(current, operand, strict=True)]
    for value, role in ((current, f"{path} is"), (operand, "the value is")):
        if not _is_number(value):
            raise UsageError(
                f"{role} {show_value(value)}; calculating takes numbers or lists of numbers; use = to set something"
            )
    return operate(current, operand)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
