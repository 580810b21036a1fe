"""Budgeted paths in HiGHS: integer and relaxed, against enumeration."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import highspy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optplan.contracts import SolveRequest, Status, Termination
from optplan.contracts.judgement import PathCosts
from optplan.errors import EngineError
from optplan.progress import Event, Stopwatch
from optplan.solvers import milp
from optplan.solvers.budgeted_paths import BudgetedPaths, least_path, path_totals
from optplan.solvers.enumeration import enumerate_choices

REQUEST = SolveRequest(gap=1e-9)


def random_problem(seed: int) -> BudgetedPaths:
    """Make three graphs of four layers and three nodes with real-valued costs, and a budget a third above the least."""
    rng = np.random.default_rng(seed)
    graphs = tuple(
        PathCosts(f"g{number}", np.arange(1, 4), *(rng.random((4, 3)) for _ in range(4))) for number in range(3)
    )
    least = sum(least_path(g.run_consumption, g.enter_consumption)[0] for g in graphs)
    return BudgetedPaths(graphs, 4 / 3 * least)


def best_mixture(problem: BudgetedPaths) -> float:
    """Find the best point between any two choices, by looking at all pairs of them."""
    paths = [
        [
            path_totals(g, np.array(columns))
            for columns in itertools.product(range(g.nodes.size), repeat=len(g.run_value))
        ]
        for g in problem.graphs
    ]
    value, consumption = np.array([np.sum(totals, axis=0) for totals in itertools.product(*paths)]).T
    points = np.unique(np.stack([consumption, value]), axis=1)
    within, beyond = points[:, points[0] <= problem.budget], points[:, points[0] > problem.budget]
    share = (problem.budget - within[0][:, None]) / (beyond[0] - within[0][:, None])
    between = within[1][:, None] + share * (beyond[1] - within[1][:, None])
    return float(min(within[1].min(), between.min(initial=np.inf)))


@settings(max_examples=60)
@given(problem=st.from_type(BudgetedPaths))
def test_integer_optimum_is_that_of_enumeration(problem: BudgetedPaths) -> None:
    """Objective and bound of HiGHS are the best value of all choices, also where the budget is used up exactly."""
    expected = enumerate_choices(problem, REQUEST).bound
    outcome = milp.solve_milp(problem, REQUEST)
    assert outcome.choice is not None
    value, consumption = problem.totals(outcome.choice)
    assert value == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert outcome.bound == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert consumption <= problem.most_consumption
    assert outcome.status is Status.OPTIMAL


@settings(max_examples=60)
@given(problem=st.from_type(BudgetedPaths))
def test_relaxed_optimum_is_that_of_the_best_mixture(problem: BudgetedPaths) -> None:
    """The linear program finds the best mixture of choices, mixes one graph at most and does not exceed the budget."""
    expected = best_mixture(problem)
    outcome = milp.solve_milp(problem, REQUEST, relaxed=True)
    assert outcome.choice is not None
    value, consumption = problem.totals(outcome.choice)
    assert value == pytest.approx(expected, rel=1e-8, abs=1e-8)
    assert outcome.bound == pytest.approx(expected, rel=1e-8, abs=1e-8)
    assert consumption <= problem.most_consumption
    assert sum(len(mixture) - 1 for mixture in outcome.choice) <= 1


@pytest.mark.parametrize("seed", range(5))
def test_the_multiplier_proves_the_relaxed_optimum(seed: int) -> None:
    """Shortest paths under the multiplier, less multiplier times budget, give the optimum of the mixtures."""
    problem = random_problem(seed)
    outcome = milp.solve_milp(problem, REQUEST, relaxed=True)
    mu = outcome.multiplier
    assert mu is not None
    least = sum(
        least_path(g.run_value + mu * g.run_consumption, g.enter_value + mu * g.enter_consumption)[0]
        for g in problem.graphs
    )
    assert outcome.choice is not None
    assert least - mu * problem.budget == pytest.approx(problem.totals(outcome.choice)[0], rel=1e-10)


@pytest.mark.parametrize(("value", "consumption"), [(1e9, 1e-9), (1e-6, 1e6), (1e6, 1e9)])
@pytest.mark.parametrize("relaxed", [False, True])
def test_units_do_not_matter(value: float, consumption: float, relaxed: bool) -> None:
    """Values and consumptions in other units give the same choice and the scaled bound."""
    problem = random_problem(1)
    scaled = BudgetedPaths(
        tuple(
            PathCosts(
                g.name,
                g.nodes,
                value * g.run_value,
                consumption * g.run_consumption,
                value * g.enter_value,
                consumption * g.enter_consumption,
            )
            for g in problem.graphs
        ),
        consumption * problem.budget,
    )
    first = milp.solve_milp(problem, REQUEST, relaxed=relaxed)
    second = milp.solve_milp(scaled, REQUEST, relaxed=relaxed)
    assert first.choice is not None
    assert second.choice is not None
    assert scaled.totals(second.choice)[0] == pytest.approx(value * problem.totals(first.choice)[0], rel=1e-9)
    assert first.bound is not None
    assert second.bound == pytest.approx(value * first.bound, rel=1e-9)


def test_more_budget_never_hurts() -> None:
    """Along growing budgets the optimum falls, and the relaxed one stays below it."""
    problem = random_problem(2)
    values = []
    for factor in (1.0, 1.1, 1.2, 1.5, 2.0, 4.0):
        wider = BudgetedPaths(problem.graphs, factor * problem.budget)
        pure, mixed = (milp.solve_milp(wider, REQUEST, relaxed=relaxed).choice for relaxed in (False, True))
        assert pure is not None
        assert mixed is not None
        values.append(wider.totals(pure)[0])
        assert wider.totals(mixed)[0] <= values[-1] * (1 + 1e-9)
    assert values == sorted(values, reverse=True)


@pytest.mark.parametrize("relaxed", [False, True])
def test_a_budget_that_nothing_keeps_is_infeasible(relaxed: bool) -> None:
    """Half of the least consumption leaves no choice, no bound and no multiplier."""
    problem = random_problem(3)
    outcome = milp.solve_milp(BudgetedPaths(problem.graphs, problem.budget / 2), REQUEST, relaxed=relaxed)
    assert outcome.status is Status.INFEASIBLE
    assert (outcome.choice, outcome.bound, outcome.multiplier) == (None, None, None)


@pytest.mark.parametrize("relaxed", [False, True])
def test_no_time_means_no_incumbent(relaxed: bool) -> None:
    """With the time used up before the start, HiGHS returns neither choice nor bound, and says why."""
    request = SolveRequest(stopwatch=Stopwatch(limit_s=1e-9))
    outcome = milp.solve_milp(random_problem(4), request, relaxed=relaxed)
    assert (outcome.status, outcome.termination) == (Status.UNKNOWN, Termination.TIME_LIMIT)
    assert (outcome.choice, outcome.bound) == (None, None)


def test_the_same_request_gives_the_same_answer() -> None:
    """Two solves with one seed agree to the last bit."""
    first, second = (milp.solve_milp(random_problem(5), SolveRequest(seed=7)) for _ in range(2))
    assert first.bound == second.bound
    assert first.counters == second.counters


def test_engine_version_and_progress_are_reported() -> None:
    """The outcome names HiGHS and its version, and a listener hears of it."""
    events: list[Event] = []
    outcome = milp.solve_milp(random_problem(6), SolveRequest(stopwatch=Stopwatch(listener=events.append)))
    assert (outcome.engine, outcome.engine_version) == ("HiGHS", highspy.Highs().version())
    assert [event.stage for event in events] == ["highs"]


def test_an_unknown_status_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A status that the table does not know is not guessed at."""
    monkeypatch.setattr(milp, "_ENDINGS", {})
    with pytest.raises(EngineError, match="HiGHS ended with status kOptimal, which has no meaning for this problem"):
        milp.solve_milp(random_problem(0), REQUEST)


