"""Frozen records: immutability, equality by content, errors that name the path."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, ClassVar, Literal

import numpy as np
import pytest
from pydantic import Field, ValidationError, field_validator, model_validator

from optplan.errors import DataError
from optplan.schema import (
    ByName,
    FloatArray,
    FrozenModel,
    Numbers,
    Takes,
    WholeNumbers,
    require_positive,
    usual,
)


class Curve(FrozenModel):
    """A record with arrays."""

    form: Literal["curve"] = "curve"
    speeds: Numbers
    widths: WholeNumbers | None = None

    @field_validator("speeds")
    @classmethod
    def _check(cls, speeds: FloatArray) -> FloatArray:
        require_positive(speeds)
        return speeds


class Table(FrozenModel):
    """A record whose arrays lie in a mapping."""

    columns: ByName[Numbers]


class Law(FrozenModel):
    """The other member of the union."""

    form: Literal["law"] = "law"
    exponent: Annotated[float, Field(ge=0, le=1)]


class Case(FrozenModel):
    """A record of records by name."""

    parts: ByName[Annotated[Curve | Law, Field(discriminator="form")]]
    number: Annotated[int, Field(ge=1)] = 1


class Sound(FrozenModel):
    """A record of plain fields and a mapping."""

    name: str
    share: float
    more: ByName[str]


class Mood(StrEnum):
    """A choice of names."""

    CALM = "calm"
    EXCITED = "excited"


class Choices(FrozenModel):
    """A record of choices."""

    version: Literal[1] = 1
    mood: Mood = Mood.CALM
    unit: Literal["gpu", "usd"] = "gpu"


GOOD = {"parts": {"bert": {"form": "curve", "speeds": [1, 2.5]}, "yolo": {"form": "law", "exponent": 0.5}}}


def test_records_and_their_parts_cannot_be_changed() -> None:
    """Fields, mappings and arrays all refuse."""
    case = Case.parse(GOOD)
    with pytest.raises(ValueError, match="frozen"):
        case.number = 2
    with pytest.raises(TypeError, match="use replace"):
        case.parts["new"] = case.parts["bert"]
    with pytest.raises(ValueError, match="read-only"):
        case.parts["bert"].speeds[0] = 3.0  # type: ignore[union-attr]


def test_a_record_does_not_follow_changes_of_the_array_it_was_given() -> None:
    """The caller's array is copied, and stays writeable."""
    speeds = np.array([1.0, 2.0])
    curve = Curve(speeds=speeds)
    speeds[0] = 9.0
    assert curve.speeds[0] == 1.0


def test_equality_and_hash_go_by_content() -> None:
    """Lists, arrays, integers and another order of names make the same record."""
    again = Case.parse({"parts": dict(reversed(GOOD["parts"].items())), "number": 1})
    case = Case(parts={"bert": Curve(speeds=np.array([1.0, 2.5])), "yolo": Law(exponent=0.5)})
    assert case == again
    assert case.content_hash() == again.content_hash()
    assert hash(case) == hash(again)
    assert case != case.replace(number=2)
    assert case.content_hash() != case.replace(number=2).content_hash()


def test_mappings_of_arrays_are_compared_element_by_element() -> None:
    """As arrays that are fields are."""
    one, same, other = (Table.parse({"columns": {"a": [1, 2], "b": [last]}}) for last in (3, 3, 4))
    assert one == same
    assert one != other
    assert one != Table.parse({"columns": {"a": [1, 2]}})


def test_the_hash_tells_shapes_apart() -> None:
    """[[1, 2]] and [1, 2] are different tables."""
    row, table = (Curve.parse({"speeds": speeds}) for speeds in ([1, 2], [[1, 2]]))
    assert row.content_hash() != table.content_hash()


