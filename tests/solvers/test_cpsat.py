"""Budgeted paths in CP-SAT: what rounding may and may not do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optplan.contracts import SolveRequest, Status, Termination
from optplan.contracts.judgement import PathCosts
from optplan.errors import EngineError, MissingExtraError
from optplan.progress import Stopwatch
from optplan.solvers import cpsat
from optplan.solvers.budgeted_paths import BudgetedPaths, least_path
from optplan.solvers.enumeration import enumerate_choices

REQUEST = SolveRequest(gap=1e-9)


def random_problem(seed: int, *shapes: tuple[int, int]) -> BudgetedPaths:
    """Make graphs of given layers and nodes with real-valued costs, and a budget a third above the least."""
    rng = np.random.default_rng(seed)
    graphs = tuple(
        PathCosts.of_one_limit(f"g{number}", range(1, shape[1] + 1), *(rng.random(shape) for _ in range(4)))
        for number, shape in enumerate(shapes)
    )
    least = sum(least_path(g.run_consumption[0], g.enter_consumption[0])[0] for g in graphs)
    return BudgetedPaths(graphs, np.array([4 / 3 * least]))


def knapsack(budget: float) -> BudgetedPaths:
    """Make one layer with nodes at (consumption, value) = (1, 4), (1.3, 2) and (1.6, 1)."""
    zeros = np.zeros((1, 3))
    value, consumption = np.array([[4.0, 2.0, 1.0]]), np.array([[1.0, 1.3, 1.6]])
    graph = PathCosts.of_one_limit("a", [1, 2, 3], value, consumption, zeros, zeros)
    return BudgetedPaths((graph,), np.array([budget]))


@settings(max_examples=60)
@given(problem=st.from_type(BudgetedPaths))
def test_optimum_is_that_of_enumeration(problem: BudgetedPaths) -> None:
    """At the default resolution rounding changes nothing, also where the budget is used up exactly."""
    expected = enumerate_choices(problem, REQUEST).bound
    outcome = cpsat.solve_cp_sat(problem, REQUEST)
    assert expected is not None
    assert outcome.choice is not None
    assert outcome.bound is not None
    assert problem.totals(outcome.choice)[0] == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert problem.keeps_budgets(problem.totals(outcome.choice)[1])
    assert outcome.bound <= expected
    assert outcome.bound == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert outcome.counters["solves"] == 1


@pytest.mark.parametrize("seed", [307, 318, 324, 342])
def test_coefficients_beyond_32_bits_are_added_up_rightly(seed: int) -> None:
    """A presolve step of OR-Tools 9.15 adds coefficients in 32 bits; left on, it cuts these optima off."""
    problem = random_problem(seed, (1, 3), (3, 2))
    expected = enumerate_choices(problem, REQUEST).bound
    outcome = cpsat.solve_cp_sat(problem, REQUEST)
    assert outcome.choice is not None
    assert problem.totals(outcome.choice)[0] == pytest.approx(expected, rel=1e-9)


@settings(max_examples=60)
@given(problem=st.from_type(BudgetedPaths), resolution=st.sampled_from([1, 3, 64]))
def test_coarse_rounding_keeps_bound_and_budget_true(problem: BudgetedPaths, resolution: int) -> None:
    """However coarse the units, the bound is not above the optimum, and what is returned keeps the real budget."""
    expected = enumerate_choices(problem, REQUEST).bound
    outcome = cpsat.solve_cp_sat(problem, REQUEST, resolution=resolution)
    assert expected is not None
    assert outcome.bound is not None
    assert outcome.bound <= expected * (1 + 1e-12)
    if outcome.choice is not None:
        value, consumption = problem.totals(outcome.choice)
        assert problem.keeps_budgets(consumption)
        assert value >= expected * (1 - 1e-12)


def test_a_choice_that_only_rounding_allows_is_replaced() -> None:
    """In units of 1 the budget 1.5 has 1 and so has every node, rounded down; 1.6 returned for it is not feasible."""
    # Two terms make two units of the budget, 0.75; the power of two above it is 1. Rounded up, 1.3 needs 2 units.
    outcome = cpsat.solve_cp_sat(knapsack(1.5), REQUEST, resolution=1)
    assert outcome.counters["solves"] == 2
    assert outcome.bound == 1.0
    assert outcome.status is Status.FEASIBLE
    assert outcome.choice is not None
    value, consumption = knapsack(1.5).totals(outcome.choice)
    assert (value, consumption.tolist()) == (4.0, [1.0])


def test_finer_units_lose_less() -> None:
    """In units of 1/8 the budget 1.5 has 12: rounded down 1.6 has 12, too, and rounded up 1.3 has 11."""
    outcome = cpsat.solve_cp_sat(knapsack(1.5), REQUEST, resolution=6)
    assert outcome.counters["solves"] == 2
    assert outcome.bound == 1.0
    assert outcome.choice is not None
    value, consumption = knapsack(1.5).totals(outcome.choice)
    assert (value, consumption.tolist()) == (2.0, [1.3])


def test_each_limit_is_rounded_on_its_own_scale() -> None:
    """A choice that exceeds the second budget only is replaced, too, whatever the units of the two limits are.

    Of the first limit nobody consumes half. The second is that of the cases above in units a thousand times as small.
    """
    plain = knapsack(1.5)
    (graph,) = plain.graphs
    both = np.stack([np.full((1, 3), 1e9), 1e-3 * graph.run_consumption[0]])
    graph = replace(graph, limits=("a", "b"), run_consumption=both, enter_consumption=np.zeros((2, 1, 1, 3)))
    outcome = cpsat.solve_cp_sat(BudgetedPaths((graph,), np.array([2.1e9, 1.5e-3])), REQUEST, resolution=6)
    assert outcome.counters["solves"] == 2
    assert outcome.bound == 1.0
    assert outcome.choice is not None
    value, consumption = plain.totals(outcome.choice)
    assert (value, consumption.tolist()) == (2.0, [1.3])


def test_rounding_up_may_leave_nothing_which_proves_nothing() -> None:
    """In units of 1 the budget 1.05 has 1, and each of 1.01 and 1.06 has 2, rounded up."""
    zeros = np.zeros((1, 2))
    graph = PathCosts.of_one_limit("a", [1, 2], np.array([[4.0, 1.0]]), np.array([[1.01, 1.06]]), zeros, zeros)
    outcome = cpsat.solve_cp_sat(BudgetedPaths((graph,), np.array([1.05])), REQUEST, resolution=1)
    assert (outcome.status, outcome.choice, outcome.bound) == (Status.UNKNOWN, None, 1.0)


def test_an_infeasible_problem_is_recognised() -> None:
    """A budget below the most frugal node leaves no choice, and rounding does not hide it."""
    outcome = cpsat.solve_cp_sat(knapsack(0.99), REQUEST)
    assert (outcome.status, outcome.choice, outcome.bound) == (Status.INFEASIBLE, None, None)


def test_no_time_means_no_incumbent() -> None:
    """With the time used up before the start there is no choice; a bound, if any, is below the optimum."""
    problem = random_problem(1, (30, 3))
    outcome = cpsat.solve_cp_sat(problem, SolveRequest(stopwatch=Stopwatch(limit_s=1e-9)))
    assert (outcome.status, outcome.termination) == (Status.UNKNOWN, Termination.TIME_LIMIT)
    assert outcome.choice is None
    assert outcome.bound is None or outcome.bound <= problem.least_value


def test_the_same_request_gives_the_same_answer() -> None:
    """Two solves with one seed agree to the last bit."""
    first, second = (cpsat.solve_cp_sat(random_problem(5, (3, 3), (3, 3)), SolveRequest(seed=7)) for _ in range(2))
    assert (first.bound, first.counters) == (second.bound, second.counters)


@pytest.mark.parametrize(("value", "consumption"), [(1e9, 1e-9), (1e-6, 1e6)])
def test_units_do_not_matter(value: float, consumption: float) -> None:
    """Values and consumptions in other units give the scaled optimum."""
    problem = random_problem(2, (3, 3), (3, 3))
    scaled = BudgetedPaths(
        tuple(
            replace(
                g,
                run_value=value * g.run_value,
                run_consumption=consumption * g.run_consumption,
                enter_value=value * g.enter_value,
                enter_consumption=consumption * g.enter_consumption,
            )
            for g in problem.graphs
        ),
        consumption * problem.budgets,
    )
    first, second = (cpsat.solve_cp_sat(each, REQUEST) for each in (problem, scaled))
    assert first.choice is not None
    assert second.choice is not None
    assert scaled.totals(second.choice)[0] == pytest.approx(value * problem.totals(first.choice)[0], rel=1e-9)


def test_an_unknown_status_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A status that the table does not know is not guessed at."""
    monkeypatch.setattr(cpsat, "_ENDINGS", {})
    with pytest.raises(EngineError, match="CP-SAT ended with status OPTIMAL, which has no meaning for this problem"):
        cpsat.run_cp_sat(knapsack(2.0), 0.0, 0, cpsat.DEFAULT_RESOLUTION, Stopwatch())


def test_without_or_tools_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is known before anything is started."""
    monkeypatch.setattr(cpsat, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r'ortools is not installed; run: pip install "optplan\[cp-sat\]"'):
        cpsat.solve_cp_sat(knapsack(2.0), REQUEST)
