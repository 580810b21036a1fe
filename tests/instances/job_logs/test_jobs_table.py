"""The jobs table: what is written beside an instance is read again as the same jobs."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from optplan.errors import DataError, MissingExtraError
from optplan.instances.job_logs.columns import Jobs
from optplan.instances.job_logs.jobs_table import write_jobs
from optplan.instances.job_logs.records import Row

if TYPE_CHECKING:
    from tests.conftest import Runner

EXAMPLE = Path(__file__).parents[3] / "docs/examples/sacct.txt"


def _import(run: Runner, *arguments: object) -> dict[str, Any]:
    """Import a log; return the instance without what says where it comes from."""
    told = run("import", "log", *arguments, "--json")
    assert told.code == 0, told.err
    data: dict[str, Any] = told.data
    return {name: value for name, value in data.items() if name not in ("source", "name")}


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_table_gives_the_instance_again(run: Runner, tmp_path: Path, suffix: str) -> None:
    """Array tasks, attempts, failed and running jobs: the same classes, with the same figures."""
    if suffix == "parquet":
        pytest.importorskip("polars", reason="Parquet needs the extra logs")
    path = tmp_path / f"jobs.{suffix}"
    options = ("--since", "2026-03-02", "--until", "2026-03-16", "--timezone", "Europe/Berlin")
    once = _import(run, EXAMPLE, "--from", "sacct", *options, "--class-pattern", "^[a-z]+", "--jobs", path)
    assert _import(run, path, "--from", "csv", *options, "--class-column", "class") == once


def test_what_stands_in_the_table(tmp_path: Path) -> None:
    """By the time of arrival, with sizes where they are known, states that are read alike, and an id for each job."""
    rows = {
        "a": [
            Row("/7", "", "x", "", 20.0, 30.0, 3600.0, 2, "t4", "failed", 1, completed=False),
            Row("/8", "", "y", "", 5.0, None, None, 1, "", "pending", 2, completed=False),
            Row("/9", "", "z", "", None, 12.5, 60.0, 1, "t4", "completed", 3, completed=False),
        ],
        "b": [Row("/7", "", "x", "", 40.0, 41.0, 0.5, 2, "t4", "archived", 4)],
    }
    path = tmp_path / "jobs.csv"
    classes = {name: Jobs.of(each) for name, each in rows.items()}
    write_jobs(classes, {"a": classes["a"].run_s / 1800.0}, path)
    assert list(csv.reader(path.read_text(encoding="utf-8").splitlines())) == [
        ["id", "class", "submit_s", "start_s", "run_s", "gpus", "gpu_type", "state", "completed", "size_gpu_hours"],
        ["8", "a", "5.0", "", "", "1", "", "pending", "false", ""],
        ["9", "a", "", "12.5", "60.0", "1", "t4", "preempted", "false", str(60.0 / 1800.0)],
        ["7", "a", "20.0", "30.0", "3600.0", "2", "t4", "failed", "false", "2.0"],
        ["7#2", "b", "40.0", "41.0", "0.5", "2", "t4", "completed", "true", ""],
    ]


def test_parquet_that_cannot_be_read_or_written(run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra the way to it; with it, what is no Parquet."""
    path = tmp_path / "jobs.parquet"
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "polars", None)
        with pytest.raises(MissingExtraError, match=r'polars is not installed; run: pip install "optplan\[logs\]"'):
            write_jobs({"a": Jobs.of([Row("", "", "x", "", 0.0, 0.0, 1.0, 1, "", "", 0)])}, {}, path)
        made = tmp_path / "made.json"
        told = run("import", "log", EXAMPLE, "--from", "sacct", "--yes", "--jobs", path, "-o", made)
        assert "polars is not installed" in told.err
    assert not path.exists()
    assert not made.exists()
    pytest.importorskip("polars", reason="Parquet needs the extra logs")
    path.write_text("id,submit\n", encoding="utf-8")
    told = run("import", "log", path, "--from", "csv", "--yes", "--json")
    assert told.code == DataError.exit_code
    assert "jobs.parquet: cannot be read as Parquet (" in told.error["message"]
