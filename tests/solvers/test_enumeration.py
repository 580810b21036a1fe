"""Looking at every choice of paths through layered graphs."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optplan.contracts.judgement import PathCosts
from optplan.errors import UnsupportedError
from optplan.solvers.layered_graphs import enumerate_choices, path_totals
from tests.one_limit import cost_of_one_limit


def one_graph(layers: int, nodes: int) -> PathCosts:
    """Make a graph in which staying at the first node costs a value of one per layer and no consumption."""
    ones = np.ones((layers, nodes))
    return cost_of_one_limit("only", range(1, nodes + 1), ones, np.arange(nodes) * ones, ones, 0 * ones)


def test_the_best_of_four_paths_is_found() -> None:
    """Two layers, two nodes: of the four paths the one that pays for entering once and fits is best."""
    graph = cost_of_one_limit(
        name="a",
        nodes=[1, 2],
        run_value=np.array([[5.0, 1.0], [1.0, 4.0]]),
        run_consumption=np.array([[1.0, 3.0], [1.0, 1.0]]),
        enter_value=np.array([[1.0, 1.0], [2.0, 2.0]]),
        enter_consumption=np.array([[0.0, 0.0], [1.0, 1.0]]),
    )
    # (1,1): 1+5+1 = 7, uses 2. (1,2): 1+5+2+4 = 12, uses 3. (2,1): 1+1+2+1 = 5, uses 5. (2,2): 1+1+4 = 6, uses 4.
    for budget, expected in ((2.0, 7.0), (3.9, 7.0), (4.0, 6.0), (5.0, 5.0)):
        paths, count = enumerate_choices((graph,), np.array([budget]))
        assert paths is not None
        assert path_totals(graph, paths[0])[0] == expected
        assert count == 4


def test_a_budget_below_every_path_is_infeasible() -> None:
    """Where each path consumes something, a smaller budget leaves none."""
    graph = one_graph(2, 2)
    graph = replace(graph, run_consumption=graph.run_value[None])
    assert enumerate_choices((graph,), np.array([1.9])) == (None, 4)


@given(data=st.data(), graph=st.from_type(PathCosts))
def test_no_other_choice_is_better(data: st.DataObject, graph: PathCosts) -> None:
    """Going through all paths one by one in plain Python finds nothing better within limits that some choice keeps."""
    graphs = (graph, replace(graph, name="twice as dear", run_value=2 * graph.run_value))
    every = list(itertools.product(range(len(graph.labels)), repeat=len(graph.run_value)))
    some = sum(path_totals(each, np.array(data.draw(st.sampled_from(every))))[1] for each in graphs)
    most = np.maximum(some + data.draw(st.sampled_from([0.0, 0.5])), 0.5)
    found, count = enumerate_choices(graphs, most)
    totals = [[path_totals(each, np.array(path)) for path in every] for each in graphs]
    within = [
        sum(value for value, _ in chosen)
        for chosen in itertools.product(*totals)
        if np.all(sum(consumption for _, consumption in chosen) <= most)
    ]
    assert found is not None
    assert count == len(every) ** 2
    value = sum(path_totals(each, path)[0] for each, path in zip(graphs, found, strict=True))
    assert value == pytest.approx(min(within), abs=1e-9)


def test_too_many_choices_are_refused() -> None:
    """Three to the power of 14 choices are too many, and the message says how many are not."""
    with pytest.raises(UnsupportedError, match=r"looks at 4,000,000 choices at most and this problem has 4\.78e\+06"):
        enumerate_choices((one_graph(14, 3),), np.array([1.0]))
