"""From flows of linear programs to mixtures of paths."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from optplan.contracts.judgement import PathCosts
from optplan.errors import EngineError
from optplan.schema import FloatArray
from optplan.solvers.budgeted_paths import BudgetedPaths
from optplan.solvers.flows import Flow, choice_of_flows, mix_within_budget, take_apart

#: One layer, three nodes at (consumption, value) = (1, 8), (2, 6), (4, 0): the middle one is above the hull.
KNAPSACK = PathCosts.of_one_limit(
    name="a",
    nodes=[1, 2, 4],
    run_value=np.array([[8.0, 6.0, 0.0]]),
    run_consumption=np.array([[1.0, 2.0, 4.0]]),
    enter_value=np.zeros((1, 3)),
    enter_consumption=np.zeros((1, 3)),
)


def test_what_can_stay_stays() -> None:
    """Of (0.4, 0.6) then (0.7, 0.3): 0.4 and 0.3 stay, and 0.3 moves from the second node to the first."""
    paths = take_apart(Flow.of_shares(np.array([[0.4, 0.6], [0.7, 0.3]])))
    assert [path.tolist() for path in paths] == [[0, 0], [1, 1], [1, 0]]


def test_noise_makes_no_paths() -> None:
    """Shares of a billionth and sums that miss one by rounding leave one path."""
    paths = take_apart(Flow.of_shares(np.array([[1.0 - 1e-10, 1e-10], [1e-13, 1.0]])))
    assert [path.tolist() for path in paths] == [[0, 1]]


@given(st.integers(1, 4).flatmap(lambda nodes: arrays(np.float64, (4, nodes), elements=st.floats(0.1, 1.0))))
def test_paths_use_exactly_the_nodes_of_the_flow(shares: FloatArray) -> None:
    """Every node that carries flow is on a path, in its own layer."""
    paths = take_apart(Flow.of_shares(shares / shares.sum(axis=1, keepdims=True)))
    for layer in range(len(shares)):
        assert {int(path[layer]) for path in paths} == set(range(shares.shape[1]))


def test_paths_go_where_the_flow_says_that_their_group_goes() -> None:
    """Half of node 1 goes to node 4 and half of node 2 to node 3, by groups; in order it would be 3 and 4."""
    flow = Flow(
        at=np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]]),
        stay=np.zeros((1, 4)),
        enter=np.array([[[0.0, 0.0, 0.0, 0.5], [0.0, 0.0, 0.5, 0.0]]]),
        group=np.array([0, 1, 0, 1]),
    )
    assert [path.tolist() for path in take_apart(flow)] == [[0, 3], [1, 2]]


def test_a_budget_between_two_vertices_is_mixed() -> None:
    """At 2.5 of 1 to 4 half of the flow goes to each end: value 4, while the best single node has 6."""
    problem = BudgetedPaths((KNAPSACK,), np.array([2.5]))
    choice = mix_within_budget(problem, [[np.array([k]) for k in range(3)]])
    assert choice is not None
    assert [(path.fraction, path.columns.tolist()) for path in choice[0]] == [(0.5, [0]), (0.5, [2])]
    value, consumption = problem.totals(choice)
    assert (value, consumption.tolist()) == (4.0, [2.5])


def test_the_steepest_graph_is_served_first_and_one_graph_is_mixed_at_most() -> None:
    """Slopes 8 / 3 and 16 / 3: 3 of the 4 left over go to the second graph, the last 1 to a third of the first."""
    second = replace(KNAPSACK, name="b", run_value=2 * KNAPSACK.run_value)
    problem = BudgetedPaths((KNAPSACK, second), np.array([6.0]))
    choice = mix_within_budget(problem, [[np.array([k]) for k in range(3)]] * 2)
    assert choice is not None
    assert [len(mixture) for mixture in choice] == [2, 1]
    value, consumption = problem.totals(choice)
    assert (value, *consumption.tolist()) == pytest.approx((8 * 2 / 3, 6.0))


def test_no_mixture_below_the_least_consumption() -> None:
    """Where even the frugal paths exceed the budget there is no mixture; at equality there is one."""
    paths = [[np.array([0]), np.array([2])]]
    assert mix_within_budget(BudgetedPaths((KNAPSACK,), np.array([0.999])), paths) is None
    assert mix_within_budget(BudgetedPaths((KNAPSACK,), np.array([1.0])), paths) is not None


def test_a_pure_choice_over_the_budget_is_the_engines_failure() -> None:
    """An engine that returns node 3 (consumption 4) for a budget of 3 is not believed."""
    flow = Flow.of_shares(np.array([[0.0, 0.0, 1.0]]))
    with pytest.raises(EngineError, match=r"returned a choice that consumes 4\.0 of a limit \(budget\) of 3\.0"):
        choice_of_flows(BudgetedPaths((KNAPSACK,), np.array([3.0])), [flow], mixed=False)


#: One layer, three nodes: each of the first two consumes 4 of one of two limits, the third has the value 8 and is free.
TWO_LIMITS = PathCosts(
    name="a",
    labels=("1", "2", "4"),
    group=np.zeros(3, dtype=np.int64),
    limits=("budget", "quota"),
    run_value=np.array([[0.0, 0.0, 8.0]]),
    run_consumption=np.array([[[4.0, 0.0, 0.0]], [[0.0, 4.0, 0.0]]]),
    enter_value=np.zeros((1, 1, 3)),
    enter_consumption=np.zeros((2, 1, 1, 3)),
)


def test_each_limit_may_add_one_path() -> None:
    """With 1 and 2 of the limits, a quarter and a half go to the first two nodes, and the rest costs 8 / 4."""
    problem = BudgetedPaths((TWO_LIMITS,), np.array([1.0, 2.0]))
    choice = mix_within_budget(problem, [[np.array([k]) for k in range(3)]])
    assert choice is not None
    assert [path.fraction for path in choice[0]] == pytest.approx([0.25, 0.5, 0.25])
    value, consumption = problem.totals(choice)
    assert (value, *consumption.tolist()) == pytest.approx((2.0, 1.0, 2.0))


def test_several_limits_that_no_mixture_keeps() -> None:
    """Without the free node two halves consume 2 of each limit; 1.9 of one of them is too little, 2 is enough."""
    paths = [[np.array([0]), np.array([1])]]
    assert mix_within_budget(BudgetedPaths((TWO_LIMITS,), np.array([2.0, 1.9])), paths) is None
    choice = mix_within_budget(BudgetedPaths((TWO_LIMITS,), np.array([2.0, 2.0])), paths)
    assert choice is not None
    assert [path.fraction for path in choice[0]] == pytest.approx([0.5, 0.5])


def test_the_second_limit_is_named_where_a_pure_choice_exceeds_it() -> None:
    """Node 2 consumes 4 of the quota."""
    flow = Flow.of_shares(np.array([[0.0, 1.0, 0.0]]))
    with pytest.raises(EngineError, match=r"returned a choice that consumes 4\.0 of a limit \(quota\) of 3\.0"):
        choice_of_flows(BudgetedPaths((TWO_LIMITS,), np.array([3.0, 3.0])), [flow], mixed=False)
