"""``optplan solve --problem largest``: the answer, its files and its exit codes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import Runner

TEXTBOOK = ("rubberband-two-stages", "--deadline", "280s")


def test_the_answer_names_size_and_reason(run: Runner, tmp_path: Path) -> None:
    """Six trials cost 0.48 usd within 280 s, seven 0.58; the instance that is written has six."""
    new = tmp_path / "six.json"
    told = run("solve", *TEXTBOOK, "--problem", "largest", "--budget", "0.5usd", "--new-instance", new)
    assert told.code == 0
    assert "has 6 trials" in told.out
    assert "of 7" in told.out
    assert "0.58 usd" in told.out
    assert run("solve", new, "--json").data["objective"] == 0.48


def test_json_has_what_verify_takes(run: Runner, tmp_path: Path) -> None:
    """Size, both instances and both results, in what is printed and in the file."""
    path = tmp_path / "largest.json"
    told = run("solve", *TEXTBOOK, "--problem", "largest", "--grow", "iterations", "--json", "-o", path)
    assert told.data["growing"] == "iterations"
    assert told.data["proven"] is True
    assert told.data["refusal"]["status"] == "infeasible"
    assert told.data["larger"]["formulation"] == "rubberband"
    told = run("verify", "rubberband-two-stages", path)
    assert told.code == 1
    assert "largest.json: is the answer of --problem largest, not a result: " in told.err
    assert "write its fields instance and result, or larger and refusal, to files of their own" in told.err


def test_where_nothing_fits_the_code_is_3(run: Runner) -> None:
    """No trial can be done within 10 s."""
    told = run("solve", "rubberband-two-stages", "--problem", "largest", "--deadline", "10s")
    assert told.code == 3
    assert "160 s" in told.out.splitlines()[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--problem", "largest", "--seed", "3"), "--seed: has no meaning with --problem largest; leave it out"),
        (("--problem", "largest", "--plan", "p.json"), "--plan: has no meaning with --problem largest; leave it out"),
        (("--grow", "trials"), "--grow: goes with --problem largest; leave it out"),
        (("--new-instance", "n.json"), "--new-instance: goes with --problem largest or --state; leave it out"),
    ],
)
def test_options_without_a_meaning_are_refused(
    run: Runner, options: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of other questions, by name; nothing is solved."""
    monkeypatch.chdir(tmp_path)
    told = run("solve", "rubberband-two-stages", *options)
    assert (told.code, told.out) == (2, "")
    assert message in told.err


def test_only_searches_grow(run: Runner) -> None:
    """Other formulations have no largest problem."""
    assert run("solve", "boa-two-classes", "--problem", "largest").code == 2
    assert run("show", "rubberband-two-stages", "--problem", "largest").code == 2
