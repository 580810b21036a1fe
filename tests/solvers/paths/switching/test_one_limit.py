"""Layered graphs of one limit: sums along paths, best paths, however the work is divided."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, SearchStrategy

from optplan.solvers.paths import TUNING
from optplan.solvers.paths.families import FloatArray
from optplan.solvers.paths.search import Effort
from optplan.solvers.paths.switching import LinkedGraphs

State = Callable[..., LinkedGraphs]
Maker = Callable[[int, tuple[int, ...], int], LinkedGraphs]
PathLister = Callable[[LinkedGraphs, int], tuple[list[tuple[int, ...]], FloatArray]]


def hand_sized(state: State) -> LinkedGraphs:
    """Two epochs at width 1 or 2, one epoch at width 1."""
    return state(
        values=[[[4.0, 3.0], [4.0, 1.0]], [[2.0]]],
        consumptions=[[[4.0, 6.0], [4.0, 2.0]], [[2.0]]],
        switch_values=[[0.5, 0.5], [0.0]],
        switch_consumptions=[[0.5, 1.0], [0.0]],
    )


def test_sums_along_a_path_by_hand(state: State) -> None:
    """A path pays its nodes, the first start, and each change at its own width."""
    paths = hand_sized(state).follow(np.array([0, 0, 1]), np.array([[0, 1], [1, 1], [0, -1]], dtype=np.int32))
    # 0 then 1: value 4 + 1 + 2 switches of 0.5 = 6; consumption 4 + 2 + 0.5 + 1 = 7.5
    # stay at 1: value 3 + 1 + 0.5 = 4.5; consumption 6 + 2 + 1 = 9
    assert paths.value.tolist() == [6.0, 4.5, 2.0]
    assert paths.used.tolist() == [7.5, 9.0, 2.0]
    assert paths.weigh(np.array([2.0])).tolist() == [21.0, 22.5, 6.0]
    assert paths.payload.tolist() == [[0, 1], [1, 1], [0, -1]]


def test_best_path_by_hand(state: State) -> None:
    """At multiplier 0 staying at width 2 is best; at 4 the saved consumption pays for the change."""
    graphs, four = hand_sized(state), np.array([4.0])
    assert graphs.best_paths(np.zeros(1)).payload[0].tolist() == [1, 1]
    # 6 + 4 * 7.5 = 36 against 4.5 + 4 * 9 = 40.5 (1,1) and 8.5 + 4 * 8.5 = 42.5 (0,0)
    best = graphs.best_paths(four)
    assert best.payload[0].tolist() == [0, 1]
    assert best.weigh(four).tolist() == [36.0, 10.0]


def test_ties_stay_and_take_the_lowest_node(state: State) -> None:
    """Equal costs: the lowest node is entered, and the path stays there although switching is free."""
    graphs = state([np.ones((4, 3))], [np.ones((4, 3))])
    assert graphs.best_paths(np.ones(1)).payload.tolist() == [[0, 0, 0, 0]]


@settings(max_examples=150)
@given(data=st.data(), multiplier=st.sampled_from([0.0, 0.3, 1.0, 7.0]))
def test_best_paths_match_enumeration(
    data: DataObject, multiplier: float, small_graphs: SearchStrategy[LinkedGraphs], list_paths: PathLister
) -> None:
    """No path costs less than the one found, and the one found costs what it says."""
    graphs, multipliers = data.draw(small_graphs), np.array([multiplier])
    found = graphs.best_paths(multipliers)
    for graph in range(graphs.num_graphs):
        paths, sums = list_paths(graphs, graph)
        best = (sums[:, 1] + multiplier * sums[:, 0]).min()
        own = sums[paths.index(tuple(node for node in found.payload[graph].tolist() if node >= 0))]
        assert found.weigh(multipliers)[graph] == pytest.approx(best, rel=1e-12, abs=0.0)
        assert (found.used[graph], found.value[graph]) == pytest.approx(own.tolist(), rel=1e-12, abs=0.0)


def test_a_batch_equals_its_members_one_by_one(training_classes: Maker) -> None:
    """Paths, ties included, depend neither on what is asked along, nor on the order."""
    graphs = training_classes(3, (7, 1, 12, 5), 9)
    members = np.array([2, 0, 2, 1, 3, 0])
    multipliers = np.array([0.1, 0.0, 5.0, 1.0, 0.3, 2.0])
    together = [graphs.best_paths(np.array([multiplier])).take(np.array([0])) for multiplier in (0.0, 2.0)]
    alone = [graphs.best_paths(np.array([m]), np.array([g])) for g, m in zip(members, multipliers, strict=True)]
    batch = graphs.best_paths(multipliers[:, None], members)
    for position, own in enumerate(alone):
        depth = own.payload.shape[1]
        assert np.array_equal(batch.payload[position, :depth], own.payload[0])
        assert batch.value[position] == own.value[0]
        assert batch.used[position] == own.used[0]
    for position, own in ((1, together[0]), (5, together[1])):
        assert np.array_equal(batch.payload[position], own.payload[0])


@pytest.mark.parametrize("work", [1, 200])
def test_path_sets_do_not_depend_on_how_the_work_is_divided(
    training_classes: Maker, monkeypatch: pytest.MonkeyPatch, work: int
) -> None:
    """However often the search looks at the clock, it finds the same paths."""
    graphs = training_classes(5, (6, 2, 9), 7)
    multipliers = np.array([0.5])
    allowance = 0.05 * float(graphs.best_paths(multipliers).weigh(multipliers).sum())
    whole = graphs.find_path_sets(multipliers, allowance, Effort())
    monkeypatch.setattr("optplan.solvers.paths.switching.TUNING", replace(TUNING, label_steps=work))
    parts = graphs.find_path_sets(multipliers, allowance, Effort())
    assert parts.starts.tolist() == whole.starts.tolist()
    assert parts.value.tolist() == whole.value.tolist()
    assert parts.used.tolist() == whole.used.tolist()


def test_a_node_of_infinite_value_is_closed(state: State) -> None:
    """It is on no path, not even where only consumption counts, and other graphs' padding is not either."""
    graphs = state([[[np.inf, 3.0]], [[2.0]]], [[[1.0, 5.0]], [[4.0]]])
    for value_weight, multiplier in ((1.0, 0.0), (1.0, 2.0), (0.0, 1.0)):
        found = graphs.best_paths(np.array([multiplier]), value_weight=value_weight)
        assert found.payload.tolist() == [[1], [0]]
