"""``optplan report``: the page of a result that is there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import Runner

PAIR = ("boa-two-classes", "--budget", "9gpu")


@pytest.fixture
def results(run: Runner, tmp_path: Path) -> tuple[Path, Path]:
    """Solve with the exact solver and with the paper's, and return the results' files."""
    paths = tmp_path / "exact.json", tmp_path / "published.json"
    assert run("solve", *PAIR, "-o", paths[0]).code == 0
    assert run("solve", *PAIR, "--solver", "published-algorithm1", "-o", paths[1]).code == 0
    return paths


def test_the_page_is_that_of_solve(run: Runner, results: tuple[Path, Path], tmp_path: Path) -> None:
    """The budget that the result carries is set again, the rival stands beside it, and the check is as it was typed."""
    page = tmp_path / "page.html"
    told = run("report", PAIR[0], *results, "-o", page)
    assert told.code == 0, told.err
    text = page.read_text(encoding="utf-8")
    assert "published-algorithm1" in text
    assert f"optplan verify {PAIR[0]} {results[0]}" in text


def test_a_page_that_is_there_is_not_replaced_unasked(run: Runner, results: tuple[Path, Path], tmp_path: Path) -> None:
    """Refused before any work; with --force it is replaced, and --json says where it is."""
    page = tmp_path / "page.html"
    page.write_text("mine", encoding="utf-8")
    refused = run("report", PAIR[0], results[0], "-o", page)
    assert (refused.code, page.read_text(encoding="utf-8")) == (1, "mine")
    assert "--force" in refused.err
    replaced = run("report", PAIR[0], results[0], "-o", page, "--force", "--json")
    assert replaced.data == {"report": str(page)}


def test_a_result_that_does_not_hold_gets_no_page(run: Runner, results: tuple[Path, Path], tmp_path: Path) -> None:
    """A better objective than the plan has is no page's headline."""
    data = json.loads(results[0].read_text(encoding="utf-8"))
    results[0].write_text(json.dumps({**data, "objective": 0.5 * data["objective"]}), encoding="utf-8")
    page = tmp_path / "page.html"
    assert run("report", PAIR[0], results[0], "-o", page).code == 5
    assert run("report", PAIR[0], results[1], results[0], "-o", page).code == 5  # beside another, too
    assert not page.exists()


def test_results_of_several_instances_have_no_page(run: Runner, results: tuple[Path, Path], tmp_path: Path) -> None:
    """The one that was made with other changes is named, and so are these."""
    other, page = tmp_path / "other.json", tmp_path / "page.html"
    assert run("solve", PAIR[0], "--policy", "mixed", "-o", other).code == 0
    told = run("report", PAIR[0], results[0], other, "-o", page)
    assert (told.code, page.exists()) == (2, False)
    assert (
        "other.json: is for 'boa-two-classes' with changes (policy=mixed), another instance than that of " in told.err
    )


def test_a_plan_is_no_result(run: Runner, tmp_path: Path) -> None:
    """That is said first, whatever is wrong with the page's file."""
    plan, page = tmp_path / "plan.json", tmp_path / "page.html"
    assert run("solve", *PAIR, "--plan", plan).code == 0
    page.touch()
    told = run("report", PAIR[0], plan, "-o", page)
    assert told.code == 1
    assert "plan.json: is a plan, not a result; give a result" in told.err