def test_another_number_of_threads_in_the_process_is_lived_with() -> None:
    """HiGHS has one pool of threads per process; where others have sized it, the solve works all the same."""
    probe = """
import highspy, numpy as np
other = highspy.Highs()
other.setOptionValue("output_flag", False)
other.setOptionValue("threads", 2)
other.run()
from optplan.contracts import SolveRequest
from optplan.contracts.judgement import PathCosts
from optplan.solvers.budgeted_paths import BudgetedPaths
from optplan.solvers.milp import solve_milp
one = np.ones((1, 1))
print(solve_milp(BudgetedPaths((PathCosts("a", np.array([1]), one, one, one, one),), 9.0), SolveRequest()).bound)
"""
    run = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert float(run.stdout) == pytest.approx(2.0)


@pytest.mark.parametrize("form", ["lp", "mps"])
@pytest.mark.parametrize("relaxed", [False, True])
def test_a_written_model_has_the_same_optimum(form: str, relaxed: bool, tmp_path: Path) -> None:
    """HiGHS reads the text back and finds the optimum of the solver, in the problem's own units."""
    problem = random_problem(7)
    path = tmp_path / f"model.{form}"
    path.write_text(milp.write_model(problem, form=form, relaxed=relaxed), encoding="utf-8")  # type: ignore[arg-type]
    engine = highspy.Highs()
    engine.setOptionValue("output_flag", False)
    engine.setOptionValue("mip_rel_gap", 0.0)
    engine.readModel(str(path))
    engine.run()
    outcome = milp.solve_milp(problem, REQUEST, relaxed=relaxed)
    assert outcome.choice is not None
    assert engine.getInfo().objective_function_value == pytest.approx(problem.totals(outcome.choice)[0], rel=1e-7)


def test_names_in_a_written_model_say_graph_layer_and_node() -> None:
    """Columns and rows are named; odd characters become underscores, and names that then coincide are numbered."""
    one = np.ones((2, 2))
    graphs = tuple(PathCosts(name, np.array([1, 8]), one, one, one, one) for name in ("bert base", "bert/base"))
    text = milp.write_model(BudgetedPaths(graphs, 9.0))
    for name in ("x.bert_base.1.8", "enter.bert_base.2.1", "x.bert_base_2.2.8", "one.bert_base.1:", "budget:"):
        assert name in text
    assert "enter.bert_base.1." not in text
