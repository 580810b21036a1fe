"""Small random problems for the general engines: whole-numbered costs, so that ties and exact budgets are common."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from optplan.contracts.judgement import PathCosts
from optplan.solvers.budgeted_paths import BudgetedPaths, least_path, path_totals


@st.composite
def path_costs(draw: st.DrawFn) -> PathCosts:
    """Draw a graph of one to three layers with one to three nodes."""
    layers, nodes = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    costs = arrays(np.float64, (layers, nodes), elements=st.integers(0, 9).map(float))
    free = st.just(np.zeros((layers, nodes)))
    return PathCosts(
        name=f"graph {draw(st.integers(0, 99))}",
        nodes=np.array([1, 2, 4])[:nodes],
        run_value=draw(costs),
        run_consumption=draw(costs),
        enter_value=draw(st.one_of(costs, free)),
        enter_consumption=draw(st.one_of(costs, free)),
    )


@st.composite
def budgeted_paths(draw: st.DrawFn) -> BudgetedPaths:
    """Draw up to three graphs and a budget that some choice of paths needs exactly, or a little more."""
    graphs = draw(st.lists(path_costs(), min_size=1, max_size=3))
    least = sum(least_path(g.run_consumption, g.enter_consumption)[0] for g in graphs)
    some = 0.0
    for graph in graphs:
        layers, nodes = graph.run_value.shape
        columns = draw(st.lists(st.integers(0, nodes - 1), min_size=layers, max_size=layers))
        some += path_totals(graph, np.array(columns))[1]
    return BudgetedPaths(tuple(graphs), max(least, some + draw(st.sampled_from([0.0, 0.5])), 0.5))


# Test modules are no package, so they cannot import this; they ask hypothesis for the type.
st.register_type_strategy(BudgetedPaths, budgeted_paths())
