"""Pareto filters, label setting, and choices of one path per graph, each against the obvious slow way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, SearchStrategy

from optplan.progress import Stopwatch
from optplan.solvers.paths import TUNING
from optplan.solvers.paths.choices import MergeTarget, choose_paths, find_nearest, list_choices, merge_path_sets
from optplan.solvers.paths.dominance import find_undominated
from optplan.solvers.paths.families import FloatArray, IntArray, PathBatch, PathSets
from optplan.solvers.paths.search import Effort, OutOfEffortError
from optplan.solvers.paths.switching import LinkedGraphs

State = Callable[..., LinkedGraphs]
Tables = Callable[[LinkedGraphs, int], tuple[FloatArray, ...]]
PathLister = Callable[[LinkedGraphs, int], tuple[list[tuple[int, ...]], FloatArray]]
Maker = Callable[[int, tuple[int, ...], int], LinkedGraphs]

tenths = st.integers(0, 10).map(lambda number: number / 10)


def pareto_front(points: FloatArray) -> FloatArray:
    """Return the undominated (consumption, value) points by consumption, one by one."""
    front: list[tuple[float, float]] = []
    for consumption, value in sorted(map(tuple, points)):
        if not front or value < front[-1][1]:
            front.append((consumption, value))
    return np.array(front)


@given(st.lists(st.tuples(st.integers(0, 3), tenths, tenths), max_size=30))
def test_undominated_entries(entries: list[tuple[int, float, float]]) -> None:
    """Per segment, what is kept is the Pareto front, in order."""
    table = np.array(entries).reshape(-1, 3)
    segment = table[:, 0].astype(np.intp)
    kept = find_undominated(segment, table[:, 1], table[:, 2])
    expected = [
        [number, *point] for number in range(4) for point in pareto_front(table[segment == number, 1:]).reshape(-1, 2)
    ]
    found = np.unique(table[kept], axis=0)
    # Of entries with equal consumption a dominated one may stay when it comes first; it never hides a better one.
    assert {tuple(entry) for entry in expected} <= {tuple(entry) for entry in found}
    assert np.all(np.diff(segment[kept]) >= 0)


@settings(max_examples=150)
@given(
    data=st.data(),
    multiplier=st.sampled_from([0.2, 1.0, 3.0]),
    share=st.sampled_from([0.0, 0.1, 0.5, 10.0]),
)
def test_label_setting_finds_every_undominated_path(
    data: DataObject,
    multiplier: float,
    share: float,
    small_graphs: SearchStrategy[LinkedGraphs],
    list_paths: PathLister,
) -> None:
    """Within the allowance it finds the Pareto front of all paths, and the paths that it traces have these sums."""
    graphs = data.draw(small_graphs)
    multipliers = np.array([multiplier])
    least = graphs.best_paths(multipliers).weigh(multipliers)
    allowance = share * float(least.max())
    found = graphs.find_path_sets(np.array([multiplier]), allowance, Effort())
    for graph in range(graphs.num_graphs):
        part = slice(int(found.starts[graph]), int(found.starts[graph + 1]))
        own = np.stack([found.used[part], found.value[part]], axis=1)
        _, sums = list_paths(graphs, graph)
        within = sums @ [multiplier, 1.0] <= least[graph] * (1 + 1e-9) + allowance
        scale = sums.max(axis=0) + 1e-300
        for point in pareto_front(sums[within]):
            # Some path is as good in both, up to rounding.
            assert np.any(np.all(own <= point + 1e-12 * scale, axis=1))
    for position in (found.starts[:-1], found.starts[1:] - 1):
        paths = found.trace(position)
        assert paths.used == pytest.approx(found.used[position], rel=1e-12, abs=0)
        assert paths.value == pytest.approx(found.value[position], rel=1e-12, abs=0)


def test_labels_of_a_longer_graph_against_a_table(tables: Tables, state: State) -> None:
    """On 12 layers of 6 nodes, where enumeration is out of reach, a dynamic program over all labels agrees."""
    rng = np.random.default_rng(1)
    graphs = state(*(list(rng.uniform(1, 5, (1, 12, 6))) for _ in range(2)), *rng.uniform(0, 1, (2, 1, 6)))
    value, consumption, enter_value, enter_consumption = tables(graphs, 0)
    multiplier, allowance = 0.8, 9.0
    least = float(graphs.best_paths(np.array([multiplier])).weigh(np.array([multiplier]))[0])
    labels = {node: [(0.0, 0.0)] for node in range(6)}
    for row in range(12):
        everywhere = [label for kept in labels.values() for label in kept]
        grown: dict[int, list[tuple[float, float]]] = {}
        for node in range(6):
            switch = (float(enter_consumption[row, node]), float(enter_value[row, node]))
            own = (float(consumption[row, node]), float(value[row, node]))
            staying = [] if row == 0 else labels[node]
            ways = [(c + own[0], v + own[1]) for c, v in staying]
            ways += [(c + own[0] + switch[0], v + own[1] + switch[1]) for c, v in everywhere]
            within = [way for way in ways if way[1] + multiplier * way[0] <= least + allowance]
            grown[node] = [tuple(point) for point in pareto_front(np.array(within).reshape(-1, 2)).reshape(-1, 2)]
        labels = grown
    front = pareto_front(np.array([label for kept in labels.values() for label in kept]))
    found = graphs.find_path_sets(np.array([multiplier]), allowance, Effort())
    assert found.used == pytest.approx(front[:, 0], rel=1e-12)
    assert found.value == pytest.approx(front[:, 1], rel=1e-12)
    assert front.shape[0] > 20


def listed_sets(sets: list[list[tuple[int, int]]]) -> PathSets:
    """Return the Pareto fronts of given points as sets of paths that cannot be traced."""
    fronts = [pareto_front(np.array(points, dtype=float)) for points in sets]
    joined = np.concatenate(fronts)

    def trace(chosen: IntArray) -> PathBatch:
        raise NotImplementedError(chosen)

    starts = np.cumsum([0] + [len(front) for front in fronts])
    return PathSets(starts, joined[:, 1], joined[:, :1], trace)


points = st.tuples(st.integers(0, 9), st.integers(0, 9))
point_sets = st.lists(st.lists(points, min_size=1, max_size=6), min_size=1, max_size=5)


@settings(max_examples=200)
@given(point_sets, st.integers(0, 30), st.sampled_from([0.5, 1.0, 2.0]), st.integers(0, 12))
def test_merge_finds_the_best_choice_within_its_limits(
    sets: list[list[tuple[int, int]]], budget: int, multiplier: float, excess: float
) -> None:
    """No choice within excess and budget is better than the one returned; None means that there is none."""
    paths = listed_sets(sets)
    positions = [range(int(first), int(last)) for first, last in zip(paths.starts, paths.starts[1:], strict=False)]
    reduced_cost = paths.value + multiplier * paths.used
    base = np.array([part[int(np.argmin(reduced_cost[part.start : part.stop]))] for part in positions])
    most = float(reduced_cost[base].sum()) + excess
    choice = merge_path_sets(paths, MergeTarget(np.array([multiplier]), np.array([float(budget)]), 1e9, most), Effort())
    best = np.inf
    for each in product(*positions):
        chosen = list(each)
        if (reduced_cost[chosen] - reduced_cost[base]).sum() <= excess and paths.used[chosen].sum() <= budget:
            best = min(best, float(paths.value[chosen].sum()))
    if choice is None:
        assert best == np.inf
    else:
        assert paths.used[choice].sum() <= budget
        assert paths.value[choice].sum() <= best


@settings(max_examples=100)
@given(point_sets, st.integers(0, 30), st.sampled_from([0.5, 1.0, 2.0]), st.integers(0, 12))
def test_a_list_has_all_undominated_choices(
    sets: list[list[tuple[int, int]]], budget: int, multiplier: float, excess: float
) -> None:
    """Of those within excess and budget each that no other one dominates is listed, the least used first."""
    paths = listed_sets(sets)
    positions = [range(int(first), int(last)) for first, last in zip(paths.starts, paths.starts[1:], strict=False)]
    reduced_cost = paths.value + multiplier * paths.used
    least = sum(float(reduced_cost[part.start : part.stop].min()) for part in positions)
    target = MergeTarget(np.array([multiplier]), np.array([float(budget)]), 1e9, least + excess)
    chosen = list_choices(paths, target, Effort())
    listed = [(float(paths.used[each].sum()), float(paths.value[each].sum())) for each in chosen]
    within = {
        (float(paths.used[each].sum()), float(paths.value[each].sum()))
        for each in map(list, product(*positions))
        if reduced_cost[each].sum() <= least + excess and paths.used[each].sum() <= budget
    }
    best = {
        one for one in within if not any(other != one and other[0] <= one[0] and other[1] <= one[1] for other in within)
    }
    assert best <= set(listed) <= within
    assert [used for used, _ in listed] == sorted(used for used, _ in listed)


def test_merge_respects_its_limits() -> None:
    """Nothing is returned that gains too little, and a merge that is too large is not begun."""
    paths = listed_sets([[(0, 9), (1, 4), (2, 0)]] * 3)
    # Within room 3 the best change is (1, -5) in each set, of value 27 at first; the merge may look at 9 pairs before
    # it matches the last two.
    five, room = np.array([5.0]), np.array([3.0])
    assert merge_path_sets(paths, MergeTarget(five, room, 11.5, 1e9), Effort()) is None
    choice = merge_path_sets(paths, MergeTarget(five, room, 12.0, 1e9), Effort(max_pairs=9))
    assert choice is not None
    assert paths.value[choice].tolist() == [4.0, 4.0, 4.0]
    with pytest.raises(OutOfEffortError, match="stopped by the pairs limit"):
        merge_path_sets(paths, MergeTarget(five, room, 27.0, 1e9), Effort(max_pairs=8))


@pytest.mark.parametrize(
    ("effort", "limit"), [(Effort(max_labels=3), "labels"), (Effort(Stopwatch(limit_s=0.0)), "time")]
)
def test_enumeration_stops_at_its_limits(effort: Effort, limit: str, training_classes: Maker) -> None:
    """An enumeration that keeps too many labels, or runs too long, says which limit it met."""
    graphs = training_classes(0, (5, 4), 6)
    with pytest.raises(OutOfEffortError, match=f"stopped by the {limit} limit"):
        graphs.find_path_sets(np.ones(1), 50.0, effort)


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
    monkeypatch.setattr("optplan.solvers.paths.choices.TUNING", replace(TUNING, known_paths=0))
    assert find_nearest(np.array([0, 0, 0, 1, 1]), np.array([5.0, 8.0, 6.0, 1.0, 3.0])).tolist() == [0, 2, 3, 4]
