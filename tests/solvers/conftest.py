"""Small random problems for the general engines: whole-numbered costs, so that ties and exact budgets are common."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from optplan.contracts.judgement import PathCosts
from optplan.schema import FloatArray
from optplan.solvers.budgeted_paths import BudgetedPaths, path_totals


def whole_numbers(*shape: int) -> st.SearchStrategy[FloatArray]:
    """Draw costs from 0 to 9."""
    return arrays(np.float64, shape, elements=st.integers(0, 9).map(float))


@st.composite
def path_costs(draw: st.DrawFn, limits: int) -> PathCosts:
    """Draw a graph of one to three layers with one to three nodes in one to three groups."""
    layers, nodes, groups = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    values, consumptions = (groups, layers, nodes), (limits, groups, layers, nodes)
    return PathCosts(
        name=f"graph {draw(st.integers(0, 99))}",
        labels=("1", "2", "4")[:nodes],
        group=np.array(draw(st.lists(st.integers(0, groups - 1), min_size=nodes, max_size=nodes))),
        limits=("budget", "quota.a", "quota.b")[:limits],
        run_value=draw(whole_numbers(layers, nodes)),
        run_consumption=draw(whole_numbers(limits, layers, nodes)),
        enter_value=draw(st.one_of(whole_numbers(*values), st.just(np.zeros(values)))),
        enter_consumption=draw(st.one_of(whole_numbers(*consumptions), st.just(np.zeros(consumptions)))),
    )


@st.composite
def budgeted_paths(draw: st.DrawFn) -> BudgetedPaths:
    """Draw up to three graphs and budgets that some choice of paths needs exactly, or a little more."""
    limits = draw(st.integers(1, 3))
    graphs = draw(st.lists(path_costs(limits), min_size=1, max_size=3))
    some = np.zeros(limits)
    for graph in graphs:
        layers, nodes = graph.run_value.shape
        columns = draw(st.lists(st.integers(0, nodes - 1), min_size=layers, max_size=layers))
        some += path_totals(graph, np.array(columns))[1]
    return BudgetedPaths(tuple(graphs), np.maximum(some + draw(st.sampled_from([0.0, 0.5])), 0.5))


# Test modules are no package, so they cannot import this; they ask hypothesis for the type.
st.register_type_strategy(BudgetedPaths, budgeted_paths())
