"""What rows amount to, on rows that can be summed up by hand, and the sweep that gathers them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from suites import sweeps
from suites.pages import build_sweep_page
from suites.sweeps import shifted_geometric_mean, summarise_suite

from optplan.errors import UsageError
from optplan.instances.library import manifest
from optplan.lab.benchmarks import best_known
from optplan.reporting.pages import build_page

if TYPE_CHECKING:
    from tests.plugins.pages import Visitor


def make_row(instance: str, solver: str, objective: float | None, seconds: float, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    """Make a row; what is not given is as of a heuristic."""
    row: dict[str, Any] = {
        "instance": instance,
        "solver": solver,
        "status": "unknown" if objective is None else "feasible",
        "objective": objective,
        "bound": None,
        "gap": None,
        "bound_proof": "none",
        "seconds": seconds,
        "verify_seconds": 0.0,
        "peak_mb": 50.0,
        "certificate_kb": None,
        "extra": {},
    }
    return row | more


def make_rows() -> list[dict[str, Any]]:
    """Two questions: the exact solver is best in both, the rival is as good and quicker once, and then 50 % above."""
    proven = {"status": "optimal", "gap": 0.0, "bound_proof": "enumerated"}
    return [
        make_row("a@1", "exact", 10.0, 0.04, bound=10.0, **proven),
        make_row("a@1", "rival", 10.0, 0.01),
        make_row("b@1", "exact", 20.0, 0.04, bound=20.0, **proven),
        make_row("b@1", "rival", 30.0, 0.01),
        make_row("c@1", "exact", 1.0, 0.09, bound=1.0, **proven, extra={"grows": "classes", "factor": 2.0}),
        make_row("a@frontier", "frontier", None, 0.5, verify_seconds=None, extra={"points": 3.0}),
    ]


def test_shifted_means_are_geometric() -> None:
    """(0.01 + 0.01) (0.07 + 0.01) is 0.04 squared, less the shift of 0.01; no shift gives the plain mean."""
    assert shifted_geometric_mean([0.01, 0.07]) == pytest.approx(0.03)


def test_solvers_are_compared_where_they_answered_the_same() -> None:
    """Of two questions the rival is best in one, and 25 % above the best on average."""
    told = summarise_suite(make_rows())
    exact, rival = told["solvers"]["exact"], told["solvers"]["rival"]
    assert (exact["num"], exact["solved"], exact["proven"], exact["largest_gap"]) == (3, 3, 3, 0.0)
    assert exact["time_s"] == pytest.approx((0.05 * 0.05 * 0.1) ** (1 / 3) - 0.01)
    assert exact["compared"] == {"num": 2, "best": 1.0, "mean_above": 0.0, "most_above": 0.0}
    assert rival["compared"] == {"num": 2, "best": 0.5, "mean_above": 0.25, "most_above": 0.5}
    assert told["growth"] == {"classes": [(2.0, 0.09)]}


def test_profiles_are_shares_within_factors() -> None:
    """The rival's objective is within 1 at half of them, within 1.5 at both; its time counts where it is best."""
    profiles = summarise_suite(make_rows())["profiles"]
    assert profiles["rival"]["objective"] == [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 1.0, 1.0]
    assert profiles["rival"]["time"] == [0.5] * 8
    # Four times the rival's 0.01 s where both are best; where the rival is not, nobody is quicker.
    assert profiles["exact"]["time"] == [0.5, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]


def test_where_more_is_better_the_largest_is_best() -> None:
    """The rival has half of what the exact solver has: it is above the best by one."""
    rows = [
        make_row("s", "exact", 8.0, 0.1, extra={"sense": "maximise"}),
        make_row("s", "rival", 4.0, 0.1, extra={"sense": "maximise"}),
        make_row("s", "other", 0.5, 0.1, extra={"objective_unit": "loss"}),
        make_row("s", "none", None, 0.1),
    ]
    told = summarise_suite(rows)["solvers"]
    assert told["rival"]["compared"]["most_above"] == 1.0
    assert "compared" not in told["other"]
    assert told["none"]["compared"] == {"num": 1, "best": 0.0, "mean_above": None, "most_above": None}


def test_values_that_do_not_stand_are_named() -> None:
    """Missed, and reached with a proof that is broken."""
    said = [("reached", "holds"), ("missed", "holds"), ("reached", "broken"), ("new", "no file"), ("better", "holds")]
    rows = [
        make_row(f"v{n}", "exact", 1.0, 0.1, extra={"stands": stands, "proof": proof})
        for n, (stands, proof) in enumerate(said)
    ]
    told = best_known.summarise(rows)
    assert told["failed"] == ["v1", "v2"]
    assert (told["values"], told["reached"], told["better"], told["missed"], told["new"]) == (4, 2, 1, 1, 1)
    assert told["proofs"] == {"holds": 3, "broken": 1, "no file": 1}


def test_what_is_better_or_new_is_written_with_its_proof(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An objective recorded above the optimum is bettered, one below is missed, and a limit without a record is new."""
    (fact,) = [one for one in manifest()["boa-one-table"]["best"] if one["policy"] == "pure"]
    worse = {**fact, "objective": 3000.0}
    wrong = {**fact, "objective": 2000.0, "bound": 2000.0}
    new = {"problem": "whole", "policy": "pure", "budget": "2gpu"}
    other = {**fact, "proof_file": "boa-one-table-whole-mixed-1.25gpu.json"}
    asked = [("boa-one-table", record) for record in (fact, worse, wrong, new, other)]
    monkeypatch.setattr(best_known, "list_questions", lambda **_: iter(asked))
    rows = list(best_known.run(quick=True, proofs=tmp_path))
    assert [row.extra["stands"] for row in rows] == ["reached", "better", "missed", "new", "reached"]
    assert [row.extra["proof"] for row in rows] == ["holds", "broken", "broken", "no file", "broken"]
    (entries,) = json.loads((tmp_path / best_known.RECORDS).read_text(encoding="utf-8")).values()
    assert [entry["objective"] for entry in entries] == [fact["objective"], rows[3].objective, fact["objective"]]
    assert all((tmp_path / entry["proof_file"]).is_file() for entry in entries)


def test_a_sweep_runs_suites_side_by_side_and_becomes_a_page(visit: Visitor, tmp_path: Path) -> None:
    """Two suites in two processes: every row is there, and the page has each of them with its solvers."""
    told: list[float | None] = []
    document = sweeps.run_sweep(
        ["srift", "runtime"], quick=True, processes=2, on_event=lambda e: told.append(e.fraction)
    )
    assert told == [0.5, 1.0]
    again = json.loads(json.dumps(document, allow_nan=False))
    assert (again["processes"], again["engine"]) == (2, "processes")
    srift = document["suites"]["srift"]
    exact = srift["summary"]["solvers"]["best-first"]
    rows = [row for row in srift["rows"] if row["solver"] == "best-first"]
    # How many are proven within the time limit depends on the machine.
    assert exact["proven"] == sum(row["status"] == "optimal" for row in rows) <= exact["num"] == len(rows)
    assert 0.0 <= exact["compared"]["best"] <= 1.0
    assert math.isfinite(document["seconds"])
    page = build_page(build_sweep_page(document))
    for text in ("best-first", "published-eager", "the loop, a round", document["versions"]):
        assert text in page
    opened = visit(page, tmp_path, 400)
    assert opened.page.locator("#suites tbody tr").count() == 2
    assert (opened.complaints, opened.list_collisions(), opened.read_back()) == ([], [], [])
    with pytest.raises(UsageError, match="processes: got 0; at least 1 is needed"):
        sweeps.run_sweep(["srift"], processes=0)
