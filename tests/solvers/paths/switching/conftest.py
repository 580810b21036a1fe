"""Small random linked graphs, and the same problems solved by looking at every path."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from scipy.optimize import linprog

from optplan.contracts.judgement import PathCosts
from optplan.schema import FloatArray

Maker = Callable[..., tuple[PathCosts, ...]]
Lister = Callable[[PathCosts], FloatArray]
MixedOptimum = Callable[[Sequence[FloatArray], FloatArray], float]


def list_every_path(graph: PathCosts) -> FloatArray:
    """Return (paths, 1 + L) the value and the consumptions of every path of a graph, added up step by step."""
    layers, nodes = graph.run_value.shape
    rows = []
    for path in product(range(nodes), repeat=layers):
        totals = np.zeros(1 + len(graph.limits))
        previous = path[0]
        for layer, node in enumerate(path):
            totals[0] += graph.run_value[layer, node]
            totals[1:] += graph.run_consumption[:, layer, node]
            if layer == 0 or node != previous:
                group = graph.group[previous]
                totals[0] += graph.enter_value[group, layer, node]
                totals[1:] += graph.enter_consumption[:, group, layer, node]
            previous = node
        rows.append(totals)
    return np.array(rows)


def find_pure_optimum(tables: Sequence[FloatArray], limits: FloatArray) -> float:
    """Return the least total value of one path per graph within the limits; +inf where none keeps them."""
    totals = tables[0]
    for table in tables[1:]:
        totals = np.unique((totals[:, None] + table[None]).reshape(-1, totals.shape[1]), axis=0)
    fits = np.all(totals[:, 1:] <= limits * (1.0 + 1e-9), axis=1)
    return float(totals[fits, 0].min()) if fits.any() else math.inf


def find_mixed_optimum(
    tables: Sequence[FloatArray], limits: FloatArray, objective: int = 0, *, factor: bool = False
) -> float:
    """Return the optimum of the linear program over all paths; +inf where it is infeasible.

    ``objective`` 0 is the value, l the consumption of limit l (which then has no limit itself); with ``factor`` the
    limits are multiplied by a number that is to be least.
    """
    graph = np.repeat(np.arange(len(tables)), [len(table) for table in tables])
    stacked = np.concatenate(tables)
    fractions = (graph == np.arange(len(tables))[:, None]).astype(float)
    kept = [limit for limit in range(limits.size) if limit != objective - 1]
    entries = (stacked[:, 1:] / limits).T[kept]
    cost, right = stacked[:, objective], np.ones(len(kept))
    if factor:
        fractions = np.concatenate([fractions, np.zeros((len(tables), 1))], axis=1)
        entries = np.concatenate([entries, -np.ones((len(kept), 1))], axis=1)
        cost, right = np.append(np.zeros(len(stacked)), 1.0), np.zeros(len(kept))
    scale = float(np.abs(cost).max()) or 1.0
    found = linprog(cost / scale, entries, right, fractions, np.ones(len(tables)), method="highs-ds")
    return float(found.fun) * scale if found.status == 0 else math.inf


def make_random_costs(seed: int, *, hubs: bool, whole: bool = False) -> tuple[PathCosts, ...]:
    """Make 1 to 3 graphs of 1 to 3 layers and 2 to 4 nodes under 1 to 3 limits; whole numbers make ties likely."""
    rng = np.random.default_rng(seed)
    num_limits = int(rng.integers(1, 4))
    graphs = []

    def draw(*shape: int) -> FloatArray:
        numbers = rng.integers(0, 6, shape).astype(float) if whole else rng.uniform(0.1, 3.0, shape)
        return np.asarray(numbers)

    for number in range(int(rng.integers(1, 4))):
        layers, nodes = int(rng.integers(1, 4)), int(rng.integers(2, 5))
        groups = int(rng.integers(2, 4)) if hubs else 1
        costly = float(rng.random() < 0.8)
        graphs.append(
            PathCosts(
                name=f"g{number}",
                labels=tuple(str(node) for node in range(nodes)),
                group=rng.integers(0, groups, nodes),
                limits=tuple(f"limit{limit}" for limit in range(num_limits)),
                run_value=draw(layers, nodes),
                run_consumption=draw(num_limits, layers, nodes),
                enter_value=costly * draw(groups, layers, nodes),
                enter_consumption=costly * draw(num_limits, groups, layers, nodes),
            )
        )
    return tuple(graphs)


def choose_limits(seed: int, tables: Sequence[FloatArray]) -> FloatArray:
    """Return limits between what is never and what is always enough."""
    rng = np.random.default_rng(seed + 10_000)
    least = sum(table[:, 1:].min(axis=0) for table in tables)
    most = sum(table[:, 1:].max(axis=0) for table in tables)
    return np.asarray(np.maximum(least + rng.uniform(-0.02, 0.6, len(least)) * (most - least), 0.5))


@st.composite
def draw_linked(draw: DrawFn) -> tuple[tuple[PathCosts, ...], FloatArray]:
    """Draw graphs and limits that some mixture may or may not keep."""
    seed = draw(st.integers(0, 10_000))
    graphs = make_random_costs(seed, hubs=draw(st.booleans()), whole=draw(st.booleans()))
    return graphs, choose_limits(seed, [list_every_path(graph) for graph in graphs])


@pytest.fixture(scope="session")
def linked_cases() -> SearchStrategy[tuple[tuple[PathCosts, ...], FloatArray]]:
    """Return the strategy for small random graphs with limits."""
    return draw_linked()


@pytest.fixture(scope="session")
def random_costs() -> Maker:
    """Return the maker of small random graphs."""
    return make_random_costs


@pytest.fixture(scope="session")
def random_limits() -> Callable[[int, Sequence[FloatArray]], FloatArray]:
    """Return the maker of limits for them."""
    return choose_limits


@pytest.fixture(scope="session")
def list_paths() -> Lister:
    """Return the function that lists every path of one graph."""
    return list_every_path


@pytest.fixture(scope="session")
def pure_optimum() -> MixedOptimum:
    """Return the function that finds the best pure plan by looking at all of them."""
    return find_pure_optimum


@pytest.fixture(scope="session")
def mixed_optimum() -> Callable[..., float]:
    """Return the function that solves the linear program over all paths."""
    return find_mixed_optimum


def make_one_layer(name: str, value: Sequence[float], *consumptions: Sequence[float]) -> PathCosts:
    """Make a graph of one layer without entry costs."""
    nodes, limits = len(value), len(consumptions)
    return PathCosts(
        name=name,
        labels=tuple(str(node) for node in range(nodes)),
        group=np.zeros(nodes, dtype=np.int64),
        limits=tuple(f"limit{limit}" for limit in range(limits)),
        run_value=np.array([value], dtype=float),
        run_consumption=np.array(consumptions, dtype=float)[:, None],
        enter_value=np.zeros((1, 1, nodes)),
        enter_consumption=np.zeros((limits, 1, 1, nodes)),
    )


@pytest.fixture(scope="session")
def one_layer() -> Callable[..., PathCosts]:
    """Return the maker of graphs of one layer."""
    return make_one_layer
