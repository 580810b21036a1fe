"""``optplan largest``: the answer, its files and its exit codes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.conftest import Runner

TEXTBOOK = ("rubberband-two-stages", "--deadline", "280s")


def test_the_answer_names_size_and_reason(run: Runner, tmp_path: Path) -> None:
    """Six trials cost 0.48 usd within 280 s, seven 0.58; the instance that is written has six."""
    new = tmp_path / "six.json"
    told = run("largest", *TEXTBOOK, "--budget", "0.5usd", "--new-instance", new)
    assert told.code == 0
    assert "has 6 trials" in told.out
    assert "of 7, within the deadline of 280 s a plan needs 0.58 usd at least" in " ".join(told.out.split())
    assert run("solve", new, "--json").data["objective"] == 0.48


def test_json_has_what_verify_takes(run: Runner, tmp_path: Path) -> None:
    """Size, both instances and both results, in what is printed and in the file."""
    path = tmp_path / "largest.json"
    told = run("largest", *TEXTBOOK, "--grow", "iterations", "--json", "-o", path)
    assert told.data["growing"] == "iterations"
    assert told.data["proven"] is True
    assert told.data["refusal"]["status"] == "infeasible"
    assert told.data["larger"]["formulation"] == "rubberband"
    assert path.exists()


def test_where_nothing_fits_the_code_is_3(run: Runner) -> None:
    """No trial can be done within 10 s."""
    told = run("largest", "rubberband-two-stages", "--deadline", "10s")
    assert told.code == 3
    assert told.out.startswith("Not even 1 trial keeps the limits: the fastest this search can run is 160 s")
