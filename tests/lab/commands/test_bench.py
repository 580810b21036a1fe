"""``optplan bench``: the suites, and what becomes of their rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from suites.__main__ import main
from suites.sweeps import summarise_suite

from optplan.lab import benchmarks
from optplan.lab.benchmarks.best_known import summarise
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


def test_without_a_suite_they_are_listed(run: Runner) -> None:
    """Nothing is measured by accident; the project's own suites stand beside the package."""
    assert run("bench").out.split() == benchmarks.suites() == ["best-known"]
    assert run("bench", "--json").data == {"suites": ["best-known"]}
    assert main([]) == 0


def test_rows_for_people_and_for_programs(run: Runner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The table shows the main figures, --json and -o every field; a value that was not reached is exit code 5."""
    stood = ROW | {"extra": {"stands": "reached", "proof": "holds"}}
    missed = ROW | {"extra": {"stands": "missed", "proof": "holds"}}
    found: list[list[dict[str, object]]] = [[stood], [stood, missed]]

    def run_suite(name: str, *, quick: bool, proofs: Path | None, on_event: object) -> list[dict[str, object]]:
        assert (name, quick, proofs) == ("best-known", True, None)
        assert callable(on_event)
        on_event(Event("boa-one-table layered-paths", 0.0, 2250.0, 2250.0))
        return found.pop(0)

    monkeypatch.setattr("optplan.lab.benchmarks.run_suite", run_suite)
    path = tmp_path / "rows.json"
    told = run("bench", "best-known", "--quick", "-o", path)
    assert (told.code, told.err) == (0, f"wrote {path}\n")
    assert "boa-one-table@1.25gpu" in told.out
    assert "1 reached, 0 bettered, 0 missed, 0 new; proofs: 1 hold, 0 broken" in told.out
    assert json.loads(path.read_text(encoding="utf-8")) == [stood]
    told = run("bench", "best-known", "--quick", "--json")
    assert (told.code, told.data) == (5, [stood, missed])


def test_unknown_suites_and_contradictions(run: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    """The nearest suite is offered; quick and full exclude each other, and best-known alone writes proofs."""
    told = run("bench", "best-knwon")
    assert (told.code, told.out) == (2, "")
    assert "SUITE: no suite 'best-knwon'; did you mean 'best-known'?" in told.err
    for arguments, message in (
        (["bao"], "SUITE: no suite 'bao'; did you mean 'boa'?"),
        (["boa", "--quick", "--full"], "quick and full exclude each other"),
        (["boa", "--proofs", "found"], "proofs are of the suite best-known; got boa"),
        (["boa", "--processes", "2"], "--processes, --engine and --report go with 'all'; boa is one suite"),
        (["boa", "--engine", "ray"], "--processes, --engine and --report go with 'all'; boa is one suite"),
    ):
        assert main(arguments) == 2
        assert message in capsys.readouterr().err


def test_all_suites_give_one_document_and_one_page(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Values that were not reached are named, and the exit code is 5."""
    rows = [ROW | {"extra": {"stands": "missed", "proof": "holds", "recorded_objective": 2000.0}}]
    document = {
        **{"date": "2026-11-22", "machine": "a machine", "versions": "optplan 1", "quick": True, "full": False},
        **{"engine": "processes", "processes": 2, "seconds": 1.0},
        "suites": {
            "best-known": {"machine": "another", "seconds": 1.0, "rows": rows, "summary": summarise_suite(rows)}
        },
        "best_known": summarise(rows),
    }
    asked: dict[str, object] = {}

    def run_sweep(**options: object) -> dict[str, object]:
        asked.update(options)
        return document

    monkeypatch.setattr("suites.sweeps.run_sweep", run_sweep)
    json_file, page = tmp_path / "bench.json", tmp_path / "bench.html"
    assert main(["all", "--quick", "--processes", "2", "-o", str(json_file), "--report", str(page)]) == 5
    assert "failed: boa-one-table@1.25gpu" in capsys.readouterr().out
    assert (asked["quick"], asked["processes"], asked["engine"], asked["proofs"]) == (True, 2, "processes", None)
    assert json.loads(json_file.read_text(encoding="utf-8")) == document
    shown = page.read_text(encoding="utf-8")
    assert "not reached, or its proof does not hold: boa-one-table@1.25gpu" in shown
    assert "suites 2 at a time" in shown
    assert "1 rows in 1\xa0s, on another." in shown
    document["engine"] = "ray"
    main(["all", "--engine", "ray", "--report", str(page), "--force"])
    assert (asked["engine"], asked["processes"]) == ("ray", None)
    assert "on a Ray cluster" in page.read_text(encoding="utf-8")
