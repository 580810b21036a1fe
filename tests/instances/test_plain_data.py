"""Reading JSON and YAML: sizes are bounded before anything is built, and every text is data or an error."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optplan.errors import DataError
from optplan.instances import plain_data
from optplan.instances.plain_data import DEEPEST, parse_json, parse_yaml, read_data

CASES = Path(__file__).resolve().parents[1] / "cases"


@pytest.mark.parametrize(
    ("case", "values"),
    [
        # a8 is 10^9 ones in 111,111,111 lists, twice; with the levels before it and some names: about 2.3 * 10^9.
        ("nested-aliases.yaml", "2,345,67"),
        # Every level merges the one before ten times.
        ("merge-keys.yaml", ""),
    ],
)
def test_what_aliases_stand_for_is_counted_before_it_is_built(case: str, values: str) -> None:
    """A few lines stand for billions of values: the error says how many, and hardly any memory is used."""
    parse_yaml("loads: yaml", case)
    tracemalloc.start()
    with pytest.raises(DataError, match=rf"{case}: stands for {values}[\d,]+ values .*; up to 10,000,000 are read"):
        read_data(CASES / case)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e6


def test_aliases_that_stand_for_little_are_read() -> None:
    """Two names for one list, and a list of both."""
    assert parse_yaml("a: &a [1, 2]\nb: &b [*a, *a]\nc: *b", "x.yaml")["c"] == [[1, 2], [1, 2]]


@pytest.mark.parametrize("name", ["x.json", "x.yaml"])
@pytest.mark.parametrize(("bracket", "end"), [("[", "]"), ('{"a":', "}"), ('{"a": [', "]}")])
@pytest.mark.parametrize("depth", [DEEPEST + 1, 500, 3000, 100_000])
def test_deep_nesting_ends_at_once(name: str, bracket: str, end: str, depth: int) -> None:
    """Whatever the interpreter's own limit is, the brackets closed or not; a hundred levels are read."""
    parse = parse_yaml if name.endswith("yaml") else parse_json
    for text in (bracket * depth + "1" + end * depth, bracket * depth):
        with pytest.raises(
            DataError, match=r"^x\.(json|yaml)(:\d+)?: is (nested too deeply; up to 100|not (JSON|YAML))"
        ):
            parse(text, name)
    levels = DEEPEST // len(end)
    parse(bracket * levels + "1" + end * levels, name)


@pytest.mark.parametrize("mark", ["- ", "? ", "- ? "])
def test_deep_blocks_end_at_once(mark: str) -> None:
    """Brackets are not the only way to nest in YAML."""
    with pytest.raises(DataError, match="nested too deeply"):
        parse_yaml(mark * 3000 + "1", "x.yaml")


def test_a_chain_of_aliases_is_deep_as_well() -> None:
    """Each line stands within the next one: 150 lines, one level each in the file."""
    lines = ["a0: &a0 [1]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 150))]
    with pytest.raises(DataError, match="nested too deeply"):
        parse_yaml("\n".join(lines), "x.yaml")


@pytest.mark.parametrize(
    ("name", "largest"), [("x.json", "LARGEST_FILE"), ("x.yaml", "LARGEST_YAML"), ("x.yml", "LARGEST_YAML")]
)
def test_files_are_read_up_to_a_size(name: str, largest: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One byte more, and nothing is parsed; the message says the limit."""
    monkeypatch.setattr(plain_data, largest, 10)
    (tmp_path / name).write_text('"12345678"')
    assert read_data(tmp_path / name) == "12345678"
    (tmp_path / name).write_text('"123456789"')
    with pytest.raises(DataError, match=rf"{name}: is larger than 10 bytes, which is what is read at most"):
        read_data(tmp_path / name)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no device without an end here")
def test_a_file_without_an_end_is_not_read_to_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A device says that it has no bytes, and gives as many as are asked for."""
    monkeypatch.setattr(plain_data, "LARGEST_FILE", 1000)
    (tmp_path / "x.json").symlink_to("/dev/zero")
    with pytest.raises(DataError, match="is larger than 1,000 bytes"):
        read_data(tmp_path / "x.json")


def test_a_path_that_no_file_can_have() -> None:
    """A NUL ends a path."""
    with pytest.raises(DataError, match=r"cannot be read \(embedded null byte\)"):
        read_data(Path("a\0b.json"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e3gpu", "1e3gpu"),
        ("1e3", 1000.0),
        ("-1.5E-2", -0.015),
        (".5e1", 5.0),
        ("1e", "1e"),
        ("2026-01-01", "2026-01-01"),
    ],
)
def test_numbers_with_an_exponent_end_where_they_end(text: str, value: object) -> None:
    """1e3gpu is text, as 1000gpu is."""
    found = parse_yaml(f"budget: {text}", "x.yaml")["budget"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "9" * 5000,
        "a: !!int x",
        "a: !!float x",
        "a: !!bool x",
        "a: !!timestamp x",
        "a: !!binary é",
        "a: !!set x",
        "a: !!omap {a: 1}",
        "a: 0x",
        "a: 0b2",
        "a: 1__",
        "a: !!null x",
        "a: !!int ''",
        "!!map [1]",
        "<<: 1",
        "<<: [1]",
        "? {a: 1}\n: 2",
        "? !!binary YQ==\n: 2",
        "%YAML 9.9\n---\na: 1",
        "a: *nothing",
        "---\na: 1\n---\nb: 2",
        "\0",
        "a: \ud83d",
    ],
)
def test_odd_yaml_is_data_or_an_error(text: str) -> None:
    """PyYAML raises whatever Python does for a value that its tag does not fit; here it is a DataError."""
    try:
        parse_yaml(text, "x.yaml")
    except DataError as error:
        assert str(error).startswith("x.yaml")  # noqa: PT017 - some of these are data


@pytest.mark.parametrize("name", ["x.json", "x.yaml"])
@pytest.mark.parametrize("text", ['{"a": "\\ud800"}', '{"\\udfff": 1}', '[["b", {"c": ["\\ud800x"]}]]'])
def test_half_a_character_is_refused(name: str, text: str) -> None:
    """A lone surrogate can be escaped in both, and be written nowhere."""
    parse = parse_yaml if name.endswith("yaml") else parse_json
    with pytest.raises(DataError, match=r"has the text '(\\ud800x?|\\udfff)', with half of a character"):
        parse(text, name)
    assert parse('{"a": "\\u00e9 \U0001f600"}', name) == {"a": "é \U0001f600"}


@given(st.text(st.sampled_from("{}[]:,&*!<>|-?#%@`'\"\\ \n\t0123456789.eExabn~=")))
def test_any_text_is_data_or_an_error(text: str) -> None:
    """Nothing but a DataError comes out of either parser."""
    for parse in (parse_json, parse_yaml):
        try:
            parse(text, "x")
        except DataError as error:
            assert os.fspath("x") in str(error)  # noqa: PT017 - most of these are no data
