"""From flows of linear programs to mixtures of paths."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from optplan.contracts.judgement import PathCosts
from optplan.errors import EngineError
from optplan.schema import FloatArray
from optplan.solvers.budgeted_paths import BudgetedPaths
from optplan.solvers.flows import choice_of_flows, mix_within_budget, take_apart

#: One layer, three nodes at (consumption, value) = (1, 8), (2, 6), (4, 0): the middle one is above the hull.
KNAPSACK = PathCosts(
    name="a",
    nodes=np.array([1, 2, 4]),
    run_value=np.array([[8.0, 6.0, 0.0]]),
    run_consumption=np.array([[1.0, 2.0, 4.0]]),
    enter_value=np.zeros((1, 3)),
    enter_consumption=np.zeros((1, 3)),
)


def test_what_can_stay_stays() -> None:
    """Of (0.4, 0.6) then (0.7, 0.3): 0.4 and 0.3 stay, and 0.3 moves from the second node to the first."""
    paths = take_apart(np.array([[0.4, 0.6], [0.7, 0.3]]))
    assert [path.tolist() for path in paths] == [[0, 0], [1, 1], [1, 0]]


def test_noise_makes_no_paths() -> None:
    """Shares of a billionth and sums that miss one by rounding leave one path."""
    paths = take_apart(np.array([[1.0 - 1e-10, 1e-10], [1e-13, 1.0]]))
    assert [path.tolist() for path in paths] == [[0, 1]]


@given(st.integers(1, 4).flatmap(lambda nodes: arrays(np.float64, (4, nodes), elements=st.floats(0.1, 1.0))))
def test_paths_use_exactly_the_nodes_of_the_flow(shares: FloatArray) -> None:
    """Every node that carries flow is on a path, in its own layer."""
    paths = take_apart(shares / shares.sum(axis=1, keepdims=True))
    for layer in range(len(shares)):
        assert {int(path[layer]) for path in paths} == set(range(shares.shape[1]))


def test_a_budget_between_two_vertices_is_mixed() -> None:
    """At 2.5 of 1 to 4 half of the flow goes to each end: value 4, while the best single node has 6."""
    problem = BudgetedPaths((KNAPSACK,), 2.5)
    choice = mix_within_budget(problem, [[np.array([k]) for k in range(3)]])
    assert choice is not None
    assert [(path.fraction, path.columns.tolist()) for path in choice[0]] == [(0.5, [0]), (0.5, [2])]
    assert problem.totals(choice) == (4.0, 2.5)


def test_the_steepest_graph_is_served_first_and_one_graph_is_mixed_at_most() -> None:
    """Slopes 8 / 3 and 16 / 3: 3 of the 4 left over go to the second graph, the last 1 to a third of the first."""
    second = PathCosts(
        "b", KNAPSACK.nodes, 2 * KNAPSACK.run_value, KNAPSACK.run_consumption, *(2 * [KNAPSACK.enter_value])
    )
    problem = BudgetedPaths((KNAPSACK, second), 6.0)
    choice = mix_within_budget(problem, [[np.array([k]) for k in range(3)]] * 2)
    assert choice is not None
    assert [len(mixture) for mixture in choice] == [2, 1]
    assert problem.totals(choice) == pytest.approx((8 * 2 / 3, 6.0))


def test_no_mixture_below_the_least_consumption() -> None:
    """Where even the frugal paths exceed the budget there is no mixture; at equality there is one."""
    paths = [[np.array([0]), np.array([2])]]
    assert mix_within_budget(BudgetedPaths((KNAPSACK,), 0.999), paths) is None
    assert mix_within_budget(BudgetedPaths((KNAPSACK,), 1.0), paths) is not None


def test_a_pure_choice_over_the_budget_is_the_engines_failure() -> None:
    """An engine that returns node 3 (consumption 4) for a budget of 3 is not believed."""
    with pytest.raises(EngineError, match=r"returned a choice that consumes 4\.0 of a budget of 3\.0"):
        choice_of_flows(BudgetedPaths((KNAPSACK,), 3.0), [np.array([[0.0, 0.0, 1.0]])], mixed=False)
