"""How messages name files, fields and what stands there."""

from __future__ import annotations

import pytest

from optplan.errors import name_field, name_kind, one_line, show_value


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


def test_the_lines_of_a_message_become_one() -> None:
    """What another program says over several lines is joined by spaces; other control characters are shown."""
    said = "sbatch: error\n\n  no such partition\r\n\x1b[2Jgpu\n"
    assert one_line(said) == "sbatch: error no such partition \\x1b[2Jgpu"


def test_repeated_ends_of_lines_are_shown_once() -> None:
    """Twenty of them tell no more than one."""
    assert show_value("a" + 20 * "\n" + "b") == r"'a\n...b'"
    assert show_value("a\n\nb") == r"'a\n\nb'"
