"""Choices of one path per graph among given ones."""

from __future__ import annotations

import numpy as np
import pytest

from optplan.progress import Stopwatch
from optplan.solvers.paths import incumbents
from optplan.solvers.paths.incumbents import choose_paths, find_nearest


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1], [1, 3, 0, 2]])
def test_the_choice_is_by_graph_whatever_the_order_of_the_paths(order: list[int]) -> None:
    """Graph 0 has paths of value 5 and 1, graph 1 of 4 and 2, dearer the better: only 5 + 2 or 1 + 4 keep the limit.

    They use 1 + 3 and 3 + 1 of the limit 4, so the second is best.
    """
    graph, value = np.array([0, 0, 1, 1]), np.array([5.0, 1.0, 4.0, 2.0])
    use = np.array([[1.0], [3.0], [1.0], [3.0]])
    chosen = choose_paths(graph[order], value[order], use[order], np.array([4.0]), 0.0, Stopwatch())
    assert chosen is not None
    assert graph[order][chosen].tolist() == [0, 1]
    assert value[order][chosen].tolist() == [1.0, 4.0]


def test_no_choice_is_none() -> None:
    """Where the limits cannot be kept, or a graph has no path that keeps them alone."""
    graph, value = np.array([0, 1]), np.ones(2)
    for use in ([3.0, 2.0], [5.0, 1.0]):
        assert choose_paths(graph, value, np.array(use)[:, None], np.array([4.0]), 0.0, Stopwatch()) is None


def test_the_nearest_paths_are_those_of_least_excess(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two graphs four paths besides the most: excesses 0, 3, 1 of one and 0, 2 of the other leave out the 3."""
    monkeypatch.setattr(incumbents, "_MOST_PATHS", 0)
    assert find_nearest(np.array([0, 0, 0, 1, 1]), np.array([5.0, 8.0, 6.0, 1.0, 3.0])).tolist() == [0, 2, 3, 4]
