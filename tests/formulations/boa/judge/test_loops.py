"""The compiled loops of BOA's judge: held against all paths and against a sum over clumps, and the same as Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise, product
from types import ModuleType

import numpy as np
import pytest

from optplan.formulations.boa.judge import loops

Interpret = Callable[[ModuleType], ModuleType]


def find_least(module: ModuleType, seed: int) -> tuple[float, float]:
    """Return what the loops say of a small random graph, and the least of all its paths."""
    random = np.random.default_rng(seed)
    layers, nodes, groups = (int(random.integers(1, most)) for most in (5, 5, 4))
    run, enter = random.uniform(0.0, 5.0, (layers, nodes)), random.uniform(0.0, 2.0, (groups, layers, nodes))
    group = np.sort(random.integers(0, groups, nodes)).astype(np.intp)
    costs = []
    for path in product(range(nodes), repeat=layers):
        cost = enter[group[path[0]], 0, path[0]] + run[0, path[0]]
        for layer, (left, node) in enumerate(pairwise(path), start=1):
            cost += run[layer, node] + (enter[group[left], layer, node] if node != left else 0.0)
        costs.append(cost)
    return module.find_least_path(run, enter, group, np.empty(nodes), np.empty(groups)), min(costs)


def recur(module: ModuleType) -> np.ndarray:
    """Return chances of up to 60 cells with a mean of 3 jobs of two cells and 900 of one, at a scale."""
    weights = np.zeros((2, 60))
    weights[0, 2], weights[1, 1] = 2 * 3.0, 900.0
    chances, scale = np.zeros((2, 60)), np.array([-3.0, -900.0])
    chances[:, 0] = 1.0
    for first in range(1, 60, 7):
        module.recur_cells(weights, chances, scale, first, min(first + 7, 60), 1e30)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(chances) + scale[:, None])


@pytest.mark.parametrize("seed", range(60))
def test_the_least_path_is_the_least_of_all(seed: int) -> None:
    """No path costs less than what the loops say, and some path costs that."""
    found, least = find_least(loops, seed)
    assert found == pytest.approx(least, rel=1e-12)


def test_the_recursion_of_jobs_of_one_size_is_poisson() -> None:
    """P(2 n cells) = exp(-3) 3^n / n!, odd numbers never; 900 jobs underflow without a scale, and do not with it."""
    found = recur(loops)
    pairs = [-3.0 + n * math.log(3.0) - math.lgamma(n + 1) for n in range(30)]
    assert found[0, ::2].tolist() == pytest.approx(pairs, rel=1e-12)
    assert np.isneginf(found[0, 1::2]).all()
    ones = [-900.0 + n * math.log(900.0) - math.lgamma(n + 1) for n in range(60)]
    assert found[1].tolist() == pytest.approx(ones, rel=1e-12)


def test_compiled_and_interpreted_agree_to_the_bit(interpret: Interpret) -> None:
    """Nothing is fused, reordered or rounded differently by the compiler."""
    interpreted = interpret(loops)
    assert all(find_least(loops, seed) == find_least(interpreted, seed) for seed in range(20))
    assert recur(loops).tolist() == recur(interpreted).tolist()
