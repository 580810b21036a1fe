"""The judges' compiled loops: least paths, ends of paths within an allowance, sweeps; as Python has them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, product
from types import ModuleType

import numpy as np
import pytest

from optplan.judging import loops
from optplan.progress import Stopwatch

Interpret = Callable[[ModuleType], ModuleType]


def draw(seed: int, limits: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Draw steps (E, K, 1 + L), entries (F, E, K, 1 + L), groups (K,) and prices of a small graph."""
    random = np.random.default_rng(seed)
    layers, nodes, groups = (int(random.integers(1, most)) for most in (5, 5, 4))
    steps = random.integers(0, 6, (layers, nodes, 1 + limits)).astype(float)
    entries = random.integers(0, 3, (groups, layers, nodes, 1 + limits)).astype(float)
    group = np.sort(random.integers(0, groups, nodes)).astype(np.intp)
    return steps, entries, group, np.concatenate([[1.0], random.uniform(0.0, 2.0, limits)])


def list_paths(
    module: ModuleType, graph: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray], allowance: float
) -> np.ndarray:
    """Return what the loops list."""
    ends = module.EndLists(*graph, allowance, Stopwatch())
    for layer in range(len(graph[0]) - 1, 0, -1):
        ends.go_back(layer)
    return np.asarray(ends.list_paths())


def find_least(module: ModuleType, seed: int) -> tuple[float, float]:
    """Return what the loops say of a small random graph, and the least of all its paths."""
    random = np.random.default_rng(seed)
    layers, nodes, groups = (int(random.integers(1, most)) for most in (5, 5, 4))
    limits, given = int(random.integers(0, 3)), int(random.choice([1, layers]))  # 1: entering is the same in all layers
    runs = random.uniform(0.0, 5.0, (1 + limits, layers, nodes))
    entries, prices = random.uniform(0.0, 2.0, (1 + limits, groups, given, nodes)), random.uniform(0.0, 2.0, 1 + limits)
    run, enter = np.tensordot(prices, runs, 1), np.tensordot(prices, entries, 1).repeat(layers // given, axis=1)
    group = np.sort(random.integers(0, groups, nodes)).astype(np.intp)
    costs = []
    for path in product(range(nodes), repeat=layers):
        cost = enter[group[path[0]], 0, path[0]] + run[0, path[0]]
        for layer, (left, node) in enumerate(pairwise(path), start=1):
            cost += run[layer, node] + (enter[group[left], layer, node] if node != left else 0.0)
        costs.append(cost)
    room = np.empty((2, nodes)), np.empty((groups + 1, max(nodes, groups)))
    return module.find_least_path(prices, runs[0], runs[1:], entries[0], entries[1:], group, *room), min(costs)


@pytest.mark.parametrize("seed", range(60))
def test_the_least_path_is_the_least_of_all(seed: int) -> None:
    """No path costs less than what the loops say, and some path costs that."""
    found, least = find_least(loops, seed)
    assert found == pytest.approx(least, rel=1e-12)


@pytest.mark.parametrize("limits", [1, 2, 3])
@pytest.mark.parametrize("seed", range(60))
def test_every_undominated_path_within_the_allowance_is_listed(seed: int, limits: int) -> None:
    """What is listed are sums of paths, and of those within the allowance nothing beats all that is listed."""
    steps, entries, group, prices = graph = draw(seed, limits)
    allowance = float(np.random.default_rng(seed).uniform(0.0, 8.0))
    every = []
    for path in product(range(group.size), repeat=len(steps)):
        sums = entries[group[path[0]], 0, path[0]] + steps[0, path[0]]
        for layer, (left, node) in enumerate(pairwise(path), start=1):
            sums = sums + steps[layer, node] + (entries[group[left], layer, node] if node != left else 0.0)
        every.append(sums)
    sums = np.array(every)
    costs = sums @ prices
    near = sums[costs <= costs.min() + allowance - 1e-9]
    found = list_paths(loops, graph, allowance)
    assert all((np.abs(sums - point).max(axis=1) < 1e-9).any() for point in found)
    assert all((found <= point + 1e-9).all(axis=1).any() for point in near)


def sweep(module: ModuleType, seed: int, *, goes_on: bool) -> tuple[list[int], np.ndarray, list[np.ndarray]]:
    """Return which of some random points are kept, in order, with the groups and the numbers of all."""
    random = np.random.default_rng(seed)
    group = random.integers(0, 4, 40).astype(np.intp)
    first, low = (random.integers(0, 8, 40).astype(float) for _ in range(2))
    high = low + random.integers(0, 2, 40)
    order = np.lexsort((high, first, group))
    kept = module.sweep_undominated(order, group, first, low, high, np.empty((4, 40)), goes_on)
    return order[:kept].tolist(), group, [first, low, high]


@pytest.mark.parametrize("goes_on", [True, False])
@pytest.mark.parametrize("seed", range(30))
def test_what_a_sweep_drops_is_beaten_by_what_it_keeps(seed: int, *, goes_on: bool) -> None:
    """Points that are dropped have one before them that is certainly no worse, and points that are kept have none."""
    kept, group, (first, low, high) = sweep(loops, seed, goes_on=goes_on)
    order = np.lexsort((high, first, group))
    for place, point in enumerate(order):
        rivals = [
            rival
            for rival in order
            if (group[rival] < group[point] if goes_on else False)
            or (group[rival] == group[point] and rival in order[:place])
        ]
        beaten = [rival for rival in rivals if first[rival] <= first[point] and high[rival] <= low[point]]
        assert (point in kept) == (not beaten)


@pytest.mark.parametrize("limits", [1, 2, 3])
@pytest.mark.parametrize("seed", range(10))
def test_compiled_and_interpreted_agree_to_the_bit(interpret: Interpret, seed: int, limits: int) -> None:
    """Nothing is fused, reordered or rounded differently by the compiler."""
    graph, interpreted = draw(seed, limits), interpret(loops)
    assert list_paths(loops, graph, 4.3).tolist() == list_paths(interpreted, graph, 4.3).tolist()
    assert find_least(loops, seed) == find_least(interpreted, seed)
    goes_on = limits == 1
    assert sweep(loops, seed, goes_on=goes_on)[0] == sweep(interpreted, seed, goes_on=goes_on)[0]


def test_a_long_list_minds_the_stopwatch() -> None:
    """Points on a line in three numbers are all undominated, and comparing them ends when time is over."""
    count = 3000
    part = np.arange(count, dtype=float)
    steps = np.stack([part, count - part, part % 7.0], axis=1)[None]
    entries = np.zeros((1, 1, count, 3))

    class Over(Stopwatch):
        def require(self) -> None:
            raise TimeoutError

    ends = loops.EndLists(steps, entries, np.zeros(count, dtype=np.intp), np.ones(3), 1e9, Over())
    with pytest.raises(TimeoutError):
        ends.list_paths()
