"""Commands on training jobs: what Srift's answers look like on the command line, and what they write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import pytest

if TYPE_CHECKING:
    from tests.conftest import Runner

CASE = "srift-case3"
FLEET = "4 p3.8xlarge@1024 + 8 g3.8xlarge@128 + 8 g4dn.8xlarge@128"


def test_case_3_is_solved_compared_and_planned(run: Runner, tmp_path: Path) -> None:
    """The paper predicts 378 s and 2.72 dollars, and for CAP and TAP times and costs that break both limits."""
    files = ["-o", tmp_path / "r.json", "--plan", tmp_path / "p.json"]
    rivals = ["--compare", "published-cost-aware", "--compare", "published-throughput-aware"]
    told = run("solve", CASE, *rivals, *files)
    assert told.code == 0
    assert f"{FLEET} train ShuffleNet v2 x2.0 in 6 min 19 s for $2.74" in told.out
    assert "2 p3.8xlarge@1024 + 8 g3.8xlarge@256 + 8 g4dn.8xlarge@256, which breaks deadline" in told.out
    plan = json.loads((tmp_path / "p.json").read_text(encoding="utf-8"))
    assert [(vms["count"], vms["batch_per_rank"]) for vms in plan["units"]] == [(4, 256), (8, 64), (8, 128)]
    assert (plan["world_size"], plan["global_batch"]) == (40, 6144)
    checked = run("verify", CASE, tmp_path / "r.json")
    assert (checked.code, "all " in checked.out) == (0, True)


def test_limits_and_problems_are_options(run: Runner) -> None:
    """The fastest for 3 dollars is the cheapest within 10 minutes, since nothing else keeps both."""
    fastest = run("solve", CASE, "--problem", "fastest", "--json").data
    assert (fastest["objective"], fastest["objective_unit"]) == (pytest.approx(379.2, abs=0.05), "s")
    alone = run("solve", CASE, "--set", "mixed=false", "--set", "deadline_s=null", "--set", "budget=null", "--json")
    # 6,144 samples need all VMs of some types at their largest batches; no single type has room for them.
    assert alone.code == 3


def test_infeasible_is_an_answer(run: Runner) -> None:
    """Exit code 3, with what would help."""
    told = run("solve", CASE, "--deadline", "5min")
    assert told.code == 3
    assert "No fleet can do it: " in told.out
    assert "would help" in told.out


def test_show_says_what_is_asked_and_draws_the_iteration(run: Runner, tmp_path: Path) -> None:
    """Types and choices as text; the best fleet's iteration as a figure."""
    pytest.importorskip("plotly", reason='plotly is not installed; pip install "optplan[plot]" brings it')
    told = run("show", CASE)
    assert "ShuffleNet v2 x2.0, 1,000 iterations of 6,144 samples; 29.6 MB of gradients in 170 layers" in told.out
    assert "least cost, within 10 min 00 s and for at most $3.00" in told.out
    drawn = run("show", CASE, "--plot", tmp_path / "iteration.html")
    assert (drawn.code, drawn.out) == (0, "")
    assert "exchanged meanwhile" in (tmp_path / "iteration.html").read_text(encoding="utf-8")


def test_reports_are_written(run: Runner, tmp_path: Path) -> None:
    """One HTML file, of an answer and of none."""
    pytest.importorskip("plotly", reason='plotly is not installed; pip install "optplan[plot]" brings it')
    for name, options in (("yes.html", []), ("no.html", ["--deadline", "5min"])):
        told = run("solve", CASE, *options, "--report", tmp_path / name)
        assert f"wrote {tmp_path / name}" in told.err
        assert f"optplan verify {CASE} result.json" in (tmp_path / name).read_text(encoding="utf-8")


def test_the_frontier_is_a_list_of_fleets(run: Runner, tmp_path: Path) -> None:
    """All of them as JSON; the one within both limits is there."""
    told = run("frontier", "srift-interruption", "-o", tmp_path / "f.json")
    assert told.code == 0
    assert "2 p3.8xlarge@512" in told.out
    points = json.loads((tmp_path / "f.json").read_text(encoding="utf-8"))["points"]
    assert [point["limit"] for point in points] == sorted(point["limit"] for point in points)
    costs = [point["objective"] for point in points]
    assert costs == sorted(costs, reverse=True)


def test_answers_are_compared(run: Runner, tmp_path: Path) -> None:
    """By time, cost, the parts of an iteration, and the VMs of each type and batch."""
    loose = ["--set", "deadline_s=null", "--set", "budget=null"]
    for name, solver in (("a.json", "auto"), ("b.json", "published-cost-aware")):
        run("solve", CASE, *loose, "--solver", solver, "-o", tmp_path / name)
    told = run("compare", tmp_path / "a.json", tmp_path / "b.json", "--json").data
    rows = {row["path"]: (row["a"], row["b"]) for row in told["rows"]}
    assert rows["p3.8xlarge@1024"] == (4, 2)
    assert rows["time_s"] == pytest.approx((379.2, 754.0), rel=1e-3)


@pytest.mark.parametrize("record", ["instance", "result", "plan"])
def test_schemas_describe_the_files(run: Runner, tmp_path: Path, record: str) -> None:
    """What is written is valid by the schema that is printed."""
    files = {"instance": tmp_path / "i.json", "result": tmp_path / "r.json", "plan": tmp_path / "p.json"}
    run("show", CASE, "-o", files["instance"])
    run("solve", CASE, "-o", files["result"], "--plan", files["plan"])
    schema = run("schema", record, "--formulation", "srift").data
    jsonschema.validate(json.loads(files[record].read_text(encoding="utf-8")), schema)
