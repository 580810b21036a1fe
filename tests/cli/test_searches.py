"""Searches on the command line: solve, compare, plans, reports, frontiers, graphs, and what there is not for them."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

if TYPE_CHECKING:
    from tests.conftest import Runner

TEXTBOOK = "rubberband-two-stages"
PAPER = "rubberband-resnet101-20min"
HYPERBAND = {"form": "hyperband", "most_iterations": 4, "eta": 2, "order": "side-by-side"}


@pytest.fixture
def write_search(tmp_path: Path) -> Callable[..., Path]:
    """Write the textbook search with some fields changed, and return its path."""

    def write(**changes: Any) -> Path:  # noqa: ANN401 - plain data
        path = tmp_path / "mine.json"
        path.write_text(json.dumps(SEARCH | changes), encoding="utf-8")
        return path

    return write


SEARCH: dict[str, Any] = {
    "name": "mine",
    "formulation": "rubberband",
    "experiment": {"form": "stages", "stages": [{"trials": 4, "iterations": 10}, {"trials": 1, "iterations": 30}]},
    "training": {"seconds_per_iteration": {"1": 10.0, "2": 6.0, "4": 4.0}},
    "cloud": {"gpus_per_instance": 2, "price_usd_per_hour": 3.6},
    "deadline_s": 280.0,
}


def test_solve_compares_and_writes_result_and_plan(run: Runner, tmp_path: Path) -> None:
    """Two instances, then one, for 38 cents; static costs 16 % more. What is written is verified, and planned."""
    files = ["-o", tmp_path / "r.json", "--plan", tmp_path / "p.json"]
    told = run("solve", TEXTBOOK, "--compare", "static", *files)
    assert told.code == 0
    assert "4 min 40 s and costs $0.380" in told.out.splitlines()[0]
    assert "16 % more" in told.out
    plan = json.loads((tmp_path / "p.json").read_text(encoding="utf-8"))
    assert [segment["nodes"] for segment in plan["segments"]] == [2, 1]
    assert sum(segment["expected"]["cost_usd"] for segment in plan["segments"]) == pytest.approx(0.38)
    checked = run("verify", TEXTBOOK, tmp_path / "r.json")
    assert (checked.code, "all " in checked.out) == (0, True)


def test_json_holds_the_results_and_nothing_else(run: Runner) -> None:
    """Ours first, then the rivals."""
    told = run("solve", TEXTBOOK, "--compare", "naive-elastic", "--json")
    assert [one["solver"] for one in told.data] == ["held-paths", "naive-elastic"]
    assert told.data[1]["measures"]["expected_usd"] == pytest.approx(0.42)


def test_deadlines_and_budgets_are_options(run: Runner) -> None:
    """An earlier deadline is dearer; a budget with the other problem asks for the least time; either mode."""
    earlier = run("solve", TEXTBOOK, "--deadline", "4min", "--json").data
    assert earlier["objective"] == pytest.approx(0.42)
    fastest = run("solve", TEXTBOOK, "--problem", "fastest", "--budget", "0.42usd", "--json").data
    assert (fastest["objective"], fastest["objective_unit"]) == (pytest.approx(240.0), "s")
    by_fields = ["--set", "objective=time", "--set", "deadline_s=null", "--set", "budget=0.42usd"]
    assert run("solve", TEXTBOOK, *by_fields, "--json").data["solution"] == fastest["solution"]
    assert run("show", TEXTBOOK, "--policy", "fair", "--json").data["mode"] == "fair"
    assert run("solve", TEXTBOOK, "--policy", "fair", "--json").data["objective"] == pytest.approx(0.38)
    confident = ["--set", "confidence=0.9", "--problem", "cheapest-with-confidence"]
    assert run("solve", TEXTBOOK, *confident, "--json").data["solver"] == "bisection"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--problem", "fastest"], f"instance '{TEXTBOOK}' has no budget; give one, as in --budget 25usd"),
        (["--problem", "fastest", "--deadline", "5min"], f"instance '{TEXTBOOK}' has no budget; give one, as in"),
        (
            ["--problem", "whole"],
            "problem: got 'whole'; known: cheapest, fastest, cheapest-with-confidence, fastest-with-confidence",
        ),
        (["--problem", "cheapest-with-confidence"], "needs the probability; give one, as in --set confidence=0.95"),
        (["--policy", "mixed"], "mode: got 'mixed'; allowed: any, fair"),
        (["--problem", "fastest", "--budget", "3gpu"], "budget: got '3gpu'; the budget is money in all"),
        (["--solver", "layered-paths"], "no solver 'layered-paths' for rubberband"),
        (["--explain"], "--explain: formulation 'rubberband' has no explanations; leave it out"),
    ],
)
def test_what_does_not_fit_is_refused(run: Runner, options: list[str], message: str) -> None:
    """Before any work, with the way out."""
    told = run("solve", TEXTBOOK, *options)
    assert told.code in {1, 2}
    assert told.out == ""
    assert message in told.err


def test_infeasible_is_an_answer(run: Runner, tmp_path: Path) -> None:
    """Exit code 3, with the fastest possible time and what limits it; no plan is written, and the result is."""
    files = ["-o", tmp_path / "r.json", "--plan", tmp_path / "p.json"]
    told = run("solve", TEXTBOOK, "--deadline", "2min", *files)
    assert told.code == 3
    assert "160 s" in told.out.splitlines()[0]
    assert "a deadline of 2 min 40 s" in told.out
    assert "--plan: no plan was written" in told.err
    assert json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["status"] == "infeasible"
    assert run("solve", TEXTBOOK, "--deadline", "160s").code == 0
    assert run("verify", TEXTBOOK, tmp_path / "r.json", "--deadline", "2min").code == 0


def test_reports_are_written(run: Runner, tmp_path: Path) -> None:
    """One HTML file, of an answer and of none."""
    pytest.importorskip("plotly", reason='plotly is not installed; pip install "optplan[plot]" brings it')
    for name, options in (("yes.html", []), ("no.html", ["--deadline", "2min"])):
        told = run("solve", TEXTBOOK, *options, "--compare", "static", "--report", tmp_path / name)
        assert f"wrote {tmp_path / name}" in told.err
        assert "optplan verify rubberband-two-stages result.json" in (tmp_path / name).read_text(encoding="utf-8")


def test_the_frontier_is_a_list_of_plans(run: Runner, tmp_path: Path) -> None:
    """A table, all points as CSV and JSON, a figure."""
    pytest.importorskip("plotly", reason='plotly is not installed; pip install "optplan[plot]" brings it')
    told = run("frontier", TEXTBOOK, "-o", tmp_path / "f.csv", "--plot", tmp_path / "f.html")
    assert told.code == 0
    assert any(line.split()[:5] == ["4", "min", "40", "s", "$0.380"] for line in told.out.splitlines())
    with (tmp_path / "f.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[:5] == ["deadline_s", "objective_usd", "bound", "low", "high"]
    found = {float(row["deadline_s"]): float(row["objective_usd"]) for row in rows}
    assert found == pytest.approx({160.0: 0.68, 180.0: 0.48, 220.0: 0.44, 240.0: 0.42, 280.0: 0.38})
    drawn = (tmp_path / "f.html").read_text(encoding="utf-8")
    assert "Plans by deadline: 5 plans" in drawn
    assert '"text":"expected cost ($)"' in drawn
    data = run("frontier", TEXTBOOK, "--json").data
    assert [point["limit"] for point in data["points"]] == sorted(found)
    few = run("frontier", TEXTBOOK, "--points", "2").out
    assert f"{len(rows)} plans that no other beats, 2 of them shown" in few


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["frontier", TEXTBOOK, "--at", "20gpu"], "--at: the frontier of 'rubberband-two-stages' is a list of plans"),
        (["frontier", TEXTBOOK, "--report", "x.html"], "--report: the frontier of 'rubberband-two-stages' is a list"),
        (["frontier", TEXTBOOK, PAPER], f"{TEXTBOOK}: its frontier is a list of plans, which is shown alone"),
        (["frontier", "boa-one-table", PAPER], f"{PAPER}: its frontier is a list of plans, which is shown alone"),
        (
            ["show", TEXTBOOK, "--plot", "x.html", "--json"],
            "--plot draws, which is no JSON; leave out --json",
        ),
        (["schema", "explanation", "--formulation", "rubberband"], "formulation 'rubberband' has no explanations"),
        (["schema", "sensitivity", "--formulation", "rubberband"], "'rubberband' has no analysis of wrong estimates"),
        (["compare", TEXTBOOK, "boa-one-table"], f"{TEXTBOOK} is of formulation 'rubberband' and boa-one-table of"),
    ],
)
def test_what_there_is_not_is_said(
    run: Runner, arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In words, and nothing is written or printed."""
    monkeypatch.chdir(tmp_path)
    told = run(*arguments)
    assert (told.code, told.out) == (2, "")
    assert message in told.err
    assert list(tmp_path.iterdir()) == []


