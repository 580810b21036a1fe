"""Small random layered graphs with whole-numbered costs, so that ties and exact limits are common."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from optplan.contracts.judgement import PathCosts
from optplan.schema import FloatArray


def whole_numbers(*shape: int) -> st.SearchStrategy[FloatArray]:
    """Draw costs from 0 to 9."""
    return arrays(np.float64, shape, elements=st.integers(0, 9).map(float))


@st.composite
def path_costs(draw: st.DrawFn) -> PathCosts:
    """Draw a graph of one to three layers with one to three nodes in one to three groups."""
    limits = draw(st.integers(1, 3))
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


# Test modules are no package, so they cannot import this; they ask hypothesis for the type.
st.register_type_strategy(PathCosts, path_costs())
