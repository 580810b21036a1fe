"""``optplan frontier``: the table, the questions, the files."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optplan import read_instance
from optplan.cli.frontiers import answer_questions
from optplan.contracts import Frontier, FrontierPoint
from optplan.errors import EngineError, VerificationError
from optplan.formulations.boa.data.instance import BoaInstance
from optplan.reporting.pareto import thin
from optplan.solving import frontier, solve
from optplan.units import parse_budget

if TYPE_CHECKING:
    from tests.conftest import Runner

#: The table of ``boa-one-table``: GPU-hours 1, 1.25, 2 and hours 1, 0.625, 0.5.
TABLE = {"form": "table", "gpus": [1, 2, 4], "speedup": [1.0, 1.6, 2.0]}
JOB = {"arrival_rate_per_hour": 1.0, "epoch_size_gpu_hours": [1.0], "speedup": {"v100": TABLE}}
TWO_WEIGHTS = {"heavy": {**JOB, "weight": 3.0}, "light": JOB}
#: A second type that does the same at twice the price, so that budgets count dollars.
TWO_TYPES = {
    "gpu_types": {"v100": {"price_usd_per_hour": 2.0}, "h100": {"price_usd_per_hour": 4.0}},
    "classes": {"job": {**JOB, "speedup": {"v100": TABLE, "h100": TABLE}}},
    "budget": None,
    "policy": "mixed",
}


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


def test_a_mean_and_a_weighted_mean_cost_different_budgets(run: Runner, write_instance: Callable[..., Path]) -> None:
    """Unweighted, 2 to 2.5 GPUs are worth 3,600 to 2,250 s. Weighted 3 to 1, heavy jobs go first: 2,587.5 s at 2.25."""
    path = write_instance(classes=TWO_WEIGHTS)
    asked = ("--at", "2.25gpu", "--for-jct", "2925s", "--for-weighted-jct", "3093.75s")
    answers = run("frontier", path, *asked, "--json").data["answers"]
    assert [answer["budget"] for answer in answers] == pytest.approx([2.25, 2.25, 2.125])
    assert [answer["objective"] for answer in answers] == pytest.approx([2587.5, 2925.0, 3093.75])
    assert [answer["proven_bound"] for answer in answers] == pytest.approx([2587.5, 2925.0, 3093.75])
    assert [answer["objective_name"] for answer in answers] == [
        "weighted mean completion time",
        "mean completion time",
        "weighted mean completion time",
    ]
    assert [answer["question"] for answer in answers] == [
        {"at": "2.25gpu"},
        {"for_jct_s": 2925.0},
        {"for_weighted_jct_s": 3093.75},
    ]


def test_with_equal_weights_both_means_are_one(run: Runner, write_instance: Callable[..., Path]) -> None:
    """A weight of seven for all changes nothing, and everything stands in one table."""
    path = write_instance(classes={"job": {**JOB, "weight": 7.0}})
    told = run("frontier", path, "--for-jct", "2025s", "--for-weighted-jct", "2025s", "--json")
    first, second = told.data["answers"]
    assert first["budget"] == second["budget"] == pytest.approx(1.625)
    told = run("frontier", path, "--for-jct", "2025s", "--for-weighted-jct", "2025s")
    assert told.out.count("As asked") == 1


def test_answers_come_with_their_proof(run: Runner, write_instance: Callable[..., Path]) -> None:
    """Every answer shows the bound that was derived again, and the two means have tables of their own."""
    told = run("frontier", write_instance(classes=TWO_WEIGHTS), "--for-jct", "2925s", "--at", "2.25gpu")
    assert "proven bound" in told.out
    assert "2587.5 s" in told.out
    alike = told.out[told.out.index("As asked, all jobs counting alike:") :]
    assert "2925 s" in alike
    assert "certificates" in alike


def test_a_certificate_that_proves_something_else_is_a_bug() -> None:
    """The check of an answer does not take the frontier's word."""
    instance = read_instance("boa-one-table")
    assert isinstance(instance, BoaInstance)
    line = frontier(instance)

    def forge(**changes: Any) -> Frontier:  # noqa: ANN401 - fields of the certificate
        def at(budget: float) -> FrontierPoint:
            point = line.at(budget)
            return point.replace(certificate=point.certificate.replace(**changes))

        return Frontier(**{**vars(line), "at": at})

    asked = (parse_budget("1.5gpu"),)
    assert answer_questions(instance, line, at=asked)[0].proven == pytest.approx(2100.0)
    with pytest.raises(VerificationError, match=r"frontier at 1\.5: the certificate proves 2100\.0"):
        answer_questions(instance, forge(bound=2101.0), at=asked)
    with pytest.raises(VerificationError, match="must name exactly the limits budget, not quota"):
        answer_questions(instance, forge(multipliers={"quota": 1.0}), at=asked)


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
    assert "12 points, 4 of them" in told.out
    assert "--points N" in told.out
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
    assert "a budget of 1 GPU" in told.err
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
    assert f"--out: {path} exists" in told.err


