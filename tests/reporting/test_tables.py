"""Tables of text: no width breaks a word, and everything is said at every width."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optplan.reporting.tables import Cell, Column, Row, Table, record_table

if TYPE_CHECKING:
    from tests.plugins.pages import Show

SOLVERS = Table(
    "Solvers",
    (Column("solver"), Column("mean completion time", is_number=True), Column("gap", is_number=True), Column("proof")),
    [
        ("published-greedy-instances", "1 h 06 min", "0.062 %", "search to the end"),
        Row((Cell("fixed-width", note="said on pages only"), "54 min 00 s", "-", "none"), "own"),
    ],
)


def test_a_wide_terminal_has_one_table(show: Show) -> None:
    """Headings, then a line for each row; what pages say in small print is left out."""
    lines = [line.split("  ") for line in show(SOLVERS, width=120).splitlines()]
    assert [[cell.strip() for cell in line if cell.strip()] for line in lines][::2] == [
        ["solver", "mean completion time", "gap", "proof"],
        ["published-greedy-instances", "1 h 06 min", "0.062 %", "search to the end"],
    ]
    assert len(lines) == 4


def test_a_narrower_one_has_two_below_one_another(show: Show) -> None:
    """26 + 3 + 10 characters and as many again: both begin with the names of the rows."""
    shown = show(SOLVERS, width=60)
    assert shown.count("published-greedy-instances") == shown.count("fixed-width") == 2
    assert [line.split()[:2] for line in shown.splitlines() if line.startswith("solver")][1][0] == "solver"
    assert max(map(len, shown.splitlines())) <= 60


def test_the_narrowest_has_rows_one_by_one(show: Show) -> None:
    """Where a name and a word beside it do not fit, each row says its figures one below the other."""
    shown = show(SOLVERS, width=32).splitlines()
    assert shown[0] == "published-greedy-instances"
    assert shown[1].split() == ["mean", "completion", "time", "1", "h", "06"] or "mean completion time" in shown[1]


@pytest.mark.slow
@given(
    rows=st.lists(
        st.lists(st.text("abc 12.%-", max_size=40).map(str.strip), min_size=5, max_size=5), min_size=1, max_size=6
    ),
    numbers=st.lists(st.booleans(), min_size=5, max_size=5),
    width=st.integers(50, 140),
)
def test_every_word_is_whole_at_every_width(rows: list[list[str]], numbers: list[bool], width: int, show: Show) -> None:
    """No line is longer than the terminal is wide, and no word is broken or lost."""
    headings = ("name", "mean completion time", "gap", "proof", "what")
    columns = [Column(name, is_number) for name, is_number in zip(headings, numbers, strict=True)]
    shown = show(Table("x", columns, rows), width=width)
    assert max(map(len, shown.splitlines())) <= width
    words = {word for row in rows for cell in row for word in cell.split()}
    assert words <= set(shown.split())


def test_groups_and_parts_are_set_off(show: Show) -> None:
    """A group's name stands alone, its rows are indented; a cell that takes several rows is said once."""
    table = Table(
        "x",
        (Column(""), Column("A", is_number=True)),
        [Row([Cell("t4", columns=2)], "group", starts_group=True), Row(("price", "$1"), "part"), Row((None, "$2"))],
    )
    assert [line.rstrip() for line in show(table).splitlines()][2:] == ["t4", "  price   $1", "          $2"]
    assert show(Table("x", (Column("a"),), [("b",)], rest="9 more")).splitlines()[-1] == "9 more"


def test_a_long_name_of_a_part_stays_indented(show: Show) -> None:
    """Its words stay whole, though the indent takes two characters, and its second line begins below the first."""
    name = "price_of_what_is_rented per hour and per GPU of the type, in dollars"  # 23 characters without a blank
    table = Table("x", (Column(""), Column("A")), [Row((name, "price_of_it"), "part")])
    lines = show(table, width=25 + 3 + 11).splitlines()[2:]
    assert lines[0].split() == ["price_of_what_is_rented", "price_of_it"]
    assert all(line.startswith("  ") and line[2] != " " for line in lines)


@pytest.mark.parametrize(("width", "tables"), [(200, 1), (80, 0)])
def test_records_have_several_names(show: Show, width: int, tables: int) -> None:
    """A solver is named by its formulation and its name; where rows stand alone, both head them."""
    prose = "a sentence that goes on for a while and says what this is, to whom it may concern"
    records = [{"formulation": "boa", "name": name, "summary": prose, "needs": "x" * 60} for name in ("one", "two")]
    shown = show(record_table("solvers", records, num_keys=2), width=width)
    assert shown.count("formulation") == tables
    assert shown.count("boa  one") == 1 - tables