def test_writing_and_reading_is_the_identity() -> None:
    """Also through a pickle, for process pools."""
    case = Case.parse(GOOD)
    assert Case.parse(case.to_json_data()) == case
    assert pickle.loads(pickle.dumps(case)) == case


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda record: pickle.loads(pickle.dumps(record))])
def test_copies_cannot_be_changed_either(duplicate: Callable[[Curve], Curve]) -> None:
    """A record that came back from another process is as frozen as the one that went."""
    copied = duplicate(Curve(speeds=np.array([1.0, 2.0])))
    with pytest.raises(ValueError, match="read-only"):
        copied.speeds[0] = 3.0


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"form": "curve", "speeds": [1, -2]}, r"file.parts.bert.speeds: entry \[1\]: got -2.0; numbers above zero"),
        ({"form": "curve", "speeds": [1, float("nan")]}, r"speeds: entry \[1\]: got nan; finite numbers are needed"),
        ({"form": "curve", "speeds": [[1, 2], [3]]}, "speeds: rows of unequal length"),
        ({"form": "curve", "speeds": [1, "2"]}, r"speeds: entry \[1\]: got '2'; a number is needed"),
        ({"form": "curve", "speeds": [1, None]}, r"entry \[1\]: got None; a number is needed"),
        ({"form": "curve", "speeds": [1, True]}, r"entry \[1\]: got True; a number is needed"),
        ({"form": "curve", "speeds": float("inf")}, "parts.bert.speeds: got inf; finite numbers are needed"),
        ({"form": "curve", "speeds": 0}, "parts.bert.speeds: got 0.0; numbers above zero are allowed"),
        ({"form": "curve", "speeds": "12"}, "got '12'; a number or a list of numbers is needed"),
        ({"form": "curve", "speeds": [1], "widths": [1.5]}, r"widths: entry \[0\]: got 1.5; whole numbers are needed"),
        ({"form": "curve", "speeds": [1], "widths": [1e300]}, r"widths: entry \[0\]: got 1e\+300; whole numbers are"),
        ({"form": "curve", "speeds": [1, 10**400]}, "speeds: an entry is too large for a 64-bit float"),
        ({"form": "curve", "speed": [1]}, "parts.bert.speed: unknown field 'speed'; did you mean 'speeds'?"),
        ({"form": "law"}, "parts.bert.exponent: is missing; add it"),
        ({"form": "law", "exponent": 2}, "exponent: got 2; input should be less than or equal to 1"),
        ({"form": "lawn"}, r"^file.parts.bert.form: got 'lawn'; allowed: curve, law; did you mean 'law'\?$"),
        ({"form": "trust me"}, "^file.parts.bert.form: got 'trust me'; allowed: curve, law$"),
        ({"form": 7}, "^file.parts.bert.form: got '7'; allowed: curve, law$"),
        ({"exponent": 0.5}, "^file.parts.bert.form: is missing; add it$"),
    ],
)
def test_errors_name_path_value_and_remedy(part: dict[str, object], message: str) -> None:
    """The path is the user's: no names of union members in it."""
    with pytest.raises(DataError, match=message):
        Case.parse({"parts": {"bert": part}}, path="file")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mood": "exited"}, r"^file.mood: got 'exited'; allowed: calm, excited; did you mean 'excited'\?$"),
        ({"mood": "sad"}, "^file.mood: got 'sad'; allowed: calm, excited$"),
        ({"mood": 10**70}, r"^file.mood: got 10+\.\.\.; allowed: calm, excited$"),
        ({"unit": "gpus"}, r"^file.unit: got 'gpus'; allowed: gpu, usd; did you mean 'gpu'\?$"),
        ({"version": 2}, "^file.version: got 2; allowed: 1$"),
    ],
)
def test_a_misspelt_choice_gets_the_allowed_names_and_the_nearest(change: dict[str, object], message: str) -> None:
    """Enumerations and literals alike."""
    with pytest.raises(DataError, match=message):
        Choices.parse(change, path="file")


def test_further_problems_are_counted() -> None:
    """The first problem is told in full, the others by number."""
    with pytest.raises(DataError, match=r"number: got 0; .* \(?1 more to mend|1 more to mend"):
        Case.parse({"parts": {"bert": {"form": "law", "exponent": 3}}, "number": 0})


