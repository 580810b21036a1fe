"""Frozen, validated records: the base of every type that crosses optplan's boundary.

pydantic does the validation and the JSON Schema. This module adds what the house asks of it: deep immutability, NumPy
arrays as fields, errors that name the path and the nearest known field, and a content hash that does not depend on
how the file was written.
"""

from __future__ import annotations

import hashlib
import struct
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    WithJsonSchema,
)

from optplan.complaints import translate_validation_error
from optplan.errors import DataError, nearest_name_hint, show_value

#: Beyond this, float64 skips whole numbers.
LARGEST_EXACT = 2**53

#: Most of what is counted: GPUs of a job, VMs of a type. Sums and products of several counts stay exact in floats.
LARGEST_COUNT = 1_000_000

#: Ends of what amounts may be, whatever their unit: products of several of them, and their sums, stay floats.
LEAST_AMOUNT = 1e-20
LARGEST_AMOUNT = 1e20
#: The same for error messages.
AMOUNTS = f"from {LEAST_AMOUNT:g} to {LARGEST_AMOUNT:g}"

#: What a person may write in place of a record: its fields by name.
Fields = Mapping[str, Any]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def _refuse_text(value: object) -> object:
    if isinstance(value, str | bool):  # all of this is for pydantic, which reports ValueError only
        raise ValueError(f"got {show_value(value)}; a number is needed")
    return value


#: pydantic would read the number in a text, and take true for one.
NUMBER = BeforeValidator(_refuse_text)

#: A number of things, and one that may be none, as plans and conditions count them.
Count = Annotated[int, Field(ge=1, le=LARGEST_EXACT), NUMBER]
CountOrZero = Annotated[int, Field(ge=0, le=LARGEST_EXACT), NUMBER]

#: A number of GPUs or machines, which may be listed one by one: more are a mistake.
SmallCount = Annotated[int, Field(ge=1, le=LARGEST_COUNT), NUMBER]
SmallCountOrZero = Annotated[int, Field(ge=0, le=LARGEST_COUNT), NUMBER]

#: A number from zero on, as plans expect them.
AtLeastZero = Annotated[float, Field(ge=0)]


def _require_least(value: float) -> float:
    if value < LEAST_AMOUNT:
        raise ValueError(f"got {value!r}; numbers {AMOUNTS} are allowed; check the unit")
    return value


def _require_most(value: float) -> float:
    if value > LARGEST_AMOUNT:
        raise ValueError(f"got {value!r}; numbers up to {LARGEST_AMOUNT:g} are allowed; check the unit")
    return value


#: A number above zero, far enough from the ends of floats for products of several of them.
PositiveAmount = Annotated[float, Field(gt=0), NUMBER, AfterValidator(_require_least), AfterValidator(_require_most)]

#: A number from zero on that is not too large for the same.
AmountOrZero = Annotated[float, Field(ge=0), NUMBER, AfterValidator(_require_most)]


