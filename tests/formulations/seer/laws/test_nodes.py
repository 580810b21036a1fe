"""Whole nodes: counts by hand, and between what the GPUs need and what trials alone would take."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optplan.formulations.seer.laws.rounds import count_nodes


@pytest.mark.parametrize(
    ("gpus_per_node", "groups", "nodes"),
    [
        (4, ((1.0, 8),), 2),
        (4, ((3.0, 2), (1.0, 2)), 2),  # a single GPU beside each of three
        (4, ((2.0, 1), (3.0, 1)), 2),
        (4, ((1.0, 1), (2.0, 1), (8.0, 1)), 3),  # eight are two whole nodes
        (8, ((12.0, 2),), 3),  # one node and a half each
        (8, ((3.0, 5),), 3),  # two to a node
        (8, ((1.0, 7), (2.0, 3), (5.0, 2)), 3),  # 23 GPUs: 5 + 2 + 1, 5 + 2 + 1, 2 + 5 * 1
        (1, ((3.0, 2),), 6),
    ],
)
def test_nodes_by_hand(gpus_per_node: int, groups: tuple[tuple[float, int], ...], nodes: int) -> None:
    """Trials stay on as few nodes as hold them."""
    assert count_nodes(gpus_per_node, groups) == nodes


@given(
    gpus_per_node=st.integers(1, 8),
    trials=st.dictionaries(st.integers(1, 20).map(float), st.integers(1, 9), min_size=1),
)
def test_nodes_hold_all_gpus(gpus_per_node: int, trials: dict[float, int]) -> None:
    """Never fewer than the GPUs need, never more than every trial alone would take."""
    nodes = count_nodes(gpus_per_node, tuple(sorted(trials.items())))
    assert nodes * gpus_per_node >= sum(gpus * count for gpus, count in trials.items())
    assert nodes <= sum(math.ceil(gpus / gpus_per_node) * count for gpus, count in trials.items())
