"""Layered graphs: construction, validation, sums along paths, shortest paths."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, SearchStrategy

from optplan.errors import DataError
from optplan.solvers.paths.batches import FloatArray
from optplan.solvers.paths.layered import LayeredGraphs

PathLister = Callable[[LayeredGraphs, int], tuple[list[tuple[int, ...]], FloatArray]]


def hand_sized() -> LayeredGraphs:
    """Two epochs at width 1 or 2, one epoch at width 1."""
    return LayeredGraphs.from_lists(
        values=[[[4.0, 3.0], [4.0, 1.0]], [[2.0]]],
        consumptions=[[[4.0, 6.0], [4.0, 2.0]], [[2.0]]],
        switch_values=[[0.5, 0.5], [0.0]],
        switch_consumptions=[[0.5, 1.0], [0.0]],
    )


def test_sums_along_a_path_by_hand() -> None:
    """A path pays its nodes, the first start, and each change at its own width."""
    graphs = hand_sized()
    paths = graphs.follow(np.array([0, 0, 1]), np.array([[0, 1], [1, 1], [0, -1]], dtype=np.int32), 2.0)
    # 0 then 1: value 4 + 1 + 2 switches of 0.5 = 6; consumption 4 + 2 + 0.5 + 1 = 7.5
    # stay at 1: value 3 + 1 + 0.5 = 4.5; consumption 6 + 2 + 1 = 9
    assert paths.value.tolist() == [6.0, 4.5, 2.0]
    assert paths.consumption.tolist() == [7.5, 9.0, 2.0]
    assert paths.reduced_cost.tolist() == [21.0, 22.5, 6.0]
    assert paths.nodes.tolist() == [[0, 1], [1, 1], [0, -1]]


def test_shortest_path_by_hand() -> None:
    """At multiplier 0 staying at width 2 is best; at 4 the saved consumption pays for the change."""
    graphs = hand_sized()
    assert graphs.shortest_paths(0.0).nodes[0].tolist() == [1, 1]
    # 6 + 4 * 7.5 = 36 against 4.5 + 4 * 9 = 40.5 (1,1) and 8.5 + 4 * 8.5 = 42.5 (0,0)
    best = graphs.shortest_paths(4.0)
    assert best.nodes[0].tolist() == [0, 1]
    assert best.reduced_cost.tolist() == [36.0, 10.0]


def test_ties_stay_and_take_the_lowest_node() -> None:
    """Equal costs: the lowest node is entered, and the path stays there although switching is free."""
    graphs = LayeredGraphs.from_lists([np.ones((4, 3))], [np.ones((4, 3))])
    assert graphs.shortest_paths(1.0).nodes.tolist() == [[0, 0, 0, 0]]


@settings(max_examples=150)
@given(data=st.data(), multiplier=st.sampled_from([0.0, 0.3, 1.0, 7.0]))
def test_shortest_paths_match_enumeration(
    data: DataObject, multiplier: float, small_graphs: SearchStrategy[LayeredGraphs], list_paths: PathLister
) -> None:
    """No path costs less than the one found, and the one found costs what it says."""
    graphs = data.draw(small_graphs)
    found = graphs.shortest_paths(multiplier)
    for graph in range(graphs.num_graphs):
        paths, sums = list_paths(graphs, graph)
        best = (sums[:, 1] + multiplier * sums[:, 0]).min()
        depth = int(graphs.num_layers[graph])
        own = sums[paths.index(tuple(found.nodes[graph, :depth].tolist()))]
        assert found.reduced_cost[graph] == pytest.approx(best, rel=1e-12, abs=0.0)
        assert (found.consumption[graph], found.value[graph]) == pytest.approx(own.tolist(), rel=1e-12, abs=0.0)


def test_a_batch_equals_its_members_one_by_one(
    training_classes: Callable[[int, tuple[int, ...], int], LayeredGraphs],
) -> None:
    """Paths, ties included, do not depend on what is asked along, nor on the order."""
    graphs = training_classes(3, (7, 1, 12, 5), 9)
    members = np.array([2, 0, 2, 1, 3, 0])
    multipliers = np.array([0.1, 0.0, 5.0, 1.0, 0.3, 2.0])
    batch = graphs.shortest_paths(multipliers, members)
    for position, (member, multiplier) in enumerate(zip(members, multipliers, strict=True)):
        alone = graphs.shortest_paths(float(multiplier), np.array([member]))
        depth = alone.nodes.shape[1]
        assert np.array_equal(batch.nodes[position, :depth], alone.nodes[0])
        assert batch.value[position] == alone.value[0]
        assert batch.consumption[position] == alone.consumption[0]


def test_padded_and_listed_graphs_are_the_same() -> None:
    """Both constructors stack the same rows, whether switch costs vary over the layers or not."""
    rng = np.random.default_rng(1)
    value, consumption = rng.uniform(1, 2, (3, 4, 2)), rng.uniform(1, 2, (3, 4, 2))
    lengths = np.array([4, 1, 3])
    for depth in (1, 4):
        switch_value, switch_consumption = rng.uniform(0, 1, (3, depth, 2)), rng.uniform(0, 1, (3, 1, 2))
        padded = LayeredGraphs.from_padded(value, consumption, switch_value, switch_consumption, lengths)
        listed = LayeredGraphs.from_lists(
            [table[:length] for table, length in zip(value, lengths, strict=True)],
            [table[:length] for table, length in zip(consumption, lengths, strict=True)],
            [table[:length] for table, length in zip(switch_value, lengths, strict=True)],
            list(switch_consumption),
        )
        assert padded.switches_once == listed.switches_once == (depth == 1)
        for multiplier in (0.0, 0.7, 3.0):
            one, other = padded.shortest_paths(multiplier), listed.shortest_paths(multiplier)
            assert np.array_equal(one.nodes, other.nodes)
            assert np.array_equal(one.reduced_cost, other.reduced_cost)


def test_full_padded_arrays_are_not_copied_and_stay_writeable() -> None:
    """The graphs are read-only, the caller's array is not, and no second copy of a large array is made."""
    value = np.ones((2, 3, 4))
    graphs = LayeredGraphs.from_padded(value, np.ones((2, 3, 4)))
    assert np.shares_memory(graphs.value, value)
    assert value.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        graphs.value[0, 0] = 5.0


