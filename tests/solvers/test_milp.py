"""Budgeted paths in HiGHS: integer and relaxed, against enumeration."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import highspy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

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
        PathCosts.of_one_limit(f"g{number}", [1, 2, 3], *(rng.random((4, 3)) for _ in range(4))) for number in range(3)
    )
    least = sum(least_path(g.run_consumption[0], g.enter_consumption[0])[0] for g in graphs)
    return BudgetedPaths(graphs, np.array([4 / 3 * least]))


def typed_problem(seed: int) -> BudgetedPaths:
    """Make two graphs of three layers, four nodes in two groups and two limits, which are half above the least."""
    rng = np.random.default_rng(seed)
    shapes = [(3, 4), (2, 3, 4), (2, 3, 4), (2, 2, 3, 4)]
    graphs = tuple(
        PathCosts(
            name,
            ("t4.1", "t4.2", "a100.1", "a100.2"),
            np.array([0, 0, 1, 1]),
            ("budget", "quota.a100"),
            *(rng.random(shape) for shape in shapes),
        )
        for name in ("bert", "yolo")
    )
    least = [
        sum(least_path(g.run_consumption[limit], g.enter_consumption[limit], g.group)[0] for g in graphs)
        for limit in range(2)
    ]
    return BudgetedPaths(graphs, 1.5 * np.array(least))


def best_mixture(problem: BudgetedPaths) -> float:
    """Find the best mixture by a linear program over all paths, listed one by one."""
    paths = [
        [
            path_totals(g, np.array(columns))
            for columns in itertools.product(range(len(g.labels)), repeat=len(g.run_value))
        ]
        for g in problem.graphs
    ]
    owner = np.repeat(np.arange(len(paths)), [len(each) for each in paths])
    every = list(itertools.chain(*paths))
    found = linprog(
        [value for value, _ in every],
        A_ub=np.array([consumption for _, consumption in every]).T / problem.budgets[:, None],
        b_ub=np.ones(problem.budgets.size),
        A_eq=(owner == np.arange(len(paths))[:, None]).astype(float),
        b_eq=np.ones(len(paths)),
    )
    return float(found.fun)


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
    assert problem.keeps_budgets(consumption)
    assert outcome.status is Status.OPTIMAL


@settings(max_examples=60)
@given(problem=st.from_type(BudgetedPaths))
def test_relaxed_optimum_is_that_of_the_best_mixture(problem: BudgetedPaths) -> None:
    """The linear program finds the best mixture, of one path more per limit at most, and keeps the budgets."""
    expected = best_mixture(problem)
    outcome = milp.solve_milp(problem, REQUEST, relaxed=True)
    assert outcome.choice is not None
    value, consumption = problem.totals(outcome.choice)
    assert value == pytest.approx(expected, rel=1e-8, abs=1e-8)
    assert outcome.bound == pytest.approx(expected, rel=1e-8, abs=1e-8)
    assert problem.keeps_budgets(consumption)
    assert sum(len(mixture) - 1 for mixture in outcome.choice) <= problem.budgets.size


@pytest.mark.parametrize("make", [random_problem, typed_problem])
@pytest.mark.parametrize("seed", range(5))
def test_the_multipliers_prove_the_relaxed_optimum(make: Callable[[int], BudgetedPaths], seed: int) -> None:
    """Shortest paths under the multipliers, less multipliers times budgets, give the optimum of the mixtures."""
    problem = make(seed)
    outcome = milp.solve_milp(problem, REQUEST, relaxed=True)
    assert outcome.multipliers is not None
    least = sum(least_path(*g.weighted(outcome.multipliers), g.group)[0] for g in problem.graphs)
    assert outcome.choice is not None
    assert least - outcome.multipliers @ problem.budgets == pytest.approx(problem.totals(outcome.choice)[0], rel=1e-10)


@pytest.mark.parametrize(("value", "first", "second"), [(1e9, 1e-9, 1e6), (1e-6, 1e6, 1e-9), (1e6, 1e9, 1e9)])
@pytest.mark.parametrize("relaxed", [False, True])
def test_units_do_not_matter(value: float, first: float, second: float, relaxed: bool) -> None:
    """Values and consumptions in other units, for each limit its own, give the same choice and the scaled bound."""
    problem = typed_problem(1)
    units = np.array([first, second])
    scaled = BudgetedPaths(
        tuple(
            replace(
                g,
                run_value=value * g.run_value,
                run_consumption=units[:, None, None] * g.run_consumption,
                enter_value=value * g.enter_value,
                enter_consumption=units[:, None, None, None] * g.enter_consumption,
            )
            for g in problem.graphs
        ),
        units * problem.budgets,
    )
    outcomes = [milp.solve_milp(each, REQUEST, relaxed=relaxed) for each in (problem, scaled)]
    assert outcomes[0].choice is not None
    assert outcomes[1].choice is not None
    expected = value * problem.totals(outcomes[0].choice)[0]
    assert scaled.totals(outcomes[1].choice)[0] == pytest.approx(expected, rel=1e-9)
    assert outcomes[0].bound is not None
    assert outcomes[1].bound == pytest.approx(value * outcomes[0].bound, rel=1e-9)
    if relaxed:
        assert outcomes[0].multipliers is not None
        assert outcomes[1].multipliers == pytest.approx(outcomes[0].multipliers * value / units, rel=1e-6)


@pytest.mark.parametrize("relaxed", [False, True])
def test_no_path_takes_two_changes_for_one(relaxed: bool) -> None:
    """From a to c costs 10, by way of b 1 + 1, but a path takes one node per layer: a, c costs 10."""
    run = np.full((2, 3), 100.0)
    run[0, 0] = run[1, 2] = 0.0
    enter = np.array([[0.0, 1.0, 10.0], [9.0, 0.0, 1.0], [9.0, 9.0, 0.0]])
    graph = PathCosts(
        name="a",
        labels=("a", "b", "c"),
        group=np.arange(3),
        limits=("budget",),
        run_value=run,
        run_consumption=np.zeros((1, 2, 3)),
        enter_value=np.repeat(enter[:, None], 2, axis=1),
        enter_consumption=np.zeros((1, 3, 2, 3)),
    )
    outcome = milp.solve_milp(BudgetedPaths((graph,), np.array([1.0])), REQUEST, relaxed=relaxed)
    assert outcome.bound == pytest.approx(10.0)
    assert outcome.choice is not None
    assert outcome.choice[0][0].columns.tolist() == [0, 2]


def test_limits_that_only_mixtures_keep() -> None:
    """Two nodes that consume 2 of one limit each: with 1 of both there is no choice, but a mixture of two halves.

    The values are 1 and 3, so that of the two halves is 2.
    """
    zeros = np.zeros((1, 1, 2))
    graph = PathCosts(
        name="a",
        labels=("1", "2"),
        group=np.zeros(2, dtype=np.int64),
        limits=("budget", "quota"),
        run_value=np.array([[1.0, 3.0]]),
        run_consumption=np.array([[[2.0, 0.0]], [[0.0, 2.0]]]),
        enter_value=zeros,
        enter_consumption=np.stack([zeros, zeros]),
    )
    problem = BudgetedPaths((graph,), np.array([1.0, 1.0]))
    assert milp.solve_milp(problem, REQUEST).status is Status.INFEASIBLE
    outcome = milp.solve_milp(problem, REQUEST, relaxed=True)
    assert outcome.choice is not None
    assert [path.fraction for path in outcome.choice[0]] == [0.5, 0.5]
    assert problem.totals(outcome.choice)[0] == 2.0


def test_more_budget_never_hurts() -> None:
    """Along growing budgets the optimum falls, and the relaxed one stays below it."""
    problem = random_problem(2)
    values = []
    for factor in (1.0, 1.1, 1.2, 1.5, 2.0, 4.0):
        wider = BudgetedPaths(problem.graphs, factor * problem.budgets)
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
    outcome = milp.solve_milp(BudgetedPaths(problem.graphs, problem.budgets / 2), REQUEST, relaxed=relaxed)
    assert outcome.status is Status.INFEASIBLE
    assert (outcome.choice, outcome.bound, outcome.multipliers) == (None, None, None)


@pytest.mark.parametrize("relaxed", [False, True])
def test_no_time_means_no_incumbent(relaxed: bool) -> None:
    """With the time used up before the start, HiGHS returns neither choice nor bound, and says why."""
    request = SolveRequest(stopwatch=Stopwatch(limit_s=1e-9))
    outcome = milp.solve_milp(random_problem(4), request, relaxed=relaxed)
    assert (outcome.status, outcome.termination) == (Status.UNKNOWN, Termination.TIME_LIMIT)
    assert (outcome.choice, outcome.bound) == (None, None)


def test_two_groups_of_equal_costs_are_one() -> None:
    """Where every group costs the same, hubs change nothing."""
    problem = random_problem(8)
    grouped = BudgetedPaths(
        tuple(
            replace(
                g,
                group=np.array([0, 1, 1]),
                enter_value=np.repeat(g.enter_value, 2, axis=0),
                enter_consumption=np.repeat(g.enter_consumption, 2, axis=1),
            )
            for g in problem.graphs
        ),
        problem.budgets,
    )
    for relaxed in (False, True):
        expected = milp.solve_milp(problem, REQUEST, relaxed=relaxed).bound
        assert milp.solve_milp(grouped, REQUEST, relaxed=relaxed).bound == pytest.approx(expected, rel=1e-9)


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
problem = BudgetedPaths((PathCosts.of_one_limit("a", [1], one, one, one, one),), np.array([9.0]))
print(solve_milp(problem, SolveRequest()).bound)
"""
    run = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert float(run.stdout.split()[-1]) == pytest.approx(2.0)


