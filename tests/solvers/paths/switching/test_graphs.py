"""Linked graphs: best paths, restrictions, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from optplan.contracts.judgement import PathCosts
from optplan.errors import DataError
from optplan.schema import FloatArray
from optplan.solvers.paths.dominance import find_undominated_vectors
from optplan.solvers.paths.switching import LinkedGraphs


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("value_weight", [0.0, 1.0])
def test_best_paths_are_best(
    random_costs: Callable[..., tuple[PathCosts, ...]],
    path_table: Callable[[PathCosts], FloatArray],
    seed: int,
    value_weight: float,
) -> None:
    """Graphs of unequal layers, nodes and groups in one batch: each path is the least of all, its sums are its own."""
    costs = (*random_costs(seed, grouped=True)[:2], *random_costs(seed + 50, grouped=False)[:1])
    num_limits = min(len(graph.limits) for graph in costs)
    costs = tuple(
        PathCosts(
            graph.name,
            graph.labels,
            graph.group,
            graph.limits[:num_limits],
            graph.run_value,
            graph.run_consumption[:num_limits],
            graph.enter_value,
            graph.enter_consumption[:num_limits],
        )
        for graph in costs
    )
    graphs = LinkedGraphs.from_costs(costs, np.ones(num_limits))
    multipliers = np.random.default_rng(seed).uniform(0.0, 2.0, num_limits)
    found = graphs.best_paths(multipliers, value_weight=value_weight)
    for graph, cost in enumerate(costs):
        table = path_table(cost)
        weighted = table @ np.array([value_weight, *multipliers])
        assert found.weigh(multipliers, value_weight)[graph] == pytest.approx(weighted.min(), rel=1e-12)
        path = found.payload[graph][found.payload[graph] >= 0]
        layers, nodes = cost.run_value.shape
        row = table[list(product(range(nodes), repeat=layers)).index(tuple(path.tolist()))]
        assert [found.value[graph], *found.consumption[graph]] == pytest.approx(row.tolist(), rel=1e-12)


def test_what_entering_costs_depends_on_the_group_left() -> None:
    """Two types of one node each: changing over costs 1 from the first and 10 from the second."""
    # Nodes a and b; a is better in layer 0, b in layer 1 by 2: from a to b costs 1, so the path changes (0 + 0 + 1 = 1
    # against 2). The other way round it costs 10, so it stays (2 against 10).
    enter = np.zeros((2, 2, 2))
    enter[0, 1] = [0.0, 1.0]
    enter[1, 1] = [10.0, 0.0]
    nothing = np.zeros((1, 2, 2))

    def solve(run: list[list[float]]) -> tuple[float, list[int]]:
        cost = PathCosts(
            "x", ("a", "b"), np.array([0, 1]), ("l",), np.array(run), nothing, enter, np.zeros((1, 2, 2, 2))
        )
        found = LinkedGraphs.from_costs([cost], np.ones(1)).best_paths(np.zeros(1))
        return float(found.value[0]), found.payload[0].tolist()

    assert solve([[0.0, 2.0], [2.0, 0.0]]) == (1.0, [0, 1])
    assert solve([[2.0, 0.0], [0.0, 2.0]]) == (2.0, [0, 0])


def test_ties_stay_and_then_take_the_lowest_node(one_layer: Callable[..., PathCosts]) -> None:
    """Equal paths are told apart by the data alone."""
    graphs = LinkedGraphs.from_costs([one_layer("a", [1, 1, 1], [0, 0, 0])], np.ones(1))
    assert graphs.best_paths(np.zeros(1)).payload.tolist() == [[0]]


def test_refuses_limits_that_do_not_fit(one_layer: Callable[..., PathCosts]) -> None:
    """The message says what was given and what is needed."""
    costs = [one_layer("a", [1], [1])]
    with pytest.raises(DataError, match=r"^graphs: there are none; give at least one graph$"):
        LinkedGraphs.from_costs([], np.ones(1))
    wanted = r"^limits: got \[0\.0\]; 1 finite numbers above zero are needed; leave out what limits nothing$"
    with pytest.raises(DataError, match=wanted):
        LinkedGraphs.from_costs(costs, np.zeros(1))


@pytest.mark.parametrize(("size", "parts"), [(5, 2), (40, 2), (300, 2), (300, 10)])
@pytest.mark.parametrize("criteria", [1, 2, 4])
def test_undominated_vectors_are_those_that_nothing_undercuts(size: int, parts: int, criteria: int) -> None:
    """Few and many, small and large sets against comparing all pairs; of equal vectors one stays."""
    rng = np.random.default_rng(size + criteria)
    costs = rng.integers(0, 8, (size, criteria)).astype(float)
    segment = rng.integers(0, parts, size)
    kept = find_undominated_vectors(segment, costs)
    assert np.all(np.diff(segment[kept]) >= 0)
    for part in range(parts):
        members = np.unique(costs[segment == part], axis=0)
        undercut = [np.any(np.all(members <= row, axis=1) & np.any(members < row, axis=1)) for row in members]
        expected = members[~np.array(undercut)]
        found = costs[kept[segment[kept] == part]]
        assert sorted(map(tuple, found.tolist())) == sorted(map(tuple, expected.tolist()))
