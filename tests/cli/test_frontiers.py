"""``optplan frontier``: the table, the questions, the files."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optplan.cli.frontiers import thin

if TYPE_CHECKING:
    from tests.cli.conftest import Runner


def test_the_whole_frontier_as_json(run: Runner) -> None:
    """Every breakpoint with its certificate and its two marginal values."""
    told = run("frontier", "boa-one-table", "--json")
    assert (told.code, told.err) == (0, "")
    # GPU-hours 1, 1.25, 2 and hours 1, 0.625, 0.5, one job an hour: slopes 0.375 / 0.25 = 3 / 2, 0.125 / 0.75 = 1 / 6.
    points = told.data["points"]
    assert [point["budget"] for point in points] == pytest.approx([1.0, 1.25, 2.0])
    assert [point["objective"] for point in points] == pytest.approx([3600.0, 2250.0, 1800.0])
    assert points[1]["shadow_price"]["less"] == pytest.approx(1.5 * 3600)
    assert points[1]["shadow_price"]["more"] == pytest.approx(600.0)
    assert points[1]["certificate"]["bound"] == pytest.approx(2250.0)
    assert (told.data["budget_unit"], told.data["objective_unit"]) == ("gpu", "s")


def test_questions_both_ways(run: Runner) -> None:
    """--at asks what a budget buys, --for-jct what a completion time costs; answers keep that order."""
    told = run(
        *("frontier", "boa-one-table", "--at", "1.625gpu", "--at", "2920usd/month", "--for-jct", "2025s", "--json")
    )
    assert told.code == 0
    # Half-way between 1.25 and 2 GPUs is half-way between 2250 and 1800 s. 2920 / 730 hours / 2 dollars = 2 GPUs.
    answers = told.data["answers"]
    assert [answer["budget"] for answer in answers] == pytest.approx([1.625, 2.0, 1.625])
    assert [answer["objective"] for answer in answers] == pytest.approx([2025.0, 1800.0, 2025.0])


def test_the_table_for_people(run: Runner) -> None:
    """Every point, what one more GPU saves there, and the answers under a line of their own."""
    told = run("frontier", "boa-one-table", "--for-jct", "2025s")
    assert told.code == 0
    assert told.out.startswith("Frontier of boa-one-table: 3 points\n")
    assert "one more GPU saves" in told.out
    assert "10 min 00 s" in told.out
    assert "33 min 45 s" in told.out[told.out.index("As asked:") :]


def test_many_points_are_thinned_and_that_is_said(run: Runner) -> None:
    """A long frontier shows at most as many rows as asked, the ends among them."""
    told = run("frontier", "boa-two-classes", "--points", "4")
    assert "12 points, 4 of them shown (-o FILE writes all, --points N shows more)" in told.out
    assert "the least that works" in told.out
    assert "more buys nothing" in told.out
    # Title, blank line, heading, rule, four rows.
    assert len(told.out.rstrip().splitlines()) == 8


@given(st.integers(1, 3000), st.integers(2, 60))
def test_thinning_keeps_the_ends_and_the_order(count: int, most: int) -> None:
    """Rows are distinct, increasing, at most as many as asked, with the first and the last; all when they fit."""
    rows = thin(count, most)
    assert rows == sorted(set(rows))
    assert (rows[0], rows[-1]) == (0, count - 1)
    assert len(rows) == min(count, most)


def test_questions_without_an_answer(run: Runner) -> None:
    """A budget below the least and a time below the best are infeasible, and the limits are named."""
    told = run("frontier", "boa-one-table", "--at", "0.5gpu")
    assert (told.code, told.out) == (3, "")
    assert "the frontier starts at a budget of 1 GPU" in told.err
    told = run("frontier", "boa-one-table", "--for-jct", "1s")
    assert (told.code, told.out) == (3, "")
    assert "1800" in told.err
    told = run("frontier", "boa-one-table", "--at", "120")
    assert told.code == 2
    assert "--at: '120' has no known unit" in told.err


def test_files(run: Runner, tmp_path: Path) -> None:
    """JSON and CSV hold every breakpoint, whatever the table shows; the name's ending decides."""
    data, table = tmp_path / "frontier.json", tmp_path / "frontier.csv"
    assert run("frontier", "boa-two-classes", "--points", "2", "-o", data).err == f"wrote {data}\n"
    assert run("frontier", "boa-two-classes", "--points", "2", "-o", table).err == f"wrote {table}\n"
    points = json.loads(data.read_text(encoding="utf-8"))["points"]
    rows = list(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))
    assert len(points) == len(rows) == 12
    assert list(rows[0]) == ["budget_gpu", "objective_s", "less_s_per_gpu", "more_s_per_gpu"]
    assert [float(row["objective_s"]) for row in rows] == [point["objective"] for point in points]
    assert rows[0]["less_s_per_gpu"] == ""


def test_the_plot_is_one_page(run: Runner, tmp_path: Path) -> None:
    """--plot writes a page that needs nothing else."""
    pytest.importorskip("plotly")
    page = tmp_path / "frontier.html"
    assert run("frontier", "boa-one-table", "--plot", page).code == 0
    text = page.read_text(encoding="utf-8")
    assert "<html" in text
    assert "best possible" in text


def test_existing_files_are_refused(run: Runner, tmp_path: Path) -> None:
    """A frontier does not overwrite either."""
    path = tmp_path / "frontier.json"
    path.write_text("kept", encoding="utf-8")
    told = run("frontier", "boa-one-table", "-o", path)
    assert (told.code, told.out) == (1, "")
    assert f"--output: {path} exists" in told.err
