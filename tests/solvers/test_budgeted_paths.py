"""The problem that general engines take: its checks, totals and cheapest paths."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optplan.contracts.judgement import PathCosts
from optplan.errors import DataError
from optplan.solvers.budgeted_paths import BudgetedPaths, WeightedPath, least_path, path_totals

GRAPH = PathCosts(
    name="a",
    nodes=np.array([1, 2]),
    run_value=np.array([[5.0, 1.0], [1.0, 4.0]]),
    run_consumption=np.array([[1.0, 3.0], [1.0, 1.0]]),
    enter_value=np.array([[1.0, 1.0], [2.0, 2.0]]),
    enter_consumption=np.array([[0.0, 0.5], [1.0, 1.0]]),
)


def test_a_path_pays_for_entering_where_it_changes_and_in_the_first_layer() -> None:
    """A path from node 2 to node 1 enters twice; one that stays at node 2 enters once."""
    # Values 1 + 1 + 2 + 1, consumptions 3 + 0.5 + 1 + 1.
    assert path_totals(GRAPH, np.array([1, 0])) == (5.0, 5.5)
    # Values 1 + 1 + 4, consumptions 3 + 0.5 + 1.
    assert path_totals(GRAPH, np.array([1, 1])) == (6.0, 4.5)


def test_a_mixture_counts_each_path_by_its_fraction() -> None:
    """A quarter of 5 and three quarters of 6 are 5.75."""
    mixture = (WeightedPath(0.25, np.array([1, 0])), WeightedPath(0.75, np.array([1, 1])))
    assert BudgetedPaths((GRAPH,), 9.0).totals((mixture,)) == (5.75, 4.75)


@given(problem=st.from_type(BudgetedPaths))
def test_the_least_path_is_the_least_of_all(problem: BudgetedPaths) -> None:
    """Dynamic programming and going through all paths agree, and the path has the cost that is claimed for it."""
    for graph in problem.graphs:
        cost, columns = least_path(graph.run_value, graph.enter_value)
        every = itertools.product(range(graph.nodes.size), repeat=len(graph.run_value))
        assert cost == min(path_totals(graph, np.array(path))[0] for path in every)
        assert path_totals(graph, columns)[0] == cost


@pytest.mark.parametrize(
    ("graphs", "budget", "message"),
    [
        ((), 1.0, "graphs: is empty; at least one graph is needed"),
        ((GRAPH,), 0.0, r"budget: got 0\.0; a finite number above zero is needed"),
        ((GRAPH,), float("nan"), "budget: got nan; a finite number above zero is needed"),
        (
            (replace(GRAPH, enter_value=np.array([[0.0, 0.0], [0.0, -1.0]])),),
            1.0,
            r"graphs\.a\.enter_value: entry \[1\]\[1\]: got -1\.0; finite numbers from 0 on are allowed",
        ),
        (
            (replace(GRAPH, run_value=np.ones((2, 3))),),
            1.0,
            r"graphs\.a\.run_value: has shape \(2, 3\); \(layers, 2 nodes\) is needed",
        ),
        (
            (replace(GRAPH, enter_consumption=np.ones((1, 2))),),
            1.0,
            r"graphs\.a\.enter_consumption: has shape \(1, 2\); \(layers, 2 nodes\) is needed",
        ),
    ],
)
def test_wrong_problems_are_refused(graphs: tuple[PathCosts, ...], budget: float, message: str) -> None:
    """Each number that makes no sense is named with its place."""
    with pytest.raises(DataError, match=f"^{message}$"):
        BudgetedPaths(graphs, budget)
