"""What commands print fits narrow terminals: no line is too long, and every word of the wide table is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from optplan.cli import main

if TYPE_CHECKING:
    from tests.conftest import Runner

#: Commands that print a table, by what they print.
COMMANDS = {
    "instances": "list instances",
    "solvers": "list solvers",
    "formulations": "list formulations",
    "a BOA instance": "show boa-newtrace-types",
    "a search": "show rubberband-resnet101-20min",
    "brackets": "show seer-paper-example",
    "a training job": "show srift-case3",
    "a BOA plan": "solve boa-two-classes --compare fixed-width",
    "a plan with types": "solve boa-newtrace-types --compare fixed-width",
    "no plan": "solve boa-two-classes --budget 3gpu",
    "a search's plan": "solve rubberband-resnet101-20min --compare static",
    "a plan of brackets": "solve seer-paper-example --compare published-seer",
    "a fleet": "solve srift-case3 --compare published-cost-aware",
    "a frontier": "frontier boa-two-classes --at 9gpu --solver fixed-width",
    "a list of plans": "frontier rubberband-two-stages",
    "explanations": "solve boa-two-classes --explain",
    "samples": "explain given.json --wrong speedup=10% --samples 20",
    "differences": "compare boa-newtrace boa-philly",
    "a continuation": "solve srift-case3 --state state.yaml",
}
OF_A_WING = pytest.param("frontier srift-case3 --limit vms", marks=pytest.mark.wings)
#: Words that differ between two runs: durations of the computation.
TIMES = re.compile(r"\(?\d+(\.\d+)?(e[-+]?\d+)?$|m?s[,)]?$|min$|verified$")
#: Headings of columns that name rows, which rows that stand alone do not repeat.
KEYS = {"formulation", "name", "class", "check", "solver", "limit"}


def read_words(text: str) -> set[str]:
    """Return the words of what was printed, but rules, durations and words that fill half a line by themselves."""
    words = {word for word in text.split() if not set(word) <= {"─"} and not TIMES.match(word)}
    return {word for word in words if len(word) < 30} - KEYS


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("command", [*COMMANDS.values(), OF_A_WING], ids=[*COMMANDS, "studies"])
def test_tables_fit_the_terminal(
    command: str, width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lines are no longer than the terminal is wide, and every word is whole."""
    monkeypatch.chdir(tmp_path)
    state = "{elapsed_s: 10min, iterations_done: 100, running: {g3.8xlarge: 1}}"
    Path("state.yaml").write_text(state, encoding="utf-8")
    if "given.json" in command:
        main(["solve", "boa-two-classes", "-o", "given.json", "-q"])
        capsys.readouterr()
    shown = {}
    for columns in (400, width):
        monkeypatch.setenv("COLUMNS", str(columns))
        main(command.split())
        shown[columns] = capsys.readouterr().out
    assert max(map(len, shown[width].splitlines())) <= width
    assert read_words(shown[400]) - read_words(shown[width]) == set()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_verification_fits_the_terminal(
    width: int, run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table of checks, too."""
    result = tmp_path / "r.json"
    run("solve", "boa-two-classes", "-o", result)
    wide = run("verify", "boa-two-classes", result).out
    monkeypatch.setenv("COLUMNS", str(width))
    narrow = run("verify", "boa-two-classes", result).out
    assert max(map(len, narrow.splitlines())) <= width
    assert read_words(wide) <= read_words(narrow)
