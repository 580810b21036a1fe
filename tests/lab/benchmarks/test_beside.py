"""``benchmarks/beside.py``: two installations beside one another: what is asked, what rows say, what is refused."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from beside import compare_installations, is_same, list_questions, summarise

from optplan.errors import DataError, UsageError


def make_row(name: str, other_ms: float, own_ms: float, *, check_ms: float = 0.0, same: bool = True) -> dict[str, Any]:
    """Return a row of two times."""
    sides = ({"ms": ms, "solver_ms": ms - check_ms, "check_ms": check_ms} for ms in (other_ms, own_ms))
    return dict(zip(("other", "own"), sides, strict=True)) | {
        "name": name,
        "quicker": other_ms / own_ms,
        "same": same,
    }


def test_an_installation_beside_itself_answers_the_same() -> None:
    """Every kind of question is answered by a process of its own, and told as soon as both have answered."""
    told: list[float | None] = []
    rows = compare_installations(
        sys.executable, only="^(frontier-)?boa-one-table", repeats=1, on_event=lambda event: told.append(event.fraction)
    )
    assert [row["name"] for row in rows] == [
        "boa-one-table-whole-pure-1.25gpu",
        "boa-one-table-whole-mixed-1.25gpu",
        "frontier-boa-one-table-whole-mixed-1.25gpu",
    ]
    assert all(row["same"] and row["quicker"] > 0.0 for row in rows)
    assert told == pytest.approx([1 / 3, 2 / 3, 1.0])


def test_questions_have_names_of_their_own() -> None:
    """Solves, frontiers, explanations, and searches with rules that no record has."""
    questions = list(list_questions(quick=True))
    names = [name for name, _, _ in questions]
    assert len(set(names)) == len(names)
    assert {kind for _, kind, _ in questions} == {"solve", "frontier", "explain"}
    assert "rubberband+resnet101-20min-mode=fair" in names


def test_rows_are_summed_up_by_kind() -> None:
    """Of those of 20 ms and more: 4 times quicker and half as quick, 2.25 in the median; 3 ms of check over 20."""
    rows = [
        make_row("boa-a", 80.0, 20.0),
        make_row("boa-b", 30.0, 60.0),
        make_row("boa-c", 5.0, 6.0, check_ms=3.0, same=False),
    ]
    assert summarise(rows) == [
        {
            "questions": "boa",
            "rows": 3,
            "of 20 ms and more": 2,
            "quicker in the median": 2.25,
            "at worst": 0.5,
            "most ms more": 30.0,
            "in": "boa-b",
            "check over solver or 20 ms": pytest.approx(0.15),
            "answers differ": 1,
        }
    ]


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        (["optimal", 1.0, 1.0], ["optimal", 1.0 + 1e-13, 1.0], True),
        (["optimal", 1.0, 1.0], ["optimal", 1.0 + 1e-11, 1.0], False),
        (["optimal", 1.0, 1.0], ["feasible", 1.0, 1.0], False),
        (["unknown", None, 1.0], ["unknown", None, 1.0], True),
        (["optimal", 1.0], ["optimal", 1.0, 1.0], False),
    ],
)
def test_answers_are_the_same_to_rounding(before: list[Any], after: list[Any], *, same: bool) -> None:
    """A relative 1e-12, and words exactly."""
    assert is_same(before, after) is same


def test_what_cannot_be_compared_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """By what is wrong: the questions, the interpreter, what it has installed."""
    first = next(question for question in list_questions(quick=True) if question[0].startswith("boa-one"))
    monkeypatch.setattr("beside.list_questions", lambda **_: [first])
    with pytest.raises(UsageError, match=r"^only: no question has 'zzz' in its name$"):
        compare_installations(sys.executable, only="zzz")
    with pytest.raises(UsageError, match=r"^beside: nowhere/python cannot be started: No such file"):
        compare_installations("nowhere/python", only="boa-one")
    with pytest.raises(DataError, match=r"^beside: an installation ended at boa-one-table-whole-pure-1.25gpu"):
        compare_installations("true", only="boa-one")