class FrozenModel(BaseModel):
    """An immutable record that refuses unknown fields; a DataError names the first problem, and how many more."""

    # Deferred: a record is made ready for data when the first of its kind is read, and most never are.
    model_config = ConfigDict(
        frozen=True, extra="forbid", arbitrary_types_allowed=True, allow_inf_nan=False, defer_build=True
    )

    #: Fields that came after hashes were written down: where they are empty, records have the hash that they had.
    LATER: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, **data: Any) -> None:  # noqa: ANN401 - the fields are checked by pydantic
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise translate_validation_error(error, type(self)) from None

    # pydantic calls an overridden __init__ for nested records too, which would lose the outer part of the path;
    # this marks the override as transparent, as pydantic's own RootModel does.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @classmethod
    def parse(cls, data: object, *, path: str = "") -> Self:
        """Build the record from plain data; ``path`` is the prefix of the paths in error messages."""
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise translate_validation_error(error, cls, path) from None

    @classmethod
    def of_sound(cls, **fields: Any) -> Self:  # noqa: ANN401 - of whatever types they have
        """Return the record of all its fields, which are taken as they are: for what is known to be valid."""
        record = cls.__new__(cls)
        object.__setattr__(record, "__dict__", fields)
        object.__setattr__(record, "__pydantic_fields_set__", set(fields))
        object.__setattr__(record, "__pydantic_extra__", None)
        object.__setattr__(record, "__pydantic_private__", None)
        return record

    def replace(self, **changes: Any) -> Self:  # noqa: ANN401 - the fields are checked by pydantic
        """Return a copy with some fields changed, validated like a new record."""
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        for name in sorted(set(changes) - set(fields)):
            raise DataError(name, "no such field", nearest_name_hint(name, fields))
        return type(self)(**{**fields, **changes})

    def to_json_data(self) -> dict[str, Any]:
        """Return plain data that :meth:`parse` reads back; defaults are written out, empty fields left out."""
        return self.model_dump(mode="json", exclude_none=True)

    def content_hash(self) -> str:
        """Return the SHA-256 of the content, the same for every file that says the same thing."""
        digest = hashlib.sha256()
        _feed(digest.update, self)
        return digest.hexdigest()

    def hashed_later(self, field: str) -> object:
        """Return what a hash is fed of a field that came later; its default leaves the hash as it was without it."""
        return getattr(self, field)

    def __setstate__(self, state: dict[Any, Any]) -> None:
        """Unpickle; NumPy forgets that arrays are read-only."""
        super().__setstate__(state)
        self._freeze_arrays()

    def __copy__(self) -> Self:
        """Copy the fields, not what was derived from them: pydantic's ``model_copy`` changes the copy."""
        copied = super().__copy__()
        copied._forget_derived()
        return copied

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Copy to the bottom; NumPy makes copies writeable."""
        copied = super().__deepcopy__(memo)
        copied._forget_derived()
        copied._freeze_arrays()
        return copied

    def _forget_derived(self) -> None:
        for name in set(self.__dict__) - set(type(self).model_fields):
            del self.__dict__[name]

    def _freeze_arrays(self) -> None:
        for name in type(self).model_fields:
            value = getattr(self, name)
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    def __eq__(self, other: object) -> bool:
        """Compare field by field; arrays are equal when every element is."""
        if type(self) is not type(other):
            return NotImplemented
        return all(_same(getattr(self, name), getattr(other, name)) for name in type(self).model_fields)

    def __hash__(self) -> int:
        """Hash by content, so equal records have equal hashes."""
        return hash(self.content_hash())


class FrozenDict(dict[str, Any]):
    """A dictionary that cannot be changed after it was made."""

    def _refuse(self, *_: object, **__: object) -> None:
        raise TypeError("this mapping belongs to a frozen record; use replace() to make a changed copy")

    __setitem__ = __delitem__ = clear = update = setdefault = pop = popitem = _refuse  # type: ignore[assignment]

    def __reduce__(self) -> tuple[type[FrozenDict], tuple[dict[str, Any]]]:
        """Rebuild through the constructor; the default protocol would call ``__setitem__``."""
        return type(self), (dict(self),)


_Value = TypeVar("_Value")
_Given = TypeVar("_Given")

if TYPE_CHECKING:

    class Takes(Generic[_Value, _Given]):
        """The type of a field, and what a person may write besides; validation makes the field's type of it."""

        def __get__(self, record: object, owner: type[object]) -> _Value:
            raise NotImplementedError

        def __set__(self, record: object, given: _Value | _Given) -> None:
            raise NotImplementedError

else:

    class Takes:
        """Gives pydantic the type of the field alone."""

        def __class_getitem__(cls, types: tuple[object, object]) -> object:
            return types[0]


def usual(default: object) -> Any:  # noqa: ANN401 - a field of any type
    """Return the default of a field of :class:`Takes`, which type checkers would hold against it."""
    return default


#: A mapping by name that cannot be changed; written as a JSON object.
ByName = Annotated[dict[str, _Value], AfterValidator(FrozenDict)]


