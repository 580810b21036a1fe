"""The benchmark suites: rows have the promised fields, and the exact solver is never above a rival."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from suites import boa, boa_types, run_suite, suites

from optplan.errors import UsageError
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.instances.files import read_instance

FIELDS = {
    "instance",
    "solver",
    "status",
    "objective",
    "bound",
    "gap",
    "bound_proof",
    "seconds",
    "verify_seconds",
    "peak_mb",
    "certificate_kb",
    "extra",
}


def read_few_classes(name: str, kind: type[BoaInstance]) -> BoaInstance:
    """Read an instance; of the trace's classes two stay, with three times as many jobs: about the same load."""
    instance = read_instance(name, kind)
    few = {
        label: one.replace(arrival_rate_per_hour=3 * one.arrival_rate_per_hour)
        for label, one in instance.classes.items()
        if label in {"bert", "yolov3"}
    }
    return instance.replace(classes=few) if few else instance


@pytest.fixture(scope="module")
def rows() -> list[dict[str, object]]:
    """Run the quick suite once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boa, "read_instance", read_few_classes)
        return run_suite("boa", quick=True)


def test_rows_are_plain_data_with_the_promised_fields(rows: list[dict[str, object]]) -> None:
    """Rows survive JSON and name their instance with its limit."""
    again = json.loads(json.dumps(rows, allow_nan=False))
    assert all(set(row) == FIELDS for row in again)
    assert all("@" in row["instance"] for row in again)


def test_the_exact_solver_is_proven_and_at_or_below_every_rival(rows: list[dict[str, object]]) -> None:
    """For each instance the row of layered-paths has a gap of at most 1e-6, and no rival has a lower objective."""
    exact = {r["instance"]: r for r in rows if r["solver"] == "layered-paths"}
    assert {"boa-newtrace@80", "boa-newtrace@120", "boa-newtrace@300"} <= set(exact)
    for row in exact.values():
        assert row["status"] == "optimal"
        assert isinstance(row["gap"], float)
        assert row["gap"] <= 1e-6
    rivals = [r for r in rows if r["solver"] != "layered-paths" and r["instance"] in exact]
    assert any("published" in str(r["solver"]) for r in rivals)
    for row in rivals:
        assert isinstance(row["objective"], float)
        assert row["objective"] >= float(str(exact[row["instance"]]["objective"])) * (1 - 1e-9)


def test_growth_rows_say_what_grows(rows: list[dict[str, object]]) -> None:
    """Classes, epochs and widths each grow from the same instance."""
    extras = [row["extra"] for row in rows]
    assert {e["grows"] for e in extras if isinstance(e, dict) and "grows" in e} == {"classes", "epochs", "widths"}


@pytest.mark.filterwarnings("ignore::optplan.errors.DataWarning")
def test_types_are_proven_and_the_tools_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pure and mixed plans of every instance of several types, real widths, whole frontiers, and the tools."""
    monkeypatch.setattr(boa_types, "read_instance", read_few_classes)
    later = ("due", (("boa-newtrace", "100gpu", {"bert": 2500.0}),))
    monkeypatch.setitem(boa_types._PROMISES, "most_mean_jct_s", later)
    rows = run_suite("boa-types", quick=True)
    json.dumps(rows, allow_nan=False)
    proven = {str(row["instance"]) for row in rows if row["status"] == "optimal" and row["objective"] is not None}
    assert {
        "boa-newtrace-types@40-pure",
        "boa-newtrace-quotas@45-mixed",
        "boa-newtrace-types-changes@45-pure",
    } <= proven
    assert {row["solver"] for row in rows} >= {"linked-paths", "conic", "explain", "explain --wrong"}
    ratios = [row["extra"].get("objective_over_exact", 1.0) for row in rows if isinstance(row["extra"], dict)]
    assert min(ratios) >= 1.0 - 1e-9


def test_unknown_suites_are_refused_with_the_nearest_name() -> None:
    """And quick and full exclude each other."""
    assert suites() == [
        "audit",
        "best-known",
        "boa",
        "boa-types",
        "commitments",
        "online",
        "rubberband",
        "runtime",
        "seer",
        "sizes",
        "srift",
    ]
    with pytest.raises(UsageError, match="no benchmark suite 'bao'; did you mean 'boa'"):
        run_suite("bao")
    with pytest.raises(UsageError, match="quick and full exclude each other"):
        run_suite("boa", quick=True, full=True)
    with pytest.raises(UsageError, match="proofs are of the suite best-known; got boa"):
        run_suite("boa", quick=True, proofs=Path("found"))