def test_explaining_a_result_is_refused(run: Runner, tmp_path: Path) -> None:
    """As on the way there."""
    run("solve", TEXTBOOK, "-o", tmp_path / "r.json")
    told = run("explain", tmp_path / "r.json")
    assert (told.code, told.out) == (2, "")
    assert "formulation 'rubberband' has no explanations" in told.err


def test_show_says_what_is_asked(run: Runner) -> None:
    """Search, limit, prices and stages; the paper's SHA(32, 1, 50, 3) is 32 x 1, 10 x 3, 3 x 9, 1 x 37."""
    told = run("show", PAPER)
    assert told.code == 0
    assert "SHA(32, 1, 50, 3)" in told.out
    assert "$12.24 an hour, 4 GPUs, billed per instance" in told.out
    table = [line.split() for line in told.out.splitlines() if line[:1].isdigit()]
    assert table == [["1", "32", "1"], ["2", "10", "3"], ["3", "3", "9"], ["4", "1", "37"]]


def test_the_plan_is_a_figure(run: Runner, write_search: Callable[..., Path], tmp_path: Path) -> None:
    """One of the plan over time, of brackets side by side, too; exit code 3 with the reason where there is no plan."""
    pytest.importorskip("plotly", reason='plotly is not installed; pip install "optplan[plot]" brings it')
    drawn = run("show", write_search(experiment=HYPERBAND), "--plot", tmp_path / "plan.html")
    assert (drawn.code, drawn.out) == (0, "")
    page = (tmp_path / "plan.html").read_text(encoding="utf-8")
    assert page.count('class="chart"') == 1
    assert page.rstrip().endswith("</html>")
    told = run("show", TEXTBOOK, "--plot", tmp_path / "none.html", "--deadline", "2min")
    assert (told.code, told.out) == (3, "")
    assert "160 s" in told.err