def freeze(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array marked read-only (a copy if others may still write to it)."""
    frozen = array if array.base is None else array.copy()
    frozen.setflags(write=False)
    return frozen


def _to_float_array(value: object) -> FloatArray:
    if isinstance(value, np.ndarray) and value.dtype == np.float64:
        return value if not value.flags.writeable else freeze(value.copy())
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Sequence | np.ndarray | int | float):
        raise ValueError(f"got {show_value(value)}; a number or a list of numbers is needed")
    _refuse_non_numbers(value)
    try:
        return freeze(np.array(value, dtype=np.float64))
    except OverflowError:
        raise ValueError("an entry is too large for a 64-bit float; numbers up to 1e308 are allowed") from None
    except (TypeError, ValueError):
        message = "rows of unequal length, or entries that are not numbers; give a list, or a list of equal rows"
        raise ValueError(message) from None


def _refuse_non_numbers(value: object, position: str = "") -> None:
    """Raise for strings, booleans and nulls, which NumPy would quietly turn into numbers."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "iuf":
            raise ValueError(f"an array of {value.dtype}; numbers are needed")
    elif isinstance(value, list | tuple):
        if not set(map(type, value)) <= {int, float}:
            for index, item in enumerate(value):
                _refuse_non_numbers(item, f"{position}[{index}]")
    elif isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        where = f"entry {position}: " if position else ""
        raise ValueError(f"{where}got {show_value(value)}; a number is needed")


def _to_int_array(value: object) -> IntArray:
    numbers = _to_float_array(value)
    whole = np.isfinite(numbers) & (numbers == np.round(numbers)) & (np.abs(numbers) <= LARGEST_EXACT)
    wrong = np.flatnonzero(~whole)
    if wrong.size:
        raise ValueError(f"entry [{wrong[0]}]: got {float(numbers.ravel()[wrong[0]])!r}; whole numbers are needed")
    return freeze(numbers.astype(np.int64))


def _require_finite(array: FloatArray) -> FloatArray:
    refuse_entries(array, ~np.isfinite(array), "finite numbers are needed")
    return array


def _require_row(array: NDArray[Any]) -> NDArray[Any]:
    if array.ndim != 1:
        found = f"got {array.item()!r}" if array.ndim == 0 else f"got a table of shape {array.shape}"
        raise ValueError(f"{found}; a list of numbers is needed")
    return array


_NUMBERS_SCHEMA = {
    "anyOf": [
        {"type": "number"},
        {"type": "array", "items": {"type": "number"}},
        {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
    ]
}

_AS_LIST = PlainSerializer(lambda array: array.tolist())

#: Finite numbers: a scalar (0-d), a list (1-d) or a list of equal rows (2-d), read-only ``float64``.
Numbers = Annotated[
    FloatArray,
    BeforeValidator(_to_float_array),
    AfterValidator(_require_finite),
    _AS_LIST,
    WithJsonSchema(_NUMBERS_SCHEMA),
]

#: Finite numbers in a list (1-d), read-only ``float64``.
NumberRow = Annotated[
    Numbers, AfterValidator(_require_row), WithJsonSchema({"type": "array", "items": {"type": "number"}})
]

#: Whole numbers in a list (1-d), read-only ``int64``.
WholeNumbers = Annotated[
    IntArray,
    BeforeValidator(_to_int_array),
    AfterValidator(_require_row),
    _AS_LIST,
    WithJsonSchema({"type": "array", "items": {"type": "integer"}}),
]


def require_positive(array: FloatArray, *, strictly: bool = True) -> FloatArray:
    """Return the array; raise ValueError naming the first entry that is not positive (or, not strictly, negative)."""
    allowed = "numbers above zero" if strictly else "numbers not below zero"
    return refuse_entries(array, array <= 0 if strictly else array < 0, f"{allowed} are allowed")


def require_amounts(array: FloatArray) -> FloatArray:
    """Return the array; raise ``ValueError`` naming the first entry not from ``LEAST_AMOUNT`` to ``LARGEST_AMOUNT``."""
    require_positive(array)
    outside = (array < LEAST_AMOUNT) | (array > LARGEST_AMOUNT)
    return refuse_entries(array, outside, f"numbers {AMOUNTS} are allowed; check the unit")


def refuse_entries(array: FloatArray, wrong: NDArray[np.bool_], allowed: str) -> FloatArray:
    """Return the array; raise ValueError naming the first of its wrong entries, if any, and what is allowed."""
    if not wrong.any():
        return array
    first = tuple(np.argwhere(wrong)[0])
    position = "".join(f"[{i}]" for i in first)
    where = f"entry {position}: " if position else ""
    raise ValueError(f"{where}got {float(array[first])!r}; {allowed}")


def _feed(update: Any, value: Any) -> None:  # noqa: ANN401 - hashlib's bound method, and anything
    """Feed a value to a hash, type and length first, so that no two values share an encoding."""
    match value:
        case None | bool():
            update(repr(value).encode())
        case float() | int():
            update(b"N" + struct.pack("<d", value + 0.0))
        case str():
            update(_encode_text(value))
        case FrozenModel():
            _feed_record(update, value)
        case Mapping():
            update(f"M{len(value)}".encode())
            for key in sorted(value):
                update(_encode_text(str(key)))
                _feed(update, value[key])
        case tuple() | list():
            update(f"L{len(value)}".encode())
            if {*map(type, value)} == {str}:  # a few words, many times
                words = {word: _encode_text(word) for word in set(value)}
                update(b"".join([words[word] for word in value]))
                return
            for item in value:
                _feed(update, item)
        case np.ndarray():
            update(f"A{value.dtype.kind}{value.shape}".encode())
            # Adding zero makes -0.0 and 0.0, which are equal, the same bytes.
            numbers = np.ascontiguousarray(value + 0)
            update(numbers.data if sys.byteorder == "little" else numbers.byteswap().data)
        case _:
            update(_encode_text(str(value)))


def _feed_record(update: Any, record: FrozenModel) -> None:  # noqa: ANN401 - hashlib's bound method
    heading, fields = _list_fields(type(record))
    update(heading)
    for name, encoded, came_later, default in fields:
        field = record.hashed_later(name) if came_later else getattr(record, name)
        if came_later and (field is default or _same(field, {}) or _same(field, default)):
            continue
        update(encoded)
        _feed(update, field)


def _encode_text(value: str) -> bytes:
    text = value.encode()
    return b"S%d%b" % (len(text), text)


@cache
def _list_fields(model: type[BaseModel]) -> tuple[bytes, tuple[tuple[str, bytes, bool, object], ...]]:
    """Return what a hash is fed for a record and each field, by name, whether that came later, and its default."""
    later: frozenset[str] = getattr(model, "LATER", frozenset())
    known = sorted(model.model_fields.items())
    fields = tuple((name, name.encode() + b"=", name in later, field.default) for name, field in known)
    return b"R" + model.__name__.encode(), fields


def _same(left: object, right: object) -> bool:
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        return np.array_equal(np.asarray(left), np.asarray(right))
    if isinstance(left, dict) and isinstance(right, dict):  # names may lead to arrays
        return left.keys() == right.keys() and all(_same(value, right[name]) for name, value in left.items())
    return bool(left == right)
