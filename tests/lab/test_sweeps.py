"""Sweeps: what is there is not run again, what fails does not stop the others, and processes change nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from optplan.errors import DataError, OutputError, UsageError
from optplan.lab import sweeps
from optplan.lab.sweeps import Cell
from optplan.progress import Event


@pytest.fixture
def cell(toy_profiles: Path, toy_trace: Path) -> Cell:
    """Return a cell of the toy trace."""
    return Cell(workload=str(toy_trace), profiles=str(toy_profiles), policy="one-gpu", gpu="toy")


def test_what_is_there_is_not_run_again(cell: Cell, tmp_path: Path) -> None:
    """A file is read as it stands, even where the paths are others; a trace with other content is another cell."""
    events: list[Event] = []
    cells = [cell, cell.replace(policy="reservation"), cell]
    first = sweeps.run(cells, tmp_path / "out", 1, on_event=events.append)
    # 50 s of starting and 100 epochs of 10 s.
    assert [told["mean_jct_s"] for told in first] == pytest.approx([1050.0] * 3)
    assert [event.stage for event in events] == [f"{done} of 2 cells" for done in range(3)]
    files = sorted((tmp_path / "out").iterdir())
    assert [file.name[:-18] for file in files] == ["trace-one-gpu", "trace-reservation"]
    files[0].write_text(json.dumps({**json.loads(files[0].read_text()), "mean_jct_s": 7.0}))
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    moved = Path(cell.workload).rename(folder / "trace.csv")
    again = sweeps.run([cell.replace(workload=str(moved))], tmp_path / "out", 1)
    assert again[0]["mean_jct_s"] == 7.0
    moved.write_text(moved.read_text().replace("3600", "3601"))
    assert sweeps.run([cell.replace(workload=str(moved))], tmp_path / "out", 1)[0]["mean_jct_s"] > 1000.0
    assert len(list((tmp_path / "out").iterdir())) == 3


def test_a_folder_that_cannot_be_written_is_noticed_before_any_work(cell: Cell, tmp_path: Path) -> None:
    """Below a file there is no folder; the cell's policy, which does not exist, is not even looked at."""
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"file/out: no results can be written there \(Not a directory\)"):
        sweeps.run([cell.replace(policy="nobody")], tmp_path / "file" / "out", 1)


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"digest": "0"}'])
def test_a_file_that_is_no_result_is_refused(cell: Cell, tmp_path: Path, content: str) -> None:
    """The message names the whole path, and what to do."""
    sweeps.run([cell], tmp_path, 1)
    (file,) = tmp_path.glob("*-one-gpu-*.json")
    file.write_text(content)
    with pytest.raises(DataError, match="remove it, and it is simulated again") as raised:
        sweeps.run([cell], tmp_path, 1)
    assert raised.value.path == str(file)


def test_parameters_and_plans_make_cells(cell: Cell, tmp_path: Path) -> None:
    """Whatever decides the figures is in the digest; a default that is written out changes nothing."""
    plan = tmp_path / "plan.json"
    plan.write_text("{}")
    one = cell.replace(policy=str(plan))
    before = one.digest()
    plan.write_text("{ }")
    assert one.digest() != before
    digests = {cell.digest()}
    for change in ({"nodes": 2}, {"slowdown": True}, {"seed": 1}, {"node_start_s": 1.0}, {"policy": "one-width:2"}):
        digests.add(cell.replace(**change).digest())
    assert len(digests) == 6
    assert cell.replace(seed=0).digest() in digests
    assert cell.profiles is not None
    table = next(Path(cell.profiles).rglob("placements-toy.csv"))
    table.write_text(table.read_text().replace("1.0,0.0", "2.0,0.0"))
    assert cell.digest() not in digests


def test_a_cell_that_fails_does_not_stop_the_others(cell: Cell, tmp_path: Path) -> None:
    """Others are written; then the first error is raised, with the cell in which it happened."""
    cells = [cell.replace(policy="equal-share"), cell.replace(gpu="nothing"), cell]
    with pytest.raises(UsageError, match="--nodes") as raised:
        sweeps.run(cells, tmp_path / "out", 1)
    assert raised.value.__notes__ == ["in 2 of 3 cells, first trace.csv under equal-share"]
    assert len(list((tmp_path / "out").iterdir())) == 1


def test_processes_change_nothing(cell: Cell, tmp_path: Path) -> None:
    """Two processes come to the same figures as this one."""
    cells = [cell, cell.replace(policy="one-width:2")]
    alone, together = (sweeps.run(cells, tmp_path / str(count), count) for count in (1, 2))
    for one, other in zip(alone, together, strict=True):
        assert {**one, "cpu_s": 0} == {**other, "cpu_s": 0}


def test_wrong_arguments(cell: Cell, tmp_path: Path) -> None:
    """The message says what is allowed."""
    with pytest.raises(UsageError, match="processes or ray"):
        sweeps.run([cell], tmp_path, engine="dask")
    with pytest.raises(UsageError, match="at least 1"):
        sweeps.run([cell], tmp_path, 0)
    with pytest.raises(DataError, match="cannot be read"):
        sweeps.run([cell.replace(workload=str(tmp_path / "none.csv"))], tmp_path)
