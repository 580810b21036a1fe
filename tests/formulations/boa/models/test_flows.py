"""From flows of linear programs to mixtures of paths."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from optplan.formulations.boa.models.flows import Flow, list_strands
from optplan.schema import FloatArray


def test_what_can_stay_stays() -> None:
    """Of (0.4, 0.6) then (0.7, 0.3): 0.4 and 0.3 stay, and 0.3 moves from the second node to the first."""
    strands = list_strands(Flow.of_shares(np.array([[0.4, 0.6], [0.7, 0.3]])))
    assert [columns for _, columns in strands] == [[0, 0], [1, 1], [1, 0]]
    assert [share for share, _ in strands] == pytest.approx([0.4, 0.3, 0.3])


def test_noise_makes_no_paths() -> None:
    """Shares of a billionth and sums that miss one by rounding leave one path."""
    strands = list_strands(Flow.of_shares(np.array([[1.0 - 1e-10, 1e-10], [1e-13, 1.0]])))
    assert [columns for _, columns in strands] == [[0, 1]]


@given(st.integers(1, 4).flatmap(lambda nodes: arrays(np.float64, (4, nodes), elements=st.floats(0.1, 1.0))))
def test_paths_use_exactly_the_nodes_of_the_flow(shares: FloatArray) -> None:
    """Every node that carries flow is on a path, in its own layer."""
    strands = list_strands(Flow.of_shares(shares / shares.sum(axis=1, keepdims=True)))
    for layer in range(len(shares)):
        assert {columns[layer] for _, columns in strands} == set(range(shares.shape[1]))


def test_paths_go_where_the_flow_says_that_their_group_goes() -> None:
    """Half of node 1 goes to node 4 and half of node 2 to node 3, by groups; in order it would be 3 and 4."""
    flow = Flow(
        at=np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]]),
        stay=np.zeros((1, 4)),
        enter=np.array([[[0.0, 0.0, 0.0, 0.5], [0.0, 0.0, 0.5, 0.0]]]),
        group=np.array([0, 1, 0, 1]),
    )
    assert [columns for _, columns in list_strands(flow)] == [[0, 3], [1, 2]]
