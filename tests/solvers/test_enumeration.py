"""Looking at every choice of paths."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optplan.contracts import SolveRequest, Status
from optplan.contracts.judgement import PathCosts
from optplan.errors import UnsupportedError
from optplan.solvers.budgeted_paths import BudgetedPaths, path_totals
from optplan.solvers.enumeration import enumerate_choices


def one_graph(layers: int, nodes: int) -> PathCosts:
    """Make a graph in which staying at the first node costs a value of one per layer and no consumption."""
    ones = np.ones((layers, nodes))
    return PathCosts.of_one_limit("only", range(1, nodes + 1), ones, np.arange(nodes) * ones, ones, 0 * ones)


def test_the_best_of_four_paths_is_found() -> None:
    """Two layers, two nodes: of the four paths the one that pays for entering once and fits is best."""
    graph = PathCosts.of_one_limit(
        name="a",
        nodes=[1, 2],
        run_value=np.array([[5.0, 1.0], [1.0, 4.0]]),
        run_consumption=np.array([[1.0, 3.0], [1.0, 1.0]]),
        enter_value=np.array([[1.0, 1.0], [2.0, 2.0]]),
        enter_consumption=np.array([[0.0, 0.0], [1.0, 1.0]]),
    )
    # (1,1): 1+5+1 = 7, uses 2. (1,2): 1+5+2+4 = 12, uses 3. (2,1): 1+1+2+1 = 5, uses 5. (2,2): 1+1+4 = 6, uses 4.
    for budget, expected in ((2.0, 7.0), (3.9, 7.0), (4.0, 6.0), (5.0, 5.0)):
        problem = BudgetedPaths((graph,), np.array([budget]))
        outcome = enumerate_choices(problem, SolveRequest())
        assert outcome.choice is not None
        assert problem.totals(outcome.choice)[0] == expected
        assert outcome.bound == expected


def test_a_budget_below_every_path_is_infeasible() -> None:
    """Where each path consumes something, a smaller budget leaves none."""
    graph = one_graph(2, 2)
    graph = replace(graph, run_consumption=graph.run_value[None])
    outcome = enumerate_choices(BudgetedPaths((graph,), np.array([1.9])), SolveRequest())
    assert outcome.status is Status.INFEASIBLE
    assert outcome.choice is None
    assert outcome.counters == {"choices": 4.0}


@given(problem=st.from_type(BudgetedPaths))
def test_no_other_choice_is_better(problem: BudgetedPaths) -> None:
    """Going through all paths one by one in plain Python finds nothing better within the budget."""
    outcome = enumerate_choices(problem, SolveRequest())
    best = float("inf")
    paths = [
        [
            path_totals(g, np.array(columns))
            for columns in itertools.product(range(len(g.labels)), repeat=len(g.run_value))
        ]
        for g in problem.graphs
    ]
    for totals in itertools.product(*paths):
        if np.all(sum(consumption for _, consumption in totals) <= problem.budgets):
            best = min(best, sum(value for value, _ in totals))
    assert outcome.choice is not None
    assert problem.totals(outcome.choice)[0] == pytest.approx(best, abs=1e-9)


def test_too_many_choices_are_refused() -> None:
    """Three to the power of 14 choices are too many, and the message says how many are not."""
    with pytest.raises(UnsupportedError, match=r"looks at 4,000,000 choices at most and this problem has 4\.78e\+06"):
        enumerate_choices(BudgetedPaths((one_graph(14, 3),), np.array([1.0])), SolveRequest())