def test_answers_are_compared(run: Runner, tmp_path: Path) -> None:
    """Two results by time, cost and what each stage gets; two instances by their fields, or solved."""
    run("solve", TEXTBOOK, "-o", tmp_path / "a.json")
    run("solve", TEXTBOOK, "--solver", "static", "-o", tmp_path / "b.json")
    told = run("compare", tmp_path / "a.json", tmp_path / "b.json", "--json")
    rows = {row["path"]: (row["a"], row["b"]) for row in told.data["rows"]}
    assert rows["expected_s"] == (280.0, 220.0)
    assert rows["brackets.0.1.instances"] == (1, 2)
    solved = run("compare", PAPER, "rubberband-resnet101-30min", "--solve")
    assert solved.code == 0
    assert "expected cost" in solved.out
    assert "stage 4" in solved.out


@pytest.mark.parametrize("record", ["instance", "result", "plan"])
def test_schemas_describe_the_files(run: Runner, tmp_path: Path, record: str) -> None:
    """What is written is valid by the schema that is printed."""
    files = {"instance": tmp_path / "i.json", "result": tmp_path / "r.json", "plan": tmp_path / "p.json"}
    run("show", PAPER, "-o", files["instance"])
    run("solve", PAPER, "-o", files["result"], "--plan", files["plan"])
    schema = run("schema", record, "--formulation", "rubberband").data
    jsonschema.validate(json.loads(files[record].read_text(encoding="utf-8")), schema)


def test_list_has_instances_solvers_and_the_formulation(run: Runner) -> None:
    """All of the second formulation's."""
    data = run("list", "--json").data
    assert PAPER in {one["name"] for one in data["instances"]}
    assert "held-paths" in {one["name"] for one in data["solvers"] if one["formulation"] == "rubberband"}
    assert "rubberband" in {one["name"] for one in data["formulations"]}


@pytest.mark.slow
def test_a_report_sets_the_plan_beside_the_best_static_cluster(run: Runner, tmp_path: Path) -> None:
    """Without any --compare; a static plan stands alone."""
    page = tmp_path / "page.html"
    run("solve", "rubberband-two-stages", "--report", page)
    assert "Solvers side by side" in page.read_text(encoding="utf-8")
    alone = tmp_path / "alone.html"
    run("solve", "rubberband-two-stages", "--solver", "static", "--report", alone)
    assert "Solvers side by side" not in alone.read_text(encoding="utf-8")
