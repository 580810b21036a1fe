"""``optplan import throughputs``, and what the other commands make of such an instance."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import Runner


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Write speeds of 1, 2 and 4 VMs at a dollar an hour: 10, 18 and 30 samples a second."""
    path = tmp_path / "speeds.csv"
    path.write_text("type,vms,samples_per_s\nvm,1,10\nvm,2,18\nvm,4,30\n", encoding="utf-8")
    return path


@pytest.mark.wings
def test_a_table_is_solved_verified_planned_and_reported(run: Runner, table: Path, tmp_path: Path) -> None:
    """Three VMs at 24 a second, between two and four: 360,000 samples in 15,000 s for 12.5 usd, under 4 h 15 min."""
    job, result, plan, report = (tmp_path / name for name in ("job.json", "r.json", "p.json", "report.html"))
    told = run(
        *("import", "throughputs", table, "--samples", "360000", "--price", "1usd/hour", "--interpolate"),
        *("--deadline", "255min", "--launch", "30s", "--name", "mine", "-o", job),
    )
    assert (told.code, told.err) == (0, f"wrote {job}\n")
    assert "samples a dollar" in told.out
    solved = run("solve", job, "-o", result, "--plan", plan, "--report", report)
    assert solved.code == 0
    for part in ("3 vm", "4 h 10 min", "$12.50", "note: coarse"):
        assert part in solved.out
    assert run("verify", job, result).code == 0
    assert run("verify", job, result, "--set", "samples=360001").code != 0
    page = report.read_text(encoding="utf-8")
    assert "What was measured" in page
    assert "coarse, from 3 measured speeds" in page
    listed = run("frontier", job)
    assert listed.code == 0
    assert "4 vm" in listed.out
    assert "10 h 00 min" in listed.out  # one VM
    assert run("export", plan, "--to", "slurm", "--command", "train {gpus}", "--out", tmp_path / "slurm").code == 0


def test_no_choice_names_the_limit_that_would_do(run: Runner, table: Path, tmp_path: Path) -> None:
    """An answer with exit code 3, in a terminal and as a report."""
    job, report = tmp_path / "job.json", tmp_path / "report.html"
    run("import", "throughputs", table, "--samples", "360000", "--price", "1usd/hour", "-o", job)
    told = run("solve", job, "--deadline", "3h", "--report", report)
    assert told.code == 3
    assert "the fastest choice, 4 vm, takes 12,000 s; the deadline is 10,800 s" in told.out
    assert "a deadline of 3 h 20 min or more" in told.out
    assert "or more</td>" in report.read_text(encoding="utf-8")  # a space within a figure does not break there
    fastest = run("solve", job, "--problem", "fastest", "--budget", "12usd", "--compare", "choices")
    assert "2 vm train 360,000 samples in 5 h 33 min for $11.11" in fastest.out


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--samples", "9"), 1, "has no price of vm"),
        (("--samples", "9", "--price", "t4=1usd/hour"), 2, "--price: no type 't4'; known: vm"),
        (("--samples", "9", "--price", "5gpu"), 2, "--price: got '5gpu'; money for an hour"),
        (("--samples", "0", "--price", "1usd/hour"), 1, "samples: got 0"),
        ((), 2, "Missing option '--samples'"),
    ],
)
def test_wrong_imports(run: Runner, table: Path, options: tuple[str, ...], code: int, message: str) -> None:
    """Data of the table ends with 1, options with 2; the message says what to do."""
    told = run("import", "throughputs", table, *options, "-o", table.with_suffix(".json"))
    assert told.code == code
    assert message in told.err
