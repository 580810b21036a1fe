"""Searches by deadline and budget on the command line: solved, compared, drawn, planned, verified."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from optplan.formulations.seer.planning import SeerPlan
from optplan.instances.files import read_plan

if TYPE_CHECKING:
    from tests.conftest import Runner


def test_solve_compare_plan_and_verify(run: Runner, tmp_path: Path) -> None:
    """The files that are written read back, and the result is verified with the options that changed the instance."""
    result, plan = tmp_path / "result.json", tmp_path / "plan.json"
    asked = ("seer-paper-example", "--deadline", "8min", "--budget", "1gpu-h")
    told = run("solve", *asked, "--compare", "published-seer", "-o", str(result), "--plan", str(plan))
    assert told.code == 0
    assert "8 min 00 s" in told.out
    assert "published-seer" in told.out
    written = read_plan(plan)
    assert isinstance(written, SeerPlan)
    assert written.segments[-1].end_s == pytest.approx(480.0)
    assert run("verify", asked[0], str(result), *asked[1:]).code == 0


def test_a_deadline_may_have_any_unit(run: Runner) -> None:
    """The field counts minutes; half a minute is too short, and the answer says what is enough."""
    told = run("solve", "seer-paper-example", "--deadline", "30s", "--json")
    assert told.code == 3
    (relaxation,) = json.loads(told.out)["infeasibility"]["relaxations"]
    assert (relaxation["given"], relaxation["least_feasible"], relaxation["unit"]) == (0.5, 1.0, "min")


def test_show_the_instance_and_draw_the_plan(run: Runner, tmp_path: Path) -> None:
    """Rounds and brackets as text, the plan as a figure."""
    assert "5.7142857" in run("show", "seer-paper-example").out
    pytest.importorskip("plotly", reason='plotly is not installed; pip install "optplan[plot]" brings it')
    figure = tmp_path / "search.html"
    assert run("show", "seer-paper-example", "--plot", str(figure)).code == 0
    assert "round 1: 1 x4, 4 x2, 10 x1" in figure.read_text(encoding="utf-8")


def test_the_frontier_of_budgets(run: Runner, tmp_path: Path) -> None:
    """Some rows as a table, all of them as CSV."""
    file = tmp_path / "budgets.csv"
    told = run("frontier", "seer-paper-example", "--points", "3", "-o", str(file))
    assert told.code == 0
    assert "3 rounds" in told.out
    heading, *rows = file.read_text(encoding="utf-8").splitlines()
    assert heading.startswith("budget_GPU-min,objective_GPU-min,bound,low,high")
    assert len(rows) > 10


def test_explanations_are_refused(run: Runner) -> None:
    """Nothing is explained in a search, and the message says so."""
    told = run("solve", "seer-paper-example", "--explain")
    assert "formulation 'seer' has no explanations" in told.err


def test_schemas(run: Runner) -> None:
    """Of the instance, the result and the plan."""
    for record, field in (("instance", "deadline_min"), ("result", "bound_proof"), ("plan", "search_space")):
        shown = json.loads(run("schema", record, "--formulation", "seer").out)
        assert field in shown["properties"]


def test_what_a_prior_buys(run: Runner, tmp_path: Path) -> None:
    """Solved, compared with the published plan, planned, verified; the same instance spends when told to."""
    result, plan = tmp_path / "result.json", tmp_path / "plan.json"
    told = run("solve", "seer-informed-example", "--compare", "published-seer", "-o", str(result), "--plan", str(plan))
    assert told.code == 0
    assert "Expected final loss 0.2" in told.out
    assert "note: the prior buys 0.0" in told.out
    assert "gain over published" in told.out
    assert json.loads(plan.read_text(encoding="utf-8"))["objective_unit"] == "loss"
    assert run("verify", "seer-informed-example", str(result)).code == 0
    spent = run("solve", "seer-informed-example", "--set", "objective=spend")
    assert "80 of 80 GPU-min" in spent.out
    assert "80 of 80 GPU-min" in run("solve", "seer-informed-example", "--problem", "spend").out
    refused = run("solve", "seer-paper-example", "--set", "objective=quality")
    assert "prior: is missing; the objective is quality; add it, or set objective to spend" in refused.err


def test_frontiers_of_either_limit(run: Runner) -> None:
    """The option says which; what has no choice says so, and no table calls its points bad."""
    few = ("--set", "prior.samples=200", "--set", "prior.choice_samples=50")
    told = run("frontier", "seer-informed-example", "--limit", "deadline", *few)
    assert told.code == 0
    assert "95 % interval" in told.out
    assert "proven" not in told.out
    assert run("frontier", "seer-informed-example", "--json", *few).data["limit_name"] == "budget"
    assert "limit: got 'speed'; 'seer-informed-example' has budget and deadline" in run(
        "frontier", "seer-informed-example", "--limit", "speed"
    ).err  # fmt: skip
    mixed = run("frontier", "boa-one-table", "--limit", "budget")
    assert "--limit: the frontier of mixed plans is by budget; lists of plans have a choice" in mixed.err
    spent = run("frontier", "seer-paper-example", "--points", "2")
    assert "proven best" in spent.out