def test_several_instances(run: Runner, write_instance: Callable[..., Path], tmp_path: Path) -> None:
    """A list of records, a table for each, and one CSV file with a column for the instance."""
    mine, table = write_instance(), tmp_path / "both.csv"
    told = run("frontier", "boa-two-classes", mine, "--json")
    assert [record["instance_name"] for record in told.data] == ["boa-two-classes", "mine"]
    told = run("frontier", "boa-two-classes", mine, "--for-jct", "45min", "-o", table)
    assert "boa-two-classes: 12 points" in told.out
    assert "mine: 3 points" in told.out
    assert told.out.count("As asked:") == 2
    rows = list(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))
    assert [row["instance"] for row in rows] == ["boa-two-classes"] * 12 + ["mine"] * 3


def test_instances_of_one_name_are_told_apart(run: Runner, write_instance: Callable[..., Path]) -> None:
    """A changed copy keeps its name, so the file is named too; the same argument twice is refused."""
    told = run("frontier", "boa-one-table", write_instance(name="boa-one-table"))
    assert "Frontier of boa-one-table: 3 points" in told.out
    assert "mine.json): 3 points" in told.out
    told = run("frontier", "boa-one-table", "boa-one-table")
    assert (told.code, told.out) == (2, "")
    assert "'boa-one-table' is given twice" in told.err
    assert "optplan show boa-one-table --set budget=150gpu -o changed.json" in told.err


def test_of_several_instances_the_one_without_an_answer_is_named(
    run: Runner, write_instance: Callable[..., Path]
) -> None:
    """What one instance cannot do, and what does not fit it, is said of that instance."""
    mine = write_instance()
    told = run("frontier", mine, "boa-two-classes", "--at", "1.5gpu")
    assert (told.code, told.out) == (3, "")
    assert "boa-two-classes: " in told.err
    assert "6.15 GPUs" in told.err
    told = run("frontier", mine, "boa-two-classes", "--set", "classes.job.weight=2")
    assert told.code == 2
    assert "boa-two-classes: --set 'classes.job.weight=2': classes has no 'job'" in told.err


def test_what_solvers_reach_at_each_budget(run: Runner) -> None:
    """Each point has its gap, and how far above the frontier it is; at breakpoints the best plan is a pure one."""
    asked = ("--points", "3", "--solver", "layered-paths", "--solver", "fixed-width", "--json")
    data = run("frontier", "boa-two-epochs", *asked).data
    points = data["solver_points"]
    exact, fixed = points[:3], points[3:]
    assert {point["solver"] for point in exact} == {"layered-paths"}
    assert {point["solver"] for point in fixed} == {"fixed-width"}
    for point, rival in zip(exact, fixed, strict=True):
        assert point["gap"] == pytest.approx(0.0, abs=1e-6)
        assert point["above_frontier"] == pytest.approx(0.0, abs=1e-6)
        assert rival["budget"] == point["budget"]
        assert (rival["bound"], rival["gap"]) == (None, None)
        if rival["objective"] is not None:
            assert rival["above_frontier"] == pytest.approx(rival["objective"] / point["frontier"] - 1.0)
            assert rival["above_frontier"] >= -1e-9
    assert "solver_points" not in run("frontier", "boa-two-epochs", "--json").data


