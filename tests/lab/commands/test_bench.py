"""``optplan bench``: the suites, and what becomes of their rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from optplan.lab.benchmarks import suites
from optplan.lab.benchmarks.sweeps import summarise_best_known, summarise_suite
from optplan.progress import Event

if TYPE_CHECKING:
    from tests.conftest import Runner

ROW: dict[str, object] = {
    "instance": "boa-one-table@1.25gpu",
    "solver": "layered-paths",
    "status": "optimal",
    "objective": 2250.0,
    "bound": 2250.0,
    "gap": 0.0,
    "bound_proof": "lagrangian",
    "certificate_kb": 0.1,
    "seconds": 0.001,
    "verify_seconds": None,
    "peak_mb": 50.0,
    "extra": {"passes": 3.0},
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool, bool]]:
    """Replace the measuring by one row, and record what was asked."""
    calls = []

    def run_suite(
        name: str, *, quick: bool, full: bool, proofs: Path | None, on_event: object
    ) -> list[dict[str, object]]:
        assert proofs is None
        calls.append((name, quick, full))
        assert callable(on_event)
        on_event(Event("boa-one-table layered-paths", 0.0, 2250.0, 2250.0))
        return [ROW]

    monkeypatch.setattr("optplan.lab.benchmarks.run_suite", run_suite)
    return calls


def test_without_a_suite_they_are_listed(run: Runner) -> None:
    """Nothing is measured by accident."""
    assert run("bench").out.split() == suites()
    assert run("bench", "--json").data == {"suites": suites()}


def test_rows_for_people_and_for_programs(run: Runner, asked: list[tuple[str, bool, bool]], tmp_path: Path) -> None:
    """The table shows the main figures; --json and -o have every field."""
    path = tmp_path / "rows.json"
    told = run("bench", "boa", "--quick", "-o", path)
    assert (told.code, told.err) == (0, f"wrote {path}\n")
    assert "boa-one-table@1.25gpu" in told.out
    assert json.loads(path.read_text(encoding="utf-8")) == [ROW]
    assert run("bench", "boa", "--full", "--json").data == [ROW]
    assert asked == [("boa", True, False), ("boa", False, True)]


def test_unknown_suites_and_contradictions(run: Runner) -> None:
    """The nearest suite is offered; quick and full exclude each other."""
    told = run("bench", "bao")
    assert (told.code, told.out) == (2, "")
    assert "SUITE: no suite 'bao'; did you mean 'boa'?" in told.err
    told = run("bench", "boa", "--quick", "--full")
    assert (told.code, told.out) == (2, "")
    assert "quick and full exclude each other" in told.err


def test_all_suites_give_one_document_and_one_page(
    run: Runner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Values that were not reached are named, and the exit code is 5; options of a sweep are refused for one suite."""
    rows = [ROW | {"extra": {"stands": "missed", "proof": "holds", "recorded_objective": 2000.0}}]
    document = {
        **{"date": "2026-11-22", "machine": "a machine", "versions": "optplan 1", "quick": True, "full": False},
        **{"engine": "processes", "processes": 2, "seconds": 1.0},
        "suites": {
            "best-known": {"machine": "another", "seconds": 1.0, "rows": rows, "summary": summarise_suite(rows)}
        },
        "best_known": summarise_best_known(rows),
    }
    asked: dict[str, object] = {}

    def run_sweep(**options: object) -> dict[str, object]:
        asked.update(options)
        return document

    monkeypatch.setattr("optplan.lab.benchmarks.sweeps.run_sweep", run_sweep)
    json_file, page = tmp_path / "bench.json", tmp_path / "bench.html"
    told = run("bench", "all", "--quick", "--processes", 2, "-o", json_file, "--report", page)
    assert told.code == 5
    assert "failed: boa-one-table@1.25gpu" in told.out
    assert (asked["quick"], asked["processes"], asked["engine"], asked["proofs"]) == (True, 2, "processes", None)
    assert json.loads(json_file.read_text(encoding="utf-8")) == document
    shown = page.read_text(encoding="utf-8")
    assert "not reached, or its proof does not hold: boa-one-table@1.25gpu" in shown
    assert "suites 2 at a time" in shown
    assert "1 rows in 1\xa0s, on another." in shown
    document["engine"] = "ray"
    run("bench", "all", "--engine", "ray", "--report", page, "--force")
    assert (asked["engine"], asked["processes"]) == ("ray", None)
    assert "on a Ray cluster" in page.read_text(encoding="utf-8")
    for wrong in (("--processes", 2), ("--engine", "ray")):
        refused = run("bench", "boa", "--quick", *wrong)
        assert refused.code == 2
        assert "--processes, --engine and --report go with 'optplan bench all'; boa is one suite" in refused.err
