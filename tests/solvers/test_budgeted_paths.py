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

GRAPH = PathCosts.of_one_limit(
    name="a",
    nodes=[1, 2],
    run_value=np.array([[5.0, 1.0], [1.0, 4.0]]),
    run_consumption=np.array([[1.0, 3.0], [1.0, 1.0]]),
    enter_value=np.array([[1.0, 1.0], [2.0, 2.0]]),
    enter_consumption=np.array([[0.0, 0.5], [1.0, 1.0]]),
)


def test_a_path_pays_for_entering_where_it_changes_and_in_the_first_layer() -> None:
    """A path from node 2 to node 1 enters twice; one that stays at node 2 enters once."""
    # Values 1 + 1 + 2 + 1, consumptions 3 + 0.5 + 1 + 1.
    value, consumption = path_totals(GRAPH, np.array([1, 0]))
    assert (value, consumption.tolist()) == (5.0, [5.5])
    # Values 1 + 1 + 4, consumptions 3 + 0.5 + 1.
    value, consumption = path_totals(GRAPH, np.array([1, 1]))
    assert (value, consumption.tolist()) == (6.0, [4.5])


#: Two groups of one node each: from group 0 to node 2 costs 7 and from group 1 to node 1 costs 3, from the own group 1.
CHANGES = PathCosts(
    name="changes",
    labels=("a.1", "b.1"),
    group=np.array([0, 1]),
    limits=("budget", "quota"),
    run_value=np.array([[1.0, 5.0], [5.0, 1.0], [1.0, 5.0]]),
    run_consumption=np.array([[[1.0, 1.0]] * 3, [[0.0, 2.0]] * 3]),
    enter_value=np.array([[[1.0, 7.0]] * 3, [[3.0, 1.0]] * 3]),
    enter_consumption=np.array([[[[0.0, 0.5]] * 3, [[0.0, 0.0]] * 3], [[[0.0, 4.0]] * 3, [[0.0, 0.0]] * 3]]),
)


def test_what_a_change_costs_may_depend_on_the_group_left() -> None:
    """From a to b costs 7 in value, 0.5 and 4 in consumption, back 3 and nothing; the first entry is from the own."""
    # Values (1 + 1) + (7 + 1) + (3 + 1); budget 1 + 1.5 + 1; quota 0 + (4 + 2) + 0.
    value, consumption = path_totals(CHANGES, np.array([0, 1, 0]))
    assert (value, consumption.tolist()) == (14.0, [3.5, 6.0])
    # Values (1 + 5) + 1 + (3 + 1); quota 2 + 2 + 0.
    value, consumption = path_totals(CHANGES, np.array([1, 1, 0]))
    assert (value, consumption.tolist()) == (11.0, [3.0, 4.0])


def test_the_least_path_minds_the_group_left() -> None:
    """Staying at a costs 1 + 1 + 5 + 1 = 8, and every path through b more; with a cheap way there, a b a is best."""
    assert least_path(CHANGES.run_value, CHANGES.enter_value, CHANGES.group)[0] == 8.0
    cheaper = CHANGES.enter_value.copy()
    cheaper[0, :, 1] = 0.5
    # (1 + 1) + (0.5 + 1) + (3 + 1).
    cost, columns = least_path(CHANGES.run_value, cheaper, CHANGES.group)
    assert (cost, columns.tolist()) == (7.5, [0, 1, 0])


def test_a_mixture_counts_each_path_by_its_fraction() -> None:
    """A quarter of 5 and three quarters of 6 are 5.75."""
    mixture = (WeightedPath(0.25, np.array([1, 0])), WeightedPath(0.75, np.array([1, 1])))
    value, consumption = BudgetedPaths((GRAPH,), np.array([9.0])).totals((mixture,))
    assert (value, consumption.tolist()) == (5.75, [4.75])


@given(problem=st.from_type(BudgetedPaths))
def test_the_least_path_is_the_least_of_all(problem: BudgetedPaths) -> None:
    """Dynamic programming and going through all paths agree, and the path has the cost that is claimed for it."""
    for graph in problem.graphs:
        cost, columns = least_path(graph.run_value, graph.enter_value, graph.group)
        every = itertools.product(range(len(graph.labels)), repeat=len(graph.run_value))
        assert cost == min(path_totals(graph, np.array(path))[0] for path in every)
        assert path_totals(graph, columns)[0] == cost


@pytest.mark.parametrize(
    ("graphs", "budgets", "message"),
    [
        ((), [1.0], "graphs: is empty; at least one graph is needed"),
        ((GRAPH,), [0.0], r"budgets\.budget: got 0\.0; a finite number above zero is needed"),
        ((GRAPH,), [float("inf")], r"budgets\.budget: got inf; a finite number above zero is needed"),
        ((GRAPH,), [float("nan")], r"budgets\.budget: got nan; a finite number above zero is needed"),
        ((GRAPH,), [1.0, 2.0], r"budgets: has shape \(2,\); one budget for each limit is needed"),
        (
            (GRAPH, replace(GRAPH, name="b", limits=("quota",))),
            [1.0],
            r"graphs\.b\.limits: has the limits quota; those of a are needed: budget",
        ),
        (
            (replace(GRAPH, enter_value=np.array([[[0.0, 0.0], [0.0, -1.0]]])),),
            [1.0],
            r"graphs\.a\.enter_value: entry \[0\]\[1\]\[1\]: got -1\.0; finite numbers from 0 on are allowed",
        ),
        (
            (replace(GRAPH, run_value=np.ones((2, 3))),),
            [1.0],
            r"graphs\.a\.run_value: has shape \(2, 3\); \(2, 2\) is needed \(layers, nodes\), none of them zero",
        ),
        (
            (replace(GRAPH, enter_consumption=np.ones((1, 2, 2, 2))),),
            [1.0],
            r"graphs\.a\.enter_consumption: has shape \(1, 2, 2, 2\); \(1, 1, 2, 2\) is needed "
            r"\(limits, groups, layers, nodes\), none of them zero",
        ),
        (
            (replace(GRAPH, group=np.array([0])),),
            [1.0],
            r"graphs\.a\.group: has shape \(1,\); \(2,\) is needed \(nodes\)",
        ),
        (
            (replace(GRAPH, group=np.array([0, 1])),),
            [1.0],
            r"graphs\.a\.group: got \[0, 1\]; whole numbers from 0 to 0 are allowed",
        ),
    ],
)
def test_wrong_problems_are_refused(graphs: tuple[PathCosts, ...], budgets: list[float], message: str) -> None:
    """Each number that makes no sense is named with its place."""
    with pytest.raises(DataError, match=f"^{message}$"):
        BudgetedPaths(graphs, np.array(budgets))