def test_solvers_answer_at_the_budgets_asked_for_too(run: Runner) -> None:
    """Half-way between 1.25 and 2 GPUs a mixed plan takes 2,025 s; without mixing it stays at 2,250 s, 11 % longer."""
    asked = ("--points", "2", "--at", "1.625gpu", "--solver", "layered-paths", "--json")
    points = run("frontier", "boa-one-table", *asked).data["solver_points"]
    assert [point["budget"] for point in points] == pytest.approx([1.0, 1.625, 2.0])
    assert points[1]["above_frontier"] == pytest.approx(2250.0 / 2025.0 - 1.0)


def test_a_solver_that_fails_costs_nothing_else(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """The failure is reported and decides the exit code; the frontier, and what others found, is there."""

    def fail_at_more(instance: BoaInstance, *, solver: str, **settings: Any) -> Any:  # noqa: ANN401 - stands for solve
        if solver == "highs" and instance.budget_amount() > 1.1:
            raise EngineError("the engine fell over")
        return solve(instance, solver="layered-paths", **settings)

    monkeypatch.setattr("optplan.reporting.boa.gathering.solve", fail_at_more)
    told = run("frontier", "boa-one-table", "--solver", "highs", "--solver", "layered-paths", "--json")
    assert told.code == EngineError.exit_code
    assert told.error["message"] == "the engine fell over"
    assert len(told.data["solver_points"]) == 1 + 3


def test_tables_of_solvers(run: Runner) -> None:
    """A table for each solver; a column for bounds only where the solver has any."""
    told = run("frontier", "boa-two-epochs", "--points", "3", "--solver", "fixed-width", "--solver", "layered-paths")
    assert told.code == 0
    fixed, exact = told.out.split("fixed-width at these budgets:")[1].split("layered-paths at these budgets:")
    assert "above the best" in fixed
    assert "own bound" not in fixed
    assert "certificate" in exact


def test_a_solver_that_does_not_take_the_instance_is_refused_first(run: Runner) -> None:
    """No frontier is computed for nothing."""
    told = run("frontier", "boa-two-classes", "--solver", "conic")
    assert (told.code, told.out) == (2, "")
    assert "solver 'conic' does not solve the 'rescaling' problem" in told.err


def test_budgets_in_dollars(run: Runner, write_instance: Callable[..., Path]) -> None:
    """With two types budgets are dollars an hour: the cheap type does all, 2, 2.5, 4 dollars for 3600, 2250, 1800 s."""
    path = write_instance(**TWO_TYPES)
    data = run("frontier", path, "--at", "1825usd/month", "--json").data
    assert data["budget_unit"] == "usd/hour"
    assert [point["budget"] for point in data["points"]] == pytest.approx([2.0, 2.5, 4.0])
    assert data["answers"][0]["objective"] == pytest.approx(2250.0)
    told = run("frontier", path, "--at", "2.5usd/hour")
    assert "dollar an hour" in told.out
    assert "$1,825" in told.out
    told = run("frontier", path, "--at", "2gpu")
    assert told.code == 2
    assert "--at: got '2gpu', and this frontier counts usd/hour" in told.err


def test_one_figure_needs_one_unit(run: Runner, write_instance: Callable[..., Path], tmp_path: Path) -> None:
    """GPUs with a price are converted to dollars; without one the figure is refused before any work, and so is CSV."""
    pytest.importorskip("plotly")
    typed, page = write_instance(**TWO_TYPES), tmp_path / "both.html"
    told = run("frontier", typed, "boa-one-table", "--plot", page)
    assert told.code == 0
    assert "US dollars an hour (the budget)" in page.read_text(encoding="utf-8")
    told = run("frontier", typed, "boa-one-table", "-o", tmp_path / "both.csv")
    assert (told.code, told.out) == (2, "")
    assert "--out: the budgets have different units (usd/hour, gpu), and a CSV file has one column" in told.err


def test_one_figure_of_several_instances_and_solvers(
    run: Runner, write_instance: Callable[..., Path], tmp_path: Path
) -> None:
    """Every curve and every solver's points are in the page."""
    pytest.importorskip("plotly")
    page = tmp_path / "both.html"
    told = run(
        "frontier", "boa-two-classes", write_instance(), "--points", "2", "--solver", "fixed-width", "--plot", page
    )
    assert told.code == 0
    text = page.read_text(encoding="utf-8")
    for name in ("boa-two-classes: best possible", "mine: best possible", "mine: fixed-width"):
        assert name in text