ONE = np.ones((2, 2))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: LayeredGraphs.from_lists([], []), "graphs: there are none; give at least one graph"),
        (lambda: LayeredGraphs.from_lists([ONE], [ONE, ONE]), "graphs.consumption: 2 arrays for 1 graphs"),
        (
            lambda: LayeredGraphs.from_lists([ONE], [np.ones((2, 3))]),
            "graphs[0].consumption: has shape (2, 3), value has (2, 2)",
        ),
        (
            lambda: LayeredGraphs.from_lists([ONE, [[1.0], [-2.0]]], [ONE, [[1.0], [1.0]]]),
            "graphs[1].value[1][0]: is -2.0; it must be at least 0 (+inf forbids the node)",
        ),
        (
            lambda: LayeredGraphs.from_lists([ONE], [[[1.0, np.inf], [1.0, 1.0]]]),
            "graphs[0].consumption[0][1]: is inf; it must be finite and at least 0",
        ),
        (
            lambda: LayeredGraphs.from_lists([ONE], [ONE], [[np.nan, 1.0]]),
            "graphs[0].switch_value[0][0]: is nan; it must be finite and at least 0",
        ),
        (
            lambda: LayeredGraphs.from_lists([[[1.0, 1.0], [np.inf, np.inf]]], [ONE]),
            "graphs[0].value[1]: every node is forbidden; allow at least one node in each layer",
        ),
        (
            lambda: LayeredGraphs.from_lists([ONE], [ONE], [np.ones(3)]),
            "graphs[0].switch_value: has shape (3,), which does not fit 1 x 2",
        ),
        (
            lambda: LayeredGraphs.from_lists([ONE], [ONE], [ONE, ONE]),
            "graphs.switch_value: 2 arrays for 1 graphs",
        ),
        (
            lambda: LayeredGraphs.from_padded(ONE, ONE),
            "value: has shape (2, 2); give an array of graphs x layers x nodes",
        ),
        (
            lambda: LayeredGraphs.from_padded(np.ones((1, 2, 2)), np.ones((1, 2, 3))),
            "consumption: has shape (1, 2, 3), which does not fit 1 x 2 x 2",
        ),
        (
            lambda: LayeredGraphs.from_padded(np.ones((1, 2, 2)), np.ones((1, 2, 2)), num_layers=[3]),
            "num_layers: must be 1 whole numbers from 1 to 2",
        ),
    ],
)
def test_wrong_data_names_the_place(build: Callable[[], LayeredGraphs], message: str) -> None:
    """Every refusal says where, what was found and what is allowed."""
    with pytest.raises(DataError, match="^" + re.escape(message) + "$"):
        build()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"value": np.ones(3)}, "graphs.value: has shape (3,)"),
        ({"consumption": np.ones((3, 2))}, "graphs.consumption: has shape (3, 2), value has (2, 2)"),
        ({"switch_value": np.ones((1, 3))}, "graphs.switch_value, graphs.switch_consumption: have shapes (1, 3)"),
        ({"first_row": np.array([0, 2, 2])}, "graphs.first_row: must increase from 0 to 2; every graph needs a layer"),
        ({"switch_row": np.array([0, 1])}, "graphs.switch_row: must be 2 numbers from 0 to 0"),
    ],
)
def test_stacked_arrays_must_fit(change: dict[str, FloatArray], message: str) -> None:
    """The stacked form is checked as well."""
    arrays = {
        "value": ONE,
        "consumption": ONE,
        "switch_value": np.ones((1, 2)),
        "switch_consumption": np.ones((1, 2)),
        "switch_row": np.zeros(2, dtype=np.intp),
        "first_row": np.array([0, 2]),
    }
    with pytest.raises(DataError, match=re.escape(message)):
        LayeredGraphs(**{**arrays, **change})