@pytest.mark.parametrize("make", [random_problem, typed_problem])
@pytest.mark.parametrize("form", ["lp", "mps"])
@pytest.mark.parametrize("relaxed", [False, True])
def test_a_written_model_has_the_same_optimum(
    make: Callable[[int], BudgetedPaths], form: str, relaxed: bool, tmp_path: Path
) -> None:
    """HiGHS reads the text back and finds the optimum of the solver, in the problem's own units."""
    problem = make(7)
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
    graphs = tuple(PathCosts.of_one_limit(name, [1, 8], one, one, one, one) for name in ("bert base", "bert/base"))
    text = milp.write_model(BudgetedPaths(graphs, np.array([9.0])))
    for name in ("x.bert_base.1.8", "enter.bert_base.2.1", "x.bert_base_2.2.8", "one.bert_base.1:", "budget:"):
        assert name in text
    assert "enter.bert_base.1." not in text


def test_names_in_a_written_model_with_groups_say_who_goes_where() -> None:
    """Limits are rows by their names; staying, and entering from each group, are columns; hubs are rows by group."""
    problem = typed_problem(0)
    limits = ("budget", "quota of a100")
    text = milp.write_model(BudgetedPaths(tuple(replace(g, limits=limits) for g in problem.graphs), problem.budgets))
    names = ["budget:", "quota_of_a100:", "x.bert.1.t4.1", "stay.yolo.2.a100.2", "enter.bert.3.t4.1.from.2"]
    names += ["at.bert.2.t4.1:", "leave.yolo.3.a100.1:", "hub.bert.2.1:", "hub.yolo.3.2:"]
    assert [name for name in names if name not in text] == []