def test_constructor_and_parser_raise_alike() -> None:
    """Python users get the same errors as readers of files, without pydantic's wrapping."""
    with pytest.raises(DataError, match="speeds: entry"):
        Curve(speeds=np.zeros(1))


def test_replace_validates_and_refuses_unknown_fields() -> None:
    """A changed copy is checked like a new record."""
    case = Case.parse(GOOD)
    with pytest.raises(DataError, match="number: got 0"):
        case.replace(number=0)
    with pytest.raises(DataError, match="numbre: no such field; did you mean 'number'"):
        case.replace(numbre=2)


def test_a_sound_record_is_the_one_that_would_be_validated() -> None:
    """Equal, with the same hash and data, through copies and pickles, and frozen."""
    fields = {"mood": "calm"}
    checked = Sound(name="a", share=0.5, more=fields)
    sound = Sound.of_sound(name="a", share=0.5, more=checked.more)
    for one in (sound, pickle.loads(pickle.dumps(sound)), copy.copy(sound), copy.deepcopy(sound), sound.replace()):
        assert one == checked
        assert one.to_json_data() == {"name": "a", "share": 0.5, "more": fields}
        assert one.content_hash() == checked.content_hash()
    with pytest.raises(ValidationError, match="frozen"):
        sound.share = 1.0


def test_data_errors_survive_a_process_boundary() -> None:
    """Path, problem and fix are kept."""
    error = pickle.loads(pickle.dumps(DataError("a.b", "got 1", "use 2")))
    assert (str(error), error.path, error.fix) == ("a.b: got 1; use 2", "a.b", "use 2")


class Tree(FrozenModel):
    """A record whose validator knows where in it the problem is."""

    leaves: ByName[int]

    @model_validator(mode="after")
    def _check(self) -> Tree:
        for name, leaf in self.leaves.items():
            if leaf > 9:
                raise DataError(f"leaves.{name}", f"got {leaf}", "at most 9")
        return self


def test_paths_within_a_record_join_the_path_to_it() -> None:
    """An error that a validator raises keeps its own path, behind that of its record."""
    with pytest.raises(DataError, match=r"^file\.leaves\.a: got 10; at most 9$") as caught:
        Tree.parse({"leaves": {"a": 10}}, path="file")
    assert caught.value.path == "file.leaves.a"


def test_zeros_of_either_sign_are_the_same_content() -> None:
    """They are equal, so their hashes must be."""
    plus, minus = (Curve.parse({"speeds": [1.0], "widths": [zero]}) for zero in (0.0, -0.0))
    assert plus == minus
    assert plus.content_hash() == minus.content_hash()
    assert Law(exponent=0.0).content_hash() == Law(exponent=-0.0).content_hash()


def test_a_field_that_came_later_changes_no_hash_while_it_is_empty() -> None:
    """Records that were written before it existed have the hash that they had; filled in, it counts."""

    class Before(FrozenModel):
        number: int

    class After(FrozenModel):
        LATER: ClassVar[frozenset[str]] = frozenset({"added"})
        number: int
        added: str | None = None

    After.__name__ = Before.__name__
    assert After(number=1).content_hash() == Before(number=1).content_hash()
    assert After(number=1, added="").content_hash() != Before(number=1).content_hash()


def test_a_field_may_take_more_than_its_type() -> None:
    """Type checkers let both be written, and read the field's own type; pydantic knows this one alone."""

    class Hue(StrEnum):
        RED = "red"
        BLUE = "blue"

    class Painted(FrozenModel):
        sizes: Takes[Numbers, list[int]]
        hue: Takes[Hue, str] = usual(Hue.RED)

    painted = Painted(sizes=[1, 2], hue="blue")
    assert painted.hue is Hue.BLUE
    assert painted.sizes.dtype == np.float64
    assert Painted(sizes=np.ones(1)).hue is Hue.RED
    assert Painted.model_fields["hue"].annotation is Hue
    with pytest.raises(DataError, match="hue: got 3; allowed: red, blue"):
        Painted(sizes=[1], hue=3)  # type: ignore[arg-type]
