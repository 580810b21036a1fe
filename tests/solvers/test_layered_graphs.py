"""Layered graphs: what paths amount to, and least paths."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from optplan.contracts.judgement import PathCosts
from optplan.solvers.layered_graphs import least_path, path_totals
from tests.one_limit import cost_of_one_limit

GRAPH = cost_of_one_limit(
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


@given(graph=st.from_type(PathCosts))
def test_the_least_path_is_the_least_of_all(graph: PathCosts) -> None:
    """Dynamic programming and going through all paths agree, and the path has the cost that is claimed for it."""
    cost, columns = least_path(graph.run_value, graph.enter_value, graph.group)
    every = itertools.product(range(len(graph.labels)), repeat=len(graph.run_value))
    assert cost == min(path_totals(graph, np.array(path))[0] for path in every)
    assert path_totals(graph, columns)[0] == cost
