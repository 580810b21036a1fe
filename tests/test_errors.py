"""How messages name files, fields and what stands there."""

from __future__ import annotations

import pytest

from optplan.errors import name_field, name_kind


@pytest.mark.parametrize(
    ("place", "names", "said"),
    [
        ("neg.yaml", ("gpu_types", "a100"), "neg.yaml: gpu_types.a100"),
        ("/tmp/x.json", ("version",), "/tmp/x.json: version"),
        ("plan.instance", ("classes", "bert"), "plan.instance.classes.bert"),
        ("", ("classes", "bert"), "classes.bert"),
        ("x.json", (), "x.json"),
    ],
)
def test_a_file_and_a_field_are_told_apart(place: str, names: tuple[str, ...], said: str) -> None:
    """A colon stands between a file and a field, dots only between fields."""
    assert name_field(place, *names) == said


def test_what_a_file_holds_is_said_in_words() -> None:
    """Not by the names of Python's types."""
    held: tuple[object, ...] = (None, True, 1, 0.5, "a", [], {}, object())
    said = ("nothing", "true or false", "a number", "a number", "text", "a list", "an object", "something else")
    assert tuple(map(name_kind, held)) == said
